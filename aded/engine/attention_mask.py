"""What every token of a pass may see: additive masks by the model's own rules for its layers.

A 4-D float mask, 0 or the dtype's minimum, is the form that every attention code of Transformers takes the same way.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from aded.engine.layers.tree_attention import causal_mask

MaskKind = Literal["full", "sliding", "by layer type", "none"]


class Masks:
    """Masks of one model.

    Attributes:
        kind: the one that its self-test found right.
        attached: whether layers use the attention of ``aded.engine.layers.tree_attention``.
    """

    def __init__(self, config: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.config, self.dtype, self.device = config, dtype, device
        self.kind: MaskKind = "full"
        self.attached = False

    def causal(self, n: int, past: int) -> Any:
        """The mask of a forward pass in which each of ``n`` tokens sees all before it: none is made, causal kernels need none.

        Layers that see less than all (a sliding window) get theirs from the model itself, on its device.
        """
        return causal_mask(n) if self.attached and self.kind == "full" and past and n > 1 else None

    def growing(self, ancestors: np.ndarray, positions: np.ndarray, past: int) -> Any:
        """The additive mask of a pass in which ``n`` tokens see ``past`` committed ones and, of themselves, ``ancestors``.

        Args:
            ancestors: bool ``[n, n]``.
            positions: logical position of each token, int ``[n]``.
            past: committed tokens.

        Returns:
            Float ``[1, 1, n, past + n]`` (0 or the dtype's minimum), a dictionary of such by layer type, or None.
        """
        if self.kind == "none":
            return None
        visible = np.concatenate([np.ones((len(ancestors), past), dtype=bool), ancestors], axis=1)
        keys = np.concatenate([np.arange(past), positions])
        return self._of(torch.from_numpy(visible), torch.from_numpy(np.asarray(positions)), torch.from_numpy(keys))

    def fixed(self, ancestors: torch.Tensor, depths: torch.Tensor, length: torch.Tensor, keys: torch.Tensor) -> Any:
        """As ``growing``, for a pass of fixed shape, from tensors on the device and nothing read back.

        Args:
            ancestors: bool ``[n, n]``; depths: int64 ``[n]``; length: committed tokens, int64 scalar.
            keys: 0 to ``seen - 1``, the slots that attention sees, int64 ``[seen]``.

        Returns:
            Float ``[1, 1, n, seen]`` or a dictionary of such by layer type.
        """
        node = (keys - length).clamp(0, len(depths) - 1)  # the tree's node in each slot
        past = keys < length
        inside = (keys >= length) & (keys < length + len(depths))
        visible = past | (inside & ancestors[:, node])
        where = torch.where(past, keys, length + depths[node])
        return self._of(visible, length + depths, where)

    def _of(self, visible: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor) -> Any:
        """The model's masks of what is visible, bool ``[n, m]``; queries ``[n]`` and keys ``[m]`` are logical positions."""
        if self.kind == "by layer type":
            kinds = sorted(set(self.config.layer_types))
            return {kind: self._additive(self._narrowed(kind, visible, queries, keys)) for kind in kinds}
        kind = "sliding_attention" if self.kind == "sliding" else "full_attention"
        return self._additive(self._narrowed(kind, visible, queries, keys))

    def _narrowed(self, kind: str, visible: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """What a layer of this kind sees of what is visible."""
        q, k = queries[:, None], keys[None, :]
        if kind == "sliding_attention":
            return visible & (k > q - int(self.config.sliding_window))
        if kind == "chunked_attention":
            size = int(self.config.attention_chunk_size)
            return visible & (k // size == q // size)
        return visible

    def _additive(self, visible: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(visible.shape, dtype=self.dtype, device=visible.device)
        return mask.masked_fill(~visible, torch.finfo(self.dtype).min)[None, None].to(self.device)

    def candidates(self) -> list[MaskKind]:
        """The kinds of mask that may be this model's, the likeliest first; the self-test decides."""
        kinds = set(getattr(self.config, "layer_types", None) or [])
        window = getattr(self.config, "sliding_window", None)
        if len(kinds) > 1:
            return ["by layer type", "full"]
        if kinds == {"sliding_attention"} or (not kinds and window):
            return ["sliding", "by layer type", "full"] if kinds else ["sliding", "full"]
        return ["full", "by layer type"] if kinds - {"full_attention"} else ["full"]

"""Additive attention masks of a forward pass, for each of the model's layer types.

The masks are 4-D float tensors (0 or the dtype's minimum): all attention implementations of Transformers treat these alike.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from aded.engine.layers import flex_attention
from aded.engine.layers.tree_attention import causal_mask_placeholder
from aded.engine.step_kernels import tree_mask

MaskKind = Literal["full", "sliding", "by layer type", "none"]


class AttentionMasks:
    """Attention masks of one model.

    Attributes:
        kind: kind of mask that the load check found correct.
        attached: whether the layers use ``aded.engine.layers.tree_attention``.
        flex: whether masks of fixed-shape forward passes are for ``aded.engine.layers.flex_attention``.
    """

    def __init__(self, config: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.config, self.dtype, self.device = config, dtype, device
        self.kind: MaskKind = "full"
        self.attached = self.flex = False

    def causal(self, n: int, past: int) -> Any:
        """The mask for ``n`` tokens after ``past`` committed ones, each of which attends to all tokens before it.

        Returns:
            A placeholder without memory if the causal kernel is used, else None: the model makes its own causal mask.
        """
        return causal_mask_placeholder(n) if self.attached and self.kind == "full" and past and n > 1 else None

    def dynamic(self, ancestors: np.ndarray, positions: np.ndarray, past: int) -> Any:
        """The additive mask for ``n`` tree nodes that attend to ``past`` committed tokens and to their ancestors.

        Args:
            ancestors: bool ``[n, n]``, each node's ancestors and itself.
            positions: logical position of each token, int ``[n]``.
            past: number of committed tokens.

        Returns:
            Float ``[1, 1, n, past + n]`` (0 or the dtype's minimum), a dictionary of such masks by layer type, or None.
        """
        if self.kind == "none":
            return None
        visible = np.concatenate([np.ones((len(ancestors), past), dtype=bool), ancestors], axis=1)
        key_positions = np.concatenate([np.arange(past), positions])
        return self._build(torch.from_numpy(visible), torch.from_numpy(np.asarray(positions)), torch.from_numpy(key_positions))

    def fixed(self, ancestors: torch.Tensor, depths: torch.Tensor, length: torch.Tensor, key_indices: torch.Tensor) -> Any:
        """Like ``dynamic`` for a fixed-shape forward pass: computed on the device, nothing is read back to the host.

        Args:
            ancestors: bool ``[n, n]``; depths: int64 ``[n]``; length: number of committed tokens, int64 scalar.
            key_indices: cache slots 0 to ``n_keys - 1``, int64 ``[n_keys]``.

        Returns:
            Float ``[1, 1, n, n_keys]`` or a block mask, or a dictionary of such masks by layer type.
        """
        if self.kind in ("full", "sliding", "by layer type"):
            masks = {kind: self._fused(kind, ancestors, depths, length, len(key_indices)) for kind in self._kinds}
            if all(mask is not None for mask in masks.values()):
                return masks if self.kind == "by layer type" else masks[self._kinds[0]]
        nodes = (key_indices - length).clamp(0, len(depths) - 1)  # tree node in each slot
        past = key_indices < length
        in_tree = (key_indices >= length) & (key_indices < length + len(depths))
        visible = past | (in_tree & ancestors[:, nodes])
        key_positions = torch.where(past, key_indices, length + depths[nodes])
        return self._build(visible, length + depths, key_positions)

    @property
    def _kinds(self) -> list[str]:
        """Layer types for which masks are made."""
        if self.kind == "by layer type":
            return sorted(set(self.config.layer_types))
        return ["sliding_attention" if self.kind == "sliding" else "full_attention"]

    def _fused(self, kind: str, ancestors: torch.Tensor, depths: torch.Tensor, length: torch.Tensor, n_keys: int) -> Any:
        """The mask of a layer type from one kernel, or a block mask; None if there is none for it."""
        if kind not in ("full_attention", "sliding_attention"):
            return None
        window = int(self.config.sliding_window) if kind == "sliding_attention" else None
        if self.flex:
            return flex_attention.block_mask(ancestors, depths, length, n_keys, window)
        return tree_mask(ancestors, depths, length, n_keys, window, self.dtype)

    def _build(self, visible: torch.Tensor, queries: torch.Tensor, key_positions: torch.Tensor) -> Any:
        """Masks from ``visible``, bool ``[n, m]``; ``queries`` ``[n]`` and ``key_positions`` ``[m]`` are logical positions."""
        masks = {kind: self._additive(self._restricted(kind, visible, queries, key_positions)) for kind in self._kinds}
        return masks if self.kind == "by layer type" else masks[self._kinds[0]]

    def _restricted(self, kind: str, visible: torch.Tensor, queries: torch.Tensor, key_positions: torch.Tensor) -> torch.Tensor:
        """The part of ``visible`` inside the window or chunk of this layer type."""
        q, k = queries[:, None], key_positions[None, :]
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
        """Kinds of mask that this model may need, the most likely first; the load check decides."""
        kinds = set(getattr(self.config, "layer_types", None) or [])
        window = getattr(self.config, "sliding_window", None)
        if len(kinds) > 1:
            return ["by layer type", "full"]
        if kinds == {"sliding_attention"} or (not kinds and window):
            return ["sliding", "by layer type", "full"] if kinds else ["sliding", "full"]
        return ["full", "by layer type"] if kinds - {"full_attention"} else ["full"]

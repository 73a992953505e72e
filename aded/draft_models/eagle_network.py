"""Drafting with an EAGLE head: its KV cache, and its forward passes in fixed shapes, captured as CUDA graphs on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.cuda_graph import Replay, node_bucket
from aded.draft_models.draft_limits import INITIAL_HEADROOM
from aded.draft_models.feature_network import FeatureOutput
from aded.engine.step_graph import context_bucket

if TYPE_CHECKING:
    from aded.draft_models.eagle_head import EagleHead

NEW = 256
"""Slots after the committed positions, for the positions of a read or of a draft; padding writes into the last one."""
MAX_CAPTURED = 32
"""Largest number of positions of a captured pass; a prompt is read without capture."""


class EagleNetwork:
    """A head in one decode: a ``FeatureNetwork`` whose logits are over the draft vocabulary.

    Slot ``i`` of the KV cache is position ``i`` of the text; drafted positions follow, and the next read replaces them: only the
    target's features stay in the cache.

    Args:
        head: the head.
        embedding: the target's token embedding.

    Attributes:
        tokens: target token id of each column of the logits, int64 ``[vocabulary]`` on the CPU.
        length: number of committed positions.
    """

    def __init__(self, head: EagleHead, embedding: Any) -> None:
        self.head, self.embedding = head, embedding
        self.hidden_layers = head.geometry.hidden_layers
        self.tokens = head.tokens.cpu().numpy()
        self.length = 0
        self.keys = self.values = head.fuse_weight.new_zeros(head.geometry.kv_heads, 0, head.geometry.head_dim)
        self._parents: list[int] = []  # of the drafted positions
        self._passes: dict[tuple[int, int], _Pass] = {}

    @torch.inference_mode()
    def start(self) -> None:
        """Forget all positions."""
        self.length, self._parents = 0, []
        self.keys.zero_()  # values that are not finite would not stay behind the mask
        self.values.zero_()

    @torch.inference_mode()
    def reserve(self, positions: int) -> None:
        """Enlarge the cache, if needed, for this number of committed positions."""
        if positions + NEW > self.keys.shape[1]:
            kv_heads, _, head_dim = self.keys.shape
            old = self.keys, self.values
            self.keys, self.values = (t.new_zeros(kv_heads, positions + INITIAL_HEADROOM + NEW, head_dim) for t in old)
            for new, filled in zip((self.keys, self.values), old):
                new[:, : self.length] = filled[:, : self.length]
            self._passes.clear()  # they write into the old cache

    @torch.inference_mode()
    def prepare(self, nodes: int) -> None:
        """Capture, outside the timed step, the passes over at most ``nodes`` positions that the next step may use."""
        self.reserve(self.length + NEW)
        size = 1
        while size <= node_bucket(min(nodes, MAX_CAPTURED)) and self.keys.is_cuda:
            self._pass(size)
            size *= 2

    @torch.inference_mode()
    def read(self, features: torch.Tensor, tokens: torch.Tensor) -> FeatureOutput:
        """Read committed positions: see ``FeatureNetwork``."""
        self._parents = []
        self.reserve(self.length + len(tokens))
        states, parts = self.head.fuse(features.to(self.head.fuse_weight)), []
        for start in range(0, len(tokens), NEW - 1):
            chunk = slice(start, start + NEW - 1)
            offsets = np.arange(len(tokens[chunk]))
            parts.append(self._run(states[chunk], tokens[chunk], offsets, offsets, offsets[:, None] >= offsets))
            self.length += len(offsets)
        if len(parts) == 1:
            return parts[0]
        return FeatureOutput(torch.cat([part.logits for part in parts]), torch.cat([part.features for part in parts]))

    @torch.inference_mode()
    def draft(self, features: torch.Tensor, tokens: torch.Tensor, parents: torch.Tensor) -> FeatureOutput:
        """Read drafted positions: see ``FeatureNetwork``."""
        first = len(self._parents)
        self._parents += parents.tolist()
        visible, depths = np.zeros((len(tokens), len(self._parents)), dtype=bool), np.zeros(len(tokens), dtype=np.int64)
        for row in range(len(tokens)):
            node = first + row
            while node >= 0:
                visible[row, node] = True
                depths[row] += 1
                node = self._parents[node]
        return self._run(features, tokens, first + np.arange(len(tokens)), depths - 1, visible)

    def _run(
        self, states: torch.Tensor, tokens: torch.Tensor, offsets: np.ndarray, depths: np.ndarray, visible: np.ndarray
    ) -> FeatureOutput:
        """A pass over ``n`` positions; the tensors are valid until the next one.

        Args:
            states: ``[n, hidden]``; tokens: int64 ``[n]``.
            offsets, depths: slot and text position after the committed ones, int64 ``[n]``.
            visible: which new slots each position attends to, bool ``[n, new]``.
        """
        n = len(tokens)
        step = self._pass(node_bucket(n) if n <= MAX_CAPTURED else n)
        step.run(self.length, states, tokens, offsets, depths, visible)
        return FeatureOutput(step.logits[:n], step.states_out[:n])

    def _pass(self, nodes: int) -> _Pass:
        n_keys = context_bucket(self.length + NEW, self.keys.shape[1])
        if nodes > MAX_CAPTURED:
            return _Pass(self, nodes, n_keys, captured=False)
        if (nodes, n_keys) not in self._passes:
            self._passes[nodes, n_keys] = _Pass(self, nodes, n_keys, captured=True)
        return self._passes[nodes, n_keys]


class _Pass:
    """A forward pass of the head over ``nodes`` positions that see the first ``n_keys`` slots.

    Attributes:
        logits: ``[nodes, vocabulary]`` of the last run; ``states_out``: its output, ``[nodes, hidden]``.
    """

    logits: torch.Tensor
    states_out: torch.Tensor

    def __init__(self, network: EagleNetwork, nodes: int, n_keys: int, captured: bool) -> None:
        head, device = network.head, network.keys.device
        self._head, self._embedding, self._keys, self._values = head, network.embedding, network.keys, network.values
        self._states = head.fuse_weight.new_zeros(nodes, head.geometry.hidden)
        self._tokens = torch.zeros(nodes, dtype=torch.int64, device=device)
        self._host = torch.zeros(1 + 2 * nodes, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._host_visible = torch.zeros(nodes, NEW, dtype=torch.bool, pin_memory=device.type == "cuda")
        self._inputs, self._visible = self._host.to(device), self._host_visible.to(device)
        self._index = torch.arange(n_keys, device=device)
        self._new = torch.arange(NEW, device=device)
        self._clear()
        self._replay = Replay(self._body, device) if captured else None

    def run(
        self,
        length: int,
        states: torch.Tensor,
        tokens: torch.Tensor,
        offsets: np.ndarray,
        depths: np.ndarray,
        visible: np.ndarray,
    ) -> None:
        """Run over ``n`` positions, at most ``nodes``; arguments as in ``EagleNetwork._run``."""
        n = len(tokens)
        self._clear()
        host = self._host.numpy()
        host[0] = length
        rows = host[1:].reshape(2, -1)
        rows[0, :n], rows[1, :n] = offsets, depths
        seen = self._host_visible.numpy()[:n]
        seen[:] = False
        seen[:, : visible.shape[1]] = visible
        self._states[:n] = states
        self._tokens[:n] = tokens.to(self._tokens.device)
        if self._replay is None:
            self._body()
        else:
            self._replay()

    def _clear(self) -> None:
        """Make all positions padding, which sees the committed slots and its slot."""
        rows = self._host[1:].view(2, -1)
        self._host.zero_()
        rows[0] = NEW - 1
        self._host_visible.zero_()
        self._host_visible[:, -1] = True

    def _body(self) -> None:
        head, g = self._head, self._head.geometry
        self._inputs.copy_(self._host, non_blocking=True)
        self._visible.copy_(self._host_visible, non_blocking=True)
        length = self._inputs[:1]
        offsets, depths = self._inputs[1:].view(2, -1)
        inputs = head.inputs(self._states, self._embedding(self._tokens))
        queries = head.rotate(head.queries(inputs), length + depths).transpose(0, 1)  # [heads, n, head_dim]
        keys, values = head.keys_values(inputs)
        self._keys.index_copy_(1, length + offsets, head.rotate(keys, length + depths).transpose(0, 1))
        self._values.index_copy_(1, length + offsets, values.transpose(0, 1))
        n, n_keys = len(self._tokens), len(self._index)
        hidden = (self._index >= length).expand(n, -1).index_copy(1, length + self._new, ~self._visible)  # [n, n_keys]
        grouped = queries.reshape(g.kv_heads, -1, g.head_dim)  # query heads of one key-value head together
        scores = (grouped @ self._keys[:, :n_keys].transpose(1, 2)).float() * g.head_dim**-0.5
        weights = scores.view(g.heads, n, n_keys).masked_fill(hidden, torch.finfo(torch.float32).min).softmax(-1)
        attended = weights.to(queries.dtype).view(g.kv_heads, -1, n_keys) @ self._values[:, :n_keys]
        attended = attended.view(g.heads, n, g.head_dim).transpose(0, 1).reshape(n, -1)
        self.states_out = head.finish(self._states, attended)
        self.logits = head.logits(self.states_out)

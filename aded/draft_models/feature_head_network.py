"""Drafting with a head of ``feature_heads``: its KV cache, and forward passes in fixed shapes, as CUDA graphs on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.compilation.cuda_graph import InputBuffer, Replay, host_buffer, node_bucket
from aded.draft_models.draft_limits import INITIAL_HEADROOM
from aded.draft_models.feature_network import Children
from aded.draft_models.medusa_heads import RANKS
from aded.engine.step_graph import context_bucket
from aded.sampling import sampler

if TYPE_CHECKING:
    from aded.draft_models.feature_heads import DraftHead
    from aded.engine.target_view import LayerKeysValues

NEW = 256
"""Slots after the committed positions, for the positions of a read or of a draft; padding writes into the last one."""
MAX_CAPTURED = 32
"""Largest number of positions of a captured forward pass; a prompt is read without capture."""


class HeadNetwork:
    """A head in one decode: a ``FeatureNetwork`` that drafts tokens of the draft vocabulary.

    Slot ``i`` of the KV cache is position ``i`` of the text; drafted positions follow, and the next read replaces them: only what
    comes from the target stays in the cache.

    Args:
        head: the head.
        embedding: the target's token embedding.

    Attributes:
        hidden_layers: see ``FeatureNetwork``.
        length: number of committed positions.
        keys, values: the KV cache, ``[kv_heads, capacity, head_dim]`` each.
        outputs: the head's output at the last committed position (row 0) and at the drafted ones, ``[NEW + 1, hidden]``; padding
            writes into the last row.
        logits: of the last forward pass, over the draft vocabulary, ``[n, vocabulary]``; valid until the next one.
    """

    logits: torch.Tensor

    def __init__(self, head: DraftHead, embedding: Any) -> None:
        self.head, self.embedding = head, embedding
        self.hidden_layers = head.geometry.hidden_layers
        self.length = 0
        self.keys = self.values = head.qkv_weight.new_zeros(head.geometry.kv_heads, 0, head.geometry.head_dim)
        self.outputs = head.qkv_weight.new_zeros(NEW + 1, head.geometry.hidden)
        self._parents: list[int] = []  # of the drafted positions
        self._target = (self.keys, self.values)
        self._tokens = head.tokens.cpu().numpy()
        self._forward_passes: dict[tuple[bool, int, int], _ForwardPass] = {}

    @torch.inference_mode()
    def start(self, target: LayerKeysValues | None = None) -> None:
        """Forget all positions; ``target``: the KV cache that a head of GliDe attends to in this decode."""
        if target is not None and not all(map(torch.Tensor.is_set_to, target, self._target)):
            self._target = (target.keys, target.values)
            self._forward_passes.clear()  # they read another cache
        self.length, self._parents = 0, []
        for tensor in (self.keys, self.values, self.outputs):
            tensor.zero_()  # masked slots must be finite: 0 times NaN is NaN

    @torch.inference_mode()
    def reserve(self, positions: int) -> None:
        """Enlarge the cache, if needed, for this number of committed positions."""
        if positions + NEW > self.keys.shape[1]:
            kv_heads, _, head_dim = self.keys.shape
            old = self.keys, self.values
            self.keys, self.values = (t.new_zeros(kv_heads, positions + INITIAL_HEADROOM + NEW, head_dim) for t in old)
            for new, filled in zip((self.keys, self.values), old):
                new[:, : self.length] = filled[:, : self.length]
            self._forward_passes.clear()  # they write into the old cache

    @torch.inference_mode()
    def prepare(self, nodes: int) -> None:
        """Capture, outside the timed step, the forward passes over at most ``nodes`` positions that the next step may use."""
        self.reserve(self.length + NEW)
        size = 1
        while size <= node_bucket(min(nodes, MAX_CAPTURED)) and self.keys.is_cuda:
            self._forward_pass(True, size)
            self._forward_pass(False, size)
            size *= 2

    @torch.inference_mode()
    def read(self, features: torch.Tensor, tokens: Sequence[int]) -> Children:
        """Read committed positions: see ``FeatureNetwork``."""
        self._parents = []
        self.reserve(self.length + len(tokens))
        for start in range(0, len(tokens), NEW - 1):
            part = slice(start, start + NEW - 1)
            count = len(tokens[part])
            step, offsets = self._forward_pass(True, count), np.arange(count)
            step.features[:count] = features[part]
            step.features[count:].zero_()  # padding must be finite
            targets = np.where(offsets == count - 1, 0, NEW)
            visible = offsets[:, None] >= offsets
            children = self._run(step, tokens[part], offsets, offsets, np.zeros_like(offsets), targets, visible)
            self.length += count
        return Children(children.tokens[-1:], children.probabilities[-1:])

    @torch.inference_mode()
    def draft(self, tokens: np.ndarray, parents: np.ndarray) -> Children:
        """Read drafted positions: see ``FeatureNetwork``."""
        count, first = len(tokens), len(self._parents)
        self._parents += parents.tolist()
        visible, depths = np.zeros((count, first + count), dtype=bool), np.zeros(count, dtype=np.int64)
        for row in range(count):
            node = first + row
            while node >= 0:
                visible[row, node] = True
                depths[row] += 1
                node = self._parents[node]
        offsets = first + np.arange(count)
        return self._run(self._forward_pass(False, count), tokens, offsets, depths - 1, parents + 1, offsets + 1, visible)

    @torch.inference_mode()
    def attention_to_target(self, root: int, chain: Sequence[int]) -> np.ndarray:
        """How much a head of GliDe attends to each of the target's slots when it drafts each token of a chain.

        Args:
            root: the last committed token; ``chain``: the ``n`` tokens drafted after it.

        Returns:
            Means over the heads of the attention weights, float64 ``[n, slots]``.
        """
        count, n_keys = len(chain), context_bucket(self.length + NEW, self.keys.shape[1])
        step, offsets = _ForwardPass(self, False, count, n_keys, captured=False), np.arange(count)
        at = slice(self.length - 1, self.length + count)
        kept = self.keys[:, at].clone(), self.values[:, at].clone()
        visible, unused = offsets[:, None] >= offsets, np.full(count, NEW)
        step.run(self.length - 1, self.length, [root, *chain[:-1]], offsets, offsets, unused, unused, visible)
        self.keys[:, at], self.values[:, at] = kept
        return step.weights_on_target[:, :, : self.length].mean(0).double().cpu().numpy()

    def _run(self, step: _ForwardPass, *inputs: Any) -> Children:
        """Run a forward pass over ``n`` positions: see ``_ForwardPass.run``."""
        n = len(inputs[0])
        verified = self.length + n if step.committed else self.length
        columns, probabilities = step.run(self.length, verified, *inputs)[:, :n]
        self.logits = step.logits[:n]
        return Children(self._tokens[columns.astype(np.int64)], probabilities.copy())

    def _forward_pass(self, committed: bool, nodes: int) -> _ForwardPass:
        """The forward pass over ``nodes`` positions or more, committed or drafted ones."""
        n_keys = context_bucket(self.length + NEW, self.keys.shape[1])
        if nodes > MAX_CAPTURED:
            return _ForwardPass(self, committed, nodes, n_keys, captured=False)
        key = (committed, node_bucket(nodes), n_keys)
        if key not in self._forward_passes:
            self._forward_passes[key] = _ForwardPass(self, *key, captured=True)
        return self._forward_passes[key]


class _ForwardPass:
    """A forward pass of the head over ``nodes`` positions that see the first ``n_keys`` slots.

    Attributes:
        features: input of committed positions, ``[nodes, layers * hidden]``.
        logits: ``[nodes, vocabulary]`` of the last run.
        weights_on_target: attention weights of GliDe in the last run, ``[heads, nodes, slots]``.
    """

    logits: torch.Tensor
    weights_on_target: torch.Tensor

    def __init__(self, network: HeadNetwork, committed: bool, nodes: int, n_keys: int, captured: bool) -> None:
        head, g, device = network.head, network.head.geometry, network.keys.device
        self._head, self._embedding, self.committed = head, network.embedding, committed
        self._keys, self._values, self._outputs = network.keys, network.values, network.outputs
        self.features = head.qkv_weight.new_zeros(nodes if committed else 0, len(g.hidden_layers) * g.hidden)
        self._inputs = InputBuffer(device, ((2,), torch.int64), ((5, nodes), torch.int64), ((nodes, NEW), torch.bool))
        self._host_lengths, self._host_rows, self._host_visible = self._inputs.host
        self._best = torch.zeros(2, nodes, min(RANKS, g.vocabulary), dtype=torch.float64, device=device)
        self._host_best = host_buffer(self._best)
        keys, values = network._target
        self._target = keys[:, :n_keys], values[:, :n_keys]
        self._index, self._new = torch.arange(n_keys, device=device), torch.arange(NEW, device=device)
        self._clear()
        self._replay = Replay(self._body, device) if captured else None

    def run(
        self,
        length: int,
        verified: int,
        tokens: Sequence[int] | np.ndarray,
        offsets: np.ndarray,
        depths: np.ndarray,
        sources: np.ndarray,
        targets: np.ndarray,
        visible: np.ndarray,
    ) -> np.ndarray:
        """Run over ``n`` positions, at most ``nodes``.

        Args:
            length: number of committed positions.
            verified: number of slots of the target's KV cache that a head of GliDe attends to.
            tokens: token of each position, ``[n]``.
            offsets, depths: its slot and its text position after the committed ones, int64 ``[n]``.
            sources: row of the outputs that it reads, int64 ``[n]``; unused for committed positions.
            targets: row of the outputs that it writes, int64 ``[n]``.
            visible: which new slots it attends to, bool ``[n, new]``.

        Returns:
            The most probable columns of the logits and their probabilities, float64 ``[2, nodes, ranks]``.
        """
        n = len(tokens)
        self._clear()
        self._host_lengths[:] = length, verified
        self._host_rows[:, :n] = tokens, offsets, depths, sources, targets
        self._host_visible[:n] = False
        self._host_visible[:n, : visible.shape[1]] = visible
        if self._replay is not None:
            self._replay()
        else:
            self._body()
            if self._best.is_cuda:
                torch.cuda.current_stream(self._best.device).synchronize()
        return self._host_best.numpy()

    def _clear(self) -> None:
        """Make all positions padding, which sees the committed slots and the last one."""
        self._host_rows[:] = np.array([0, NEW - 1, 0, NEW, NEW])[:, None]
        self._host_visible[:] = False
        self._host_visible[:, -1] = True

    def _body(self) -> None:
        head = self._head
        self._inputs.send()
        (length, verified), (tokens, offsets, depths, sources, targets), visible = self._inputs.device
        states = head.fuse(self.features) if self.committed else self._outputs[sources]
        states, inputs = head.enter(states, self._embedding(tokens))
        angles, slots = head.angles(length + depths), length + offsets
        queries = head.rotate(head.queries(inputs), angles).transpose(0, 1)
        keys, values = head.keys_values(inputs)
        self._keys.index_copy_(1, slots, head.rotate(keys, angles).transpose(0, 1))
        self._values.index_copy_(1, slots, values.transpose(0, 1))
        later = (self._index >= length).expand(len(tokens), -1)
        hidden = later.index_copy(1, length + self._new, ~visible)  # [n, n_keys]
        n_keys = len(self._index)
        attended, _ = head.attend(queries, self._keys[:, :n_keys], self._values[:, :n_keys], hidden)

        def attend_to_target(queries: torch.Tensor) -> torch.Tensor:
            queries = head.rotate(queries, head.angles(length + depths + 1)).transpose(0, 1)
            hidden = (self._index[: self._target[0].shape[1]] >= verified).expand(len(tokens), -1)
            result, self.weights_on_target = head.attend(queries, *self._target, hidden)
            return result

        states = head.finish(states, attended, attend_to_target)
        self._outputs.index_copy_(0, targets, states)
        self.logits = head.logits(states)
        columns, probabilities = sampler.top(self.logits, self._best.shape[-1])
        self._best.copy_(torch.stack([columns.double(), probabilities.double()]))
        self._host_best.copy_(self._best, non_blocking=True)

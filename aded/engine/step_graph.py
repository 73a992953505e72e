"""Fixed-shape steps: from embedding to verdict as one CUDA graph, with one small copy to the GPU and one back.

The numbers of tree nodes and of visible keys are rounded up to buckets. Smaller trees are filled with padding: nodes that no
other node attends to and that are never accepted. The step is plain tensor code on static buffers. On CUDA it is captured
once and replayed; on other devices it runs eagerly (slower, with the same results; this is how it is tested).
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from aded.core.compilation.cuda_graph import InputBuffer, Replay, host_buffer, node_bucket
from aded.core.compilation.jit import njit
from aded.core.lru import recent
from aded.core.tree import DraftTree
from aded.engine import step_kernels
from aded.engine.kv_cache import KVCache
from aded.engine.outputs import DrafterNeeds, StateReader
from aded.sampling import sampler
from aded.sampling.rng import key_of, signed, uniform
from aded.sampling.settings import SamplingSettings
from aded.verification.tree_walk import Verification

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

T = TypeVar("T")
MIN_CONTEXT = 256
PREFILL_TOKENS = 256
"""Longest prompt that one captured forward pass prefills; an eager one takes ten times as long for a small model."""
MAX_STEPS = 256
"""Graphs kept per cache; the least recently used is dropped first. One decode of up to 1024 tokens has at most 45 of a kind
(sizes times contexts); methods use several kinds."""


def context_bucket(keys: int, capacity: int) -> int:
    """Number of keys that attention sees if ``keys`` are needed, at most ``capacity``: a power of two or 3/4 of one."""
    size = MIN_CONTEXT
    while size < keys:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return min(size, capacity)


def features_of(hidden_states: Sequence[torch.Tensor] | None, layers: Sequence[int]) -> torch.Tensor | None:
    """The hidden states of some layers side by side, ``[n, layers * hidden]``, or None without layers.

    Args:
        hidden_states: of every layer, ``[1, n, hidden]`` each; None is allowed without layers.
    """
    if not layers:
        return None
    assert hidden_states is not None, "the forward pass returns hidden states if there are layers"
    states = [hidden_states[layer][0] for layer in layers]
    return torch.cat([state.to(states[0].device) for state in states], dim=-1)


@dataclass(frozen=True)
class StepKind:
    """What a fixed-shape step computes besides logits.

    Attributes:
        sampling: sampling operations of the verdict, whose parameters are inputs; None: no verdict.
        hidden_layers: layers whose hidden states to return (see ``DrafterNeeds``).
        top_k: number of most probable tokens to return at every node.
        reader: function of the hidden state at the last accepted node; requires a verdict.
    """

    sampling: sampler.SamplingOperations | None
    hidden_layers: tuple[int, ...] = ()
    top_k: int = 0
    reader: StateReader | None = None

    def __post_init__(self) -> None:
        assert self.sampling is not None or self.reader is None, "a reader needs the verdict"

    def returns(self, needs: DrafterNeeds) -> bool:
        """Whether its output is what ``needs`` asks for, and nothing else."""
        return (self.hidden_layers, self.top_k, self.reader) == (needs.hidden_layers, needs.top_k, needs.reader)


class FixedStep:
    """A step for trees of at most ``nodes`` nodes after at most ``n_keys - nodes`` committed tokens.

    Attributes:
        logits: ``[nodes, vocab]`` of the last run, in the model's dtype; valid until the next run of any step.
        features: hidden states of the kind's layers in the last run, ``[nodes, layers * hidden]``, or None.
    """

    def __init__(self, target: TargetModel, cache: KVCache, nodes: int, n_keys: int, kind: StepKind, memory: Any = None) -> None:
        """Allocate the buffers and, on CUDA, capture the step; ``memory``: see ``Replay``."""
        self.target, self.cache, self.nodes, self.n_keys, self.kind = target, cache, nodes, n_keys, kind
        self.logits: torch.Tensor
        self.features: torch.Tensor | None = None
        self._inputs = _StepInputs(nodes, target.device)
        self._index = torch.arange(nodes, device=target.device)
        self._keys = torch.arange(n_keys, device=target.device)
        size = 2 + nodes + 2 * nodes * kind.top_k + (0 if kind.reader is None else kind.reader.size)
        self._top_k_range = slice(2 + nodes, 2 + nodes + 2 * nodes * kind.top_k)  # `unpack_reader_output` reads the rest
        self._result = torch.zeros(size, dtype=torch.int64, device=target.device)
        self._host_result = host_buffer(self._result)
        self._inputs.fill(DraftTree.root_only(0), cache.length, None, None)
        self._replay = Replay(self._body, target.device, memory)

    def run(self, tree: DraftTree, keys: np.ndarray | None, settings: SamplingSettings | None) -> np.ndarray:
        """Verify a tree.

        Args:
            tree: at most ``nodes`` nodes.
            keys: random-number key of each node, int64 ``[n]``, from ``sampling_keys``; None if greedy.
            settings: sampling settings with the operations of this step's kind; None if greedy.

        Returns:
            int64 ``[2 + nodes + …]``: number of accepted nodes; the bonus or correction token, or ``-1 - depth`` of the first
            accepted node whose logits are not finite; all node indices, the accepted path first (these are undefined without
            sampling settings); then the data of ``unpack_top_k`` and ``unpack_reader_output``.
        """
        self._inputs.fill(tree, self.cache.length, keys, settings)
        self._replay()
        return self._host_result.numpy()

    def unpack_top_k(self, result: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """Most probable tokens and their probabilities from a result of ``run``: int32 and float32 ``[nodes, top_k]``."""
        rest = result[self._top_k_range].reshape(2, self.nodes, self.kind.top_k)[:, :nodes]
        return rest[0].astype(np.int32), np.ascontiguousarray(rest[1]).view(np.float64).astype(np.float32)

    def unpack_reader_output(self, result: np.ndarray) -> np.ndarray | None:
        """The reader's output from a result of ``run``: float64 ``[size]``, or None without a reader."""
        return None if self.kind.reader is None else result[self._top_k_range.stop :].view(np.float64).copy()

    def _body(self) -> None:
        inputs, states = self._inputs, bool(self.kind.hidden_layers) or self.kind.reader is not None
        inputs.send()
        slots = inputs.length + self._index
        masks = self.target.masks.fixed(inputs.ancestors, inputs.depths, inputs.length, self._keys)
        with self.cache.fixed_shape(slots, self.n_keys):
            output = self.target.forward_fixed(
                inputs.tokens[None], (inputs.length + inputs.depths)[None], masks, self.cache, states
            )
        self.logits = output.logits[0]
        self.features = features_of(output.hidden_states, self.kind.hidden_layers)
        if self.kind.sampling is not None or self.kind.top_k:
            self._verdict(slots, output)
        self._host_result.copy_(self._result, non_blocking=True)

    def _verdict(self, slots: torch.Tensor, output: Any) -> None:
        """The most probable tokens, acceptance and compaction, and the reader's output."""
        inputs = self._inputs
        rest = self._result[self._top_k_range].view(2, self.nodes, self.kind.top_k)
        best, finite = step_kernels.top_tokens(self.logits, rest[0], rest[1].view(torch.float64))
        if self.kind.sampling is not None:
            kind, verdict = self.kind.sampling, self._result[: 2 + self.nodes]
            chosen = best if kind.greedy else step_kernels.draw(self.logits, kind, inputs.sampling, inputs.keys)
            last = step_kernels.accept(inputs, chosen, finite, verdict)
            if self.nodes > 1:
                step_kernels.compact(self.cache.tensors, inputs.length, verdict, slots)
            if self.kind.reader is not None:
                read = self.kind.reader.forward(output.hidden_states[-1][0].index_select(0, last))
                self._result[self._top_k_range.stop :].view(torch.float64).copy_(read)


class _StepInputs(InputBuffer):
    """The inputs of a step for trees of at most ``nodes`` nodes."""

    def __init__(self, nodes: int, device: torch.device) -> None:
        per_node = ((nodes,), torch.int64)
        super().__init__(device, *[per_node] * 4, ((2,), torch.int64), sampler.PARAMETERS, ((nodes, nodes), torch.bool))
        *self._tree, self._keys, self._counts, self._sampling, self._ancestors = self.host
        self._sampling[:] = 1.0
        self.tokens, self.depths, self.parents, self.keys, (self.length, self.count), self.sampling, self.ancestors = self.device

    def fill(self, tree: DraftTree, length: int, keys: np.ndarray | None, settings: SamplingSettings | None) -> None:
        """Write a tree after ``length`` committed tokens. Padding attends to the text and itself, and is no node's ancestor."""
        n = len(tree)
        _write_tree(tree.tokens, tree.parents, *self._tree, self._ancestors)
        self._counts[:] = length, n
        if keys is not None:
            self._keys[:n] = keys
        if settings is not None:
            self._sampling[:] = sampler.parameters(settings)


@njit(cache=True)
def _write_tree(tree_tokens, tree_parents, tokens, depths, parents, ancestors):
    """Write tokens, depths, parents (the root's is 0) and ancestors of a tree and of the padding after it."""
    n, size = len(tree_tokens), len(tokens)
    for node in range(size):
        parent = max(tree_parents[node], 0) if node < n else 0
        tokens[node] = tree_tokens[node if node < n else 0]  # padding: the embedding of another token may not be finite
        parents[node] = parent
        depths[node] = depths[parent] + 1 if 0 < node < n else 0
        for other in range(size):
            ancestors[node, other] = ancestors[parent, other] if 0 < node < n and other <= parent else 0
        ancestors[node, node] = 1


class StepPool:
    """Owns a model's KV caches and the graphs captured on them, and reuses them for later decodes.

    A graph reads and writes fixed addresses, so each graph belongs to one cache. Simultaneous decodes use different caches.

    Attributes:
        steps: graphs of all caches: steps, and chains of draft models.
        verdicts: graphs of rejection sampling (see ``aded.verification.rejection_sampler``).
        captured: number of graphs captured so far; ``capture_seconds``: time that this took.
    """

    def __init__(self, target: TargetModel) -> None:
        self._target = target
        self.verdicts: dict[tuple[Any, ...], Any] = {}
        self._free: list[KVCache] = []
        self.steps: weakref.WeakSet[Any] = weakref.WeakSet()
        self._graph_memory: Any = None
        self._prefill_cache: KVCache | None = None
        self.captured = 0
        self.capture_seconds = 0.0

    def take(self, capacity: int, needs: DrafterNeeds | None = None) -> KVCache:
        """An empty cache with capacity for ``capacity`` tokens: a free one if there is one, else a new one.

        Args:
            needs: of the decode's drafter: of several free caches, the one with most graphs for them, so that simultaneous
                decodes of several methods do not capture the graphs of each method on each cache.
        """
        fitting = [cache for cache in self._free if cache.capacity >= capacity]
        if fitting:
            cache = min(fitting, key=lambda c: (-_graphs_for(c, needs), c.capacity))
            self._free.remove(cache)
        else:
            self._free_caches(self._free)  # all free caches are too small
            cache = KVCache(1 << (max(capacity, 1024) - 1).bit_length(), int(self._target.config.num_hidden_layers))
        cache.length = 0
        return cache

    def release(self, cache: KVCache) -> None:
        """Return a cache and its graphs to the pool."""
        if cache not in self._free:
            self._free.append(cache)

    def step(self, cache: KVCache, nodes: int, kind: StepKind, committed: int | None = None) -> FixedStep:
        """The step for a tree of ``nodes`` nodes on this cache; captures it if it is new.

        Args:
            committed: number of tokens in the cache when the step runs; None: as many as now.
        """
        length = cache.length if committed is None else committed
        bucket = node_bucket(nodes)
        cache.reserve(length + bucket - cache.length)
        n_keys = context_bucket(length + bucket, cache.capacity)
        return self.graph(
            cache, (bucket, n_keys, kind), lambda memory: FixedStep(self._target, cache, bucket, n_keys, kind, memory)
        )

    def prefill(self, ids: np.ndarray, cache: KVCache, hidden_layers: tuple[int, ...]) -> torch.Tensor | None:
        """Prefill an empty cache in one captured forward pass. It writes to a separate cache, so that one graph serves all.

        Args:
            ids: at most ``PREFILL_TOKENS`` token ids, int64 ``[n]``.
            cache: receives the keys and values.
            hidden_layers: see ``DrafterNeeds``.

        Returns:
            Features of these tokens, ``[n, layers * hidden]``, valid until the next forward pass; None without layers.
        """
        own = self._prefill_cache or KVCache(PREFILL_TOKENS, int(self._target.config.num_hidden_layers))
        self._prefill_cache, n = own, PREFILL_TOKENS
        kind = StepKind(None, hidden_layers)
        step = self.graph(own, (n, n, kind), lambda memory: FixedStep(self._target, own, n, n, kind, memory))
        step.run(DraftTree.chain(int(ids[0]), ids[1:].tolist()), None, None)
        cache.copy_from(own, len(ids))
        return None if step.features is None else step.features[: len(ids)]

    def graph(self, cache: KVCache, key: tuple[Any, ...], capture: Callable[[Any], T]) -> T:
        """The graph of this key on a cache; ``capture`` makes it if it is new, with the memory pool that all graphs share."""
        return recent(cache.graphs, key, lambda: self._captured(capture), MAX_STEPS)

    def _captured(self, capture: Callable[[Any], T]) -> T:
        on_cuda, started = self._target.device.type == "cuda", time.perf_counter()
        if on_cuda and not self.steps:  # a memory pool is freed with its last graph
            self._graph_memory = torch.cuda.graph_pool_handle()
        graph = capture(self._graph_memory)
        if on_cuda:
            self.captured += 1
            self.capture_seconds += time.perf_counter() - started
        self.steps.add(graph)
        return graph

    def clear(self) -> None:
        """Free all caches and graphs that are not in use."""
        self.verdicts.clear()
        self._free_caches(self._free)
        if self._prefill_cache is not None:
            self._prefill_cache.free()
            self._prefill_cache = None

    def _free_caches(self, caches: list[KVCache]) -> None:
        for cache in list(caches):
            self._free.remove(cache)
            cache.free()


def _graphs_for(cache: KVCache, needs: DrafterNeeds | None) -> int:
    """Number of graphs of steps on a cache that return what a drafter needs."""
    if needs is None:
        return 0
    return sum(isinstance(kind, StepKind) and kind.returns(needs) for *_, kind in cache.graphs)


def sampling_keys(tree: DraftTree, length: int, settings: SamplingSettings) -> np.ndarray | None:
    """Random-number key of each node by absolute position, int64 ``[n]`` (see ``aded.sampling.rng``); None if greedy."""
    if settings.greedy:
        return None
    by_depth = np.array([signed(key_of(settings.seed, length + 1 + d)) for d in range(int(tree.depths.max()) + 1)])
    return by_depth[tree.depths]


def read_verdict(result: np.ndarray, tree: DraftTree, keys: np.ndarray | None) -> Verification:
    """Convert a result of ``FixedStep.run`` to a verification; keys: from ``sampling_keys``."""
    path = result[2 : 2 + int(result[0])].tolist()
    if result[1] < 0:
        return Verification(path, 0, [None] * len(path), path[-1 - int(result[1])])
    verdict = Verification(path, int(result[1]))
    numbers: list[float | None] = [None] * len(path)
    if keys is not None:
        numbers = [uniform(int(keys[node]), token) for node, token in zip(path, verdict.chosen(tree))]
    return Verification(path, verdict.next_token, numbers)

"""The step at the speed of the card: embedding to verdict as one CUDA graph, one small copy in and one out.

A step of fixed shape has a bucket of tree nodes and a bucket of keys that attention sees; smaller trees are padded with
nodes that nobody sees and that are never accepted. Its body is plain tensor code on buffers that stay where they are: on
CUDA it is captured once and replayed, elsewhere it runs as it is (slower, but the same, which is how it is tested).
"""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.cuda_graph import capture_graph, node_bucket, warm_up
from aded.core.lru import recent
from aded.core.tree import DraftTree
from aded.engine.kv_cache import KVCache
from aded.engine.outputs import StateReader
from aded.sampling import sampler
from aded.sampling.rng import key_of, signed, uniform
from aded.sampling.settings import SamplingSettings
from aded.sampling.tree_walk import Verification

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

SMALLEST_CONTEXT, SMALLEST_COMPILED = 256, 1024
MOST_STEPS = 256
"""Kept of one cache, the one used longest ago goes first: visitors sample in as many ways as they like, each with graphs of its
own. A text has one of each size and context, 45 up to 1024 tokens; sets of methods take several kinds."""


def context_bucket(keys: int, capacity: int, compiled: bool = False) -> int:
    """How many keys attention sees where ``keys`` are needed, within ``capacity``.

    A power of two, or three quarters of one; if compiled, doublings alone.
    """
    size = SMALLEST_COMPILED if compiled else SMALLEST_CONTEXT
    while size < keys:
        size = 2 * size if compiled else size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return min(size, capacity)


@dataclass(frozen=True)
class StepKind:
    """What a step of fixed shape computes beside logits.

    Attributes:
        sampling: the verdict by these settings; None: no verdict.
        hidden: hidden states too.
        top_k: the most probable tokens at every node, this many.
        reader: what it makes of the hidden state at the last accepted node; only with a verdict.
    """

    sampling: SamplingSettings | None
    hidden: bool = False
    top_k: int = 0
    reader: StateReader | None = None

    def __post_init__(self) -> None:
        assert self.sampling is not None or self.reader is None, "the last accepted node is known by the verdict"

    @property
    def key(self) -> tuple[Any, ...]:
        """Seeds are inputs, not shapes: decodes that differ in the seed alone share a graph."""
        s = self.sampling
        rule = None if s is None else ("greedy",) if s.greedy else (s.temperature, s.top_k, s.top_p, s.min_p)
        return rule, self.hidden, self.top_k, self.reader


class FixedStep:
    """A step for trees of at most ``nodes`` nodes over at most ``seen - nodes`` committed tokens.

    Attributes:
        logits: ``[nodes, vocab]`` of the last run, in the model's dtype; valid until the next run of any step.
        hidden: ``[nodes, hidden]`` likewise, or None.
        capture_seconds: what capturing took.
    """

    def __init__(self, target: TargetModel, cache: KVCache, nodes: int, seen: int, kind: StepKind) -> None:
        self.target, self.cache, self.nodes, self.seen, self.kind = target, cache, nodes, seen, kind
        self.logits: torch.Tensor
        self.hidden: torch.Tensor | None = None
        self.capture_seconds = 0.0
        self._inputs = _Inputs(nodes, target.device)
        self._index = torch.arange(nodes, device=target.device)
        self._keys = torch.arange(seen, device=target.device)
        size = 2 + nodes + 2 * nodes * kind.top_k + (0 if kind.reader is None else kind.reader.size)
        self._told = slice(2 + nodes, 2 + nodes + 2 * nodes * kind.top_k)  # what `top_of` reads; `read_of` the rest
        self._result = torch.zeros(size, dtype=torch.int64, device=target.device)
        self._read = torch.zeros(size, dtype=torch.int64, pin_memory=target.device.type == "cuda")
        self._graph: Any = None

    def run(self, tree: DraftTree, keys: np.ndarray | None) -> np.ndarray:
        """Verify a tree; keys: see ``keys_of``.

        Returns:
            int64 ``[2 + nodes + …]``: length of the accepted path; the target's own token, or ``-1 - depth`` of the first node of
            the path whose logits are not finite; then node indices, those of the path first (without sampling settings all these
            mean nothing); then what ``top_of`` and ``read_of`` read.
        """
        self._inputs.fill(tree, self.cache.length, keys)
        if self._graph is None:
            self._body()
        else:
            self._graph.replay()
        if self.target.device.type == "cuda":
            torch.cuda.current_stream(self.target.device).synchronize()
        return self._read.numpy()

    def top_of(self, result: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """The most probable tokens of the first ``nodes`` nodes in a result of ``run``: int32 and float32 ``[nodes, top_k]``."""
        rest = result[self._told].reshape(2, self.nodes, self.kind.top_k)[:, :nodes]
        return rest[0].astype(np.int32), np.ascontiguousarray(rest[1]).view(np.float64).astype(np.float32)

    def read_of(self, result: np.ndarray) -> np.ndarray | None:
        """What the reader made of the state at the last accepted node in a result of ``run``: float64 ``[size]``, or None."""
        return None if self.kind.reader is None else result[self._told.stop :].view(np.float64).copy()

    @torch.inference_mode()
    def capture(self, pool: Any) -> None:
        """Record the body as a CUDA graph in a memory pool shared with the other steps."""
        started = time.perf_counter()
        self._inputs.fill(DraftTree.root_only(0), self.cache.length, None)
        warm_up(self._body, self.target.device)
        self._graph = capture_graph(self._body, self.target.device, pool)
        self._graph.replay()  # the first launch takes longer than all others
        torch.cuda.synchronize(self.target.device)
        self.capture_seconds = time.perf_counter() - started

    @torch.inference_mode()
    def _body(self) -> None:
        given, states = self._inputs, self.kind.hidden or self.kind.reader is not None
        given.send()
        slots = given.length + self._index
        masks = self.target.masks.fixed(given.ancestors, given.depths, given.length, self._keys)
        with self.cache.fixed_pass(slots, self.seen):
            output = self.target.run_fixed(given.tokens[None], (given.length + given.depths)[None], masks, self.cache, states)
        self.logits = output.logits[0]
        self.hidden = output.hidden_states[-1][0] if self.kind.hidden else None
        if self.kind.sampling is not None:
            last = self._verdict(slots)
            if self.kind.reader is not None:
                read = self.kind.reader.body(output.hidden_states[-1][0].index_select(0, last))
                self._result[self._told.stop :].view(torch.float64).copy_(read)
        if self.kind.top_k:
            tokens, probabilities = sampler.top(self.logits, self.kind.top_k)
            rest = self._result[self._told].view(2, self.nodes, self.kind.top_k)
            rest[0].copy_(tokens)
            rest[1].copy_(probabilities.double().view(torch.int64))
        self._read.copy_(self._result, non_blocking=True)

    def _verdict(self, slots: torch.Tensor) -> torch.Tensor:
        """The walk for all nodes at once: accepted is a node that holds, as its ancestors do, what was chosen at its parent.

        Returns:
            The last accepted node, int64 ``[1]``.
        """
        given, sampling = self._inputs, self.kind.sampling
        assert sampling is not None
        chosen = sampler.choose(self.logits, sampling, given.keys)
        held = (given.tokens == chosen[given.parents]) & (self._index < given.count) | (self._index == 0)
        wrong = given.ancestors.float() @ (~held).float()[:, None]
        accepted = wrong[:, 0] == 0
        length = accepted.sum()
        order = torch.argsort((~accepted).to(torch.int8), stable=True)
        self._result[0] = length
        last = order.gather(0, (length - 1).clamp_min(0)[None])  # indexing with a scalar would read it back
        non_finite = given.depths.masked_fill(~accepted | self.logits.amax(-1).isfinite(), self.nodes).amin()
        self._result[1:2] = torch.where(non_finite < self.nodes, -1 - non_finite, chosen.gather(0, last))
        self._result[2 : 2 + self.nodes] = order
        if self.nodes > 1:
            self.cache.move(given.length + order, slots)
        return last


class _Inputs:
    """A step's inputs in one pinned buffer and its image on the device: one copy carries them all."""

    def __init__(self, nodes: int, device: torch.device) -> None:
        words = 4 * nodes + 2  # tokens, depths, parents, keys; length, count
        size = 8 * words + nodes * nodes
        self._host = torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._device = torch.zeros(size, dtype=torch.uint8, device=device)
        host = self._host.numpy()
        words_of, rest = host[: 8 * words].view(np.int64), host[8 * words :]
        self._tokens, self._depths, self._parents = (words_of[i * nodes : (i + 1) * nodes] for i in range(3))
        self._keys = words_of[3 * nodes : 4 * nodes]
        self._scalars = words_of[4 * nodes :]
        self._ancestors = rest.reshape(nodes, nodes)
        image = self._device[: 8 * words].view(torch.int64)
        self.tokens, self.depths, self.parents = (image[i * nodes : (i + 1) * nodes] for i in range(3))
        self.keys = image[3 * nodes : 4 * nodes]
        self.length, self.count = image[4 * nodes], image[4 * nodes + 1]
        self.ancestors = self._device[8 * words :].view(nodes, nodes).view(torch.bool)
        self._used = 0

    def fill(self, tree: DraftTree, length: int, keys: np.ndarray | None) -> None:
        """Write a tree over ``length`` committed tokens; padding behind it sees itself and the text, and is nobody's ancestor."""
        n = len(tree)
        self._tokens[:n], self._depths[:n] = tree.tokens, tree.depths
        self._tokens[n:] = tree.tokens[0]  # padding: another token's embedding may not be finite
        self._parents[:n] = tree.parents
        self._parents[0] = 0
        self._ancestors[:n, :n] = tree.ancestors
        if n < self._used or not self._used:
            rest = np.arange(n, len(self._tokens))
            self._depths[n:] = self._parents[n:] = 0
            self._ancestors[n:] = 0
            self._ancestors[:, n:] = 0
            self._ancestors[rest, rest] = 1
        self._used = n
        self._scalars[:] = length, n
        if keys is not None:
            self._keys[:n] = keys

    def send(self) -> None:
        self._device.copy_(self._host, non_blocking=True)


class StepPool:
    """Owner of a model's KV caches and of all that is captured on them, handed from one decode to the next.

    A graph reads and writes fixed addresses, so steps belong to a cache. Runs at the same time have a cache each; a decode
    that ends leaves its cache, and the graphs on it, to the next one.

    Attributes:
        steps: all that there are, on any cache; ``verdicts``: graphs of rejection sampling (see
        ``aded.sampling.rejection_sampler``).
        captured: steps captured so far; ``capture_seconds``: what they took.
    """

    def __init__(self, target: TargetModel, capture: bool) -> None:
        self._target = target
        self._capture = capture
        self.verdicts: dict[tuple[Any, ...], Any] = {}
        self._free: list[KVCache] = []
        self.steps: weakref.WeakSet[FixedStep] = weakref.WeakSet()
        self._memory: Any = None
        self.captured = 0
        self.capture_seconds = 0.0

    def take(self, capacity: int) -> KVCache:
        """An empty cache with room for ``capacity`` tokens: one that is free, else a new one."""
        fitting = [cache for cache in self._free if cache.capacity >= capacity]
        if fitting:
            cache = min(fitting, key=lambda c: c.capacity)
            self._free.remove(cache)
        else:
            self._drop(self._free)  # all of them are smaller
            cache = KVCache(1 << (max(capacity, 1024) - 1).bit_length(), int(self._target.config.num_hidden_layers))
        cache.length = 0
        return cache

    def give_back(self, cache: KVCache) -> None:
        """Keep a cache and its graphs for the next decode."""
        if cache not in self._free:
            self._free.append(cache)

    def step(self, cache: KVCache, nodes: int, kind: StepKind, committed: int | None = None) -> FixedStep:
        """The step for a tree of ``nodes`` nodes on this cache, captured if it is new.

        Args:
            committed: tokens that the cache is going to hold by then; None for those that it holds now.
        """
        compiled, length = self._target.compiled, cache.length if committed is None else committed
        bucket = node_bucket(nodes, compiled)
        cache.reserve(length + bucket - cache.length)
        seen = context_bucket(length + bucket, cache.capacity, compiled)
        key = (bucket, seen, *kind.key)
        return recent(cache.graphs, key, lambda: self._new_step(cache, bucket, seen, kind), MOST_STEPS)

    def _new_step(self, cache: KVCache, nodes: int, seen: int, kind: StepKind) -> FixedStep:
        step = FixedStep(self._target, cache, nodes, seen, kind)
        if self._capture:
            if not self.steps:  # a memory pool ends with its last graph
                self._memory = torch.cuda.graph_pool_handle()
            step.capture(self._memory)
            self.captured += 1
            self.capture_seconds += step.capture_seconds
        self.steps.add(step)
        return step

    def clear(self) -> None:
        """Free every cache and graph that no decode is using."""
        self.verdicts.clear()
        self._drop(self._free)

    def _drop(self, caches: list[KVCache]) -> None:
        for cache in list(caches):
            self._free.remove(cache)
            cache.free()


def keys_of(tree: DraftTree, length: int, settings: SamplingSettings) -> np.ndarray | None:
    """The key of each node's choice, by absolute position: int64 ``[n]`` (see ``aded.sampling.rng``), or None if greedy."""
    if settings.greedy:
        return None
    by_depth = np.array([signed(key_of(settings.seed, length + 1 + d)) for d in range(int(tree.depths.max()) + 1)])
    return by_depth[tree.depths]


def read_verdict(result: np.ndarray, tree: DraftTree, keys: np.ndarray | None) -> Verification:
    """A step's result as the walk that it stands for."""
    path = result[2 : 2 + int(result[0])].tolist()
    if result[1] < 0:
        return Verification(path, 0, [None] * len(path), path[-1 - int(result[1])])
    verdict = Verification(path, int(result[1]))
    numbers: list[float | None] = [None] * len(path)
    if keys is not None:
        numbers = [uniform(int(keys[node]), token) for node, token in zip(path, verdict.chosen(tree))]
    return Verification(path, verdict.next_token, numbers)

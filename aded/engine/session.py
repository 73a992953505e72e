"""State of one decode on the target model: its KV cache, the committed tokens and the last forward pass."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.engine.kv_cache import KVCache
from aded.engine.layers.tree_attention import sdpa_without_cudnn
from aded.engine.outputs import DrafterNeeds, TreeOutput
from aded.engine.step_graph import PREFILL_TOKENS, FixedStep, StepKind, features_of, read_verdict, sampling_keys
from aded.sampling import sampler
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings
from aded.verification.tree_walk import Verification, first_non_finite
from aded.verification.verify import prepare, verify

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

PREFILL_CHUNK, CAUSAL_CHUNK = 512, 8192
"""Prompt tokens per forward pass with stock attention, and with ``causal_attention`` of ``aded.engine.layers.tree_attention``."""


class TargetSession:
    """State of one decode on the target model.

    The root of every tree is the newest committed token. Its keys and values are not computed yet, so ``length`` is one less
    than the number of committed tokens.
    """

    def __init__(
        self, target: TargetModel, capacity: int, cache: KVCache | None = None, needs: DrafterNeeds | None = None
    ) -> None:
        """``cache``: with committed tokens, from ``take_cache`` of an earlier decode; None: one chosen for ``needs``."""
        self.target = target
        self._plain = target.mode == "plain"
        self.cache: Any = self._new_cache(capacity, needs) if cache is None else cache
        self._length = 0
        self._compacted_path: list[int] | None = None  # accepted path that the last step has already compacted
        self._last_kind: tuple[Rule, DrafterNeeds, bool, StepKind] | None = None
        self._prepared: tuple[StepKind, tuple[int, int, int], FixedStep] | None = None  # kind; nodes, cache's sizes; step
        self._unsafe = False  # whether the cache may hold NaN or infinity, which masks do not hide: until a verdict is finite

    def _new_cache(self, capacity: int, needs: DrafterNeeds | None) -> Any:
        if self._plain:
            return _stock_cache(self.target)
        if self.target.pool is not None:
            return self.target.pool.take(capacity, needs)
        return KVCache(capacity, int(self.target.config.num_hidden_layers))

    def close(self) -> None:
        """Return the cache to the pool, or free it."""
        cache, self.cache = self.cache, None
        self._prepared = None
        if not isinstance(cache, KVCache):
            return
        if self._unsafe:
            cache.wipe()
        free_cache(self.target, cache)

    def take_cache(self) -> KVCache | None:
        """End the decode and hand over its cache; None, and the cache is freed, if no other decode can continue from it."""
        if self._plain or self._unsafe or not self.cache.layers:
            self.close()
            return None
        cache: KVCache = self.cache
        self.cache = self._prepared = None
        return cache

    @property
    def length(self) -> int:
        """Number of tokens in the KV cache; the position of the next root."""
        return self._length if self._plain else self.cache.length

    def prefill(self, ids: Sequence[int], hidden_layers: tuple[int, ...] = ()) -> torch.Tensor | None:
        """Compute keys and values of ``ids`` in chunks; for a prompt, pass all tokens except the last.

        Returns:
            Features of these tokens (see ``DrafterNeeds.hidden_layers``), ``[len(ids), layers * hidden]``; None without layers.
        """
        chunks = self.prefill_chunks(ids, hidden_layers)
        while True:
            try:
                next(chunks)
            except StopIteration as end:
                return end.value

    def prefill_chunks(
        self, ids: Sequence[int], hidden_layers: tuple[int, ...] = ()
    ) -> Generator[int, None, torch.Tensor | None]:
        """Like ``prefill``, one forward pass per ``next``: yields the number of tokens so far after each one but the last."""
        self._unsafe |= len(ids) > 0
        if self.target.pool is not None and not self.length and 0 < len(ids) <= PREFILL_TOKENS:
            own = self.target.pool.prefill(np.asarray(ids, dtype=np.int64), self.cache, hidden_layers)
            return None if own is None else own.clone()
        size = CAUSAL_CHUNK if self.target.masks.attached and not hidden_layers else PREFILL_CHUNK
        features = []
        for start in range(0, len(ids), size):
            chunk = np.asarray(ids[start : start + size], dtype=np.int64)
            mask = self.target.masks.causal(len(chunk), self.length)
            output = self._forward(chunk, np.arange(len(chunk)), mask, bool(hidden_layers), keep=1)
            features.append(features_of(output.hidden_states, hidden_layers))
            self.compact(range(len(chunk)))
            if start + size < len(ids):
                yield start + size
        if not hidden_layers:
            return None
        width = len(hidden_layers) * int(self.target.config.hidden_size)
        empty = torch.empty(0, width, dtype=self.target.dtype, device=self.target.device)
        return torch.cat([empty, *(part.to(empty) for part in features if part is not None)])

    def layer_kv(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer, ``[1, kv_heads, capacity, head_dim]`` each.

        Raises:
            AdedError: the model has another cache.
        """
        if self._plain:
            raise AdedError(
                "this model verifies one token per step, without a KV cache that a drafter can read; use another model"
            )
        if not self.cache.layers:  # allocated by the first forward pass
            self._forward(np.zeros(1, dtype=np.int64), np.arange(1), self.target.masks.causal(1, 0), hidden=False, keep=1)
        return self.cache.layers[layer].keys, self.cache.layers[layer].values

    def forward_tree(self, tree: DraftTree, hidden_layers: tuple[int, ...] = ()) -> TreeOutput:
        """Run all nodes in one forward pass; each attends to the committed tokens and its ancestors.

        Returns:
            ``TreeOutput`` with one row per node.
        """
        assert not self._plain or len(tree) == 1, "this model supports one token per step"
        mask = self.target.masks.dynamic(tree.ancestors, self.length + tree.depths, self.length)
        output = self._forward(tree.tokens.astype(np.int64), tree.depths, mask, bool(hidden_layers))
        return TreeOutput(output.logits[0], features_of(output.hidden_states, hidden_layers))

    def prepare(self, tree: DraftTree, rule: Rule, needs: DrafterNeeds = DrafterNeeds()) -> None:  # noqa: B008
        """Capture the step for a tree if it is new; call it outside of timed sections."""
        if self.target.pool is not None:
            self._step(tree, self._kind(rule, needs, tree))
            prepare(tree, self.target.vocab_size, self.target.dtype, rule, self.target.pool.verdicts)

    def run(self, tree: DraftTree, needs: DrafterNeeds = DrafterNeeds()) -> TreeOutput:  # noqa: B008
        """Like ``forward_tree``, with a captured step if possible; the tensors are valid until the next forward pass."""
        if self.target.pool is None:
            return self._with_top_k(self.forward_tree(tree, needs.all_layers), needs.top_k)
        return self._run_step(tree, self._kind_without_verdict(needs))[0]

    def prepare_run(self, nodes: int, needs: DrafterNeeds, committed: int) -> None:
        """Capture the step that ``run`` will use for ``nodes`` nodes after ``committed`` tokens."""
        if self.target.pool is not None:
            self.target.pool.step(self.cache, nodes, self._kind_without_verdict(needs), committed)

    def rewind(self, length: int) -> None:
        """Drop the keys and values from position ``length`` on."""
        assert not self._plain and 0 <= length <= self.length, "length must not exceed the tokens in the cache"
        self.cache.length = length
        self._compacted_path = None

    def verify(
        self,
        tree: DraftTree,
        prefix: Sequence[int] | np.ndarray,
        rule: Rule,
        needs: DrafterNeeds = DrafterNeeds(),  # noqa: B008
    ) -> tuple[Verification, TreeOutput]:
        """Verify a tree: forward pass, acceptance and compaction; on a GPU in one CUDA graph if possible.

        Args:
            tree: ``n`` nodes.
            prefix: all committed token ids, the root last.
            rule: how the target chooses tokens.
            needs: outputs that the drafter needs besides the verdict.

        Returns:
            The verdict, and the target's output with one row per node; its tensors are valid until the next forward pass.
        """
        if self.target.pool is None:
            output = self.run(tree, needs)
            verdict = self.target.broadcast(self._with_non_finite(verify(tree, output.logits, prefix, rule), output))
            return verdict, _with_reader_output(output, verdict, needs)
        kind = self._kind(rule, needs, tree)
        keys = sampling_keys(tree, self.length, rule.settings) if kind.sampling is not None else None
        output, result = self._run_step(tree, kind, keys, rule.settings)
        if kind.sampling is None:
            verdict = self._with_non_finite(verify(tree, output.logits, prefix, rule, self.target.pool.verdicts), output)
            return verdict, _with_reader_output(output, verdict, needs)
        verdict = read_verdict(result, tree, keys)
        self._unsafe = verdict.non_finite is not None
        self._compacted_path = verdict.path
        return verdict, output

    def _with_non_finite(self, verdict: Verification, output: TreeOutput) -> Verification:
        """The verdict with the first node of its path whose logits are not finite."""
        node = first_non_finite(verdict.path, output.logits)
        self._unsafe = node is not None
        return replace(verdict, non_finite=node)

    def wipe(self) -> None:
        """Erase the keys and values of the last forward pass, which were not finite."""
        if not self._plain:
            self.cache.wipe(self.length)

    def _run_step(
        self, tree: DraftTree, kind: StepKind, keys: np.ndarray | None = None, settings: SamplingSettings | None = None
    ) -> tuple[TreeOutput, np.ndarray]:
        n, step = len(tree), self._step(tree, kind)
        result = step.run(tree, keys, settings)
        tokens, probabilities = step.unpack_top_k(result, n) if kind.top_k else (None, None)
        features = step.features[:n] if step.features is not None else None
        return TreeOutput(step.logits[:n], features, tokens, probabilities, step.unpack_reader_output(result)), result

    def _step(self, tree: DraftTree, kind: StepKind) -> FixedStep:
        """The step for a tree; ``prepare`` has found or captured it, unless the tree was changed since."""
        assert self.target.pool is not None, "this model has no fixed-shape steps"
        known, sizes = self._prepared, (len(tree), self.cache.length, self.cache.capacity)
        if known is None or known[0] is not kind or known[1] != sizes:
            step = self.target.pool.step(self.cache, len(tree), kind)
            known = self._prepared = kind, (len(tree), self.cache.length, self.cache.capacity), step
        return known[2]

    @torch.inference_mode()
    def _with_top_k(self, output: TreeOutput, k: int) -> TreeOutput:
        if not k:
            return output
        tokens, probabilities = sampler.top(output.logits, k)
        return replace(output, top_tokens=tokens.cpu().numpy().astype(np.int32), top_probabilities=probabilities.cpu().numpy())

    def _kind_without_verdict(self, needs: DrafterNeeds) -> StepKind:
        """The step kind without a verdict."""
        return StepKind(None, needs.all_layers, min(needs.top_k, self.target.vocab_size))

    def _kind(self, rule: Rule, needs: DrafterNeeds, tree: DraftTree) -> StepKind:
        """The step kind for ``verify``. A reader is part of the step only if the verdict is; else it runs afterwards."""
        fits, last = rule.verdict_fits_step(tree), self._last_kind
        if last is not None and last[0] is rule and last[1] is needs and last[2] == fits:
            return last[3]
        kind = self._kind_without_verdict(needs)
        if fits:
            kind = StepKind(sampler.operations(rule.settings), needs.hidden_layers, kind.top_k, needs.reader)
        self._last_kind = rule, needs, fits, kind
        return kind

    def compact(self, nodes: Sequence[int]) -> None:
        """KV-cache compaction: keep these nodes (ascending) of the last forward pass and drop the rest."""
        if self._plain:
            self._length += len(nodes)
        elif self._compacted_path is not None and list(nodes) == self._compacted_path[: len(nodes)]:
            self.cache.length += len(nodes)
        else:
            self.cache.compact(nodes)
        self._compacted_path = None

    def _forward(self, tokens: np.ndarray, offsets: np.ndarray, mask: Any, hidden: bool, keep: int = 0) -> Any:
        target, past = self.target, self.length
        if not self._plain:
            self.cache.reserve(len(tokens))
        positions = past + np.asarray(offsets)
        ids = torch.from_numpy(tokens)[None].to(target.device)
        position_ids = None if self._plain else torch.from_numpy(positions.astype(np.int64))[None].to(target.device)
        with sdpa_without_cudnn(target.device):
            return target.forward(ids, position_ids, mask, self.cache, hidden, keep)


@torch.inference_mode()
def _with_reader_output(output: TreeOutput, verdict: Verification, needs: DrafterNeeds) -> TreeOutput:
    """Run the reader on the output of a step without it, whose features are those of ``needs.all_layers``."""
    if needs.reader is None:
        return output
    assert output.features is not None, "a reader needs hidden states"
    states = output.features.unflatten(1, (len(needs.all_layers), -1))
    last = states[verdict.path[-1], needs.all_layers.index(-1)]
    features = states[:, : len(needs.hidden_layers)].flatten(1) if needs.hidden_layers else None
    return replace(output, features=features, reader_output=needs.reader.forward(last[None]).cpu().numpy())


def free_cache(target: TargetModel, cache: KVCache) -> None:
    """Return a cache that nothing uses to the pool of its model, or free it."""
    if target.pool is not None:
        target.pool.release(cache)
    else:
        cache.free()


def _stock_cache(target: TargetModel) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=target.config)

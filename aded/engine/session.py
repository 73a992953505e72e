"""State of one decode on the target model: its KV cache, the committed tokens and the last forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.engine.kv_cache import KVCache
from aded.engine.layers.tree_attention import sdpa_without_cudnn
from aded.engine.outputs import DrafterNeeds, StateReader, TreeOutput
from aded.engine.step_graph import StepKind, read_verdict, sampling_keys
from aded.sampling import rejection_sampler, sampler
from aded.sampling.logits_pipeline import Rule
from aded.sampling.tree_walk import Verification, first_non_finite
from aded.sampling.verify import verify

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

PREFILL_CHUNK, CAUSAL_CHUNK = 512, 8192
"""Prompt tokens per forward pass with stock attention, and with ``causal_attention`` of ``aded.engine.layers.tree_attention``."""


class TargetSession:
    """State of one decode on the target model.

    The root of every tree is the newest committed token. Its keys and values are not computed yet, so ``length`` is one less
    than the number of committed tokens.
    """

    def __init__(self, target: TargetModel, capacity: int) -> None:
        self.target = target
        self._plain = target.mode == "plain"
        self.cache: Any = self._new_cache(capacity)
        self._length = 0
        self._compacted_path: list[int] | None = None  # accepted path that the last step has already compacted
        self.non_finite = False  # whether the cache may hold NaN or infinity, which masks do not hide

    def _new_cache(self, capacity: int) -> Any:
        if self._plain:
            return _stock_cache(self.target)
        if self.target.pool is not None:
            return self.target.pool.take(capacity)
        return KVCache(capacity, int(self.target.config.num_hidden_layers))

    def close(self) -> None:
        """Return the cache to the pool, or free it."""
        cache, self.cache = self.cache, None
        if not isinstance(cache, KVCache):
            return
        if self.non_finite:
            cache.wipe()
        if self.target.pool is not None:
            self.target.pool.release(cache)
        else:
            cache.free()

    @property
    def length(self) -> int:
        """Number of tokens in the KV cache; the position of the next root."""
        return self._length if self._plain else self.cache.length

    def prefill(self, ids: Sequence[int]) -> None:
        """Compute keys and values of ``ids`` in chunks; for a prompt, pass all tokens except the last."""
        size = CAUSAL_CHUNK if self.target.masks.attached else PREFILL_CHUNK
        for start in range(0, len(ids), size):
            chunk = np.asarray(ids[start : start + size], dtype=np.int64)
            self._forward(chunk, np.arange(len(chunk)), self.target.masks.causal(len(chunk), self.length), keep=1)
            self.commit(range(len(chunk)))

    def forward_tree(self, tree: DraftTree, hidden: bool = False) -> TreeOutput:
        """Run all nodes in one forward pass; each attends to the committed tokens and its ancestors.

        Returns:
            ``TreeOutput`` with one row per node.
        """
        assert not self._plain or len(tree) == 1, "this model supports one token per step"
        mask = self.target.masks.dynamic(tree.ancestors, self.length + tree.depths, self.length)
        output = self._forward(tree.tokens.astype(np.int64), tree.depths, mask, hidden=hidden)
        states = output.hidden_states[-1][0] if hidden else None
        return TreeOutput(output.logits[0], states)

    def prepare(self, tree: DraftTree, rule: Rule, needs: DrafterNeeds = DrafterNeeds()) -> None:  # noqa: B008
        """Capture the step for a tree if it is new; call it outside of timed sections."""
        if self.target.pool is not None:
            self.target.pool.step(self.cache, len(tree), self._kind(rule, needs, tree))
            if rule.rejects_in_graph(tree):
                rejection_sampler.prepare(tree, self.target.vocab_size, self.target.dtype, rule, self.target.pool.verdicts)

    def run(self, tree: DraftTree, needs: DrafterNeeds = DrafterNeeds()) -> TreeOutput:  # noqa: B008
        """Like ``forward_tree``, with a captured step if possible; the tensors are valid until the next forward pass."""
        if self.target.pool is None:
            hidden = needs.hidden or needs.reader is not None
            return self._with_top_k(self.forward_tree(tree, hidden), needs.top_k)
        return self._run_step(tree, self._kind_without_verdict(needs), None)[0]

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
            verdict = self.target.agree(self._with_non_finite(verify(tree, output.logits, prefix, rule), output))
            return verdict, _with_reader_output(output, verdict, needs.reader)
        kind = self._kind(rule, needs, tree)
        keys = sampling_keys(tree, self.length, rule.settings) if kind.sampling is not None else None
        output, result = self._run_step(tree, kind, keys)
        if kind.sampling is None:
            verdict = self._with_non_finite(verify(tree, output.logits, prefix, rule, self.target.pool.verdicts), output)
            return verdict, _with_reader_output(output, verdict, needs.reader)
        verdict = read_verdict(result, tree, keys)
        self.non_finite |= verdict.non_finite is not None
        self._compacted_path = verdict.path
        return verdict, output

    def _with_non_finite(self, verdict: Verification, output: TreeOutput) -> Verification:
        """The verdict with the first node of its path whose logits are not finite."""
        node = first_non_finite(verdict.path, output.logits)
        self.non_finite |= node is not None
        return replace(verdict, non_finite=node)

    def wipe(self) -> None:
        """Erase the keys and values of the last forward pass, which were not finite."""
        if not self._plain:
            self.cache.wipe(self.length)

    def _run_step(self, tree: DraftTree, kind: StepKind, keys: np.ndarray | None) -> tuple[TreeOutput, np.ndarray]:
        assert self.target.pool is not None, "this model has no fixed-shape steps"
        n, step = len(tree), self.target.pool.step(self.cache, len(tree), kind)
        result = step.run(tree, keys)
        tokens, probabilities = step.unpack_top_k(result, n) if kind.top_k else (None, None)
        hidden = step.hidden[:n] if step.hidden is not None else None
        return TreeOutput(step.logits[:n], hidden, tokens, probabilities, step.unpack_reader_output(result)), result

    @torch.inference_mode()
    def _with_top_k(self, output: TreeOutput, k: int) -> TreeOutput:
        if not k:
            return output
        tokens, probabilities = sampler.top(output.logits, k)
        return replace(output, top_tokens=tokens.cpu().numpy().astype(np.int32), top_probabilities=probabilities.cpu().numpy())

    def _kind_without_verdict(self, needs: DrafterNeeds) -> StepKind:
        """The step kind without a verdict."""
        return StepKind(None, needs.hidden, min(needs.top_k, self.target.vocab_size))

    def _kind(self, rule: Rule, needs: DrafterNeeds, tree: DraftTree) -> StepKind:
        """The step kind for ``verify``. A reader is part of the step only if the verdict is; else it runs afterwards."""
        top_k = min(needs.top_k, self.target.vocab_size)
        if rule.judges_in_step(tree):
            return StepKind(rule.settings, needs.hidden, top_k, needs.reader)
        return StepKind(None, needs.hidden or needs.reader is not None, top_k)

    def commit(self, nodes: Sequence[int]) -> None:
        """KV-cache compaction: keep these nodes (ascending) of the last forward pass and drop the rest."""
        if self._plain:
            self._length += len(nodes)
        elif self._compacted_path is not None and list(nodes) == self._compacted_path[: len(nodes)]:
            self.cache.length += len(nodes)
        else:
            self.cache.commit(nodes)
        self._compacted_path = None

    def _forward(self, tokens: np.ndarray, offsets: np.ndarray, mask: Any, hidden: bool = False, keep: int = 0) -> Any:
        target, past = self.target, self.length
        if not self._plain:
            self.cache.reserve(len(tokens))
        positions = past + np.asarray(offsets)
        ids = torch.from_numpy(tokens)[None].to(target.device)
        position_ids = None if self._plain else torch.from_numpy(positions.astype(np.int64))[None].to(target.device)
        with sdpa_without_cudnn(target.device):
            return target.run(ids, position_ids, mask, self.cache, hidden, keep)


@torch.inference_mode()
def _with_reader_output(output: TreeOutput, verdict: Verification, reader: StateReader | None) -> TreeOutput:
    if reader is None:
        return output
    assert output.hidden is not None, "a reader needs hidden states"
    return replace(output, read=reader.body(output.hidden[verdict.path[-1]][None]).cpu().numpy())


def _stock_cache(target: TargetModel) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=target.config)

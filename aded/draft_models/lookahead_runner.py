"""Drafts chains with a draft model that decodes with lookahead (Ouroboros, Zhao et al. 2024, arXiv 2402.13720, section 3)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from aded.core.compilation.cuda_graph import NODE_BUCKETS
from aded.core.prefixes import common_prefix
from aded.core.tree import DraftTree
from aded.draft_models.tree_runner import MAX_PENDING, Sampler, TreeRunner
from aded.engine.outputs import DrafterNeeds
from aded.ngram.lookahead import Lookahead
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    from aded.engine.outputs import TreeOutput
    from aded.engine.target_model import TargetModel

TOP_1 = DrafterNeeds(top_k=1)


class LookaheadRunner(TreeRunner):
    """The draft model of one decode; each forward pass writes one token or more, and refines the window.

    Args:
        draft, vocab_size: see ``TreeRunner``.
        lookahead: window and pool.
    """

    def __init__(self, draft: TargetModel, vocab_size: int, lookahead: Lookahead) -> None:
        super().__init__(draft, vocab_size)
        self.lookahead = lookahead
        self._cached = np.zeros(0, dtype=np.int32)  # tokens whose keys and values are in the cache

    def start(self, prompt: Sequence[int]) -> None:
        super().start(prompt)
        self.lookahead.start(prompt)
        self._cached = np.array(prompt[:-1], dtype=np.int32)

    def prepare_chain(self, context: np.ndarray) -> None:
        """Prepare ``chain`` after the committed tokens outside the timed step."""
        pending = len(self._drop_rejected(context))
        sizes, nodes = NODE_BUCKETS[:-1], self.lookahead.nodes + min(pending, MAX_PENDING) - 1
        for size in sizes[: bisect_left(sizes, nodes) + 1]:
            self._session.prepare_run(size, TOP_1, len(context) - 1)

    @torch.inference_mode()
    def chain(self, context: np.ndarray, length: int, settings: SamplingSettings) -> tuple[np.ndarray, np.ndarray]:
        """Draft ``length`` tokens after the committed ones, as the draft model alone would write them.

        If the target samples, they are drawn with its random numbers (see ``Sampler``). The chain ends early before a token
        outside the target's vocabulary and where the logits are not finite.

        Args:
            context: all committed tokens, int ``[n]``; the last one is the root.
            length: at most ``levels(context)``.
            settings: sampling settings, the same as for the target.

        Returns:
            The tokens, int32, and their draft probabilities, float64, ``[length]`` each.
        """
        tokens: list[int] = []
        probabilities: list[float] = []
        sampler, pending = Sampler(settings, coupled=True, replacement=False), self._pending(context)
        while len(tokens) < length:
            left = self.draft.context_limit - len(context) - len(tokens)
            tree = self.lookahead.draft(int(pending[-1]), self.lookahead.nodes).within(left)
            output, offset = self._run(pending, tree)
            path = self._walk(tree, output, offset, len(context), length, sampler, tokens, probabilities)
            self._session.compact([*range(offset), *(offset + node for node in path)])
            assert output.top_tokens is not None, "needs.top_k is set"
            self.lookahead.advance(tree, np.minimum(output.top_tokens[offset:, 0], self._vocab_size - 1))
            self._cached = np.concatenate([context, tokens[: len(tokens) - 1]]).astype(np.int32)
            if not np.isfinite(probabilities).all() or tokens[-1] >= self._vocab_size:
                break
            pending = np.array(tokens[-1:])
        valid = int((np.isfinite(probabilities) & (np.array(tokens) < self._vocab_size)).cumprod().sum())
        self._check_finite(bool(np.isfinite(probabilities).all()))
        return np.array(tokens[:valid], dtype=np.int32), np.array(probabilities[:valid])

    def _run(self, pending: np.ndarray, tree: DraftTree) -> tuple[TreeOutput, int]:
        """Run the tokens that are not in the cache and, below the last one, the tree; also the row of the tree's root."""
        offset = len(pending) - 1
        tokens = np.concatenate([pending[:-1], tree.tokens])
        parents = np.concatenate([np.arange(-1, offset - 1), tree.parents + offset])
        return self._session.run(DraftTree(tokens, parents), TOP_1), offset

    def _walk(
        self,
        tree: DraftTree,
        output: TreeOutput,
        offset: int,
        position: int,
        length: int,
        sampler: Sampler,
        tokens: list[int],
        probabilities: list[float],
    ) -> list[int]:
        """Append the draft model's choices along the tree to ``tokens``, at most ``length`` in all.

        Args:
            position: text position of the first token of the chain.

        Returns:
            The accepted path of the tree, the root first.
        """
        path = [0]
        while True:
            row = offset + path[-1]
            if sampler.settings.greedy:
                assert output.top_tokens is not None and output.top_probabilities is not None, "needs.top_k is set"
                token, probability = output.top_tokens[row, 0], output.top_probabilities[row, 0]
            else:
                logits = output.logits[row : row + 1, : self._vocab_size]
                drawn, chances, _ = sampler.draw(logits, 1, position + len(tokens), [0])
                token, probability = drawn[0, 0], chances[0, 0]
            tokens.append(int(token))
            probabilities.append(float(probability))
            child = tree.child(path[-1], tokens[-1])
            if child is None or len(tokens) == length:
                return path
            path.append(child)

    def _drop_rejected(self, context: np.ndarray) -> np.ndarray:
        """Drop rejected draft tokens from the cache; returns the committed tokens that are not in it, the root last."""
        before = self._session
        self._reserve(context, self.lookahead.nodes + MAX_PENDING)
        if self._session is not before:
            self._cached = context[:-1].astype(np.int32)
        cached = common_prefix(self._cached, context[:-1])
        self._session.rewind(cached)
        self._cached = self._cached[:cached]
        return context[cached:]

    def _pending(self, context: np.ndarray) -> np.ndarray:
        """As ``_drop_rejected``, but if they are many, all except the root are prefilled."""
        pending = self._drop_rejected(context)
        if len(pending) > MAX_PENDING:
            self._session.prefill(pending[:-1].tolist())
            pending = pending[-1:]
        return pending

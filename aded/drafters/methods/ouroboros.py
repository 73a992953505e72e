"""Ouroboros (Zhao et al. 2024, arXiv 2402.13720): a draft model with lookahead drafts a chain, and phrases of a pool continue it.

The draft model decodes with lookahead and fills a pool of phrases (n-grams by their first token). The draft is its chain, and
below the last token of the chain as branches the latest phrases that begin with this token. Unlike in the paper, phrases can also
continue the root and all other tokens of the chain: where the whole chain is rarely accepted, those at its end are rarely
reached. The target verifies chain and phrases in one forward pass, and its predictions return to the pool: the n-grams of the
text, those that continue it with the predictions at rejected draft tokens, the rejected draft tokens themselves, and each
phrase with the target's predictions in place of its tokens. If the target samples, the chain is drawn with the target's random
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from aded.core.inspection import Explanation, PhrasePool
from aded.core.limits import Limits, check_choice, check_numbers
from aded.core.tree import DraftTree
from aded.draft_models.lookahead_runner import LookaheadRunner
from aded.drafters.base import Context, Drafter, Inspectable, Outcome, Persistent, StateDict
from aded.engine.outputs import DrafterNeeds
from aded.ngram.lookahead import LIMITS as LOOKAHEAD_LIMITS
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    import torch

    from aded.engine.target_view import TargetView

Pool = Literal["cold", "warm"]
PhrasesAt = Literal["all", "last"]
LIMITS: Limits = {"draft_length": (1, 64), "phrases": (0, 64)}


def check_settings(pool: str = "cold", phrases_at: str = "all", **settings: float) -> None:
    """Check the settings.

    Raises:
        AdedError: an unknown choice, or a value out of range.
    """
    check_choice("pool", pool, get_args(Pool))
    check_choice("phrases at", phrases_at, get_args(PhrasesAt))
    check_numbers({**LIMITS, **LOOKAHEAD_LIMITS}, settings)


class OuroborosDrafter(Drafter, Inspectable, Persistent):
    """Drafts a chain of the draft model, and phrases that continue its tokens.

    Args:
        runner: the draft model, with its window and pool.
        draft_length: number of tokens of the chain.
        phrases: maximum number of phrases per token.
        phrases_at: *all*: phrases continue the root and all tokens of the chain, the first ones first if the budget is small;
            *last*: only the last token of the chain, as published.
        pool: *cold* empties the pool for each prompt, *warm* keeps it.
        pool_from_prompt: add the n-grams of the prompt to the pool.

    Raises:
        AdedError: an unknown choice, or a value out of range.
    """

    needs = DrafterNeeds(top_k=1)

    def __init__(
        self,
        runner: LookaheadRunner,
        draft_length: int = 6,
        phrases: int = 3,
        phrases_at: PhrasesAt = "all",
        pool: Pool = "cold",
        pool_from_prompt: bool = True,
    ) -> None:
        check_settings(pool, phrases_at, draft_length=draft_length, phrases=phrases)
        self.draft_length, self.phrases, self.phrases_at = int(draft_length), int(phrases), phrases_at
        self.pool, self.pool_from_prompt = pool, pool_from_prompt
        self._runner, self._phrase_pool = runner, runner.lookahead.pool
        self._settings = SamplingSettings()
        self._chain: list[int] = []  # of the last draft
        self._drafted: list[tuple[int, tuple[int, ...]]] = []  # its phrases, each after so many tokens of the chain

    def bind(self, target: TargetView) -> None:
        self._settings = target.settings

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        if self.pool == "cold":
            self._phrase_pool.clear()
        if self.pool_from_prompt:
            self._phrase_pool.add_all(prompt, self._runner.lookahead.ngram)
        self._runner.start(prompt)
        self.notice = self._runner.notice

    def prepare(self, context: Context, budget: int) -> None:
        if self._length(context, budget):
            self._runner.prepare_chain(context.tokens)

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._chain, probabilities = [], np.zeros(0)
        if length := self._length(context, budget):
            tokens, probabilities = self._runner.chain(context.tokens, length, self._settings)
            self._chain = tokens.tolist()
        self.notice = self._runner.notice
        self._drafted = [
            (at, phrase)
            for at in self._continued()
            for phrase in self._phrase_pool.beginning_with([context.root, *self._chain][at])[: self.phrases]
        ]
        paths = [self._chain, *([*self._chain[:at], *phrase] for at, phrase in self._drafted)]
        tree = DraftTree.from_paths(context.root, paths, budget)
        if not self._settings.greedy:
            return tree
        prior = np.full(len(tree), np.nan)
        prior[1 : 1 + len(self._chain)] = probabilities
        return DraftTree(tree.tokens, tree.parents, {"prior": prior})

    def observe(self, outcome: Outcome) -> None:
        """Add the target's predictions and the rejected draft tokens to the pool."""
        assert outcome.top_tokens is not None, "Ouroboros needs the target's most probable token at every node"
        tree, predictions, ngram = outcome.tree, outcome.top_tokens[:, 0].tolist(), self._runner.lookahead.ngram
        chain, emitted = self._verified_chain(tree), outcome.emitted.tolist()
        accepted = len(set(chain) & set(outcome.path.tolist()))
        self._correct_phrases(tree, [0, *chain[:accepted]], predictions)
        if len(rejected := tree.tokens[chain[accepted:]].tolist()) > 1:
            self._phrase_pool.add(rejected[:ngram])
        later = [predictions[node] for node in chain[max(accepted, len(emitted) - 1) :]]
        self._phrase_pool.add_all([*outcome.context.tokens[1 - ngram :].tolist(), *emitted, *later], ngram)

    def close(self) -> None:
        self._runner.close()

    def explain(self, context: Context, budget: int) -> Explanation:
        if budget == 1 or not self._chain + self._drafted:
            return Explanation(note=self.notice if budget > 1 else None)
        size, continued = len(self._phrase_pool), self._continued()[0]
        note = f"a chain of {len(self._chain)} tokens, and {len(self._drafted)} phrases from a pool of {size}"
        first = [context.root, *self._chain][continued]
        drafted = sum(at == continued for at, _ in self._drafted)
        return Explanation(note, pool=PhrasePool(size, first, tuple(self._phrase_pool.beginning_with(first)), drafted))

    def state_dict(self) -> StateDict:
        known = list(self._phrase_pool)
        ngrams = np.full((len(known), self._runner.lookahead.ngram), -1, dtype=np.int32)
        for row, tokens in zip(ngrams, known):
            row[: len(tokens)] = tokens
        return {"ngrams": ngrams}

    def load_state_dict(self, state: StateDict) -> None:
        self._phrase_pool.clear()
        for row in state["ngrams"].tolist():
            self._phrase_pool.add([token for token in row if token >= 0])

    def settings(self) -> dict[str, object]:
        lookahead = self._runner.lookahead
        own = {name: getattr(self, name) for name in ("draft_length", "phrases", "phrases_at", "pool", "pool_from_prompt")}
        window = {name: getattr(lookahead, name) for name in ("ngram", "window", "guesses", "seed")}
        return {"draft_model": self._runner.draft.label, **own, **window}

    def _length(self, context: Context, budget: int) -> int:
        """Number of tokens to draft with the draft model."""
        return min(self.draft_length, budget - 1, self._runner.levels(context.tokens)) if budget > 1 else 0

    def _continued(self) -> Sequence[int]:
        """The tokens that phrases continue, as their number of tokens of the chain: 0 is the root."""
        last = len(self._chain)
        return range(last + 1) if self.phrases_at == "all" else [last]

    def _correct_phrases(self, tree: DraftTree, accepted: Sequence[int], predictions: Sequence[int]) -> None:
        """Replace each phrase after an accepted token, if verified whole, by the target's predictions at its tokens.

        accepted: the root and the accepted nodes of the chain.
        """
        for at, phrase in self._drafted:
            nodes = [accepted[at]] if at < len(accepted) else []
            for token in phrase if nodes else ():
                if (child := tree.child(nodes[-1], token)) is None:
                    break
                nodes.append(child)
            if len(nodes) == len(phrase) + 1:
                first = int(tree.tokens[nodes[0]])
                self._phrase_pool.discard([first, *phrase])
                self._phrase_pool.add([first, *(predictions[node] for node in nodes[:-1])])

    def _verified_chain(self, tree: DraftTree) -> list[int]:
        """The nodes of the chain in a verified tree, of which the last ones may have been cut."""
        nodes: list[int] = []
        for token in self._chain:
            if (node := tree.child(nodes[-1] if nodes else 0, token)) is None:
                break
            nodes.append(node)
        return nodes

"""Ouroboros (Zhao et al. 2024, arXiv 2402.13720): a draft model with lookahead drafts a chain, and phrases of a pool continue it.

The draft model decodes with lookahead and fills a pool of phrases (n-grams by their first token). The draft is its chain, and
below the last token of the chain as branches the latest phrases that begin with this token. The target verifies both in one
forward pass, and its predictions return to the pool: the n-grams of the text, those that continue it with the predictions at
rejected draft tokens, the rejected draft tokens themselves, and each verified phrase with the target's predictions in place of
its tokens. If the target samples, the chain is drawn with the target's random numbers.
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
LIMITS: Limits = {"draft_length": (1, 64), "phrases": (0, 64)}


def check_settings(pool: str = "cold", **settings: float) -> None:
    """Check the settings.

    Raises:
        AdedError: an unknown kind of pool, or a value out of range.
    """
    check_choice("pool", pool, get_args(Pool))
    check_numbers({**LIMITS, **LOOKAHEAD_LIMITS}, settings)


class OuroborosDrafter(Drafter, Inspectable, Persistent):
    """Drafts a chain of the draft model, and phrases that begin with its last token.

    Args:
        runner: the draft model, with its window and pool.
        draft_length: number of tokens of the chain.
        phrases: maximum number of phrases.
        pool: *cold* empties the pool for each prompt, *warm* keeps it.

    Raises:
        AdedError: an unknown kind of pool, or a value out of range.
    """

    needs = DrafterNeeds(top_k=1)

    def __init__(self, runner: LookaheadRunner, draft_length: int = 6, phrases: int = 3, pool: Pool = "cold") -> None:
        check_settings(pool, draft_length=draft_length, phrases=phrases)
        self.draft_length, self.phrases, self.pool = int(draft_length), int(phrases), pool
        self._runner, self._phrase_pool = runner, runner.lookahead.pool
        self._settings = SamplingSettings()
        self._chain: list[int] = []  # of the last draft

    def bind(self, target: TargetView) -> None:
        self._settings = target.settings

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        if self.pool == "cold":
            self._phrase_pool.clear()
        self._runner.start(prompt)
        self.notice = self._runner.notice

    def prepare(self, context: Context, budget: int) -> None:
        if self._length(context, budget):
            self._runner.prepare_chain(context.tokens)

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._chain = []
        length = self._length(context, budget)
        self.notice = self._runner.notice
        if not length:
            return DraftTree.root_only(context.root)
        tokens, probabilities = self._runner.chain(context.tokens, length, self._settings)
        self.notice, self._chain = self._runner.notice, tokens.tolist()
        phrases = self._phrases()
        tree = DraftTree.from_paths(context.root, [self._chain, *([*self._chain, *phrase] for phrase in phrases)], budget)
        if not self._settings.greedy:
            return tree
        prior = np.full(len(tree), np.nan)
        prior[1 : 1 + len(tokens)] = probabilities
        return DraftTree(tree.tokens, tree.parents, {"prior": prior})

    def observe(self, outcome: Outcome) -> None:
        """Add the target's predictions and the rejected draft tokens to the pool."""
        assert outcome.top_tokens is not None, "Ouroboros needs the target's most probable token at every node"
        tree, predictions, ngram = outcome.tree, outcome.top_tokens[:, 0].tolist(), self._runner.lookahead.ngram
        chain = _chain_nodes(tree, len(self._chain))
        if chain and len(chain) == len(self._chain):
            self._correct_phrases(tree, chain[-1], predictions)
        accepted = len(outcome.path) - 1
        rejected = chain[accepted:]
        if len(rejected) > 1:
            self._phrase_pool.add(tree.tokens[rejected][:ngram].tolist())
        text = [
            *outcome.context.tokens[1 - ngram :].tolist(),
            *outcome.emitted.tolist(),
            *(predictions[node] for node in rejected),
        ]
        self._phrase_pool.add_all(text, ngram)

    def close(self) -> None:
        self._runner.close()

    def explain(self, context: Context, budget: int) -> Explanation:
        if not self._chain:
            return Explanation(note=self.notice if budget > 1 else None)
        size, last, drafted = len(self._phrase_pool), self._chain[-1], len(self._phrases())
        note = f"a chain of {len(self._chain)} tokens, and after it {drafted} phrases from a pool of {size}"
        return Explanation(note, pool=PhrasePool(size, last, tuple(self._phrase_pool.beginning_with(last)), drafted))

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
        own = {name: getattr(self, name) for name in ("draft_length", "phrases", "pool")}
        window = {name: getattr(lookahead, name) for name in ("ngram", "window", "guesses", "seed")}
        return {"draft_model": self._runner.draft.label, **own, **window}

    def _length(self, context: Context, budget: int) -> int:
        """Number of tokens to draft with the draft model."""
        return min(self.draft_length, budget - 1, self._runner.levels(context.tokens)) if budget > 1 else 0

    def _phrases(self) -> list[tuple[int, ...]]:
        """The latest phrases that begin with the last token of the chain, without this token."""
        return self._phrase_pool.beginning_with(self._chain[-1])[: self.phrases] if self._chain else []

    def _correct_phrases(self, tree: DraftTree, last: int, predictions: Sequence[int]) -> None:
        """Replace each phrase that was verified whole by the target's predictions; ``last``: the last node of the chain."""
        known = set(self._phrases())
        for leaf in tree.leaves:
            nodes = [node for node in tree.path_to(leaf) if node >= last]
            if nodes[0] == last and tuple(tree.tokens[nodes[1:]].tolist()) in known:
                self._phrase_pool.discard(tree.tokens[nodes].tolist())
                self._phrase_pool.add([int(tree.tokens[last]), *(predictions[node] for node in nodes[:-1])])


def _chain_nodes(tree: DraftTree, length: int) -> list[int]:
    """The nodes of the chain in a verified tree, of which the last ones may have been cut."""
    nodes: list[int] = []
    while len(nodes) < min(length, tree.drafted) and tree.parents[len(nodes) + 1] == len(nodes):
        nodes.append(len(nodes) + 1)
    return nodes

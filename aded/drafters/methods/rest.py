"""REST, retrieval-based speculative decoding (arXiv 2311.08252): draft what followed the last tokens in a corpus.

The longest suffix of the text that occurs in the datastore is looked up. Its continuations there are counted in a trie, and the
most frequent nodes become the draft. The paper stops here (``backoff`` off), but a long suffix that occurs once leaves most of
the budget unused. With back-off, shorter suffixes follow: each suffix takes a share of the weight that longer ones have left,
and the share grows with its number of occurrences. The weight of a continuation decreases with every token.

If the target samples, the weights are coupled with its draws (`aded.sampling.coupling`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aded.core.inspection import Explanation
from aded.core.limits import Limits, check_numbers
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Inspectable, Outcome
from aded.drafters.coupled import CoupledDrafter
from aded.retrieval.continuation_trie import ContinuationTrie
from aded.retrieval.suffix_array import Datastore

LIMITS: Limits = {"max_suffix": (1, 64), "max_occurrences": (1, 5000), "draft_length": (1, 64)}
PAPER_MIN_SUFFIX = 2
NO_MATCH = "the newest tokens do not occur in the datastore: plain step"
HALF_SHARE = 4.0
"""A suffix with this many occurrences takes half of the weight that longer suffixes have left."""
DECAY = 0.5
"""Factor on a continuation's weight for every further token: most continuations differ from the text after a few tokens."""
MIN_REMAINDER = 0.01
"""Shorter suffixes are skipped when the remaining weight is below this."""


def check_settings(**settings: float) -> None:
    """Check the settings.

    Raises:
        AdedError: a value is out of range.
    """
    check_numbers(LIMITS, settings)


class RestDrafter(CoupledDrafter, Inspectable):
    """Drafts the most frequent continuations of the text's suffixes in the datastore.

    Args:
        datastore: built with the model's tokenizer; shared and read-only.
        max_suffix: length of the longest suffix to look up; shorter ones, down to 1 (paper: 2), follow.
        max_occurrences: maximum number of occurrences of a suffix whose continuations are counted.
        draft_length: maximum length of a continuation.
        backoff: also use shorter suffixes; off: only the longest match, as in the paper.
        coupling: if the target samples, draft the tokens that it will draw.

    Raises:
        AdedError: a value is out of range.
    """

    def __init__(
        self,
        datastore: Datastore,
        max_suffix: int = 16,
        max_occurrences: int = 1000,
        draft_length: int = 10,
        backoff: bool = True,
        coupling: bool = True,
    ) -> None:
        super().__init__(coupling)
        check_settings(max_suffix=max_suffix, max_occurrences=max_occurrences, draft_length=draft_length)
        self.max_suffix, self.max_occurrences, self.draft_length, self.backoff = (
            max_suffix,
            max_occurrences,
            draft_length,
            backoff,
        )
        self._datastore = datastore
        capacity, decay = 1 + draft_length * max_occurrences * (4 if backoff else 1), DECAY if backoff else 1.0
        self._trie = ContinuationTrie(capacity, draft_length, datastore.vocab_size, datastore.separator, decay)
        self.propose(Context(np.asarray(datastore.tokens[:2], dtype=np.int32), 2), 2)  # JIT-compile now

    def propose(self, context: Context, budget: int) -> DraftTree:
        if budget == 1:
            return DraftTree.root_only(context.root)
        self._trie.clear()
        for length, low, high, share in self._shares(self._matches(context.tokens)):
            positions = self._datastore.positions(low, high, length, self.max_occurrences)
            self._trie.count(self._datastore.tokens, positions, share / len(positions))
        nodes, _ = self._trie.best(budget, coupling=self._coupled(context))
        return self._trie.tree(context.root, nodes)

    def observe(self, outcome: Outcome) -> None:
        self._learn_exponent(outcome)

    def explain(self, context: Context, budget: int) -> Explanation:
        matches = self._matches(context.tokens)
        if not matches:
            return Explanation(NO_MATCH if budget > 1 else None)
        length, low, high = matches[-1]
        return Explanation(f"the last {length} tokens occur in the datastore {high - low} times")

    def settings(self) -> dict[str, object]:
        names = ("max_suffix", "max_occurrences", "draft_length", "backoff", "coupling")
        return {**{name: getattr(self, name) for name in names}, "datastore_tokens": len(self._datastore)}

    def _matches(self, tokens: np.ndarray) -> list[tuple[int, int, int]]:
        """The matching suffixes, shortest first: length, and range ``low, high`` in the suffix array."""
        matches = self._datastore.matches(np.ascontiguousarray(tokens[-self.max_suffix :], dtype=np.int32))
        return matches if self.backoff else [match for match in matches[-1:] if match[0] >= PAPER_MIN_SUFFIX]

    def _shares(self, matches: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, float]]:
        """Each match and its share of the total weight 1, longest first."""
        remainder = 1.0
        for length, low, high in reversed(matches):
            share = remainder * (high - low) / (high - low + HALF_SHARE)
            yield length, low, high, share
            remainder -= share
            if remainder < MIN_REMAINDER:
                return

"""REST, retrieval-based speculative decoding (arXiv 2311.08252): copy what followed the newest tokens in a corpus.

The longest end of the text that stands in the datastore is looked up; what followed it there is counted in a trie, and the
most frequent nodes are the draft. As published that is all (``backoff`` off), and a long end seen once leaves most of a
budget unused. With back-off, shorter ends follow until the draft is full: each end gets a share of what longer ones have
left, the more the oftener it stands in the corpus, and a continuation counts for less with every token.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aded.core.errors import AdedError
from aded.core.inspection import Explanation
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter
from aded.retrieval.continuation_trie import Continuations
from aded.retrieval.suffix_array import Datastore

LIMITS = {"longest": (1, 64), "hits": (1, 5000), "draft_length": (1, 64)}
PUBLISHED_SHORTEST = 2
NO_MATCH = "the newest tokens do not stand in the datastore: plain step"
EVIDENCE = 4.0
"""An end that stands in the corpus that often gets half of what longer ones have left."""
FADE = 0.5
"""What a continuation's weight is multiplied with for every token: most go another way before long."""
ENOUGH = 0.01
"""Shorter ends are left out once they share no more than this."""


def check_settings(**settings: float) -> None:
    """Refuse numbers out of range."""
    for name, (low, high) in LIMITS.items():
        value = settings.get(name, low)
        if not low <= value <= high or value != int(value):
            raise AdedError(f"{name} is {value}; give a whole number from {low} to {high}")


class RestDrafter(Drafter):
    """Drafts the most frequent continuations of the ends of the text that the datastore knows.

    Args:
        datastore: of the model's tokenizer, shared and never changed.
        longest: longest end that is looked up; shorter ones down to 1 follow (as published: to 2).
        hits: most places of an end whose continuations are counted.
        draft_length: most tokens of a continuation.
        backoff: go on to shorter ends; off: the longest one alone, as published.

    Raises:
        AdedError: a value is out of range.
    """

    def __init__(
        self, datastore: Datastore, longest: int = 16, hits: int = 1000, draft_length: int = 10, backoff: bool = True
    ) -> None:
        check_settings(longest=longest, hits=hits, draft_length=draft_length)
        self.longest, self.hits, self.draft_length, self.backoff = longest, hits, draft_length, backoff
        self._store = datastore
        room, fade = 1 + draft_length * hits * (4 if backoff else 1), FADE if backoff else 1.0
        self._trie = Continuations(room, draft_length, datastore.vocab_size, datastore.separator, fade)
        self.propose(Context(np.asarray(datastore.tokens[:2], dtype=np.int32), 2), 2)  # compile now, not in a timed step

    def propose(self, context: Context, budget: int) -> DraftTree:
        if budget == 1:
            return DraftTree.root_only(context.root)
        self._trie.clear()
        for length, low, high, share in self._shares(self._matches(context.tokens)):
            places = self._store.places(low, high, length, self.hits)
            self._trie.count(self._store.tokens, places, share / len(places))
        nodes, _ = self._trie.best(budget)
        return self._trie.tree(context.root, nodes)

    def explain(self, context: Context, budget: int) -> Explanation:
        found = self._matches(context.tokens)
        if not found:
            return Explanation(NO_MATCH if budget > 1 else None)
        length, low, high = found[-1]
        return Explanation(f"the last {length} tokens stand in the datastore {high - low} times")

    def settings(self) -> dict[str, object]:
        names = ("longest", "hits", "draft_length", "backoff")
        return {**{name: getattr(self, name) for name in names}, "datastore_tokens": len(self._store)}

    def _matches(self, tokens: np.ndarray) -> list[tuple[int, int, int]]:
        """Ends that are drafted from, shortest first: length, and range of suffixes."""
        found = self._store.matches(np.ascontiguousarray(tokens[-self.longest :], dtype=np.int32))
        return found if self.backoff else [match for match in found[-1:] if match[0] >= PUBLISHED_SHORTEST]

    def _shares(self, found: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, float]]:
        """Each match and its share of the whole weight, longest first."""
        rest = 1.0
        for length, low, high in reversed(found):
            share = rest * (high - low) / (high - low + EVIDENCE)
            yield length, low, high, share
            rest -= share
            if rest < ENOUGH:
                return

"""Suffix decoding (arXiv 2411.04975): copy what followed the longest ends of the text, here and in earlier texts.

For every length of an end that stands in a source, its continuations' frequencies make a tree: a node's probability is the
product of count ratios along its path, the most probable ones are taken while they are above a bound, and the longer the end,
the more of them. The tree with the highest sum of probabilities, over all ends and sources, is the draft.

The paper keeps suffix trees. Here each source is one that yields the same counts: the request's own text (and, with ``keep``,
that of the session's earlier decodes) is read through once a step, a tenth of a millisecond for 100 000 tokens; the corpus,
which stands for the outputs of earlier requests, is the suffix array of `aded.retrieval.suffix_array`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aded.core.errors import AdedError
from aded.core.inspection import Explanation
from aded.core.jit import njit
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter, Knowledge, Outcome
from aded.retrieval.continuation_trie import Continuations
from aded.retrieval.suffix_array import Datastore

LIMITS = {"longest": (1, 64), "draft_length": (1, 64), "factor": (0.1, 64.0), "least": (0.0, 1.0)}
HITS = 512
"""Most places that are counted of one end: in the text the newest ones, in the corpus spread evenly."""
MOST_KEPT = 1 << 16
"""Tokens of earlier decodes that a session keeps."""
BETWEEN_TEXTS = -1
NO_MATCH = "no end of the text stands anywhere else: plain step"

Found = tuple[int, np.ndarray, np.ndarray]
"""An end's length, the text that it stands in, and where its continuations begin there."""


def check_settings(**settings: float) -> None:
    """Refuse numbers out of range."""
    for name, (low, high) in LIMITS.items():
        value = settings.get(name, low)
        if not low <= value <= high or (isinstance(low, int) and value != int(value)):
            raise AdedError(f"{name} is {value}; give a number from {low} to {high}")


class SuffixDrafter(Drafter):
    """Drafts the best of the trees of all ends and sources.

    Args:
        vocab_size: token ids are below it.
        corpus: texts of this model from before the session, shared and never changed; None: none.
        longest: longest end that is looked up.
        draft_length: most tokens of a continuation.
        factor: most nodes of a tree, by tokens of its end.
        least: smallest probability of a node.
        keep: remember the session's earlier decodes.

    Raises:
        AdedError: a value is out of range.
    """

    def __init__(
        self,
        vocab_size: int,
        corpus: Datastore | None = None,
        longest: int = 32,
        draft_length: int = 24,
        factor: float = 32.0,
        least: float = 0.01,
        keep: bool = False,
    ) -> None:
        check_settings(longest=longest, draft_length=draft_length, factor=factor, least=least)
        self.longest, self.draft_length, self.factor, self.least, self.keep = longest, draft_length, factor, least, keep
        self._corpus = corpus
        self._trie = Continuations(
            1 + HITS * draft_length, draft_length, vocab_size, corpus.separator if corpus else BETWEEN_TEXTS
        )
        self._text = np.zeros(1024, dtype=np.int32)  # earlier decodes, each ended by BETWEEN_TEXTS, and this one
        self._begin = self._length = 0  # where this one begins and ends
        self._source = ""
        self.start([0, 0, 0])
        self.propose(Context(self._text[:3], 3), 2)  # compile now, not in a timed step
        self._begin = self._length = 0

    def start(self, prompt: Sequence[int]) -> None:
        self._append([BETWEEN_TEXTS])
        kept = min(self._length, MOST_KEPT) if self.keep else 0
        self._text[:kept] = self._text[self._length - kept : self._length].copy()
        self._begin = self._length = kept
        self._append(prompt)

    def propose(self, context: Context, budget: int) -> DraftTree:
        best, score = DraftTree.root_only(context.root), 0.0
        if budget == 1:
            return best
        for source, found in self._sources():
            for length, text, places in found:
                self._trie.clear()
                self._trie.count(text, places)
                nodes, expected = self._trie.best(min(budget, 1 + int(self.factor * length)), self.least)
                if expected > score:
                    best, score = self._trie.tree(context.root, nodes), expected
                    self._source = f"the tree of the last {length} tokens in {source}: {expected:.2f} tokens expected"
        return best

    def observe(self, outcome: Outcome) -> None:
        self._append(outcome.emitted)

    def explain(self, context: Context, budget: int) -> Explanation:
        tree = self.propose(context, budget)
        return Explanation(self._source if tree.drafted else NO_MATCH if budget > 1 else None)

    def knowledge(self) -> Knowledge:
        return {"text": self._text[: self._length].copy()}

    def recall(self, knowledge: Knowledge) -> None:
        self._append(knowledge["text"])

    def settings(self) -> dict[str, object]:
        names = ("longest", "draft_length", "factor", "least", "keep")
        return {**{name: getattr(self, name) for name in names}, "corpus_tokens": len(self._corpus) if self._corpus else 0}

    def _append(self, tokens: Sequence[int] | np.ndarray) -> None:
        end = self._length + len(tokens)
        if end > len(self._text):
            self._text = np.concatenate([self._text, np.zeros(max(end, len(self._text)), dtype=np.int32)])
        self._text[self._length : end] = tokens
        self._length = end

    def _sources(self) -> Iterator[tuple[str, Iterator[Found]]]:
        yield "this text", self._in_text(self._begin, self._length)
        if self._begin:
            yield "earlier texts", self._in_text(0, self._begin)
        if self._corpus is not None:
            yield "the corpus", self._in_corpus(self._corpus)

    def _in_text(self, begin: int, end: int) -> Iterator[Found]:
        """Each set of places in ``text[begin:end]`` once, with the longest end that stands at all of them."""
        newest = self._text[max(self._begin, self._length - self.longest) : self._length]
        places, lengths = _places(self._text[begin:end], newest)
        for length in np.unique(lengths).tolist():
            yield length, self._text[begin:end], places[lengths >= length][:HITS]

    def _in_corpus(self, corpus: Datastore) -> Iterator[Found]:
        matches = corpus.matches(self._text[max(self._begin, self._length - self.longest) : self._length])
        for match, longer in zip(matches, [*matches[1:], None]):
            length, low, high = match
            if longer is None or longer[2] - longer[1] < high - low:
                yield length, corpus.tokens, corpus.places(low, high, length, HITS)


@njit(cache=True)
def _places(text, newest):
    """Where the last token of ``newest`` stood in ``text`` with something behind it, newest first, and how much of ``newest``.

    Returns:
        Where the continuations begin, and how many tokens before them are the newest ones, int64 ``[k]`` each.
    """
    places, lengths = np.empty(len(text), np.int64), np.empty(len(text), np.int64)
    found = 0
    last = newest[-1]
    for place in range(len(text) - 1, 0, -1):
        if text[place - 1] != last:
            continue
        length = 1
        while length < min(len(newest), place) and text[place - 1 - length] == newest[len(newest) - 1 - length]:
            length += 1
        places[found], lengths[found] = place, length
        found += 1
    return places[:found], lengths[:found]

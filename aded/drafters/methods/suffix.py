"""Suffix decoding (arXiv 2411.04975): draft what followed the longest suffixes of the text, in it and in earlier texts.

For every length of a suffix that occurs in a source, the frequencies of its continuations define a tree. The probability of a
node is the product of count ratios along its path. The most probable nodes above a minimum probability are kept; a longer suffix
may keep more nodes. The draft is the tree with the highest sum of probabilities over all suffixes and sources. If the target
samples, the probabilities are coupled with its draws (`aded.sampling.coupling`).

The paper stores suffix trees. Here other structures give the same counts: the text of the request (and, with ``keep``, of the
session's earlier decodes) is scanned once per step, which takes 0.1 ms for 100,000 tokens. The corpus, which takes the place of
earlier requests' outputs, is a suffix array (`aded.retrieval.suffix_array`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.core.compilation.jit import njit
from aded.core.inspection import Explanation
from aded.core.limits import Limits, check_numbers
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Inspectable, Outcome, Persistent, StateDict
from aded.drafters.coupled import CoupledDrafter
from aded.retrieval.continuation_trie import ContinuationTrie
from aded.retrieval.suffix_array import Datastore

if TYPE_CHECKING:
    import torch

LIMITS: Limits = {"max_suffix": (1, 64), "draft_length": (1, 64), "factor": (0.1, 64.0), "min_probability": (0.0, 1.0)}
MAX_OCCURRENCES = 512
"""Maximum number of occurrences counted per suffix: in the text the latest ones, in the corpus an evenly spaced subset."""
INITIAL_SUFFIX_EXPONENT = 0.2
"""Of the coupling; lower than for other methods, as the counts of a long suffix are few. Replaying 16 sampled answers of the
bundled model (temperature 0.7 and 1, 16 nodes), 0.15 and 0.3 drafted slightly better than no coupling, and 0.6 worse."""
MAX_KEPT = 1 << 16
"""Maximum number of tokens of earlier decodes that a session keeps."""
SEPARATOR = -1
"""Marks the boundary between two texts."""
NO_MATCH = "no suffix of the text occurs anywhere else: plain step"

Match = tuple[int, np.ndarray, np.ndarray]
"""The length of a matching suffix, the tokens of the source, and the positions there where its continuations begin."""


def check_settings(**settings: float) -> None:
    """Check the settings.

    Raises:
        AdedError: a value is out of range.
    """
    check_numbers(LIMITS, settings)


class SuffixDrafter(CoupledDrafter, Inspectable, Persistent):
    """Drafts the tree with the highest expected number of accepted tokens over all suffixes and sources.

    Args:
        vocab_size: size of the target's vocabulary.
        corpus: texts that the model wrote earlier, shared and read-only; None: no corpus.
        max_suffix: maximum length of a suffix.
        draft_length: maximum length of a continuation.
        factor: maximum number of nodes below the root per token of the suffix.
        min_probability: minimum probability of a node.
        keep: also use the texts of the session's earlier decodes.
        coupling: if the target samples, draft the tokens that it will draw.

    Raises:
        AdedError: a value is out of range.
    """

    initial_exponent = INITIAL_SUFFIX_EXPONENT

    def __init__(
        self,
        vocab_size: int,
        corpus: Datastore | None = None,
        max_suffix: int = 32,
        draft_length: int = 24,
        factor: float = 32.0,
        min_probability: float = 0.01,
        keep: bool = False,
        coupling: bool = True,
    ) -> None:
        super().__init__(coupling)
        check_settings(max_suffix=max_suffix, draft_length=draft_length, factor=factor, min_probability=min_probability)
        self.max_suffix, self.draft_length, self.factor, self.min_probability, self.keep = (
            max_suffix,
            draft_length,
            factor,
            min_probability,
            keep,
        )
        self._corpus = corpus
        self._trie = ContinuationTrie(
            1 + MAX_OCCURRENCES * draft_length, draft_length, vocab_size, corpus.separator if corpus else SEPARATOR
        )
        self._text = np.zeros(1024, dtype=np.int32)  # kept earlier decodes, then this one; SEPARATOR before each new one
        self._begin = self._length = 0  # where the text of this decode begins and ends in _text
        self._explanation = ""
        self.start([0, 0, 0])
        self.propose(Context(self._text[:3], 3), 2)  # JIT-compile now
        self._begin = self._length = 0

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._append([SEPARATOR])
        kept = min(self._length, MAX_KEPT) if self.keep else 0
        self._text[:kept] = self._text[self._length - kept : self._length].copy()
        self._begin = self._length = kept
        self._append(prompt)

    def propose(self, context: Context, budget: int) -> DraftTree:
        best, score, coupling = DraftTree.root_only(context.root), 0.0, self._coupled(context)
        if budget == 1:
            return best
        for source, matches in self._sources():
            for length, text, positions in matches:
                self._trie.clear()
                self._trie.count(text, positions)
                allowed = min(budget, 1 + int(self.factor * length))
                nodes, expected = self._trie.best(allowed, self.min_probability, coupling)
                if expected > score:
                    best, score = self._trie.tree(context.root, nodes), expected
                    self._explanation = f"the tree of the last {length} tokens in {source}: {expected:.2f} tokens expected"
        return best

    def observe(self, outcome: Outcome) -> None:
        self._learn_exponent(outcome)
        self._append(outcome.emitted)

    def explain(self, context: Context, budget: int) -> Explanation:
        tree = self.propose(context, budget)
        return Explanation(self._explanation if tree.drafted else NO_MATCH if budget > 1 else None)

    def state_dict(self) -> StateDict:
        return {"text": self._text[: self._length].copy()}

    def load_state_dict(self, state: StateDict) -> None:
        self._append(state["text"])

    def settings(self) -> dict[str, object]:
        names = ("max_suffix", "draft_length", "factor", "min_probability", "keep", "coupling")
        return {**{name: getattr(self, name) for name in names}, "corpus_tokens": len(self._corpus) if self._corpus else 0}

    def _append(self, tokens: Sequence[int] | np.ndarray) -> None:
        end = self._length + len(tokens)
        if end > len(self._text):
            self._text = np.concatenate([self._text, np.zeros(max(end, len(self._text)), dtype=np.int32)])
        self._text[self._length : end] = tokens
        self._length = end

    def _sources(self) -> Iterator[tuple[str, Iterator[Match]]]:
        yield "this text", self._in_text(self._begin, self._length)
        if self._begin:
            yield "earlier texts", self._in_text(0, self._begin)
        if self._corpus is not None:
            yield "the corpus", self._in_corpus(self._corpus)

    def _in_text(self, begin: int, end: int) -> Iterator[Match]:
        """Matches in ``text[begin:end]``; of suffixes with the same occurrences, only the longest."""
        suffix = self._text[max(self._begin, self._length - self.max_suffix) : self._length]
        positions, lengths = _occurrences(self._text[begin:end], suffix)
        for length in np.unique(lengths).tolist():
            yield length, self._text[begin:end], positions[lengths >= length][:MAX_OCCURRENCES]

    def _in_corpus(self, corpus: Datastore) -> Iterator[Match]:
        """Matches in the corpus; of suffixes with the same occurrences, only the longest."""
        matches = corpus.matches(self._text[max(self._begin, self._length - self.max_suffix) : self._length])
        for match, longer in zip(matches, [*matches[1:], None]):
            length, low, high = match
            if longer is None or longer[2] - longer[1] < high - low:
                yield length, corpus.tokens, corpus.positions(low, high, length, MAX_OCCURRENCES)


@njit(cache=True)
def _occurrences(text, suffix):
    """All occurrences in ``text`` of the last token of ``suffix`` that have a continuation, latest first.

    Returns:
        Positions where the continuations begin, and how many tokens before each equal the last ones of ``suffix``, int64 ``[k]``.
    """
    positions, lengths = np.empty(len(text), np.int64), np.empty(len(text), np.int64)
    count = 0
    last = suffix[-1]
    for position in range(len(text) - 1, 0, -1):
        if text[position - 1] != last:
            continue
        length = 1
        while length < min(len(suffix), position) and text[position - 1 - length] == suffix[len(suffix) - 1 - length]:
            length += 1
        positions[count], lengths[count] = position, length
        count += 1
    return positions[:count], lengths[:count]

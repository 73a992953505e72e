"""What ADED has learned from each request of a batch, for a server that does not say which request is in which row.

A session is found by its text: it belongs to a request if its text is the beginning of the request's. So it does not matter
whether requests move to other rows, pause, or skip steps. A session of a request that has ended serves another one that continues
its text, such as the next turn of a conversation; what was learned from a text does not depend on who wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aded.core.errors import AdedError
from aded.ngram.session_counts import ORDERS, ROWS, SessionCounts
from aded.ngram.tree_search import MAX_CONTEXT, Limits, Source, greedy
from aded.ngram.trigram import TrigramMatrix

MIN_ROWS = 1 << 10
"""Minimum rows of a session, enough for the contexts of 200 tokens."""


class RequestSession:
    """The text of a request, and the session counts of its last tokens.

    Args:
        base: the base counts, shared and read-only.
        rows: capacity of the session counts in rows.
    """

    def __init__(self, base: TrigramMatrix, rows: int) -> None:
        self._counts = SessionCounts(rows=rows, top_k=1)
        self._source = Source(base, self._counts)
        self._counted = rows // len(ORDERS)  # tokens whose contexts fit
        self._text = np.zeros(256, dtype=np.int32)
        self._length = 0

    def __len__(self) -> int:
        """Number of tokens read."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Size of the session counts in bytes."""
        return self._counts.nbytes

    def clear(self) -> None:
        """Forget the text and what was learned from it."""
        self._counts.clear()
        self._length = 0

    def begins(self, text: np.ndarray) -> bool:
        """Whether what was read is the beginning of ``text``, int32 ``[length]``, or all of it."""
        n = self._length
        return n <= len(text) and (n == 0 or self._text[n - 1] == text[n - 1]) and np.array_equal(self._text[:n], text[:n])

    def read(self, text: np.ndarray) -> None:
        """Learn the tokens of ``text`` after those already read.

        Args:
            text: token ids within the vocabulary, int32 ``[length]``; it begins with what was read.
        """
        start = max(self._length, len(text) - self._counted)
        first = max(0, start - MAX_CONTEXT)
        self._counts.learn(self._source.matrix, np.ascontiguousarray(text[first:]), start - first)
        if len(text) > len(self._text):
            self._text = np.concatenate([self._text[: self._length], np.zeros(2 * len(text) - self._length, dtype=np.int32)])
        self._text[self._length : len(text)] = text[self._length :]
        self._length = len(text)

    def draft(self, length: int, min_probability: float) -> list[int]:
        """The chain of most probable successors after the text.

        When recorded outputs were replayed, the chain with the highest expected number of accepted tokens, by the estimated
        probabilities, was accepted less often than this one.

        Args:
            length: maximum number of tokens, at least 1.
            min_probability: the chain ends before a token of lower cumulative probability.
        """
        context = self._text[max(0, self._length - MAX_CONTEXT) : self._length]
        chain = greedy(self._source, context, Limits(1 + length, length, 1))
        return chain.tokens[chain.columns["value"] >= min_probability][1:].tolist()


class RequestSessions:
    """The sessions of the requests that were in the batch most recently.

    Args:
        base: the base counts.
        number: maximum number of sessions, at least that of the requests in a batch.
        length: maximum length of a text.
        memory: maximum size of all session counts in bytes; the texts need 4 to 8 bytes per token in addition.

    Raises:
        AdedError: the memory is too small for so many sessions.
    """

    def __init__(self, base: TrigramMatrix, number: int, length: int, memory: int) -> None:
        self._base, self._number = base, number
        smallest = SessionCounts(rows=MIN_ROWS, top_k=1).nbytes
        if memory < number * smallest:
            least = -(-number * smallest // (1 << 20))
            raise AdedError(f"{memory >> 20} MB are too few for the sessions of {number} requests; give {least} or more")
        self._rows = MIN_ROWS
        while self._rows < min(ROWS, len(ORDERS) * length) and memory >= number * smallest * 2 * self._rows // MIN_ROWS:
            self._rows *= 2
        self._by_row: dict[int, RequestSession] = {}
        self._recent: list[RequestSession] = []  # the least recent one first

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def nbytes(self) -> int:
        """Size of all session counts in bytes."""
        return sum(session.nbytes for session in self._recent)

    def read(self, texts: Mapping[int, np.ndarray]) -> dict[int, RequestSession]:
        """The session of each request, after it has read the request's text.

        Args:
            texts: the text of the request in each row of the batch, token ids within the vocabulary, int32 ``[length]``.
        """
        found = {row: self._by_row[row] for row, text in texts.items() if row in self._by_row and self._by_row[row].begins(text)}
        used = set(found.values())
        others = [session for session in self._recent if session not in used]
        for row in [row for row in texts if row not in found]:
            if matching := [session for session in others if session.begins(texts[row])]:
                found[row] = max(matching, key=len)
                others.remove(found[row])
        for row in [row for row in texts if row not in found]:
            found[row] = self._unused(others, len(found))
        for row, session in found.items():
            session.read(texts[row])
        self._by_row, self._recent = found, [*others, *found.values()]
        return found

    def _unused(self, others: list[RequestSession], in_use: int) -> RequestSession:
        """A session that has read nothing: a new one or, if there are enough, the least recent one of ``others``."""
        if not others or len(others) + in_use < self._number:
            return RequestSession(self._base, self._rows)
        session = others.pop(0)
        session.clear()
        return session

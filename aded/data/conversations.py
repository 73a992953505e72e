"""Conversations that a model wrote: kept in files, freed of repeated questions, joined to one text. Knows no model."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aded.core.errors import AdedError

BARREN_WAVES = 3
"""Waves of conversations in a row that bring nothing new before a model is given up."""
SAMPLED = 1 << 23
"""n-grams that `Collection.distinct` holds at once, about."""


@dataclass(frozen=True, eq=False)
class Conversation:
    """A question and its answer.

    Attributes:
        tokens: all token ids, int32: the template's own, the question, the answer with the token that ends it if it was not cut.
        question: where the question begins; ``answer``: where the answer begins.
    """

    tokens: np.ndarray
    question: int
    answer: int

    @property
    def question_key(self) -> bytes:
        """Equal for equal questions."""
        return self.tokens[self.question : self.answer].tobytes()


def pack(conversations: Sequence[Conversation]) -> bytes:
    """A ``.npz`` file that `unpack` reads."""
    file = io.BytesIO()
    ids = np.concatenate([np.zeros(0, np.int32), *(one.tokens for one in conversations)])
    places = np.array([(len(one.tokens), one.question, one.answer) for one in conversations], dtype=np.int64).reshape(-1, 3)
    np.savez(file, ids=ids, places=places)
    return file.getvalue()


def unpack(path: Path) -> list[Conversation]:
    """The conversations of a file.

    Raises:
        AdedError: it is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            ids, places = file["ids"], file["places"]
            parts = np.split(ids, np.cumsum(places[:, 0])[:-1]) if len(places) else []
            if int(places[:, 0].sum()) != len(ids):
                raise ValueError
    except (OSError, ValueError, EOFError, KeyError, IndexError, zipfile.BadZipFile):
        raise AdedError(f"{path} is damaged; start the build anew with --restart") from None
    return [Conversation(part, int(question), int(answer)) for part, (_, question, answer) in zip(parts, places)]


class Collection:
    """Conversations in the order of writing, up to a number of tokens; a repeated question is dropped with its answer.

    Attributes:
        tokens: how many there are, separators included; ``limit``: where to stop (the conversation that reaches it is the last).
        conversations, duplicates: how many were kept and dropped.
    """

    def __init__(self, limit: int, separator: int, vocab_size: int) -> None:
        self.limit, self.separator = limit, separator
        self.tokens = self.conversations = self.duplicates = 0
        self._dtype = np.uint16 if vocab_size <= 1 << 16 else np.uint32
        self._parts: list[np.ndarray] = []
        self._answers: list[int] = []
        self._asked: set[bytes] = set()

    @property
    def full(self) -> bool:
        return self.tokens >= self.limit

    def add(self, wave: Sequence[Conversation]) -> None:
        """Take a wave's conversations in, as far as there is room."""
        for one in wave:
            if self.full:
                return
            if one.question_key in self._asked:
                self.duplicates += 1
                continue
            self._asked.add(one.question_key)
            part = np.append(one.tokens, self.separator).astype(self._dtype)
            self._parts.append(part)
            self._answers.append(one.answer)
            self.tokens += len(part)
            self.conversations += 1

    def text(self) -> np.ndarray:
        """All conversations, each followed by the separator: uint16 ``[tokens]``, uint32 for a larger vocabulary."""
        return np.concatenate([np.zeros(0, self._dtype), *self._parts])

    def distinct(self, n: int = 4) -> float:
        """The share of distinct ones among the answers' n-grams (distinct-n, arXiv 1510.03055); 0 where there are none.

        Of a large collection a sample by hash is counted, which leaves the share as it is on average.
        """
        hashes = [_hashes(part[start:-1], n) for part, start in zip(self._parts, self._answers)]
        sampling = np.uint64(1 + self.tokens // SAMPLED)
        counted = np.concatenate([np.zeros(0, np.uint64), *(h[(h >> np.uint64(32)) % sampling == 0] for h in hashes)])
        return len(np.unique(counted)) / len(counted) if len(counted) else 0.0


def _hashes(ids: np.ndarray, n: int) -> np.ndarray:
    """64-bit hashes of a text's n-grams, uint64 ``[len(ids) - n + 1]`` (a polynomial, then mixed as by MurmurHash3)."""
    ids, count = ids.astype(np.uint64), max(0, len(ids) - n + 1)
    found = np.zeros(count, dtype=np.uint64)
    for i in range(n):
        found = found * np.uint64(0x9E3779B97F4A7C15) + ids[i : i + count]
    for _ in range(2):
        found = (found ^ (found >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return found ^ (found >> np.uint64(33))


def nothing_new(conversations: int) -> AdedError:
    """What to raise where a model repeats itself."""
    return AdedError(
        f"after {conversations} conversations the model asks no new questions; ask for fewer tokens, or give texts instead"
    )


def answered(ids: np.ndarray, opening: Sequence[int], closing: Sequence[int], separator: int) -> np.ndarray:
    """Which tokens are an answer's, bool ``[n]``.

    Args:
        ids: flat text, int ``[n]``.
        opening, closing: what a chat template puts before and behind a question; an answer goes on to the next opening.
        separator: ends an answer too.
    """
    change = np.zeros(len(ids) + 1, dtype=np.int8)  # 1: an answer begins here, -1: none goes on
    change[:-1][ids == separator] = -1
    change[_found(ids, opening)] = -1
    change[_found(ids, closing) + len(closing)] = 1
    last = np.maximum.accumulate(np.where(change != 0, np.arange(len(change)), 0))
    return (change[last] == 1)[:-1]


def _found(ids: np.ndarray, sequence: Sequence[int]) -> np.ndarray:
    """Where a token sequence begins, int64 ``[k]``."""
    places = np.flatnonzero(ids[: max(len(ids) - len(sequence) + 1, 0)] == sequence[0])
    for offset, token in enumerate(sequence):
        places = places[ids[places + offset] == token]
    return places

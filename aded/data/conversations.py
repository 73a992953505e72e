"""Self-generated conversations: files, removal of repeated questions, joining into one text. Does not use the model."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aded.core.errors import AdedError
from aded.data.records import Record

MAX_REPEATED_BATCHES = 3
"""Consecutive batches without a new question after which generation stops with an error."""
SAMPLED = 1 << 23
"""Approximate number of n-grams that `Collection.distinct` keeps in memory."""


@dataclass(frozen=True, eq=False)
class Conversation:
    """A question and its answer.

    Attributes:
        tokens: all token ids, int32 ``[length]``: chat template, question, answer, and the end token unless the answer was cut.
        question, answer: index of the first token of the question and of the answer.
    """

    tokens: np.ndarray
    question: int
    answer: int

    @property
    def question_key(self) -> bytes:
        """A key that is equal for equal questions."""
        return self.tokens[self.question : self.answer].tobytes()


def pack(conversations: Sequence[Conversation]) -> bytes:
    """A ``.npz`` file that `unpack` reads."""
    file = io.BytesIO()
    ids = np.concatenate([np.zeros(0, np.int32), *(one.tokens for one in conversations)])
    spans = np.array([(len(one.tokens), one.question, one.answer) for one in conversations], dtype=np.int64).reshape(-1, 3)
    np.savez(file, ids=ids, places=spans)
    return file.getvalue()


def unpack(path: Path) -> list[Conversation]:
    """The conversations of a file.

    Raises:
        AdedError: the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            ids, spans = file["ids"], file["places"]
            token_ids = np.split(ids, np.cumsum(spans[:, 0])[:-1]) if len(spans) else []
            if int(spans[:, 0].sum()) != len(ids):
                raise ValueError
    except (OSError, ValueError, EOFError, KeyError, IndexError, zipfile.BadZipFile):
        raise AdedError(f"{path} is damaged; add --restart to build from scratch") from None
    return [Conversation(tokens, int(question), int(answer)) for tokens, (_, question, answer) in zip(token_ids, spans)]


class Collection:
    """Conversations in generation order, up to a number of tokens; repeated questions are dropped with their answers.

    Attributes:
        tokens: number of tokens, separators included.
        limit: the conversation that reaches this number of tokens is the last.
        conversations, duplicates: number of conversations kept and dropped.
    """

    def __init__(self, limit: int, separator: int, vocab_size: int) -> None:
        self.limit, self.separator = limit, separator
        self.tokens = self.conversations = self.duplicates = 0
        self._dtype = np.uint16 if vocab_size <= 1 << 16 else np.uint32
        self._conversations: list[np.ndarray] = []
        self._answer_starts: list[int] = []
        self._seen_questions: set[bytes] = set()

    @property
    def full(self) -> bool:
        return self.tokens >= self.limit

    def add(self, batch: Sequence[Conversation]) -> None:
        """Add the conversations of a batch until the collection is full."""
        for one in batch:
            if self.full:
                return
            if one.question_key in self._seen_questions:
                self.duplicates += 1
                continue
            self._seen_questions.add(one.question_key)
            ids = np.append(one.tokens, self.separator).astype(self._dtype)
            self._conversations.append(ids)
            self._answer_starts.append(one.answer)
            self.tokens += len(ids)
            self.conversations += 1

    def text(self, conversations: int | None = None) -> np.ndarray:
        """The first conversations (None: all), each followed by the separator: uint16 ``[n]``, uint32 for a larger vocabulary."""
        return np.concatenate([np.zeros(0, self._dtype), *self._conversations[:conversations]])

    def records(self, first: int) -> list[Record]:
        """The conversations from number ``first`` on as recorded decodes, each with the answer as its output."""
        spans = list(zip(self._conversations, self._answer_starts))[first:]
        return [Record(ids[:start].astype(np.int32), ids[start:-1].astype(np.int32)) for ids, start in spans]

    def distinct(self, n: int = 4) -> float:
        """Distinct-n of the answers (arXiv 1510.03055): distinct n-grams divided by all n-grams; 0 if there are none.

        In a large collection only a sample of the n-grams, chosen by hash, is counted; the expected value is the same.
        """
        hashes = [_hashes(ids[start:-1], n) for ids, start in zip(self._conversations, self._answer_starts)]
        sampling = np.uint64(1 + self.tokens // SAMPLED)
        counted = np.concatenate([np.zeros(0, np.uint64), *(h[(h >> np.uint64(32)) % sampling == 0] for h in hashes)])
        return len(np.unique(counted)) / len(counted) if len(counted) else 0.0


def _hashes(ids: np.ndarray, n: int) -> np.ndarray:
    """64-bit hashes of the n-grams, uint64 ``[len(ids) - n + 1]``: a polynomial hash with the finalizer of MurmurHash3."""
    ids, count = ids.astype(np.uint64), max(0, len(ids) - n + 1)
    found = np.zeros(count, dtype=np.uint64)
    for i in range(n):
        found = found * np.uint64(0x9E3779B97F4A7C15) + ids[i : i + count]
    for _ in range(2):
        found = (found ^ (found >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return found ^ (found >> np.uint64(33))


def repetition_error(conversations: int) -> AdedError:
    """The error for a model that only repeats earlier questions."""
    return AdedError(
        f"after {conversations} conversations the model asks no new questions; ask for fewer tokens, or give texts instead"
    )


def answered(ids: np.ndarray, opening: Sequence[int], closing: Sequence[int], separator: int) -> np.ndarray:
    """Which tokens belong to an answer, bool ``[n]``.

    Args:
        ids: flat text, int ``[n]``.
        opening, closing: the chat template's token ids before and after a question; an answer ends at the next opening.
        separator: the id between conversations; it ends an answer too.
    """
    change = np.zeros(len(ids) + 1, dtype=np.int8)  # 1: an answer starts here, -1: it ends
    change[:-1][ids == separator] = -1
    change[_find(ids, opening)] = -1
    change[_find(ids, closing) + len(closing)] = 1
    last = np.maximum.accumulate(np.where(change != 0, np.arange(len(change)), 0))
    return (change[last] == 1)[:-1]


def _find(ids: np.ndarray, sequence: Sequence[int]) -> np.ndarray:
    """Start indices of a token sequence in ``ids``, int64 ``[k]``."""
    starts = np.flatnonzero(ids[: max(len(ids) - len(sequence) + 1, 0)] == sequence[0])
    for offset, token in enumerate(sequence):
        starts = starts[ids[starts + offset] == token]
    return starts

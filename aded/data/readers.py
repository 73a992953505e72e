"""Sources of texts to count, read piece by piece: files of token ids, text files, data sets.

A source is split the same way every time, so that an interrupted build can resume. Pieces can be tokenized in other processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from aded.core.errors import AdedError, check_text, first_line
from aded.data import corpus
from aded.engine.loading import weights


class Piece(Protocol):
    """A section of a source; can be pickled."""

    @property
    def share(self) -> float | None:
        """Share of the source up to the end of this piece, 0 to 1; None if unknown."""

    def tokens(self, tokenizer: Any, separator: int) -> np.ndarray:
        """The token ids of the piece, any integer type ``[length]``."""


class Source(Protocol):
    """A text that is read in pieces.

    Attributes:
        identity: the parameters that select the source, JSON values.
        inputs: the state of the files that the pieces are read from, JSON values.
        tokenized: whether the pieces are token ids in files of this machine, so that other processes cannot save time.
    """

    identity: dict[str, Any]
    inputs: list[Any]
    tokenized: bool

    def pieces(self, size: int) -> Iterator[Piece]:
        """The pieces in order, of about ``size`` tokens or fewer."""


@dataclass(frozen=True)
class TokenPiece:
    """Token ids ``start`` to ``end - 1`` of a ``.npy`` file."""

    path: str
    start: int
    end: int
    share: float | None

    def tokens(self, tokenizer: Any, separator: int) -> np.ndarray:
        return np.array(corpus.open_tokens(self.path)[self.start : self.end])


class TokenFile:
    """A flat array of token ids in a ``.npy`` file; raises ``AdedError`` if the file is missing or damaged."""

    tokenized = True

    def __init__(self, path: str) -> None:
        self.path, self.length = str(Path(path).resolve()), len(corpus.open_tokens(path))
        self.identity, self.inputs = {"tokens": self.path}, [stamp(path)]

    def pieces(self, size: int) -> Iterator[Piece]:
        for start in range(0, self.length, size):
            end = min(start + size, self.length)
            yield TokenPiece(self.path, start, end, end / self.length)


@dataclass(frozen=True)
class TextPiece:
    """Texts or blocks of texts, each with whether the text ends there; the separator follows each end of a text."""

    texts: list[tuple[str, bool]]
    share: float | None

    def tokens(self, tokenizer: Any, separator: int) -> np.ndarray:
        ids: list[int] = []
        for text, ends in self.texts:
            ids += tokenizer(text, add_special_tokens=False)["input_ids"]
            ids += [separator] if ends else []
        return np.array(ids, dtype=np.int64)


class TextFiles:
    """Plain text and JSON Lines files; raises ``AdedError`` if one is missing."""

    tokenized = False

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self.identity = {"text": [str(Path(path).resolve()) for path in paths]}
        self.inputs = [stamp(path) for path in paths]

    def pieces(self, size: int) -> Iterator[Piece]:
        sizes = [Path(path).stat().st_size for path in self.paths]
        done = 0
        for path, length in zip(self.paths, sizes):
            texts = corpus.stream_texts(path, size)
            yield from _grouped(texts, size, done / max(sum(sizes), 1), 1 / max(sum(sizes), 1))
            done += length


class DatasetStream:
    """A split of a data set, streamed row by row with the ``datasets`` library."""

    tokenized = False

    def __init__(self, name: str, config: str | None, split: str, field: str) -> None:
        self.name, self.config, self.split, self.field = name, config, split, field
        self.identity, self.inputs = {"dataset": [name, config, split, field]}, stamps(name)

    def pieces(self, size: int) -> Iterator[Piece]:
        return _grouped(((text, True) for text in self._texts()), size)

    def _texts(self) -> Iterator[str]:
        for number, row in enumerate(self._rows()):
            value = row.get(self.field)
            texts: list[Any] = value if isinstance(value, list) else [value]
            if not all(isinstance(text, str) for text in texts):
                raise AdedError(
                    f"row {number} of {self.name} has no text in '{self.field}'; its fields are {', '.join(row)}: choose one "
                    "with --dataset-field"
                )
            for text in texts:
                check_text(text, f"row {number} of {self.name}")
            yield from texts

    def _rows(self) -> Iterator[dict[str, Any]]:
        try:
            from datasets import load_dataset
        except ImportError:
            raise AdedError("--dataset needs the library datasets; install it with `pip install datasets`") from None
        try:
            yield from load_dataset(self.name, self.config, split=self.split, streaming=True)
        except Exception as error:  # hosts and file formats raise different exceptions
            raise AdedError(
                f"cannot read the data set {self.name} ({first_line(error)[:200]}); check its id, --dataset-config and "
                "--dataset-split"
            ) from None


def stamp(path: str) -> list[Any]:
    """Path, size in bytes and modification time in ns of a file, to detect that it changed.

    Raises:
        AdedError: the file is missing.
    """
    try:
        status = Path(path).stat()
    except OSError as error:
        raise AdedError(f"cannot read {path}: {error.strerror}; give the path of a file") from None
    return [str(Path(path).resolve()), status.st_size, status.st_mtime_ns]


def stamps(name: str) -> list[Any]:
    """The `stamp` of each of `model_files`."""
    return [stamp(file) for file in model_files(name)]


def model_files(name: str) -> list[str]:
    """A file, or all files below a folder; empty for any other name, such as one on the Hugging Face Hub."""
    path = Path(local_spec(name))
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return [str(file) for file in files]


def local_spec(name: str) -> str:
    """The absolute path of a file or folder; any other name as it is."""
    path = Path(os.path.expanduser(name))
    return str(path.resolve()) if path.exists() and not weights.is_default(name) else name


def _grouped(texts: Iterable[tuple[str, bool]], size: int, done: float = 0.0, share: float | None = None) -> Iterator[TextPiece]:
    """Pieces of about ``size`` characters.

    Args:
        done: share of the source before these texts.
        share: share of one byte of the source; None if unknown.
    """
    buffer: list[tuple[str, bool]] = []
    characters = 0
    for text, ends in texts:
        buffer.append((text, ends))
        characters += len(text)
        if characters >= size:
            done += (share or 0) * characters
            yield TextPiece(buffer, min(done, 1.0) if share else None)
            buffer, characters = [], 0
    if buffer:
        yield TextPiece(buffer, min(done + share * characters, 1.0) if share else None)

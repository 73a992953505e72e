"""Loads the base matrix and the datastore of a model: a given file, or else one for its tokenizer. Each is loaded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aded.core.errors import OtherModelError
from aded.core.paths import artifacts

if TYPE_CHECKING:
    from aded.ngram.trigram import TrigramMatrix
    from aded.retrieval.suffix_array import Datastore

T = TypeVar("T")


class Tokenized(Protocol):
    """What finding artifacts needs of a model; `aded.core.paths.artifacts` also reads its ``label``, if it has one.

    Attributes:
        fingerprint: of the tokenizer (`aded.engine.loading.tokenizer`).
        vocab_size: upper bound of the token ids, exclusive.
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...


def _load(kind: str, load: Callable[[str, str, int], T], model: Tokenized, path: str | None) -> T | None:
    """The file at ``path``, or else the first artifact of this kind that is for the model's tokenizer."""
    file = _find(kind, load, model) if path is None else path
    return None if file is None else load(str(file), model.fingerprint, model.vocab_size)


def _find(kind: str, load: Callable[[str, str, int], Any], model: Tokenized) -> Path | None:
    """The first artifact of this kind that is for the model's tokenizer."""
    for file in artifacts(kind, model):
        try:
            load(str(file), model.fingerprint, model.vocab_size)
        except OtherModelError:
            continue
        return file
    return None


def find_matrix(model: Tokenized) -> Path | None:
    """The file that ``matrix_for`` loads without a path; raises ``AdedError`` as it does."""
    return _find("trigram", _load_matrix, model)


def find_datastore(model: Tokenized) -> Path | None:
    """The file that ``datastore_for`` loads without a path; raises ``AdedError`` as it does."""
    return _find("datastore", _load_datastore, model)


def matrix_for(model: Tokenized, path: str | None = None) -> TrigramMatrix | None:
    """The base matrix of a model: the file at ``path``, or else the user's or the bundled one for its tokenizer, or None.

    Raises:
        AdedError: ``path`` is missing, damaged or for another tokenizer, or a file found without ``path`` is damaged.
    """
    return _load("trigram", _load_matrix, model, path)


@lru_cache(maxsize=4)
def _load_matrix(path: str, fingerprint: str, vocab_size: int) -> TrigramMatrix:
    """Read-only and shared by all decodes."""
    from aded.ngram.trigram import TrigramMatrix

    return TrigramMatrix.load(path, fingerprint=fingerprint, vocab_size=vocab_size)


def datastore_for(model: Tokenized, path: str | None = None) -> Datastore | None:
    """The datastore of a model: the file at ``path``, or else the user's or the bundled one for its tokenizer, or None.

    Raises:
        AdedError: ``path`` is missing, damaged or for another tokenizer, or a file found without ``path`` is damaged.
    """
    return _load("datastore", _load_datastore, model, path)


@lru_cache(maxsize=4)
def _load_datastore(path: str, fingerprint: str, vocab_size: int) -> Datastore:
    """Memory-mapped and shared by all decodes."""
    from aded.retrieval.suffix_array import Datastore

    return Datastore.load(path, fingerprint=fingerprint, vocab_size=vocab_size)


def base_counts_for(model: Tokenized, path: str | None = None) -> TrigramMatrix | None:
    """The base matrix of a model (see ``matrix_for``), with the 4-grams and 5-grams of its datastore if there is one.

    Raises:
        AdedError: see ``matrix_for``; or the datastore is damaged.
    """
    matrix, datastore = matrix_for(model, path), datastore_for(model)
    return matrix if matrix is None or datastore is None else _with_higher_orders(matrix, datastore)


@lru_cache(maxsize=4)
def _with_higher_orders(matrix: TrigramMatrix, datastore: Datastore) -> TrigramMatrix:
    from aded.ngram.higher_orders import counts_of

    return replace(
        matrix,
        higher_orders=counts_of(datastore.tokens, datastore.suffixes, datastore.separator, datastore.vocab_size),
    )

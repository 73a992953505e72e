"""REST's datastore (arXiv 2311.08252): a corpus of token ids and its suffix array, in one memory-mapped file.

The suffix array holds the start positions of all suffixes of the corpus in lexicographic order. All occurrences of a context
are a range of it, found by binary search. It is built by libdivsufsort. Of the tokenizer, this module knows only a fingerprint.

The content of a mapped file is not checked at loading. Invalid positions and token ids are ignored when a draft is made (see
`aded.retrieval.continuation_trie`), so a damaged file can only make drafts worse.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aded.core import tensor_file
from aded.core.compilation.jit import njit
from aded.core.errors import MODEL_PLACEHOLDER, AdedError, OtherModelError, first_line
from aded.core.paths import in_cache
from aded.core.trace import write_atomically

FORMAT = "aded-datastore"
VERSION = 1
MAX_TOKENS = 2**31 - 1
SUFFIX = ".datastore.safetensors"
COMMAND = f"python -m aded datastore build --model {MODEL_PLACEHOLDER} --text FILE"
REMEDY = f"build one for this model with `{COMMAND}`"


@dataclass(frozen=True, eq=False)
class Datastore:
    """A corpus and its suffix array.

    Attributes:
        tokens: token ids, uint16 or uint32 ``[tokens]``, each sequence ended by ``separator``.
        suffixes: start position of each suffix, in lexicographic order, int32 ``[tokens]``.
        separator: the token id that ends a sequence.
        vocab_size: upper bound of the token ids, exclusive.
        fingerprint: fingerprint of the tokenizer.
    """

    tokens: np.ndarray
    suffixes: np.ndarray
    separator: int
    vocab_size: int
    fingerprint: str

    @classmethod
    def build(cls, ids: np.ndarray, *, separator: int, vocab_size: int, fingerprint: str) -> Datastore:
        """Sort the suffixes of a corpus (about 0.1 s per million tokens).

        Args:
            ids: token ids, any integer type ``[tokens]``.
            separator: the token id that ends a sequence.
            vocab_size: upper bound of the token ids, exclusive.
            fingerprint: fingerprint of the tokenizer (`aded.engine.loading.tokenizer.tokenizer_fingerprint`).

        Raises:
            AdedError: no tokens, too many, or a token id outside the vocabulary.
        """
        from pydivsufsort import divsufsort

        ids = np.asarray(ids)
        if ids.ndim != 1 or not len(ids) or ids.min() < 0 or ids.max() >= vocab_size:
            raise AdedError(f"the corpus must hold token ids from 0 to {vocab_size - 1}; tokenize it with this model's tokenizer")
        if len(ids) > MAX_TOKENS:
            raise AdedError(f"a datastore holds at most {MAX_TOKENS} tokens, the corpus has {len(ids)}; use a smaller corpus")
        tokens = ids.astype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
        return cls(tokens, divsufsort(tokens).astype(np.int32), separator, vocab_size, fingerprint)

    def __len__(self) -> int:
        return len(self.tokens)

    def find(self, pattern: np.ndarray) -> tuple[int, int]:
        """The half-open range of suffixes that begin with ``pattern`` (token ids, int32 ``[length]``)."""
        return _find(self.tokens, self.suffixes, pattern)

    def matches(self, context: np.ndarray) -> list[tuple[int, int, int]]:
        """The suffixes of ``context`` (token ids, int32 ``[length]``) that occur in the corpus.

        Returns:
            For each, shortest first: its length, and start and end of the half-open range of corpus suffixes that begin
            with it.
        """
        found = _matches(self.tokens, self.suffixes, context)
        return [(length, int(low), int(high)) for length, (low, high) in enumerate(found, 1)]

    def positions(self, low: int, high: int, length: int, limit: int) -> np.ndarray:
        """Start positions of the continuations of a pattern, in suffix order, int64 ``[k]``.

        Args:
            low, high: the range of suffixes from `find` or `matches`.
            length: length of the pattern in tokens.
            limit: maximum number of positions; a longer range is sampled at even spacing.
        """
        rows = np.arange(low, high) if high - low <= limit else low + np.arange(limit) * (high - low) // limit
        return self.suffixes[rows].astype(np.int64) + length

    def summary(self) -> dict[str, Any]:
        """Metadata and sizes, as JSON values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "vocab_size": self.vocab_size,
            "separator": self.separator,
            "tokens": len(self),
            "sequences": int((self.tokens == self.separator).sum()),
        }

    def save(self, path: str | os.PathLike[str], compact: bool = False) -> None:
        """Write a safetensors file atomically.

        Args:
            path: the file.
            compact: omit the suffix array, two thirds of the file; the first `load` sorts the suffixes again.

        Raises:
            AdedError: the file cannot be written.
        """
        names = ("separator", "vocab_size", "fingerprint")
        header = {"format": FORMAT, "version": str(VERSION)} | {name: str(getattr(self, name)) for name in names}
        arrays = {"tokens": self.tokens} | ({} if compact else {"suffixes": self.suffixes})
        write_atomically(Path(path), tensor_file.to_bytes(header, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, fingerprint: str | None = None, vocab_size: int | None = None) -> Datastore:
        """Memory-map a datastore.

        Args:
            path: the file.
            fingerprint, vocab_size: of the model's tokenizer; None skips the check.

        Raises:
            AdedError: the file is missing, damaged, of another version, or built for another tokenizer.
        """
        try:
            store = cls._map(path, fingerprint, vocab_size)
        except AdedError:
            raise
        except OSError as error:
            raise AdedError(f"cannot read the datastore {path}: {error.strerror}; {REMEDY}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise AdedError(f"damaged datastore {path}: {first_line(error)}; {REMEDY}") from None
        valid_dtypes = (store.tokens.dtype in (np.uint16, np.uint32), store.suffixes.dtype == np.int32)
        if not all(valid_dtypes) or store.tokens.ndim != 1 or store.tokens.shape != store.suffixes.shape or not len(store):
            raise AdedError(f"damaged datastore {path}: its arrays do not match in dtype or shape; {REMEDY}")
        return store

    @classmethod
    def _map(cls, path: str | os.PathLike[str], fingerprint: str | None, vocab_size: int | None) -> Datastore:
        file = tensor_file.read_header(path)
        header = file.metadata
        if header.get("format") != FORMAT:
            raise AdedError(f"{path} is not a datastore; {REMEDY}")
        if header.get("version") != str(VERSION):
            raise AdedError(f"{path} has version {header.get('version')!r}, this program reads {VERSION}; {REMEDY}")
        if fingerprint not in (None, header["fingerprint"]) or vocab_size not in (None, int(header["vocab_size"])):
            raise OtherModelError(f"{path} was built for another tokenizer; {REMEDY}")
        sizes = {name: int(header[name]) for name in ("separator", "vocab_size")}
        arrays = tensor_file.map_arrays(path, file)
        if arrays.keys() == {"tokens"}:
            return cls._with_suffixes(arrays["tokens"], fingerprint=header["fingerprint"], **sizes)
        return cls(arrays["tokens"], arrays["suffixes"], fingerprint=header["fingerprint"], **sizes)

    @classmethod
    def _with_suffixes(cls, tokens: np.ndarray, **header: Any) -> Datastore:
        """Complete a compact datastore: its suffixes are sorted once and kept in the cache folder."""
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        digest.update(tokens.tobytes())
        path = in_cache(f"datastores/{digest.hexdigest()[:16]}.safetensors")
        with suppress(AdedError):  # the cached file is missing or damaged
            cached = cls.load(path)
            if np.array_equal(cached.tokens, tokens):
                return cached
        store = cls.build(tokens, **header)
        with suppress(AdedError, OSError):  # without a writable cache, the next load sorts again
            path.parent.mkdir(parents=True, exist_ok=True)
            store.save(path)
        return store


@njit(cache=True)
def _compare(tokens, start, pattern):
    """Compare the suffix at ``start`` with ``pattern``: negative, positive, or 0 if it begins with it; -1 outside the corpus."""
    if start < 0:
        return -1
    for i in range(len(pattern)):
        if start + i >= len(tokens):
            return -1
        difference = np.int64(tokens[start + i]) - pattern[i]
        if difference != 0:
            return difference
    return 0


@njit(cache=True)
def _bound(tokens, suffixes, pattern, low, after):
    """Index of the first suffix from ``low`` that is not less than ``pattern``; with ``after``, also does not begin with it."""
    high = len(suffixes)
    while low < high:
        middle = (low + high) // 2
        order = _compare(tokens, np.int64(suffixes[middle]), pattern)
        if order < 0 or (after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _find(tokens, suffixes, pattern):
    low = _bound(tokens, suffixes, pattern, 0, False)
    return low, _bound(tokens, suffixes, pattern, low, True)


@njit(cache=True)
def _matches(tokens, suffixes, context):
    """Ranges of the suffixes of ``context``, int64 ``[k, 2]``: a longer one can occur only where the shorter ones do."""
    ranges = np.zeros((len(context), 2), dtype=np.int64)
    for length in range(1, len(context) + 1):
        low, high = _find(tokens, suffixes, context[len(context) - length :])
        if low == high:
            return ranges[: length - 1]
        ranges[length - 1, 0], ranges[length - 1, 1] = low, high
    return ranges

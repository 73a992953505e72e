"""REST's datastore (arXiv 2311.08252): a corpus as token ids, and its suffix array, in one file that is mapped, not read.

The suffix array lists where every suffix of the corpus begins, in the suffixes' order: all places where a context stands
are a range of it, found by binary search. It is built by libdivsufsort. Knows nothing about tokenizers but a fingerprint.

A mapped file is checked only where it is read: what a damaged one says is passed over (see
``aded.retrieval.continuation_trie``), so that
it can cost drafts but nothing else.
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
from aded.core.errors import ANY_MODEL, AdedError, ForeignError, first_line
from aded.core.jit import njit
from aded.core.paths import in_cache
from aded.core.trace import write_atomically

FORMAT = "aded-datastore"
VERSION = 1
MOST_TOKENS = 2**31 - 1
SUFFIX = ".datastore.safetensors"
COMMAND = f"python -m aded datastore build --model {ANY_MODEL} --text FILE"
REMEDY = f"build one for this model with `{COMMAND}`"


@dataclass(frozen=True, eq=False)
class Datastore:
    """A corpus and its suffix array.

    Attributes:
        tokens: token ids, uint16 or uint32 ``[tokens]``, each sequence ended by ``separator``.
        suffixes: where each suffix begins, in the order of the suffixes, int32 ``[tokens]``.
        separator: the id that ends a sequence.
        vocab_size: ids are below it.
        fingerprint: of the tokenizer that the ids belong to.
    """

    tokens: np.ndarray
    suffixes: np.ndarray
    separator: int
    vocab_size: int
    fingerprint: str

    @classmethod
    def build(cls, ids: np.ndarray, *, separator: int, vocab_size: int, fingerprint: str) -> Datastore:
        """Sort the suffixes of a corpus (about 0.1 s a million tokens).

        Args:
            ids: token ids, any integer type ``[tokens]``.
            separator: the id that ends a sequence.
            vocab_size: ids must be below it.
            fingerprint: of the tokenizer (`aded.engine.tokenizer.tokenizer_fingerprint`).

        Raises:
            AdedError: no tokens, too many, or an id outside the vocabulary.
        """
        from pydivsufsort import divsufsort

        ids = np.asarray(ids)
        if ids.ndim != 1 or not len(ids) or ids.min() < 0 or ids.max() >= vocab_size:
            raise AdedError(f"the corpus must hold token ids from 0 to {vocab_size - 1}; tokenize it with this model's tokenizer")
        if len(ids) > MOST_TOKENS:
            raise AdedError(f"a datastore holds at most {MOST_TOKENS} tokens, the corpus has {len(ids)}; leave some of it out")
        tokens = ids.astype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
        return cls(tokens, divsufsort(tokens).astype(np.int32), separator, vocab_size, fingerprint)

    def __len__(self) -> int:
        return len(self.tokens)

    def find(self, pattern: np.ndarray) -> tuple[int, int]:
        """Where ``pattern`` (token ids, int32 ``[length]``) stands: the range of suffixes that begin with it, half open."""
        return _find(self.tokens, self.suffixes, pattern)

    def matches(self, context: np.ndarray) -> list[tuple[int, int, int]]:
        """Which ends of ``context`` (token ids, int32 ``[length]``) stand anywhere.

        Returns:
            The length of each, shortest first, and the range of suffixes that begin with it, half open.
        """
        found = _matches(self.tokens, self.suffixes, context)
        return [(length, int(low), int(high)) for length, (low, high) in enumerate(found, 1)]

    def places(self, low: int, high: int, length: int, most: int) -> np.ndarray:
        """Where continuations of a found range begin, in the order of its suffixes, int64 ``[k]``.

        Args:
            low, high: the range.
            length: of the pattern that was found.
            most: at most that many, evenly spread over the range.
        """
        hits = np.arange(low, high) if high - low <= most else low + np.arange(most) * (high - low) // most
        return self.suffixes[hits].astype(np.int64) + length

    def summary(self) -> dict[str, Any]:
        """What the datastore holds, as JSON values."""
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
            compact: leave the suffix array out, two thirds of the file: who loads it first sorts the suffixes again.

        Raises:
            AdedError: the place cannot be written.
        """
        names = ("separator", "vocab_size", "fingerprint")
        header = {"format": FORMAT, "version": str(VERSION)} | {name: str(getattr(self, name)) for name in names}
        arrays = {"tokens": self.tokens} | ({} if compact else {"suffixes": self.suffixes})
        write_atomically(Path(path), tensor_file.to_bytes(header, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, fingerprint: str | None = None, vocab_size: int | None = None) -> Datastore:
        """Map a datastore, for the model with this tokenizer and this vocabulary (None: whatever model it was built for).

        Raises:
            AdedError: the file is missing, damaged, of another version, or made for another tokenizer.
        """
        try:
            store = cls._mapped(path, fingerprint, vocab_size)
        except AdedError:
            raise
        except OSError as error:
            raise AdedError(f"cannot read the datastore {path}: {error.strerror}; {REMEDY}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise AdedError(f"damaged datastore {path}: {first_line(error)}; {REMEDY}") from None
        kinds = (store.tokens.dtype in (np.uint16, np.uint32), store.suffixes.dtype == np.int32)
        if not all(kinds) or store.tokens.ndim != 1 or store.tokens.shape != store.suffixes.shape or not len(store):
            raise AdedError(f"damaged datastore {path}: its arrays are not those of one corpus; {REMEDY}")
        return store

    @classmethod
    def _mapped(cls, path: str | os.PathLike[str], fingerprint: str | None, vocab_size: int | None) -> Datastore:
        header, arrays = tensor_file.map_file(path)
        if header.get("format") != FORMAT:
            raise AdedError(f"{path} is not a datastore; {REMEDY}")
        if header.get("version") != str(VERSION):
            raise AdedError(f"{path} has version {header.get('version')!r}, this program reads {VERSION}; {REMEDY}")
        if fingerprint not in (None, header["fingerprint"]) or vocab_size not in (None, int(header["vocab_size"])):
            raise ForeignError(f"{path} was built for another tokenizer; {REMEDY}")
        sizes = {name: int(header[name]) for name in ("separator", "vocab_size")}
        if arrays.keys() == {"tokens"}:
            return cls._completed(arrays["tokens"], fingerprint=header["fingerprint"], **sizes)
        return cls(arrays["tokens"], arrays["suffixes"], fingerprint=header["fingerprint"], **sizes)

    @classmethod
    def _completed(cls, tokens: np.ndarray, **header: Any) -> Datastore:
        """A datastore that was saved compact: its suffixes are sorted once and then kept in the cache folder."""
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        digest.update(tokens.tobytes())
        path = in_cache(f"datastores/{digest.hexdigest()[:16]}.safetensors")
        with suppress(AdedError):  # it is not there yet, or damaged
            kept = cls.load(path)
            if np.array_equal(kept.tokens, tokens):
                return kept
        store = cls.build(tokens, **header)
        with suppress(AdedError, OSError):  # a cache that cannot be written costs a second at the next start
            path.parent.mkdir(parents=True, exist_ok=True)
            store.save(path)
        return store


@njit(cache=True)
def _compare(tokens, begin, pattern):
    """Order of the suffix at ``begin`` and ``pattern``: 0 where it begins with it; one outside the corpus is the least."""
    if begin < 0:
        return -1
    for i in range(len(pattern)):
        if begin + i >= len(tokens):
            return -1
        difference = np.int64(tokens[begin + i]) - pattern[i]
        if difference != 0:
            return difference
    return 0


@njit(cache=True)
def _bound(tokens, suffixes, pattern, low, beyond):
    """From ``low`` on, the first suffix not before ``pattern``; with ``beyond``, the first behind those that begin with it."""
    high = len(suffixes)
    while low < high:
        middle = (low + high) // 2
        order = _compare(tokens, np.int64(suffixes[middle]), pattern)
        if order < 0 or (beyond and order == 0):
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
    """Shorter ends stand wherever longer ones do: from the shortest on, until one is not found. Ranges, int64 ``[k, 2]``."""
    ranges = np.zeros((len(context), 2), dtype=np.int64)
    for length in range(1, len(context) + 1):
        low, high = _find(tokens, suffixes, context[len(context) - length :])
        if low == high:
            return ranges[: length - 1]
        ranges[length - 1, 0], ranges[length - 1, 1] = low, high
    return ranges

"""Tokens as text: fingerprints, display texts, a detokenizer that emits whole characters, prompts that continue a decode."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import Any


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """A hash of the whole vocabulary (16 hex characters): equal if and only if all token ids mean the same."""
    digest = hashlib.sha256()
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0])):
        digest.update(f"{index}\t{token}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


class IncrementalDetokenizer:
    """Decodes token ids one at a time; bytes of an incomplete character are held back.

    Decodes a short window twice, with and without the new token. So the text is correct for tokenizers where it depends on
    the tokens before (leading spaces, byte fallback), and the cost does not grow with the length.
    """

    def __init__(self, tokenizer: Any, before: list[int] | None = None) -> None:
        self._tokenizer = tokenizer
        self._ids = list(before or [])[-8:]
        self._emitted = len(self._ids)  # number of ids whose text was returned
        self._window_start = max(0, self._emitted - 4)  # first id of the window
        self._single: dict[int, str] = {}  # text of a window of one id, which nearly all windows are

    def push(self, token: int) -> str:
        """The text that this token completes; empty while a character is incomplete."""
        self._ids.append(token)
        old = self._decode(self._ids[self._window_start : self._emitted])
        new = self._decode(self._ids[self._window_start :])
        if new.endswith(REPLACEMENT) and len(self._ids) - self._emitted < MAX_TOKENS_PER_CHARACTER:
            return ""
        self._window_start, self._emitted = self._emitted, len(self._ids)
        if self._window_start > 4 * MAX_TOKENS_PER_CHARACTER:
            del self._ids[: self._window_start]
            self._emitted -= self._window_start
            self._window_start = 0
        return new[len(old) :]

    def _decode(self, ids: list[int]) -> str:
        text = self._single.get(ids[0]) if len(ids) == 1 else None
        if text is None:
            text = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            if len(ids) == 1:
                self._single[ids[0]] = text
        return text


REPLACEMENT = "\ufffd"
MAX_TOKENS_PER_CHARACTER = 8
"""Tokens held back for one character, which has at most four bytes; after more, the bytes are invalid."""


class TokenTexts:
    """Display texts of single tokens, cached: undecodable bytes as ``<0xF0>``, special tokens by name."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}
        self._special = set(getattr(tokenizer, "all_special_ids", []))
        anchor = tokenizer("a", add_special_tokens=False)["input_ids"]
        self._anchor = anchor[-1:]
        self._anchor_text = self._decode(self._anchor)

    def __call__(self, token: int) -> str:
        text = self._texts.get(token)
        if text is None:
            text = self._texts[token] = self._text(token)
        return text

    def all(self, tokens: Any) -> list[str]:
        """Display texts of many tokens."""
        return [self(int(t)) for t in tokens]

    def _text(self, token: int) -> str:
        if token in self._special:
            return str(self._tokenizer.convert_ids_to_tokens(token))
        text = self._decode([*self._anchor, token])[len(self._anchor_text) :]
        if text and REPLACEMENT not in text:
            return text
        raw = str(self._tokenizer.convert_ids_to_tokens(token))
        values = [_BYTE_BY_CHARACTER.get(c) for c in raw]
        if None in values or not raw:
            return raw
        return _shown(bytes(v for v in values if v is not None))

    def _decode(self, ids: list[int]) -> str:
        return _decoded(self._tokenizer, ids)


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of token ids, with special tokens, as it is."""
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _shown(data: bytes) -> str:
    """Bytes as text; those of incomplete characters as ``<0xF0>``, as in vocabularies with byte fallback."""
    text = data.decode("utf-8", "surrogateescape")  # an undecodable byte b becomes U+DC00 + b
    return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


def _byte_by_character() -> dict[str, int]:
    """The byte of each character in byte-level BPE vocabularies (GPT-2)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTE_BY_CHARACTER = _byte_by_character()


MAX_CUT = 16
"""Tokens of an earlier decode that are dropped one by one to find an end at which a token of the new prompt begins."""


def continued(tokenizer: Any, known: Sequence[int], fresh: Sequence[int]) -> list[int]:
    """Token ids with the text of ``fresh`` that begin with as many of ``known`` as have this text.

    Args:
        known: token ids of an earlier decode.
        fresh: the whole prompt as the tokenizer splits it.
    """

    text = partial(_decoded, tokenizer)
    if list(fresh[: len(known)]) == list(known):
        return list(fresh)
    whole = text(fresh)
    most = bisect_left(range(1, len(known) + 1), True, key=lambda count: not whole.startswith(text(known[:count])))
    for count in range(most, max(0, most - MAX_CUT), -1):
        length = len(text(known[:count]))
        rest = bisect_left(range(len(fresh)), length, key=lambda start: len(text(fresh[:start])))
        ids = [*known[:count], *fresh[rest:]]
        if text(ids) == whole:
            return ids
    return list(fresh)

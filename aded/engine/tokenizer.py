"""Tokens as text: fingerprints, display texts, and a detokeniser that never shows half a character."""

from __future__ import annotations

import hashlib
from typing import Any


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """A hash of the whole vocabulary, id by id: equal exactly where token ids mean the same (hex, 16 characters)."""
    digest = hashlib.sha256()
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0])):
        digest.update(f"{index}\t{token}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


class IncrementalDetokenizer:
    """Text of a growing list of token ids, piece by piece; bytes of an unfinished character are held back.

    Decodes a short window twice, with and without the new token, so that pieces are right for tokenizers whose text
    depends on the neighbour (leading spaces, byte fallback) and cost stays constant in the length.
    """

    def __init__(self, tokenizer: Any, before: list[int] | None = None) -> None:
        self._tokenizer = tokenizer
        self._ids = list(before or [])[-8:]
        self._read = len(self._ids)  # ids whose text is out
        self._start = max(0, self._read - 4)  # where the window begins

    def push(self, token: int) -> str:
        """The text that this token completes; empty while a character is unfinished."""
        self._ids.append(token)
        old = self._decode(self._ids[self._start : self._read])
        new = self._decode(self._ids[self._start :])
        if new.endswith(REPLACEMENT) and len(self._ids) - self._read < LONGEST_CHARACTER:
            return ""
        self._start, self._read = self._read, len(self._ids)
        if self._start > 4 * LONGEST_CHARACTER:
            del self._ids[: self._start]
            self._read -= self._start
            self._start = 0
        return new[len(old) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


REPLACEMENT = "\ufffd"
LONGEST_CHARACTER = 8
"""Tokens that may wait for one character to be complete: four bytes, with room; more than that is no character."""


class TokenTexts:
    """What to show for single tokens: their text, undecodable bytes as ``\\xNN``, special tokens by name. Cached."""

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
        """Texts of many tokens."""
        return [self(int(t)) for t in tokens]

    def _text(self, token: int) -> str:
        if token in self._special:
            return str(self._tokenizer.convert_ids_to_tokens(token))
        text = self._decode([*self._anchor, token])[len(self._anchor_text) :]
        if text and REPLACEMENT not in text:
            return text
        raw = str(self._tokenizer.convert_ids_to_tokens(token))
        values = [_BYTE_OF.get(c) for c in raw]
        if None in values or not raw:
            return raw
        return bytes(v for v in values if v is not None).decode("utf-8", "backslashreplace")

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in byte-level BPE vocabularies (GPT-2), as character to byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTE_OF = _byte_alphabet()

"""Stopping criteria, checked token by token, so that token ids, text, KV cache and counts end at the same token.

The text ends at the first of these: an end-of-text id, a complete stop string, the new-token limit, the context limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aded.core.trace import FinishReason
from aded.engine.loading.tokenizer import IncrementalDetokenizer


class StopStrings:
    """Finds stop strings in streamed text. Text that may be the start of a stop string is buffered until that is decided.

    The stop string itself is not part of the text. With several stop strings, the one that is completed first ends the text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._buffer = ""

    def push(self, piece: str) -> tuple[str, bool]:
        """Add text; returns the text that can be released, and whether a stop string is complete."""
        if not self._stops:
            return piece, False
        self._buffer += piece
        found = [(i + len(stop), i) for stop in self._stops if (i := self._buffer.find(stop)) >= 0]
        if found:
            text, self._buffer = self._buffer[: min(found)[1]], ""
            return text, True
        overlap = max((self._overlap(stop) for stop in self._stops), default=0)
        cut = len(self._buffer) - overlap
        text, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return text, False

    def flush(self) -> str:
        """Release the buffered text when the decode ends without a stop string."""
        text, self._buffer = self._buffer, ""
        return text

    def _overlap(self, stop: str) -> int:
        """Length of the longest suffix of the buffer that is a proper prefix of ``stop``."""
        longest = min(len(stop) - 1, len(self._buffer))
        return next((n for n in range(longest, 0, -1) if self._buffer.endswith(stop[:n])), 0)


class StopChecker:
    """Detokenizes the tokens of a decode one by one and decides when and why the decode ends.

    Attributes:
        remaining: how many more tokens may be generated.
        reason: why the text ended; None while it continues.
    """

    def __init__(
        self,
        detokenizer: IncrementalDetokenizer,
        eos_ids: Collection[int],
        stops: Sequence[str],
        max_new_tokens: int,
        limit_reason: FinishReason,
    ) -> None:
        """``limit_reason``: the finish reason when ``max_new_tokens`` is reached, ``length`` or ``context``."""
        self._detokenizer = detokenizer
        self._eos_ids = eos_ids
        self._stops = StopStrings(stops)
        self._limit_reason = limit_reason
        self.remaining = max_new_tokens
        self.reason: FinishReason | None = None

    def push(self, tokens: Sequence[int]) -> list[str]:
        """Add tokens until the text ends; returns one piece of text for each token that is kept.

        An incomplete character, or a possible start of a stop string, is returned with the later token that completes or
        excludes it. Sets ``reason`` when the text ends.
        """
        pieces: list[str] = []
        for token in tokens:
            piece, stopped = self._stops.push(self._detokenizer.push(token))
            self.remaining -= 1
            if token in self._eos_ids:
                self.reason = "eos"
            elif stopped:
                self.reason = "stop"
            elif self.remaining == 0:
                self.reason = self._limit_reason
            if self.reason and not stopped:
                piece += self._stops.flush()
            pieces.append(piece)
            if self.reason:
                break
        return pieces

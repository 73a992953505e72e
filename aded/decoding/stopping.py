"""Where a text ends: token by token, in order, so that ids, text, cache and counts are cut at one place.

The earliest end wins: an end-of-text id, the completion of a stop string, the new-token limit, the context limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aded.core.trace import FinishReason
from aded.engine.tokenizer import IncrementalDetokenizer


class StopStrings:
    """Text that may hold a stop string's beginning is held back until it is clear that it is none.

    The stop string itself is not part of the text. Of several stop strings the one completed first counts.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, piece: str) -> tuple[str, bool]:
        """Add text; return what of the text is now certain, and whether a stop string is complete."""
        if not self._stops:
            return piece, False
        self._held += piece
        found = [(i + len(stop), i) for stop in self._stops if (i := self._held.find(stop)) >= 0]
        if found:
            text, self._held = self._held[: min(found)[1]], ""
            return text, True
        keep = max((self._overlap(stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text, False

    def flush(self) -> str:
        """The text still held, when the decode ended otherwise."""
        text, self._held = self._held, ""
        return text

    def _overlap(self, stop: str) -> int:
        """Length of the longest end of the held text that begins ``stop``."""
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(stop[:n])), 0)


class Ending:
    """Reads a decode's tokens one by one, makes their text, and says when it is over and why."""

    def __init__(
        self,
        detokenizer: IncrementalDetokenizer,
        eos_ids: Collection[int],
        stops: Sequence[str],
        room: int,
        room_reason: FinishReason,
    ) -> None:
        """``room``: most new tokens; ``room_reason``: what it means to use them up, ``length`` or ``context``."""
        self._detokenizer = detokenizer
        self._eos_ids = eos_ids
        self._stops = StopStrings(stops)
        self._room_reason = room_reason
        self.room = room
        self.reason: FinishReason | None = None

    def take(self, tokens: Sequence[int]) -> list[str]:
        """Read tokens up to the end of the text; returns one piece of text for each token that is kept.

        A piece is what the token makes certain: an unfinished character, or a possible beginning of a stop string,
        stands with the token that settles it. ``reason`` is set when the text has ended.
        """
        pieces: list[str] = []
        for token in tokens:
            piece, stopped = self._stops.push(self._detokenizer.push(token))
            self.room -= 1
            if token in self._eos_ids:
                self.reason = "eos"
            elif stopped:
                self.reason = "stop"
            elif self.room == 0:
                self.reason = self._room_reason
            if self.reason and not stopped:
                piece += self._stops.flush()
            pieces.append(piece)
            if self.reason:
                break
        return pieces

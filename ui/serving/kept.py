"""Races that were run on the page, kept for a while so that a link opens them again."""

from __future__ import annotations

import json
import threading
import zlib
from collections import OrderedDict

MAX_BYTES = 64_000_000
"""Of all races together, compressed; the ones opened longest ago are forgotten first."""


class KeptRaces:
    """JSON lines of races by id, compressed and bounded; safe in several threads.

    Args:
        maximum: bytes of all races together.
    """

    def __init__(self, maximum: int = MAX_BYTES) -> None:
        self._maximum, self._bytes = maximum, 0
        self._races: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._races)

    def keep(self, text: str) -> None:
        """Keep a race that has ended; one that is larger than the whole capacity is not kept."""
        key, data = json.loads(text[: text.index("\n")])["id"], zlib.compress(text.encode(), 5)
        with self._lock:
            self._bytes += len(data) - len(self._races.pop(key, b""))
            self._races[key] = data
            while self._bytes > self._maximum:
                self._bytes -= len(self._races.popitem(last=False)[1])

    def find(self, key: str) -> str | None:
        """The lines of a race; None if it is not kept."""
        with self._lock:
            if key not in self._races:
                return None
            self._races.move_to_end(key)
            data = self._races[key]
        return zlib.decompress(data).decode()

"""Races that were run on the page, kept so that a link opens them again, also after a restart of the server."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

MAX_BYTES = 64_000_000
"""Of all races together, compressed; the ones opened longest ago are forgotten first."""
KEY = re.compile(r"[0-9a-f]{16}")
"""Id of a race, random, so that only those who have its link can read it."""
Place = Literal["disk", "memory"]

log = logging.getLogger(__name__)


class KeptRaces:
    """JSON lines of races by id, compressed and bounded; safe in several threads.

    Args:
        maximum: bytes of all races together; 0 keeps none.
        folder: where they are kept, as files that only the user of the server can read; several servers may share it. A race that
            cannot be written there is kept in memory, and without a folder all are.
    """

    def __init__(self, maximum: int = MAX_BYTES, folder: Path | None = None) -> None:
        self._maximum, self._bytes, self._folder = maximum, 0, folder
        self._races: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._races) + sum(KEY.fullmatch(file.name) is not None for file, *_ in self._files())

    def keep(self, text: str) -> None:
        """Keep a race that has ended; one that is larger than the whole capacity is not kept."""
        key, data = str(json.loads(text[: text.index("\n")])["id"]), zlib.compress(text.encode(), 5)
        if len(data) > self._maximum:
            return
        with self._lock:
            if not self._write(key, data):
                self._remember(key, data)

    def find(self, key: str) -> tuple[str, Place] | None:
        """The lines of a race, and where it is kept; None if it is not kept, or its file is damaged."""
        with self._lock:
            if data := self._races.get(key):
                self._races.move_to_end(key)
        place: Place = "memory" if data else "disk"
        try:
            text = zlib.decompress(data or self._read(key)).decode()
            return (text, place) if json.loads(text[: text.index("\n")])["id"] == key else None
        except (OSError, ValueError, LookupError, TypeError, zlib.error):
            return None

    def _remember(self, key: str, data: bytes) -> None:
        self._bytes += len(data) - len(self._races.pop(key, b""))
        self._races[key] = data
        while self._bytes > self._maximum:
            self._bytes -= len(self._races.popitem(last=False)[1])

    def _write(self, key: str, data: bytes) -> bool:
        """Write a race to the folder and delete old ones beyond its limit; returns whether the race was written."""
        if self._folder is None or not KEY.fullmatch(key):
            return False
        temporary = None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                temporary = file.name
                file.write(data)
            os.replace(temporary, self._folder / key)
        except OSError as error:
            log.warning("a race is kept in memory only: %s", error.strerror)
            if temporary:
                with suppress(OSError):
                    os.unlink(temporary)
            return False
        self._forget_oldest()
        return True

    def _read(self, key: str) -> bytes:
        """A race from the folder, which counts as opened now.

        Raises:
            OSError: it is not there.
        """
        if self._folder is None or not KEY.fullmatch(key):
            raise FileNotFoundError(key)
        file = self._folder / key
        data = file.read_bytes()
        with suppress(OSError):  # a folder that has become read-only
            os.utime(file)
        return data

    def _forget_oldest(self) -> None:
        files = sorted(self._files(), key=lambda found: found[1:])
        total = sum(size for _, _, size in files)
        for file, _, size in files:
            if total <= self._maximum:
                return
            with suppress(OSError):  # another server was faster
                file.unlink()
            total -= size

    def _files(self) -> Iterator[tuple[Path, int, int]]:
        """All files of the folder, also incomplete ones: path, time of the last use in nanoseconds, bytes."""
        with suppress(OSError):
            for file in self._folder.iterdir() if self._folder else ():
                with suppress(OSError):
                    found = file.stat()
                    yield file, found.st_mtime_ns, found.st_size

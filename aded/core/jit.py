"""Numba's ``njit`` with an on-disk cache that is invalidated when any compiled source changes.

Numba recompiles a function when its own file has changed, but not when a function inlined into it or a global constant has
changed in another file. The cache folder is therefore named after a hash of all files that contain ``njit``. A compiled function
may use names from these files only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import config, event
from numba.core.caching import FunctionCache, NullCache

from aded.core.paths import PACKAGE, cache_folder, writable

MAX_FOLDERS = 4
"""Cache folders to keep: the current one and the most recently used others."""


def njit(cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Like ``numba.njit``; ``cache`` stores compiled code in ``FOLDER``."""

    def compiled(function: Any) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache and not config.DISABLE_JIT:
            dispatcher._cache = _cache_of(function)
        return dispatcher

    return compiled


class Compilations(event.Listener):
    """Counts the compilations that are in progress; code that is read from the cache is not compiled."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: event.Event) -> None:
        self.count += 1

    def on_end(self, event: event.Event) -> None:
        self.count -= 1


COMPILATIONS = Compilations()
event.register("numba:compile", COMPILATIONS)


def compiling() -> bool:
    """Whether a function is being compiled now, in any thread."""
    return COMPILATIONS.count > 0


class CodeCache(FunctionCache):
    """Numba's cache, in which a full disk or a damaged file leads to recompilation instead of an error."""

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # unpickling damaged bytes can raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        with suppress(OSError):
            super().save_overload(*arguments)


def sources_key() -> str:
    """Hash (16 hex digits) of Numba's version, Python's version and all compiled sources. Numba itself checks the CPU."""
    digest = hashlib.sha256(f"numba {numba.__version__}, {sys.implementation.cache_tag}".encode())
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_bytes()
        if b"njit" in text:
            digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


def code_folder() -> Path | None:
    """Create the folder for compiled code and remove the least recently used ones; None if no folder is writable.

    It is below ``$NUMBA_CACHE_DIR`` if that is set, else below the cache folder of the program.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    base = (writable(Path(given), "NUMBA_CACHE_DIR") if given else None) or cache_folder() / "numba"
    folder = base / f"aded-{sources_key()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    with suppress(OSError):  # another process may remove them too
        os.utime(folder)
        for old in sorted(base.glob("aded-*"), key=os.path.getmtime, reverse=True)[MAX_FOLDERS:]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


FOLDER = code_folder()


def _cache_of(function: Any) -> Any:
    """Cache of a function in ``FOLDER``. Functions of other programs still use Numba's default folder."""
    if FOLDER is None:
        return NullCache()
    before, config.CACHE_DIR = config.CACHE_DIR, str(FOLDER)
    try:
        return CodeCache(function)
    except RuntimeError:  # raised by Numba if it finds no writable folder
        return NullCache()
    finally:
        config.CACHE_DIR = before

"""Numba's ``njit`` with an on-disk cache that is invalidated when any compiled source changes.

Numba recompiles a function when its own file has changed, but not when a function inlined into it or a global constant has
changed in another file. The cache folder is therefore named after a hash of all files that contain ``njit``. A compiled function
may use names from these files only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core import config, event
from numba.core.caching import FunctionCache, NullCache

from aded.core.code_folder import code_folder


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

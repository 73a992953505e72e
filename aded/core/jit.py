"""Numba's ``njit``, with compiled code kept so that an update of the program never runs the old one.

Numba compiles a function again when its own file has changed, but not when a function inlined into it or a constant frozen into
it has changed in another file. So the code is kept in a folder that is named by a hash of all sources that are compiled: the
files that name ``njit``. Whatever such a function takes from another module has to be in one of them too.
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
from numba.core import config
from numba.core.caching import FunctionCache, NullCache

from aded.core.paths import PACKAGE, cache_folder, writable

NEWEST = 4
"""Folders of compiled code that are kept: this version's, and those used last before it."""


def njit(cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """As Numba's; ``cache`` keeps the compiled code in the folder of this version's, where there is one."""

    def compiled(function: Any) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache and not config.DISABLE_JIT:
            dispatcher._cache = _cache_of(function)
        return dispatcher

    return compiled


class KeptCode(FunctionCache):
    """Numba's cache, whose faults (a full disk, a damaged file) cost a compilation and nothing else."""

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
    """A hash of all that compiled code depends on beside the processor, of which Numba takes care itself (hex)."""
    digest = hashlib.sha256(f"numba {numba.__version__}, {sys.implementation.cache_tag}".encode())
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_bytes()
        if b"njit" in text:
            digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


def kept_folder() -> Path | None:
    """This version's folder, made and with those of the oldest versions removed; None where nothing can be kept.

    It is below ``$NUMBA_CACHE_DIR`` if that is set, else below the cache folder.
    """
    asked = os.environ.get("NUMBA_CACHE_DIR")
    base = (writable(Path(asked), "NUMBA_CACHE_DIR") if asked else None) or cache_folder() / "numba"
    folder = base / f"aded-{sources_key()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    with suppress(OSError):  # another process may remove them too
        os.utime(folder)
        for old in sorted(base.glob("aded-*"), key=os.path.getmtime, reverse=True)[NEWEST:]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


FOLDER = kept_folder()


def _cache_of(function: Any) -> Any:
    """A function's cache in this version's folder; other programs' functions are kept where Numba keeps them."""
    if FOLDER is None:
        return NullCache()
    before, config.CACHE_DIR = config.CACHE_DIR, str(FOLDER)
    try:
        return KeptCode(function)
    except RuntimeError:  # Numba's word for no place to write to
        return NullCache()
    finally:
        config.CACHE_DIR = before

"""The folder of compiled code, named after a hash of its sources. Numba is not imported here, which takes a second."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from aded.core.paths import PACKAGE, cache_folder, writable

MAX_FOLDERS = 4
"""Cache folders to keep: the current one and the most recently used others."""


def sources_key() -> str:
    """Hash (16 hex digits) of Numba's version, Python's version and all compiled sources. Numba itself checks the CPU."""
    digest = hashlib.sha256(f"numba {version('numba')}, {sys.implementation.cache_tag}".encode())
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

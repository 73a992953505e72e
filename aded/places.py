"""Where the files of the program are: those that come with it, and those that it makes."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ASSETS = next((folder for folder in (PACKAGE / "assets", PACKAGE.parent / "assets") if folder.is_dir()), PACKAGE / "assets")
"""The bundled files: within the package where it is installed, beside it in a checkout."""


def cache_folder() -> Path:
    """``$ADED_CACHE``, else ``aded`` in the user's cache folder."""
    if os.environ.get("ADED_CACHE"):
        return Path(os.environ["ADED_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "aded"

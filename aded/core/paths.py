"""Paths of bundled files, cached files and artifacts.

The program also runs without a writable cache folder: files then go to a temporary folder of the user, or are not kept
if there is none. One note on stderr says so.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

from aded.core.validation import is_creatable

PACKAGE = Path(__file__).resolve().parents[1]
ASSETS = next((folder for folder in (PACKAGE / "assets", PACKAGE.parent / "assets") if folder.is_dir()), PACKAGE / "assets")
"""Bundled files: inside an installed package, next to the package in a checkout."""
UNUSABLE = Path(os.devnull)
"""A path below which no file can exist."""
DEFAULT_PLACE = "in the cache folder, where methods find it"
"""Location of artifacts, for help texts."""
SHARED_MEMORY = Path("/dev/shm")
"""Often writable in containers with a read-only file system."""
LIBRARY_FOLDERS = ("GRADIO_TEMP_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "MPLCONFIGDIR", "HF_HOME")
"""Variables for the folders of libraries; the default folders are in the user's home or the temporary folder."""


def cache_folder() -> Path:
    """The cache folder: ``$ADED_CACHE``, or ``aded`` in the user's cache folder; a temporary folder if it is not writable.

    If the temporary folder is not writable either, the first is returned, and writing to it fails.
    """
    return writable(_preferred_cache(), "ADED_CACHE") or _preferred_cache()


def in_cache(name: str) -> Path:
    """Path of a cached file: the existing one, which may be read-only, or a path where it can be written."""
    existing = _preferred_cache() / name
    return existing if os.path.exists(existing) else cache_folder() / name


def cached(pattern: str) -> list[Path]:
    """Existing files in the cache, including read-only ones, that match a ``glob.glob`` pattern."""
    folders = dict.fromkeys((_preferred_cache(), cache_folder()))
    return [folder / name for folder in folders for name in sorted(glob(pattern, root_dir=folder, recursive=True))]


def artifacts(kind: str, model: Any) -> list[Path]:
    """Files of artifacts of this kind, in the order in which they are tried for a model.

    First the user's artifacts for this model, then the bundled ones, then the user's artifacts for other models with the same
    tokenizer. The file header says whether an artifact fits.

    Args:
        kind: trigram, datastore, medusa, eagle, mtp, glide or draft.
        model: object with a ``fingerprint`` and optionally a ``label``.
    """
    folder = _model_folder(vars(model).get("label", ""), model.fingerprint)
    own = cached(f"artifacts/*-{model.fingerprint[:12]}/{kind}/*.safetensors")
    matching = [file for file in own if file.parts[-3] == folder]
    return [*matching, *sorted(ASSETS.glob(f"*.{kind}.safetensors")), *(file for file in own if file not in matching)]


def artifact_folder(kind: str, label: str, fingerprint: str) -> Path:
    """Create the default folder for a model's artifacts of this kind, in which ``artifacts`` finds them."""
    folder = model_folder(label, fingerprint) / kind
    with suppress(OSError):  # writing to it reports the error
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def model_folder(label: str, fingerprint: str) -> Path:
    """The default folder for all artifacts of a model, with one folder per kind."""
    return cache_folder() / "artifacts" / _model_folder(label, fingerprint)


def _model_folder(label: str, fingerprint: str) -> str:
    return f"{re.sub('[^A-Za-z0-9._-]', '-', label)}-{fingerprint[:12]}"


def _preferred_cache() -> Path:
    if os.environ.get("ADED_CACHE"):
        return Path(os.path.expanduser(os.environ["ADED_CACHE"]))
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return (UNUSABLE if folder.startswith("~") else Path(folder)) / "aded"


@cache
def writable(folder: Path, variable: str) -> Path | None:
    """The folder if it is writable, else the user's temporary folder, else None. A note on stderr reports a fallback.

    Args:
        variable: environment variable that sets the folder.
    """
    if is_creatable(folder):
        return folder
    fallback = temporary_folder()
    why = "there is no home folder" if UNUSABLE in folder.parents else f"{folder} cannot be written to"
    effect = "nothing is kept" if fallback is None else f"files are kept in {fallback}"
    if multiprocessing.parent_process() is None and sys.stderr is not None:
        print(f"note: {why}, so {effect}; set {variable} to a folder that can be written to", file=sys.stderr)
    return fallback


def temporary_folder() -> Path | None:
    """Create the user's folder in the temporary folder; None if impossible, or if other users could write to it."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir()) / f"aded-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if own and is_creatable(folder) else None


def prepare() -> None:
    """Redirect other libraries to the cache folder if the home or temporary folder is not writable.

    Call it before these libraries are imported: some of them fail at import if they cannot create a folder.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        place = SHARED_MEMORY if is_creatable(SHARED_MEMORY) else writable(_preferred_cache(), "ADED_CACHE")
        if place is None:
            tempfile.tempdir = os.sep  # exists, which is enough for libraries that only need a path
        else:
            place.mkdir(parents=True, exist_ok=True)
            os.environ["TMPDIR"] = str(place)
    for variable in LIBRARY_FOLDERS:
        _prepare(variable)


def _prepare(variable: str) -> None:
    """Set a library's variable if the folder it would use is not writable."""
    given, home = os.environ.get(variable), os.path.expanduser("~")
    if variable == "HF_HOME" and os.path.exists(given or f"{home}/.cache/huggingface"):
        return  # models in it can be read
    default = f"{tempfile.gettempdir()}/gradio" if variable == "GRADIO_TEMP_DIR" else home
    if is_creatable(Path(given or default)) and (given or os.path.isabs(default)):
        return
    place = (writable(Path(given), variable) if given else None) or cache_folder()
    os.environ[variable] = str(place / variable.lower()) if is_creatable(place) else os.sep

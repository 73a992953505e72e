"""Where the files of the program are: those that come with it, and those that it makes.

The program starts wherever it can read its own files: what it would keep in a folder that cannot be written to goes to a folder
of the user's among the temporary files, or is not kept where there is none. That is said once, in one line.
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

from aded.core.validation import can_be_made

PACKAGE = Path(__file__).resolve().parents[1]
ASSETS = next((folder for folder in (PACKAGE / "assets", PACKAGE.parent / "assets") if folder.is_dir()), PACKAGE / "assets")
"""The bundled files: within the package where it is installed, beside it in a checkout."""
NOWHERE = Path(os.devnull)
"""Below it nothing is and nothing can be made."""
FOUND = "in the cache folder, where methods find it"
"""Where artifacts are kept, as help texts say it."""
SHARED_MEMORY = Path("/dev/shm")
"""Can be written to in a container whose disks cannot."""
OF_LIBRARIES = ("GRADIO_TEMP_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "MPLCONFIGDIR", "HF_HOME")
"""Variables that name folders in which libraries keep files, by default in the user's home or among the temporary files."""


def cache_folder() -> Path:
    """Where the program keeps files: ``$ADED_CACHE``, else ``aded`` in the user's cache folder, else a temporary one.

    Where none of them can be written to, it is the first of them, and what is written there fails.
    """
    return writable(_asked(), "ADED_CACHE") or _asked()


def in_cache(name: str) -> Path:
    """A path in the cache: where it is already, be it only to be read, else where it can be made."""
    kept = _asked() / name
    return kept if os.path.exists(kept) else cache_folder() / name


def cached(pattern: str) -> list[Path]:
    """What is in the cache already, be it only to be read, by a pattern as `glob.glob` takes them."""
    folders = dict.fromkeys((_asked(), cache_folder()))
    return [folder / name for folder in folders for name in sorted(glob(pattern, root_dir=folder, recursive=True))]


def artifacts(kind: str, model: Any) -> list[Path]:
    """Files of a kind in the order in which they are looked through for a model.

    First the user's own that were made for it, then the bundled ones, then those that the user made for other models: whether a
    file fits, its header tells.

    Args:
        kind: trigram, datastore, medusa or draft.
        model: its ``fingerprint`` and, where it is known, its ``label``.
    """
    folder, own = _folder_of(vars(model).get("label", ""), model.fingerprint), cached(f"artifacts/*/{kind}/*.safetensors")
    made_for_it = [file for file in own if file.parts[-3] == folder]
    return [*made_for_it, *sorted(ASSETS.glob(f"*.{kind}.safetensors")), *(file for file in own if file not in made_for_it)]


def artifact_folder(kind: str, label: str, fingerprint: str) -> Path:
    """Where what is made for a model is kept if no other place is named: `artifacts` finds it there."""
    folder = cache_folder() / "artifacts" / _folder_of(label, fingerprint) / kind
    with suppress(OSError):  # whoever writes to it says what is wrong
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _folder_of(label: str, fingerprint: str) -> str:
    return f"{re.sub('[^A-Za-z0-9._-]', '-', label)}-{fingerprint[:12]}"


def _asked() -> Path:
    if os.environ.get("ADED_CACHE"):
        return Path(os.path.expanduser(os.environ["ADED_CACHE"]))
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return (NOWHERE if folder.startswith("~") else Path(folder)) / "aded"


@cache
def writable(folder: Path, variable: str) -> Path | None:
    """A folder if it can be made and written to, else the user's temporary one, else None; what is not the first is said.

    Args:
        variable: of the environment, which sets the folder.
    """
    if can_be_made(folder):
        return folder
    instead = temporary_folder()
    why = "there is no home folder" if NOWHERE in folder.parents else f"{folder} cannot be written to"
    what = "nothing is kept" if instead is None else f"files are kept in {instead}"
    if multiprocessing.parent_process() is None and sys.stderr is not None:
        print(f"note: {why}, so {what}; set {variable} to a folder that can be written to", file=sys.stderr)
    return instead


def temporary_folder() -> Path | None:
    """The user's own folder among the temporary files, made; None where there is no such place, or it is another user's."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir()) / f"aded-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if own and can_be_made(folder) else None


def prepare() -> None:
    """Where home cannot be written to, or nothing among the temporary files, have other libraries keep files in the cache folder.

    For programs, before they import those libraries: some of them fail at import for a folder that they cannot make.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        place = SHARED_MEMORY if can_be_made(SHARED_MEMORY) else writable(_asked(), "ADED_CACHE")
        if place is None:
            tempfile.tempdir = os.sep  # it is there, which suffices for those that only want to know a name
        else:
            place.mkdir(parents=True, exist_ok=True)
            os.environ["TMPDIR"] = str(place)
    for variable in OF_LIBRARIES:
        _prepare(variable)


def _prepare(variable: str) -> None:
    """Set a variable of a library's if the folder that it would take cannot be written to."""
    given, home = os.environ.get(variable), os.path.expanduser("~")
    if variable == "HF_HOME" and os.path.exists(given or f"{home}/.cache/huggingface"):
        return  # the models in it can be read
    usual = f"{tempfile.gettempdir()}/gradio" if variable == "GRADIO_TEMP_DIR" else home
    if can_be_made(Path(given or usual)) and (given or os.path.isabs(usual)):
        return
    place = (writable(Path(given), variable) if given else None) or cache_folder()
    os.environ[variable] = str(place / variable.lower()) if can_be_made(place) else os.sep

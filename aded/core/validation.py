"""Checks before a long run: can the results be written, and are all given options used?"""

from __future__ import annotations

import argparse
import errno
import os
import tempfile
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from aded.core.errors import AdedError


def check_file(path: str | None) -> None:
    """Raise ``AdedError`` if a file cannot be written; None passes."""
    file = Path(path).resolve() if path else None
    if file and ((os.path.exists(file) and not file.is_file()) or not _is_writable(file.parent, f".{file.name}.")):
        raise AdedError(f"cannot write {path}; give a file in a folder that exists and can be written to")


def check_folder(path: str | None) -> None:
    """Raise ``AdedError`` if a folder cannot be created or written to; None passes."""
    if path is None:
        return
    folder = Path(path).resolve()
    if _is_too_long(folder):
        raise AdedError(f"cannot write {path}: its name is too long; choose another --out")
    if not is_creatable(folder):
        raise AdedError(f"cannot write {path}: {_nearest_existing(folder)} is not a writable folder; choose another --out")


RESULTS = ("results.json", "table.md", "results.html", "cells.jsonl")
"""Files in a results folder."""


def check_results(path: str | None, inputs: Iterable[str | None]) -> None:
    """Raise ``AdedError`` if a results folder cannot be written to, or if results would overwrite an input."""
    check_folder(path)
    check_outputs(path, RESULTS, inputs)


def check_outputs(folder: str | None, names: Iterable[str], inputs: Iterable[str | None]) -> None:
    """Raise ``AdedError`` if files of these names in ``folder`` would overwrite an input."""
    inputs = list(inputs)
    for name in names if folder else ():
        check_distinct("--out", os.path.join(str(folder), name), inputs)


def is_creatable(folder: Path) -> bool:
    """Whether a folder is writable or can be created."""
    return _is_writable(_nearest_existing(folder))


def _nearest_existing(path: Path) -> Path:
    """The path or its nearest existing parent."""
    while not os.path.lexists(path):
        path = path.parent
    return path


def _is_writable(folder: Path, prefix: str = "") -> bool:
    """Whether a file can be created in a folder. Permissions do not tell this reliably, so one is created."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=prefix):
            return True
    except OSError:
        return False


def _is_too_long(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def check_readable(paths: Iterable[str | None]) -> None:
    """Raise ``AdedError`` if a file cannot be read."""
    for path in paths:
        try:
            if path is not None:
                Path(path).open("rb").close()
        except OSError as error:
            raise AdedError(f"cannot read {path}: {error.strerror or error}; give the path of a file") from None
        except ValueError:  # a null character, as a file of settings may hold
            raise AdedError(f"{path!r} is not the path of a file; give one without a null character") from None


def files_in(folder: str) -> list[str]:
    """The files of a folder, without those of its folders.

    Raises:
        AdedError: the folder cannot be read.
    """
    try:
        return sorted(entry.path for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise AdedError(f"cannot read {folder}: {error.strerror or error}; make the folder readable") from None


FILES_OF_A_MODEL = (
    *("config.json", "generation_config.json", "model*.safetensors*", "pytorch_model*", "tokenizer*", "*.model", "*.py"),
    *("special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt", "chat_template*"),
)
"""Names of the files that Transformers reads in a model's folder, as `fnmatch` patterns."""


def model_files(*specs: str) -> list[str]:
    """The files of those of the requested models that are on this machine: a file, or the files of a folder.

    Raises:
        AdedError: a folder cannot be read.
    """
    found: list[str] = []
    for path in map(os.path.expanduser, specs):
        if os.path.isdir(path):
            found += [file for file in files_in(path) if any(fnmatch(os.path.basename(file), name) for name in FILES_OF_A_MODEL)]
        elif os.path.isfile(path):
            found.append(path)
    return found


def check_ordinary(path: str | os.PathLike[str]) -> None:
    """Raise ``AdedError`` for a pipe or a device, which can be read only once; a missing file passes."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise AdedError(f"cannot read {path}: it is a pipe or a device; save its content as a file and give that")


def check_distinct(option: str, path: str | None, others: Iterable[str | None]) -> None:
    """Raise ``AdedError`` if the output ``path`` of ``option`` is also another file of the command; links are followed."""
    for other in others:
        if path and other and (Path(path).resolve() == Path(other).resolve() or _is_same(path, other)):
            raise AdedError(f"{option} is {path}, which this command uses as {other} too; choose another path")


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them does not exist
        return False


def check_not_empty(options: argparse.Namespace) -> None:
    """Raise ``AdedError`` for an option whose value is an empty string."""
    for name, value in vars(options).items():
        if "" in (value if isinstance(value, list) else [value]):
            raise AdedError(f"{name.replace('_', ' ')} is empty; give it a value")


def refuse_ignored(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Raise ``AdedError`` if one of the named options was changed from its default although it has no effect.

    Args:
        options: parsed options, with their ``parser``.
        names: options without effect.
        reason: why they have none, for the message.
    """
    for name in names:
        if getattr(options, name) != options.parser.get_default(name):
            raise AdedError(f"{flag(name)} {reason}; leave it out")


def flag(name: str) -> str:
    """Command-line form of an option name."""
    return f"--{name.replace('_', '-')}"

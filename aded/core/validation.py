"""What a command finds out before a long run: whether its results can be written, and whether it heeds what was asked."""

from __future__ import annotations

import argparse
import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from aded.core.errors import AdedError


def check_file(path: str | None) -> None:
    """Refuse a file that cannot be written."""
    where = Path(path).resolve() if path else None
    if where and ((os.path.exists(where) and not where.is_file()) or not _takes_files(where.parent, f".{where.name}.")):
        raise AdedError(f"cannot write {path}; give a file in a folder that exists and can be written to")


def check_folder(path: str | None) -> None:
    """Refuse a folder that cannot be made or written to."""
    if path is None:
        return
    where = Path(path).resolve()
    if _is_too_long(where):
        raise AdedError(f"cannot write {path}: its name is too long; choose another --out")
    if not can_be_made(where):
        raise AdedError(f"cannot write {path}: {_nearest(where)} is no folder that can be written to; choose another --out")


RESULTS = ("results.json", "table.md", "results.html", "cells.jsonl")
"""Files of a folder of results."""


def check_results(path: str | None, inputs: Iterable[str | None]) -> None:
    """Refuse a folder for results that cannot be made or written to, or in which they would be written over an input."""
    check_folder(path)
    check_outputs(path, RESULTS, inputs)


def check_outputs(folder: str | None, names: Iterable[str], inputs: Iterable[str | None]) -> None:
    """Refuse a folder in which files of these names would be written over an input."""
    inputs = list(inputs)
    for name in names if folder else ():
        check_apart("--out", os.path.join(str(folder), name), inputs)


def can_be_made(folder: Path) -> bool:
    """Whether a folder can be written to, or made where it is not there yet."""
    return _takes_files(_nearest(folder))


def _nearest(path: Path) -> Path:
    """A path itself, or as much of it as is there."""
    while not os.path.lexists(path):
        path = path.parent
    return path


def _takes_files(folder: Path, prefix: str = "") -> bool:
    """Whether a file, of a name that begins so, can be made in a folder: tried, for permissions do not tell of everything."""
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
    """Refuse files that cannot be read."""
    for path in paths:
        try:
            if path is not None:
                Path(path).open("rb").close()
        except OSError as error:
            raise AdedError(f"cannot read {path}: {error.strerror or error}; give the path of a file") from None


def check_apart(option: str, path: str | None, others: Iterable[str | None]) -> None:
    """Refuse to write a file over another of the same command, links followed."""
    for other in others:
        if path and other and (Path(path).resolve() == Path(other).resolve() or _is_same(path, other)):
            raise AdedError(f"{option} is {path}, which this command uses as {other} too; choose another path")


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is not there
        return False


def check_not_empty(options: argparse.Namespace) -> None:
    """Refuse values that are empty strings."""
    for name, value in vars(options).items():
        if "" in (value if isinstance(value, list) else [value]):
            raise AdedError(f"{name.replace('_', ' ')} is empty; give it a value")


def refuse_ignored(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Refuse options that have another value than by default; reason: why they would be ignored.

    Args:
        options: with their ``parser``.
    """
    for name in names:
        if getattr(options, name) != options.parser.get_default(name):
            raise AdedError(f"{flag(name)} {reason}; leave it out")


def flag(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')}"

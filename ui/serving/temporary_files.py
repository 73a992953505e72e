"""Removes temporary files of interrupted uploads: Gradio moves those of complete uploads, and would leave the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from gradio import route_utils

FILES: ContextVar[list[Any]] = ContextVar("files")
"""Temporary files of the upload in this context."""


def track() -> None:
    """Track Gradio's temporary files from now on, in the whole process."""
    route_utils.NamedTemporaryFile = _new


@contextmanager
def cleanup() -> Iterator[None]:
    """Remove the temporary files of an upload when it ends, in whatever way: otherwise they could fill the disk."""
    before = FILES.set([])
    try:
        yield
    finally:
        for file in FILES.get():
            _remove(file)
        FILES.reset(before)


def _new(*arguments: Any, **settings: Any) -> Any:
    file = NamedTemporaryFile(*arguments, **settings)  # noqa: SIM115
    FILES.get([]).append(file)
    return file


def _remove(file: Any) -> None:
    with suppress(OSError, ValueError):  # a flush fails too if the disk is full
        file.close()
    with suppress(OSError):
        Path(file.name).unlink(missing_ok=True)

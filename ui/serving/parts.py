"""The file that Gradio writes an upload to as it comes: that of a whole one is moved, that of a broken-off one would stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from gradio import route_utils

PARTS: ContextVar[list[Any]] = ContextVar("parts")
"""Those of the upload that is handled in this context."""


def note() -> None:
    """Have such files noted, from now on and in the whole process."""
    route_utils.NamedTemporaryFile = _new


@contextmanager
def removed() -> Iterator[None]:
    """Handle an upload, and leave no part of it, however that ends: on a full disk it would keep all others out."""
    before = PARTS.set([])
    try:
        yield
    finally:
        for part in PARTS.get():
            _remove(part)
        PARTS.reset(before)


def _new(*arguments: Any, **settings: Any) -> Any:
    part = NamedTemporaryFile(*arguments, **settings)  # noqa: SIM115
    PARTS.get([]).append(part)
    return part


def _remove(part: Any) -> None:
    with suppress(OSError, ValueError):  # what is still to be written finds no room either
        part.close()
    with suppress(OSError):
        Path(part.name).unlink(missing_ok=True)

"""The one kind of error that a user of the engine can cause."""

from __future__ import annotations

ANY_MODEL = "SPEC"
"""Stands for the model in a command that a message names as its remedy."""


class AdedError(ValueError):
    """Something the caller asked for cannot be done; the message is one line and says the remedy."""


class ForeignError(AdedError):
    """A file is whole, and was made for another model: where one that fits is looked for, it is passed over."""


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line: its first that is not blank, or its type where it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class DraftError(AdedError):
    """A draft cannot be verified; the message says what is wrong with it."""


def check_text(text: str, what: str) -> None:
    """Refuse text that is no Unicode: half surrogate pairs, as from stray bytes on a command line or ``\\ud800`` in JSON."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise AdedError(f"{what} holds characters that are no valid Unicode; give it as UTF-8 text") from None

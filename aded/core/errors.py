"""Errors that a caller can cause and fix."""

from __future__ import annotations

import shlex

MODEL_PLACEHOLDER = "SPEC"
"""Placeholder for the model in commands that an error message suggests."""

RESUME_HINT = "run the command again: it resumes where it stopped"

MAX_SHOWN = 60
"""Maximum length of a given value in a message."""


class AdedError(ValueError):
    """A request that cannot be fulfilled. The message is one line and names the remedy."""


class InterruptedJobError(AdedError):
    """A job stopped for a reason other than its input, so its intermediate files are kept."""


class OtherModelError(AdedError):
    """A valid file that was made for another model. A search for a file that fits skips it."""


def first_line(error: BaseException) -> str:
    """The first non-blank line of an error's message, or the name of its type if the message is empty.

    All lines, joined, if the first one ends with a colon and so is not a message without the others.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines) if lines[0].endswith(":") else lines[0]


def shown(value: object) -> str:
    """A value that a caller gave, for a message: its ``repr`` on one line, shortened to ``MAX_SHOWN`` characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # also of integers with thousands of digits
        text = f"of type {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def as_text(value: object) -> str:
    """What a custom drafter gave as text, also if it is of another type; lone surrogates become question marks."""
    text = value if isinstance(value, str) else shown(value)
    return text.encode("utf-8", "replace").decode()


def remedy_for_missing(model: str, option: str | None = None) -> str:
    """The end of a message on a missing artifact: the command that makes it for a model, and the option that names a file."""
    remedy = f"make what is missing with `python -m aded prepare {shlex.quote(model)}`"
    return f"{remedy}, or give --{option} FILE" if option else remedy


def check_type(value: object, kinds: type | tuple[type, ...], what: str, remedy: str) -> None:
    """Raise ``AdedError`` if a value is of none of these types; ``what``: its name and verb, ``remedy``: what to give."""
    if not isinstance(value, kinds):
        raise AdedError(f"{what} {shown(value)}; give {remedy}")


class DraftError(AdedError):
    """A draft that cannot be verified."""


def check_text(text: str, what: str) -> None:
    """Raise ``AdedError`` for lone surrogates, as from undecodable command-line bytes or ``\\ud800`` in JSON.

    Args:
        what: name of the text in the message.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise AdedError(f"{what} holds characters that are no valid Unicode; give it as UTF-8 text") from None

"""The number fields of the page: their ranges, and parsing. Independent of Gradio."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aded.core import limits
from ui.words import Refused, cut, word

NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
"""A decimal point or a decimal comma."""
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
"""A comma that may separate thousands, and is no decimal comma then."""
LONGEST = 40
"""Maximum number of characters of a text that are quoted in a message."""
EXACT = 2**53 - 1
"""The largest integer up to which a browser represents all integers exactly."""


@dataclass(frozen=True)
class Field:
    """A setting that is a number.

    Attributes:
        minimum, maximum: of its values, inclusive.
        integer: whether it must be an integer.
        ticks: values of its slider; empty for a field without a slider. Other values can be typed.
        blank: the text for the preset's or the automatic value; None if a number is required.
    """

    minimum: float
    maximum: float
    integer: bool = False
    ticks: tuple[float, ...] = ()
    blank: str | None = None


def _of_aded(name: str, integer: bool, *ticks: float) -> Field:
    return Field(*limits.ADED[name], integer, ticks, "")


FIELDS: dict[str, Field] = {
    "max_new_tokens": Field(1, 100_000, True, (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)),
    "budget": Field(1, limits.MAX_NODES, True, (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256), "auto"),
    "temperature": Field(0, 2, ticks=tuple(tenth / 10 for tenth in range(21))),
    "top_p": Field(0.01, 1, ticks=tuple(twentieth / 20 for twentieth in range(1, 21))),
    "top_k": Field(0, 1_000_000, True, (0, 1, 2, 5, 10, 20, 40, 50, 100, 200, 500, 1000)),
    "seed": Field(0, EXACT, True),
    "simulations": _of_aded("simulations", True, 6, 9, 12, 18, 24, 36, 50, 72, 100, 150, 250, 500, 1000),
    "c1": _of_aded("c1", False, 0, 0.25, 0.5, 1, 1.25, 2, 4, 8, 16, 32, 64),
    "c2": _of_aded("c2", False, 1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 19652),
    "depth": _of_aded("depth", True, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    "successors": _of_aded("successors", True, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
}


def fields_for(max_new_tokens: int) -> dict[str, Field]:
    """The fields for a server with this limit of new tokens."""
    asked = FIELDS["max_new_tokens"]
    ticks = tuple(tick for tick in asked.ticks if tick <= max_new_tokens)
    return {**FIELDS, "max_new_tokens": replace(asked, maximum=max_new_tokens, ticks=ticks)}


def parse(name: str, text: str, fields: Mapping[str, Field] = FIELDS) -> float | int | None:
    """The number of a field's text; None for the field's blank text.

    Raises:
        Refused: not a number, or one out of range; the message names the field and its range.
    """
    field = fields[name]
    normalized = unicodedata.normalize("NFKC", text).strip()
    if field.blank is not None and normalized.lower() in ("", field.blank):
        return None
    number = _parsed(normalized)
    if error := _error(field, normalized, number):
        raise Refused(f"field.{error}", label=word(f"control.{name}"), **_values(field, text))
    assert number is not None
    return int(number) if field.integer else float(number)


def _parsed(text: str) -> float | int | None:
    """Integers are parsed exactly, of any size."""
    if not NUMBER.fullmatch(text) or THOUSANDS.fullmatch(text):
        return None
    return int(text) if re.fullmatch(r"[+-]?\d{1,400}", text) else float(text.replace(",", "."))


def _error(field: Field, text: str, number: float | int | None) -> str | None:
    if number is None:
        return "number" if text else "empty"
    if not field.minimum <= number <= field.maximum:
        return "range"
    return "integer" if field.integer and number != int(number) else None


def _values(field: Field, text: str) -> dict[str, Any]:
    blank = "" if field.blank is None else word("field.auto" if field.blank else "field.preset")
    return {
        "value": cut(text, LONGEST).strip(),
        "minimum": f"{field.minimum:.15g}",
        "maximum": f"{field.maximum:.16g}",
        "or": blank,
    }

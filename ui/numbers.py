"""The page's fields for numbers: what each may hold, and the number that a text stands for. Knows no Gradio."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aded.core import limits
from ui.words import Refused, cut, word

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
LONGEST = 40
"""Characters of a text that are said again."""
EXACT = 2**53 - 1
"""The largest whole number up to which a browser tells all of them apart."""


@dataclass(frozen=True)
class Field:
    """A setting that is a number.

    Attributes:
        least, most: of its values, both included.
        whole: whether it is a whole number.
        notches: values that its slider stops at; none for a field without a slider. Any other can be typed.
        nothing: the text that stands for the preset's value or the automatic one; None where there must be a number.
    """

    least: float
    most: float
    whole: bool = False
    notches: tuple[float, ...] = ()
    nothing: str | None = None


def _of_aded(name: str, whole: bool, *notches: float) -> Field:
    return Field(*limits.ADED[name], whole, notches, "")


FIELDS: dict[str, Field] = {
    "max_new_tokens": Field(1, 100_000, True, (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)),
    "budget": Field(1, limits.MAX_NODES, True, (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256), "auto"),
    "temperature": Field(0, 2, notches=tuple(tenth / 10 for tenth in range(21))),
    "top_p": Field(0.01, 1, notches=tuple(twentieth / 20 for twentieth in range(1, 21))),
    "top_k": Field(0, 1_000_000, True, (0, 1, 2, 5, 10, 20, 40, 50, 100, 200, 500, 1000)),
    "seed": Field(0, EXACT, True),
    "simulations": _of_aded("simulations", True, 6, 9, 12, 18, 24, 36, 50, 72, 100, 150, 250, 500, 1000),
    "c1": _of_aded("c1", False, 0, 0.25, 0.5, 1, 1.25, 2, 4, 8, 16, 32, 64),
    "c2": _of_aded("c2", False, 1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 19652),
    "depth": _of_aded("depth", True, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    "successors": _of_aded("successors", True, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
}


def within(max_new_tokens: int) -> dict[str, Field]:
    """The fields of a server that writes no more new tokens than so many."""
    asked = FIELDS["max_new_tokens"]
    notches = tuple(notch for notch in asked.notches if notch <= max_new_tokens)
    return {**FIELDS, "max_new_tokens": replace(asked, most=max_new_tokens, notches=notches)}


def parse(name: str, text: str, fields: Mapping[str, Field] = FIELDS) -> float | int | None:
    """The number that a field's text stands for; None for no number where a field may have none.

    Raises:
        Refused: the text is no number, or one that the field does not take; the sentence names the field and its range.
    """
    field = fields[name]
    plain = unicodedata.normalize("NFKC", text).strip()
    if field.nothing is not None and plain.lower() in ("", field.nothing):
        return None
    number = _number(plain)
    if fault := _fault(field, plain, number):
        raise Refused(f"field.{fault}", label=word(f"control.{name}"), **_values(field, text))
    assert number is not None
    return int(number) if field.whole else float(number)


def _number(text: str) -> float | int | None:
    """Whole numbers exactly, however large."""
    if not NUMBER.fullmatch(text):
        return None
    return int(text) if re.fullmatch(r"[+-]?\d{1,400}", text) else float(text)


def _fault(field: Field, text: str, number: float | int | None) -> str | None:
    if number is None:
        return "number" if text else "empty"
    if not field.least <= number <= field.most:
        return "range"
    return "whole" if field.whole and number != int(number) else None


def _values(field: Field, text: str) -> dict[str, Any]:
    nothing = "" if field.nothing is None else word("field.auto" if field.nothing else "field.preset")
    return {"value": cut(text, LONGEST).strip(), "least": f"{field.least:.15g}", "most": f"{field.most:.16g}", "or": nothing}

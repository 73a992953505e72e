"""The method picker: its list of methods, and the visitor's selection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aded.drafters.registry import METHODS
from aded.evaluation.colours import METHOD_COLOURS
from ui.words import Refused

MIN_METHODS, MAX_METHODS = 2, 6
"""Number of methods in a race."""
DEFAULT = ("plain", "aded", "medusa")


def encode(chosen: Sequence[str] | None, unavailable: Mapping[str, str] | None = None) -> str:
    """The picker's value: one row per method, with the reason if it cannot run, and the names of the selected methods.

    Args:
        chosen: names; None keeps the visitor's selection.
        unavailable: name to a sentence that ends with the command to fix it; None before the model is loaded.
    """
    reasons = unavailable or {}
    names = ("name", "label", "lossless", "description")
    rows = [
        {**{n: getattr(method, n) for n in names}, "unavailable": reasons.get(method.name)}
        | dict(zip(("colour", "colour_dark"), METHOD_COLOURS.get(method.name, METHOD_COLOURS["plain"])))
        for method in METHODS.values()
    ]
    return json.dumps(
        {"methods": rows, "chosen": None if chosen is None else list(chosen), "min": MIN_METHODS, "max": MAX_METHODS}
    )


def decode(value: str | None) -> tuple[str, ...]:
    """The selected names in the registry's order, from a browser's value.

    Raises:
        Refused: fewer than two or more than six of them are methods.
    """
    names = chosen(value)
    if not MIN_METHODS <= len(names) <= MAX_METHODS:
        raise Refused("notice.methods", count=len(names))
    return names


def chosen(value: str | None) -> tuple[str, ...]:
    """The selected names in the registry's order, of any number."""
    names = _sent(value)
    return tuple(name for name in METHODS if name in names)


def undecided(value: str | None) -> bool:
    """Whether the value leaves the selection to the browser (see ``encode``)."""
    try:
        return json.loads(value or "{}")["chosen"] is None
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _sent(value: str | None) -> list[Any]:
    try:
        names = json.loads(value or "{}").get("chosen")
    except (ValueError, AttributeError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

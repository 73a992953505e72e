"""Which methods race: the list behind the picker of methods, and what the visitor chose of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aded.drafters.registry import METHODS
from aded.evaluation.colours import METHOD_COLOURS
from ui.words import Refused

FEWEST, MOST = 2, 6
"""Methods in a race."""
DEFAULT = ("plain", "aded", "prompt-lookup")


def encode(chosen: Sequence[str] | None, unavailable: Mapping[str, str] | None = None) -> str:
    """The picker's value: a row for each method, why it cannot run where that is known, and the names that are ticked.

    Args:
        chosen: names; None keeps what the visitor has ticked meanwhile.
        unavailable: name to a sentence that ends with the command that mends it; None while no model has been asked.
    """
    lacks = unavailable or {}
    names = ("name", "label", "lossless", "description")
    rows = [
        {**{n: getattr(method, n) for n in names}, "unavailable": lacks.get(method.name)}
        | dict(zip(("colour", "colour_dark"), METHOD_COLOURS[method.name]))
        for method in METHODS.values()
    ]
    return json.dumps({"methods": rows, "chosen": None if chosen is None else list(chosen), "fewest": FEWEST, "most": MOST})


def decode(value: str | None) -> tuple[str, ...]:
    """The chosen names in the registry's order, from what a browser sent.

    Raises:
        Refused: fewer than two or more than six of them are methods.
    """
    names = chosen(value)
    if not FEWEST <= len(names) <= MOST:
        raise Refused("notice.methods", count=len(names))
    return names


def chosen(value: str | None) -> tuple[str, ...]:
    """The chosen names in the registry's order, however many."""
    names = _sent(value)
    return tuple(name for name in METHODS if name in names)


def undecided(value: str | None) -> bool:
    """Whether the value leaves the choice to the browser (see ``encode``)."""
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

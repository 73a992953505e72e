"""Minimum and maximum of settings (inclusive), shared by the engine's checks and the page's fields; checks of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from aded.core.errors import AdedError, shown

Limits = Mapping[str, tuple[float, float]]
"""(minimum, maximum) of numeric settings by name. A pair of ints means whole numbers."""

MAX_NODES = 256
"""Maximum number of nodes of a draft tree, including the root."""

ADED: Limits = {
    "c1": (0.0, 1e6),
    "c2": (1e-3, 1e6),
    "depth": (1, 64),
    "simulations": (0, 10_000),
    "successors": (1, 64),
}
"""Limits of the numeric fields of ``aded.drafters.methods.aded.AdedOptions``."""


def check_numbers(limits: Limits, values: Mapping[str, object]) -> None:
    """Check the settings in ``values`` that have limits; those that are not given pass.

    Raises:
        AdedError: a value is not a number (a whole number where the limits are), or out of range.
    """
    for name, (low, high) in limits.items():
        value: Any = values.get(name, low)
        whole = isinstance(low, int) and isinstance(high, int)
        if not (is_whole(value) if whole else is_number(value)) or not low <= value <= high:
            kind = "whole number" if whole else "number"
            raise AdedError(f"{name.replace('_', ' ')} is {shown(value)}; give a {kind} from {low} to {high}")


def check_flags(values: Mapping[str, object]) -> None:
    """Raise ``AdedError`` if one of these settings is neither true nor false."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise AdedError(f"{name.replace('_', ' ')} is {shown(value)}; give true or false")


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise ``AdedError`` if the setting ``name`` is none of the known values."""
    if not isinstance(value, str) or value not in known:
        raise AdedError(f"{name} is {shown(value)}; choose one of {', '.join(known)}")


def number(value: Any, name: str) -> float:
    """The setting ``name`` as a float.

    Raises:
        AdedError: it is not a number, or a float cannot hold it.
    """
    if not is_number(value):
        raise AdedError(f"{name} is {shown(value)}; give a number")
    try:
        return float(value)
    except OverflowError:
        raise AdedError(f"{name} is {shown(value)}, which is too large; give a smaller number") from None


def whole_number(value: Any, name: str) -> int:
    """The setting ``name`` as an int.

    Raises:
        AdedError: it is not a whole number, or too large.
    """
    if number(value, name) % 1:  # also NaN and infinity
        raise AdedError(f"{name} is {shown(value)}; give a whole number")
    return int(value)


def is_number(value: Any) -> bool:
    """Whether a value is a real number and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether a value is an integer and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)

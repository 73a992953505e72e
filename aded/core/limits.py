"""Minimum and maximum of settings (inclusive), shared by the engine's checks and the page's fields."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real

from aded.core.errors import AdedError

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
"""Limits of the numeric fields of ``aded.drafters.aded.AdedOptions``."""


def check_numbers(limits: Limits, values: Mapping[str, object]) -> None:
    """Check the settings in ``values`` that have limits; those that are not given pass.

    Raises:
        AdedError: a value is not a number (a whole number where the limits are), or out of range.
    """
    for name, (low, high) in limits.items():
        value = values.get(name, low)
        whole = isinstance(low, int) and isinstance(high, int)
        known = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
        if not known or not low <= float(value) <= high:  # type: ignore[arg-type]
            kind = "whole number" if whole else "number"
            raise AdedError(f"{name.replace('_', ' ')} is {value!r}; give a {kind} from {low} to {high}")

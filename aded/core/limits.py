"""Minimum and maximum of settings (inclusive), shared by the engine's checks and the page's fields."""

from __future__ import annotations

MAX_NODES = 256
"""Maximum number of nodes of a draft tree, including the root."""

ADED: dict[str, tuple[float, float]] = {
    "c1": (0, 1e6),
    "c2": (1e-3, 1e6),
    "depth": (1, 64),
    "simulations": (0, 10_000),
    "successors": (1, 64),
}
"""(minimum, maximum) of the numeric fields of ``aded.drafters.aded.AdedOptions``."""

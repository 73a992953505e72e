"""Least and greatest values of settings, both included: what the engine refuses is what a page's field may say."""

from __future__ import annotations

MOST_NODES = 256
"""Nodes of a draft tree, its root included."""

ADED: dict[str, tuple[float, float]] = {
    "c1": (0, 1e6),
    "c2": (1e-3, 1e6),
    "depth": (1, 64),
    "simulations": (0, 10_000),
    "successors": (1, 64),
}
"""Numbers of ``aded.drafters.aded.AdedOptions``."""

"""Things that are costly to make, kept for those who ask again: the ones that were asked for last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def recent(kept: dict[K, V], key: K, make: Callable[[], V], most: int) -> V:
    """What is kept under ``key``, made if nothing is; of more than ``most`` the one asked for longest ago goes."""
    value = kept.pop(key) if key in kept else make()
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
    return value

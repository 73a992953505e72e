"""Least-recently-used caching in a plain dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def recent(cache: dict[K, V], key: K, make: Callable[[], V], capacity: int) -> V:
    """The cached value of ``key``, made if missing. Beyond ``capacity`` entries the least recently used one is removed."""
    value = cache.pop(key) if key in cache else make()
    cache[key] = value
    if len(cache) > capacity:
        del cache[next(iter(cache))]
    return value

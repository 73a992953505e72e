"""What a drafter with ``keep`` has learned, as arrays that can cross to another process and back.

Only what the session taught is in it: the base matrix, the datastore and the heads are shared, and stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aded.drafters.aded import AdedDrafter
from aded.drafters.suffix import SuffixDrafter
from aded.drafters.token_recycling import TokenRecyclingDrafter

Learned = dict[str, np.ndarray]
OVERLAY = {"keys": 0, "successors": 1, "weights": 2, "sights": 3, "stamps": 4, "trust": 5, "told": 8}
"""Places of an overlay's arrays that learning changes (``aded.overlay.Overlay.arrays``); the others are its settings."""


def learned(drafter: Any) -> Learned | None:
    """A copy of what a drafter has learned; None for one that keeps nothing from text to text."""
    if isinstance(drafter, AdedDrafter):
        overlay, arrays = drafter._overlay, _arrays(drafter)
        return {"now": np.array(overlay.now), **{name: arrays[at].copy() for name, at in OVERLAY.items()}}
    if isinstance(drafter, SuffixDrafter):
        return {"text": drafter._text[: drafter._length].copy()}
    if isinstance(drafter, TokenRecyclingDrafter):
        return {"successors": drafter._successors.copy()}
    return None


def recall(drafter: Any, known: Learned) -> None:
    """Put what another drafter of the same settings has learned into this one."""
    if isinstance(drafter, AdedDrafter):
        drafter._overlay.now = int(known["now"])
        for name, at in OVERLAY.items():
            np.copyto(_arrays(drafter)[at], known[name])
    elif isinstance(drafter, SuffixDrafter):
        drafter._append(known["text"])
    elif isinstance(drafter, TokenRecyclingDrafter):
        np.copyto(drafter._successors, known["successors"])
    else:
        raise AssertionError(f"{type(drafter).__name__} keeps nothing")


def _arrays(drafter: AdedDrafter) -> Sequence[Any]:
    return drafter._overlay.arrays

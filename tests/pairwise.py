"""Pairwise testing: the default run has every pair of values of two parameters; ``make test-all`` has every combination."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(*parameters: Sequence[Any]) -> list[Any]:
    """All combinations, of which those that add no new pair of values are marked slow."""
    cases = [tuple(enumerate(case)) for case in product(*(range(len(values)) for values in parameters))]
    pairs = {case: set(combinations(case, 2)) for case in cases}
    left, kept = set().union(*pairs.values()), set()
    while left:
        best = max(cases, key=lambda case: len(pairs[case] & left))
        kept.add(best)
        left -= pairs[best]
    made = []
    for case in cases:
        values = [parameters[place][index] for place, index in case]
        marks = () if case in kept else pytest.mark.slow
        made.append(pytest.param(*values, marks=marks, id="-".join(getattr(value, "__name__", str(value)) for value in values)))
    return made

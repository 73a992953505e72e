"""The best nodes of a tree, compared with a sort of all nodes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from aded.core.best_first import highest
from aded.core.tree_shape import best_shape

TIES = (0.25, 0.5, 1.0)
"""Powers of two: products of them are exact and often equal."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("number", [1, 2, 9, 30, 100])
def test_the_highest_are_the_first_of_all_sorted_with_ties_by_index(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice(TIES, 60) if seed % 2 else rng.random(60)
    for minimum in (0.0, 0.5, 2.0):
        expected = sorted(np.flatnonzero(values >= minimum).tolist(), key=lambda node: (-values[node], node))[:number]
        assert highest(values, number, minimum).tolist() == expected


@pytest.mark.parametrize("seed", range(6))
def test_the_highest_of_a_tree_contain_the_parent_of_each_node(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parents, values = [-1], [1.0]
    for node in range(1, 80):
        parents.append(int(rng.integers(node)))
        values.append(values[parents[-1]] * rng.choice(TIES))
    for number in range(1, 81):
        nodes = set(highest(np.array(values), number, 0.0).tolist())
        assert len(nodes) == number
        assert all(parents[node] in nodes for node in nodes - {0})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [2, 9, 40, 200])
def test_an_expansion_takes_the_highest_of_all_paths_with_ties_by_parent_and_rank(seed: int, budget: int) -> None:
    rates = -np.sort(-np.random.default_rng(seed).choice(TIES, (3, 4)), axis=1)
    paths = [path for depth in range(4) for path in itertools.product(range(4), repeat=depth)]
    value_of = {path: float(np.prod([rates[level, rank] for level, rank in enumerate(path)])) for path in paths}
    shape = best_shape(rates, budget)
    assert shape.values.tolist() == sorted(value_of.values(), reverse=True)[: len(shape.values)]
    taken: list[tuple[int, ...]] = [()]
    for parent, rank, value in zip(shape.parents[1:], shape.ranks[1:], shape.values[1:]):
        open_paths = [path for path in paths if path and path not in taken and path[:-1] in taken]
        best = min(open_paths, key=lambda path: (-value_of[path], taken.index(path[:-1]), path[-1]))
        assert (*taken[parent], rank) == best
        assert value == value_of[best]
        taken.append(best)
    assert len(taken) == min(budget, len(paths))

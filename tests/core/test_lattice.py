"""Sparse trees hold the nodes with the highest path products."""

import itertools

import numpy as np
import pytest

from aded.core.tree_shape import best_shape
from aded.drafters.methods.medusa import fill


def all_paths(values):
    """Every path of ranks and its product, by brute force."""
    depths, ranks = values.shape
    for depth in range(1, depths + 1):
        for path in itertools.product(range(ranks), repeat=depth):
            yield path, float(np.prod([values[i, rank] for i, rank in enumerate(path)]))


def paths_of(shape):
    paths = [()]
    for node in range(1, len(shape.parents)):
        paths.append((*paths[shape.parents[node]], int(shape.ranks[node])))
    return paths


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("budget", [1, 2, 7, 30])
def test_the_nodes_with_the_highest_path_products_are_selected(seed, budget):
    values = np.sort(np.random.default_rng(seed).random((3, 4)), axis=1)[:, ::-1]
    shape = best_shape(values, budget)
    products = dict(all_paths(values))
    best = sorted(products.values(), reverse=True)[: budget - 1]
    assert shape.values[1:].tolist() == pytest.approx(best)
    paths = paths_of(shape)
    assert len(set(paths)) == len(paths) == budget
    assert [products[path] for path in paths[1:]] == pytest.approx(shape.values[1:].tolist())
    assert shape.depths.tolist() == [len(path) for path in paths]
    assert (shape.parents[1:] < np.arange(1, budget)).all()


def test_a_lattice_smaller_than_the_budget_is_used_up():
    assert len(best_shape(np.full((2, 3), 0.5), 100).parents) == 1 + 3 + 9
    assert len(best_shape(np.empty((0, 0)), 10).parents) == 1
    assert len(best_shape(np.zeros((2, 2)), 10).parents) == 1


def test_a_rank_is_never_drafted_before_a_higher_one():
    shape = best_shape(np.array([[0.1, 0.9], [0.5, 0.5]]), 3)
    assert paths_of(shape)[1] == (0,)


def test_a_shape_is_filled_with_tokens_and_their_values():
    values = np.array([[0.6, 0.3], [0.5, 0.1]])
    tree = fill(best_shape(values, 5), 9, np.array([[11, 12], [21, 22]]), values)
    assert tree.tokens.tolist() == [9, 11, 12, 21, 21]
    assert tree.parents.tolist() == [-1, 0, 0, 1, 2]
    assert tree.columns["prior"][1:].tolist() == [0.6, 0.3, 0.5, 0.5]

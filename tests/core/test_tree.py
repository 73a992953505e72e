"""Derived properties of draft trees, compared with slow definitions."""

import numpy as np
import pytest

from aded.core.errors import DraftError
from aded.core.tree import DraftTree


def random_tree(rng: np.random.Generator, n: int) -> DraftTree:
    parents = np.array([-1] + [rng.integers(0, i) for i in range(1, n)])
    return DraftTree(rng.permutation(1000)[:n], parents)


@pytest.mark.parametrize("seed", range(5))
def test_depths_ancestors_leaves_and_paths_agree_with_their_definitions(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(1, 40)))
    for node in range(len(tree)):
        path, walk = [], node
        while walk != -1:
            path.append(walk)
            walk = int(tree.parents[walk])
        assert tree.path_to(node) == path[::-1]
        assert tree.depths[node] == len(path) - 1
        assert set(np.flatnonzero(tree.ancestors[node])) == set(path)
        assert (node in tree.leaves) == (node not in tree.parents)


def test_child_finds_a_token_below_its_own_parent_only():
    tree = DraftTree(np.array([9, 5, 6, 5]), np.array([-1, 0, 0, 2]))
    assert tree.child(0, 5) == 1
    assert tree.child(2, 5) == 3
    assert tree.child(1, 5) is None


def test_paths_with_equal_prefixes_share_nodes_and_the_limit_holds():
    tree = DraftTree.from_paths(1, [[2, 3, 4], [2, 3, 5], [6]])
    assert tree.tokens.tolist() == [1, 2, 3, 4, 5, 6]
    assert tree.parents.tolist() == [-1, 0, 1, 2, 2, 0]
    assert len(DraftTree.from_paths(1, [[2, 3, 4], [2, 3, 5], [6]], limit=4)) == 4


def test_a_selection_keeps_tokens_columns_and_structure():
    tree = DraftTree(np.array([1, 2, 3, 4]), np.array([-1, 0, 0, 2]), {"prior": np.array([np.nan, 0.1, 0.2, 0.3])})
    part = tree.select([0, 2, 3])
    assert part.tokens.tolist() == [1, 3, 4]
    assert part.parents.tolist() == [-1, 0, 1]
    assert part.columns["prior"][1:].tolist() == [0.2, 0.3]


def test_within_and_first_chain_cut_as_documented():
    tree = DraftTree.from_paths(1, [[2, 3, 4], [5, 6]])
    assert tree.within(1).tokens.tolist() == [1, 2, 5]
    assert tree.within(0).drafted == 0
    assert tree.first_chain().tokens.tolist() == [1, 2, 3, 4]
    assert tree.first_chain().is_chain
    assert not tree.is_chain


@pytest.mark.parametrize(
    ("tokens", "parents"), [([1, 2], [-1, 1]), ([1, 2], [0, 0]), ([1, 2], [-1, -1]), ([], []), ([1, 2], [-1])]
)
def test_disordered_trees_are_refused(tokens, parents):
    with pytest.raises(DraftError):
        DraftTree(np.array(tokens, dtype=int), np.array(parents, dtype=int))


def test_a_part_of_a_draft_keeps_which_of_its_nodes_are_required():
    tree = DraftTree(np.array([0, 1, 2, 3, 4, 5]), np.array([-1, 0, 1, 0, 3, 0]), required=3)
    assert tree.select([0]).required == 0
    assert tree.select([0, 1, 3, 5]).required == 2
    assert tree.select([0, 1, 2, 3, 4]).required == 3
    assert tree.within(1).required == 2

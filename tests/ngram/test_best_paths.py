"""The best paths through a lattice, against all paths by brute force."""

import itertools

import numpy as np
import pytest
from fakes import VOCAB

from aded.ngram.best_paths import UNSEEN_PROBABILITY, best_paths
from aded.ngram.session_counts import SessionCounts
from aded.ngram.trigram import TrigramMatrix

CONTEXT = np.array([3, 1, 4], dtype=np.int32)


@pytest.fixture(scope="module")
def counts():
    text = np.minimum(np.random.default_rng(0).geometric(0.1, 5000) - 1, VOCAB - 1).astype(np.int32)
    matrix, session = TrigramMatrix.build(text, separator=0, vocab_size=VOCAB, fingerprint="abc"), SessionCounts()
    session.learn(matrix, text[:300], 0)
    return matrix, session


def random_lattice(seed, depths=3, ranks=5):
    rng = np.random.default_rng(seed)
    tokens = np.stack([rng.choice(20, ranks, replace=False) for _ in range(depths)]).astype(np.int32)
    return tokens, np.sort(rng.dirichlet(np.ones(ranks + 2), depths)[:, :ranks], axis=1)[:, ::-1].copy()


def rescored(counts, lattice, alpha, path):
    """p_head · p_matrix^alpha of the tokens after ``path``, by the definition."""
    matrix, session = counts
    tokens, probabilities = lattice[0][len(path)], lattice[1][len(path)]
    known = dict(zip(*session.successors(matrix, np.array([*CONTEXT, *path], dtype=np.int32), 512)))
    return {int(token): p * max(known.get(token, 0.0), UNSEEN_PROBABILITY) ** alpha for token, p in zip(tokens, probabilities)}


def scores(counts, lattice, alpha):
    """The score of every complete path."""
    found = {}
    for path in itertools.product(*lattice[0].tolist()):
        found[path] = np.prod([rescored(counts, lattice, alpha, path[:i])[token] for i, token in enumerate(path)])
    return found


def paths_of(tree):
    return {tuple(tree.tokens[tree.path_to(leaf)[1:]].tolist()) for leaf in tree.leaves}


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_tree_consists_of_the_paths_of_highest_score(counts, seed, alpha):
    lattice = random_lattice(seed)
    tree, _ = best_paths(*counts, CONTEXT, *lattice, alpha, 16, 200)
    every = scores(counts, lattice, alpha)
    best = sorted(every, key=lambda path: -every[path])[:16]
    assert paths_of(tree) == set(best)
    assert tree.tokens[0] == CONTEXT[-1]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_priors_are_the_rescored_probabilities_of_the_lattice(counts, alpha):
    lattice = random_lattice(5)
    tree, along = best_paths(*counts, CONTEXT, *lattice, alpha, 8, 200)
    every = scores(counts, lattice, alpha)
    best = max(every, key=lambda path: every[path])
    for node in range(1, len(tree)):
        path = tree.tokens[tree.path_to(node)[1:]].tolist()
        weights = rescored(counts, lattice, alpha, path[:-1])
        expected = weights[path[-1]] / sum(weights.values()) * lattice[1][len(path) - 1].sum()
        assert tree.columns["prior"][node] == pytest.approx(expected)
    for depth in range(3):
        weights = rescored(counts, lattice, alpha, best[:depth])
        expected = np.array([weights[token] for token in lattice[0][depth].tolist()])
        assert along[depth] == pytest.approx(expected / expected.sum() * lattice[1][depth].sum())
    if alpha == 0:
        assert along == pytest.approx(lattice[1])


def test_a_small_budget_cuts_the_last_path(counts):
    lattice = random_lattice(2)
    for budget in range(1, 12):
        tree, _ = best_paths(*counts, CONTEXT, *lattice, 1.0, 16, budget)
        assert len(tree) == budget
        assert (tree.parents[1:] < np.arange(1, budget)).all()
    every = scores(counts, lattice, 1.0)
    tree, _ = best_paths(*counts, CONTEXT, *lattice, 1.0, 16, 4)
    assert paths_of(tree) == {max(every, key=lambda path: every[path])}


def test_a_lattice_without_probabilities_drafts_nothing(counts):
    tokens, probabilities = random_lattice(1)
    for worthless in (np.zeros_like(probabilities), np.full_like(probabilities, np.nan)):
        tree, along = best_paths(*counts, CONTEXT, tokens, worthless, 1.0, 16, 50)
        assert len(tree) == 1
        assert not along.any()


def test_all_paths_of_a_small_lattice_are_drafted(counts):
    tree, _ = best_paths(*counts, CONTEXT, *random_lattice(3, depths=2, ranks=2), 1.0, 64, 200)
    assert len(tree) == 1 + 2 + 4


def test_a_search_that_takes_too_many_nodes_drafts_the_best_of_them(counts):
    """24 equally probable tokens at 10 depths, of which the matrix knows hardly any."""
    tokens = np.tile(np.arange(60, 84, dtype=np.int32), (10, 1))
    tree, _ = best_paths(*counts, CONTEXT, tokens, np.full((10, 24), 1 / 24), 1.0, 16, 100)
    assert len(tree) == 16
    assert tree.depths.max() < 10

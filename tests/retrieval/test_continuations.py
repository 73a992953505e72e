"""The trie of continuations, compared with counts of all prefixes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from aded.retrieval.continuation_trie import ContinuationTrie
from aded.sampling.coupling import UNCOUPLED
from aded.sampling.rng import key_of, uniform

VOCAB = 5


def prefixes(text: list[int], starts: list[int], depth: int, stop: int = -1) -> Counter:
    """Occurrences of each continuation, of every length, at the start positions."""
    counts: Counter = Counter()
    for start in starts:
        for end in range(start + 1, min(start + depth, len(text)) + 1):
            counts[tuple(text[start:end])] += 1
            if text[end - 1] == stop:
                break
    return counts


def paths_of(trie: ContinuationTrie, nodes: np.ndarray) -> dict[tuple[int, ...], float]:
    """Each node's path and its prior."""
    tree = trie.tree(9, nodes)
    prior = tree.columns["prior"]
    return {tuple(tree.tokens[tree.path_to(node)[1:]].tolist()): float(prior[node]) for node in range(1, len(tree))}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ordered", [True, False])
def test_the_full_trie_has_every_prefix_with_its_share(seed: int, ordered: bool) -> None:
    rng = np.random.default_rng(seed)
    text = rng.integers(0, VOCAB, 300).tolist()
    starts = rng.integers(0, 300, 40).tolist()
    if ordered:
        starts.sort(key=lambda start: text[start:])
    trie = ContinuationTrie(1000, 4, VOCAB, stop=3)
    trie.count(np.array(text, dtype=np.uint16), np.array(starts))
    nodes, expected = trie.best(1000)
    reference = prefixes(text, starts, 4, stop=3)
    found = paths_of(trie, nodes)
    assert found.keys() == reference.keys()
    for path, prior in found.items():
        assert prior == pytest.approx(reference[path] / (reference[path[:-1]] if len(path) > 1 else len(starts)))
    assert expected == pytest.approx(sum(reference.values()) / len(starts))


@pytest.mark.parametrize("budget", [1, 2, 7, 20])
def test_the_best_nodes_are_the_most_frequent_and_closed_under_parents(budget: int) -> None:
    rng = np.random.default_rng(budget)
    text, starts = rng.integers(0, 3, 400).tolist(), list(range(0, 400, 3))
    trie = ContinuationTrie(5000, 5, VOCAB)
    trie.count(np.array(text, dtype=np.int32), np.array(starts))
    nodes, expected = trie.best(budget)
    counts = sorted(prefixes(text, starts, 5).values(), reverse=True)[: budget - 1]
    assert len(nodes) == budget
    assert expected == pytest.approx(sum(counts) / len(starts))
    tree = trie.tree(9, nodes)  # asserts that parents precede their children
    assert len(set(paths_of(trie, nodes))) == budget - 1
    assert tree.tokens[0] == 9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("budget", "least"), [(12, 0.0), (200, 0.05)])
def test_with_coupling_children_are_weighted_by_their_draws_and_the_heaviest_nodes_chosen(seed, budget, least) -> None:
    rng = np.random.default_rng(seed)
    text, starts = rng.integers(0, VOCAB, 300), rng.integers(0, 300, 60)
    trie = ContinuationTrie(1000, 3, VOCAB, decay=0.9)
    trie.count(text, starts)
    uncoupled = paths_of(trie, trie.best(1000)[0])
    coupling = UNCOUPLED._replace(on=True, seed=np.uint64(seed), position=40, exponent=0.8)
    drawn = {  # the weight of each path among its siblings, before normalisation
        path: prior * (-np.log(uniform(key_of(seed, 40 + len(path) - 1), path[-1]))) ** -0.8 for path, prior in uncoupled.items()
    }
    total, norm = Counter(), Counter()
    for path, prior in uncoupled.items():
        total[path[:-1]] += prior
        norm[path[:-1]] += drawn[path]
    priors = {path: drawn[path] / norm[path[:-1]] * total[path[:-1]] for path in uncoupled}
    joint = {(): 1.0}
    for path in sorted(priors, key=len):
        joint[path] = joint[path[:-1]] * priors[path]
    best = sorted((path for path in priors if joint[path] >= least), key=lambda path: -joint[path])[: budget - 1]
    nodes, expected = trie.best(budget, least, coupling)
    found = paths_of(trie, nodes)
    assert found.keys() == set(best)
    for path, prior in found.items():
        assert prior == pytest.approx(priors[path])
    assert expected == pytest.approx(sum(joint[path] for path in best))
    assert paths_of(trie, trie.best(1000)[0]) == uncoupled, "the counts are as before"


def test_nodes_below_the_minimum_share_are_left_out() -> None:
    text = np.array([0, 1, 0, 1, 0, 1, 0, 2])
    trie = ContinuationTrie(100, 1, VOCAB)
    trie.count(text, np.array([1, 3, 5, 7]))
    assert paths_of(trie, trie.best(10, 0.5)[0]) == {(1,): 0.75}
    assert paths_of(trie, trie.best(10)[0]) == {(1,): 0.75, (2,): 0.25}


def test_weights_add_up_and_decay_with_depth() -> None:
    text = np.array([1, 2, 1, 3])
    trie = ContinuationTrie(100, 2, VOCAB, decay=0.5)
    trie.count(text, np.array([0]), 3.0)
    trie.count(text, np.array([2]), 1.0)
    assert paths_of(trie, trie.best(10)[0]) == {(1,): 0.5, (1, 2): 0.375, (1, 3): 0.125}
    trie.clear()
    assert len(trie.best(10)[0]) == 1


def test_positions_and_ids_out_of_range_are_ignored() -> None:
    text = np.array([1, 2, 70, 3, -1, 4])
    trie = ContinuationTrie(100, 6, VOCAB)
    trie.count(text, np.array([-5, 0, 3, 6, 99]))
    assert set(paths_of(trie, trie.best(50)[0])) == {(1,), (1, 2), (3,)}


def test_a_full_trie_drops_new_nodes() -> None:
    trie = ContinuationTrie(3, 4, VOCAB)
    trie.count(np.array([0, 1, 2, 3, 0, 1]), np.array([0, 4]))
    assert paths_of(trie, trie.best(10)[0]) == {(0,): 1.0, (0, 1): 1.0}

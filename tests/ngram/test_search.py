"""Every search compared with a reference in plain Python over the same successors."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from aded.core.tree import DraftTree
from aded.ngram import tree_search
from aded.ngram.session_counts import SessionCounts
from aded.ngram.tree_search import Limits, Puct, Source
from aded.ngram.trigram import TrigramMatrix

VOCAB = 40
TUNED = Puct(40, 1.0, 8.0)
PAPER = Puct(150, 32.0, 8.0, published=True)
SEARCHES = {
    "best-first": tree_search.best_first,
    "greedy": tree_search.greedy,
    "full": tree_search.full,
    "mcts": partial(tree_search.mcts, puct=TUNED, seed=3),
    "paper": partial(tree_search.mcts, puct=PAPER, seed=3),
}


def text(seed: int, length: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.12, length) - 1, VOCAB - 1).astype(np.int32)


@pytest.fixture(scope="module")
def matrix() -> TrigramMatrix:
    return TrigramMatrix.build(text(0), separator=0, vocab_size=VOCAB, fingerprint="abc")


@pytest.fixture(scope="module", params=["mixture", "published"])
def source(request: pytest.FixtureRequest, matrix: TrigramMatrix) -> Source:
    session = SessionCounts(published=request.param == "published", slots=8 if request.param == "mixture" else 12)
    session.learn(matrix, text(1, 300), 0)
    return Source(matrix, session)


CONTEXTS = [text(2, 60)[start : start + size] for start, size in ((0, 8), (9, 5), (20, 2), (31, 3), (40, 8))]


class ReferenceSuccessors:
    """Successors from base and session counts, queried with the whole path."""

    def __init__(self, source: Source, context: np.ndarray, keep: int) -> None:
        self.source, self.context, self.keep = source, context.tolist(), keep

    def __call__(self, path: tuple[int, ...]) -> list[tuple[int, float]]:
        whole = np.array([*self.context, *path], dtype=np.int32)[-tree_search.MAX_CONTEXT :]
        tokens, probabilities = self.source.session.successors(self.source.matrix, whole, self.keep)
        return list(zip(tokens.tolist(), probabilities.tolist()))


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    return [tuple(tree.tokens[tree.path_to(node)[1:]].tolist()) for node in range(len(tree))]


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_best_first_takes_the_nodes_of_highest_discounted_cumulative_probability(source: Source, context: np.ndarray) -> None:
    limits = Limits(40, 4, 5)
    successors, joint, level = ReferenceSuccessors(source, context, limits.successors), {(): 1.0}, [()]
    for _ in range(limits.depth):
        level = [
            (*path, token)
            for path in level
            for token, p in successors(path)
            if not joint.update({(*path, token): joint[path] * p})
        ]
    tree = tree_search.best_first(source, context, limits)
    if source.session.arrays.published:  # weights can exceed 1: check the order of nodes instead
        return check_taken_in_order(tree, joint, successors)
    best = sorted(map(rank_of, joint, joint.values()), reverse=True)[: limits.budget]
    np.testing.assert_allclose(sorted(map(rank_of, paths_of(tree), tree.columns["value"]), reverse=True), best, rtol=1e-9)
    np.testing.assert_allclose([joint[path] for path in paths_of(tree)], tree.columns["value"], rtol=1e-9)


def rank_of(path: tuple[int, ...], joint: float) -> float:
    return joint * tree_search.DEPTH_DECAY ** len(path)


def check_taken_in_order(tree: DraftTree, joint: dict, successors: ReferenceSuccessors) -> None:
    """Each node is the best of those whose parent comes before it."""
    taken, waiting = {()}, {(t,): p for t, p in successors(())}
    for path in paths_of(tree)[1:]:
        assert rank_of(path, joint[path]) == pytest.approx(max(map(rank_of, waiting, waiting.values())))
        taken.add(path)
        del waiting[path]
        if len(path) < 4:
            waiting.update({(*path, t): joint[(*path, t)] for t, _ in successors(path)})


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_greedy_follows_the_most_probable_successors(source: Source, context: np.ndarray) -> None:
    successors, path = ReferenceSuccessors(source, context, 1), []
    while len(path) < 6 and (row := successors(tuple(path))):
        path.append(row[0][0])
    tree = tree_search.greedy(source, context, Limits(64, 6, 12))
    assert tree.is_chain
    assert tree.tokens[1:].tolist() == path


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_full_traversal_is_breadth_first(source: Source, context: np.ndarray) -> None:
    successors, queue, expected = ReferenceSuccessors(source, context, 4), [()], [()]
    while queue and len(expected) < 50:
        path = queue.pop(0)
        if len(path) < 3:
            children = [(*path, token) for token, _ in successors(path)]
            expected += children
            queue += children
    assert paths_of(tree_search.full(source, context, Limits(50, 3, 4))) == expected[:50]


class Node:
    def __init__(self, path: tuple[int, ...], prior: float, parent: Node | None) -> None:
        self.path, self.prior, self.parent = path, prior, parent
        self.children: list[Node] | None = None
        self.visits, self.reward, self.exhausted = 0, 0.0, False
        self.joint = min(prior, 1.0) * parent.joint if parent else 1.0

    def score(self, child: Node, puct: Puct) -> float:
        if child.visits == 0 and puct.published:
            return math.inf
        mean = child.reward / child.visits if child.visits else 0.0
        growth = puct.c1 + math.log((self.visits + puct.c2 + 1) / puct.c2)
        return mean + growth * child.prior * math.sqrt(self.visits) / (1 + child.visits)


class SplitMix:
    def __init__(self, seed: int) -> None:
        self.state = seed

    def uniform(self) -> float:
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) / 2**53


def reference_mcts(successors: ReferenceSuccessors, limits: Limits, puct: Puct, seed: int) -> tuple[dict, list]:
    """The nodes of the draft by path, and (selected path, reward) of each simulation."""
    root, random, created, log = Node((), math.nan, None), SplitMix(seed), [], []
    created.append(root)
    deepest = limits.depth - 1 if puct.published else limits.depth
    for _ in range(puct.simulations):
        if root.exhausted:
            break
        node = root
        while node.children:
            node = max((c for c in node.children if not c.exhausted), key=partial(node.score, puct=puct))
        selected = node.path
        if node.children is None and len(node.path) < deepest:
            node.children = [Node((*node.path, t), p, node) for t, p in successors(node.path)]
            created += node.children
            node = node.children[0] if puct.published and node.children else node
        if puct.published:
            reward, path, ancestor = 1.0, node.path, node
            while ancestor.parent:
                reward, ancestor = reward + ancestor.prior, ancestor.parent
            while len(path) < deepest and (row := successors(path)):
                draw, chosen = random.uniform() * sum(p for _, p in row), 0
                while chosen < len(row) - 1 and draw >= row[chosen][1]:
                    draw -= row[chosen][1]
                    chosen += 1
                reward, path = reward + row[chosen][1], (*path, row[chosen][0])
        else:
            reward, node.exhausted = node.joint, not node.children
        log.append((selected, reward))
        while node:
            node.visits, node.reward = node.visits + 1, node.reward + reward
            if not puct.published and node.children:
                node.exhausted = all(c.exhausted for c in node.children)
            node = node.parent
    return _draft(created, successors, limits, puct), log


def _draft(created: list[Node], successors: ReferenceSuccessors, limits: Limits, puct: Puct) -> dict:
    created = sorted(created, key=lambda n: -(n.visits + 0.999 * n.joint))  # stable: ties by order of creation
    if puct.published:
        kept = created[: puct.paths]
        for node in list(kept):
            if node.path and len(node.path) < limits.depth and (row := successors(node.path)):
                best = Node((*node.path, row[0][0]), row[0][1], node)
                known = next((c for c in node.children or [] if c.path == best.path), best)
                if known not in kept:
                    kept.append(known)
        created = sorted(kept, key=lambda n: -(n.visits + 0.999 * n.joint))
    return {node.path: node for node in created[: limits.budget]}


@pytest.mark.parametrize(("puct", "depth"), [(TUNED, 6), (TUNED._replace(simulations=300), 3), (PAPER, 4)], ids=str)
@pytest.mark.parametrize("budget", [5, 64])
@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_puct_search_equals_the_reference(source: Source, context: np.ndarray, budget: int, puct: Puct, depth: int) -> None:
    limits = Limits(budget, depth, 6)
    expected, log = reference_mcts(ReferenceSuccessors(source, context, limits.successors), limits, puct, 11)
    tree = tree_search.mcts(source, context, limits, puct, 11)
    paths = paths_of(tree)
    assert set(paths) == set(expected)
    nodes = [expected[path] for path in paths]
    assert tree.columns["visits"].tolist() == [n.visits for n in nodes]
    np.testing.assert_allclose(tree.columns["prior"], [n.prior for n in nodes])
    np.testing.assert_allclose(tree.columns["value"], [n.reward / n.visits if n.visits else math.nan for n in nodes])
    scores = [n.parent.score(n, puct) if n.parent else math.nan for n in nodes]
    np.testing.assert_allclose(tree.columns["score"], [s if math.isfinite(s) else math.nan for s in scores])

    place = {path: index for index, path in enumerate(paths)}
    record = tree_search.record_mcts(source, context, limits, puct, 11)
    assert len(record) == len(log)
    for simulation, (selected, reward) in zip(record, log):
        assert simulation.selected == tuple(place.get(selected[:end], -1) for end in range(len(selected) + 1))
        assert simulation.expanded == simulation.selected[-1]
        assert simulation.reward == pytest.approx(reward)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("budget", [1, 2, 3, 17, 64, 256])
def test_drafts_respect_their_limits_and_are_deterministic(source: Source, name: str, budget: int) -> None:
    for context in CONTEXTS:
        limits = Limits(budget, 4, 6)
        tree, again = (SEARCHES[name](source, context, limits) for _ in range(2))
        assert tree.tokens[0] == context[-1]
        assert len(tree) <= budget
        assert tree.depths.max() <= 4
        assert np.bincount(tree.parents[1:], minlength=1).max() <= 6
        assert len(set(paths_of(tree))) == len(tree)
        assert list(tree.columns) == ["prior", "visits", "value", "exploration", "score"]
        np.testing.assert_array_equal(tree.tokens, again.tokens)
        np.testing.assert_array_equal(tree.parents, again.parents)


@pytest.mark.parametrize("name", SEARCHES)
def test_without_successors_the_draft_is_the_root(name: str) -> None:
    published = name == "paper"
    source = Source(TrigramMatrix.empty(VOCAB), SessionCounts(published=published))
    for context in ([3], [3, 4]):
        assert len(SEARCHES[name](source, np.array(context, dtype=np.int32), Limits(64, 4, 12))) == 1


def test_rollouts_depend_on_the_seed(matrix: TrigramMatrix) -> None:
    source = Source(matrix, SessionCounts(published=True, slots=12))
    values = [tree_search.mcts(source, CONTEXTS[0], Limits(64, 4, 12), PAPER, seed).columns["value"][0] for seed in range(4)]
    assert len(set(values)) > 1


def test_a_draft_above_the_budget_loses_its_least_visited_nodes(source: Source) -> None:
    whole = tree_search.mcts(source, CONTEXTS[0], Limits(64, 4, 12), PAPER, 0)
    cut = tree_search.mcts(source, CONTEXTS[0], Limits(len(whole) // 2, 4, 12), PAPER, 0)
    kept = set(paths_of(cut))
    dropped = [v for path, v in zip(paths_of(whole), whole.columns["visits"]) if path not in kept]
    assert min(cut.columns["visits"]) >= max(dropped)

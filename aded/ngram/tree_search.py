"""Draft trees from the tri-gram matrix: PUCT Monte Carlo tree search, best-first, greedy and breadth-first search.

Each search takes the successors of a context from `aded.ngram.session_counts.successors` and returns a `DraftTree` in
topological order. All searches are deterministic: the rollouts of PUCT sample with a generator seeded by the caller.
Nothing here depends on the target model. The second half of the module is the compiled code of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from aded.core.best_first import FIELDS, NODE, highest, start, take, take_best, take_root
from aded.core.compilation.jit import njit
from aded.core.inspection import Simulation
from aded.core.tree import COLUMNS, DraftTree
from aded.ngram.coupling import candidates, couple, drawn_successors
from aded.ngram.mixture import NO_LATTICE, Lattice, mix, row_below
from aded.ngram.session_counts import SessionCounts, inlined_successors, new_lookup, successors
from aded.ngram.trigram import TrigramMatrix
from aded.sampling.coupling import UNCOUPLED, Coupling
from aded.sampling.rng import next_uniform

DEPTH_DECAY = 0.93  # best-first: factor per level on a node's cumulative probability, as the acceptance rate falls with depth
UNEXPANDED = -1  # number of children of a node that is not expanded yet
PRIOR, VISITS, VALUE, EXPLORATION, SCORE = range(5)  # rows of a draft's columns, in the order of ``COLUMNS``
MAX_CONTEXT = 8  # last tokens of a context that a search reads, at least the longest context of the session counts


class Limits(NamedTuple):
    """Upper bounds of a draft.

    Attributes:
        budget: number of nodes, the root included.
        depth: depth of the tree; the root is at depth 0.
        successors: number of children of a node.
    """

    budget: int
    depth: int
    successors: int


class Puct(NamedTuple):
    """Settings of the PUCT search (arXiv 2407.12021).

    Selection takes the child with the highest Q/n + (c1 + ln((N + c2 + 1) / c2)) · P · sqrt(N) / (1 + n). P is the child's
    prior, n its visit count, Q the sum of its rewards, and N the visit count of its parent.

    Attributes:
        simulations: number of simulations.
        c1, c2: exploration constants of the formula.
        published: search as the code published with the paper. Every child is visited once before any is visited twice, a
            rollout samples to the last depth, and the reward is 1 plus the sum of the probabilities along the path.
            Otherwise the reward of a simulation is the cumulative probability of the node that it adds, which is what
            this node adds to the expected number of accepted tokens; an unvisited child has Q/n = 0, and a subtree with
            no node left to add is not selected again.
        paths: published only: the draft holds this many of the most visited nodes, each with its most probable successor.
    """

    simulations: int
    c1: float
    c2: float
    published: bool = False
    paths: int = 24


@dataclass(frozen=True)
class Source:
    """Sources of successors: the base counts, the session counts and, for best-first search, predictions of a trained head.

    If the target samples, also what is known of its draws.
    """

    matrix: TrigramMatrix
    session: SessionCounts
    lattice: Lattice = NO_LATTICE
    coupling: Coupling = UNCOUPLED


def best_first(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """Best-first search: the nodes of highest cumulative probability, discounted by ``DEPTH_DECAY`` per level.

    Args:
        source: where successors come from.
        context: the last tokens of the text, the root last, int32 ``[length]``, ``length >= 1``.
        limits: bounds of the draft.

    Returns:
        The draft; its column ``value`` is the cumulative probability.
    """
    return _tree(*_best_first(source.matrix.arrays, source.session.arrays, source.coupling, source.lattice, context, limits))


def greedy(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """Greedy search: a chain of most probable successors. Arguments as in `best_first`."""
    return best_first(source, context, limits._replace(successors=1))


def full(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """Breadth-first search: all successors until a limit is reached. Arguments as in `best_first`."""
    return _tree(*_full(source.matrix.arrays, source.session.arrays, source.coupling, context, limits))


def mcts(source: Source, context: np.ndarray, limits: Limits, puct: Puct, seed: int) -> DraftTree:
    """PUCT Monte Carlo tree search.

    The draft holds the most visited nodes, ties by cumulative probability. Unless ``puct.published``, unvisited nodes may fill
    the budget.

    Args:
        source, context, limits: as in `best_first`.
        puct: settings of the search.
        seed: seed of the rollouts; only the published search has rollouts.
    """
    return _tree(*_mcts(source, context, limits, puct, seed, _NO_RECORD)[:3])


def record_mcts(source: Source, context: np.ndarray, limits: Limits, puct: Puct, seed: int) -> tuple[Simulation, ...]:
    """The simulations of ``mcts`` with the same arguments; node indices are those of the draft that it returns."""
    record = np.full((puct.simulations, limits.depth + 3), -1.0)
    draft_index = _mcts(source, context, limits, puct, seed, record)[3]
    return tuple(_simulation(row, draft_index) for row in record if row[0] >= 0)


_NO_RECORD = np.empty((0, 0))


def _mcts(source: Source, context: np.ndarray, limits: Limits, puct: Puct, seed: int, record: np.ndarray) -> Any:
    arguments = source.matrix.arrays, source.session.arrays, source.coupling, context, limits, puct, record
    return _published_mcts(*arguments, seed) if puct.published else _tuned_mcts(*arguments)


def _simulation(row: np.ndarray, draft_index: np.ndarray) -> Simulation:
    """Decode a row of the record: number of selected nodes, reward, the selected nodes; the last one was expanded."""
    nodes = [int(draft_index[int(node)]) for node in row[2 : 2 + int(row[0])]]
    return Simulation(tuple(nodes), nodes[-1], float(row[1]))


def _tree(tokens: np.ndarray, parents: np.ndarray, columns: np.ndarray) -> DraftTree:
    return DraftTree.unchecked(tokens, parents, dict(zip(COLUMNS, columns)))


@njit(cache=True, inline="always")
def write_suffix(context, nodes, node, suffix):
    """Write the last tokens of the path to ``node``, in order, into ``suffix``; returns their number."""
    count = min(MAX_CONTEXT, nodes[node].depth + len(context))
    position = count - 1
    while node > 0 and position >= 0:
        suffix[position] = nodes[node].token
        node = nodes[node].parent
        position -= 1
    for i in range(position + 1):
        suffix[position - i] = context[len(context) - 1 - i]
    return count


@njit(cache=True)
def _best_first(base, session, coupling, lattice, context, limits):
    """Tokens, parents and columns ``[5, n]`` of the draft, in the order in which nodes were taken."""
    lookup, suffix = new_lookup(base, session), np.empty(MAX_CONTEXT, np.int32)
    found_tokens, probabilities = lookup.tokens, lookup.probabilities
    nodes, tokens, priors, frontier = start(context[-1], limits.budget, limits.successors)
    count, rows = 1, np.full(limits.budget, -1, np.int32)  # of the lattice
    rows[0] = 0 if len(lattice.tokens) else -1
    while count < limits.budget:
        node, found = count - 1, 0
        if nodes[node].depth < limits.depth:
            length, depth = write_suffix(context, nodes, node, suffix), nodes[node].depth
            if rows[node] >= 0:
                found = successors(lookup, suffix, length, limits.successors)
                found = mix(lattice, lookup, rows[node], found, candidates(coupling, limits.successors))
                found = couple(lookup, coupling, found, depth, limits.successors)
            else:
                found = drawn_successors(lookup, coupling, suffix, length, depth, limits.successors)
            for i in range(found):
                tokens[node, i], priors[node, i] = found_tokens[i], probabilities[i]
        nodes[node].children = found
        if not take_best(nodes, tokens, priors, frontier, count, DEPTH_DECAY):
            break
        rows[count] = row_below(lattice, rows[nodes[count].parent], nodes[count].token)
        count += 1
    return _taken(nodes, count)


@njit(cache=True, inline="always")
def _taken(nodes, count):
    columns = np.full((len(COLUMNS), count), np.nan)
    nodes = nodes[:count]
    columns[PRIOR], columns[VALUE] = nodes.prior, nodes.value
    return nodes.token.copy(), nodes.parent.copy(), columns


@njit(cache=True)
def _full(base, session, coupling, context, limits):
    """Returns the same as `_best_first`, in breadth-first order."""
    lookup, suffix = new_lookup(base, session), np.empty(MAX_CONTEXT, np.int32)
    nodes = np.empty(limits.budget, NODE)
    take_root(nodes, context[-1])
    node, count = 0, 1
    while node < count and count < limits.budget and nodes[node].depth < limits.depth:
        length = write_suffix(context, nodes, node, suffix)
        found = drawn_successors(lookup, coupling, suffix, length, nodes[node].depth, limits.successors)
        for i in range(min(found, limits.budget - count)):
            take(nodes, count, lookup.tokens[i], node, lookup.probabilities[i])
            count += 1
        node += 1
    return _taken(nodes, count)


SEARCH_NODE = np.dtype(
    [
        *FIELDS,
        ("first", np.int32),  # the first child; the children of a node are consecutive
        ("visits", np.int32),
        ("exhausted", np.int32),  # whether the subtree has no node left to add; always false in the published search
        ("reward", np.float64),  # sum of rewards
    ],
    align=True,
)
"""A node of the tree of a PUCT search."""


@njit(cache=True, inline="always")
def _new_tree(root, size):
    tree = np.empty(size, SEARCH_NODE)
    take_root(tree, root)
    _set_unvisited(tree, 0)
    return tree


@njit(cache=True, inline="always")
def _set_unvisited(tree, node):
    tree[node].children, tree[node].visits, tree[node].exhausted, tree[node].reward = UNEXPANDED, 0, False, 0.0


@njit(cache=True)
def _tuned_mcts(base, session, coupling, context, limits, puct, record):
    """Returns the same as `_best_first`, and the draft index of each node of the search tree (-1: not in the draft)."""
    lookup, suffix = new_lookup(base, session), np.empty(MAX_CONTEXT, np.int32)
    tokens, probabilities = lookup.tokens, lookup.probabilities
    factors = _exploration_factors(puct)
    tree, count = _new_tree(context[-1], 1 + puct.simulations * limits.successors), 1
    for simulation in range(puct.simulations):
        if tree[0].exhausted:
            break
        leaf = _select(tree, factors, False)
        if _expandable(tree, leaf, limits.depth):
            length = write_suffix(context, tree, leaf, suffix)
            if coupling.on:
                found = drawn_successors(lookup, coupling, suffix, length, tree[leaf].depth, limits.successors)
            else:
                found = inlined_successors(lookup, suffix, length, limits.successors)
            count = _add_children(tree, leaf, count, found, tokens, probabilities)
        tree[leaf].exhausted = tree[leaf].children <= 0
        _finish_simulation(tree, leaf, leaf, tree[leaf].value, record, simulation)
    return _extract_draft(tree, _ranking(tree, count), limits.budget, factors, False)


@njit(cache=True)
def _published_mcts(base, session, coupling, context, limits, puct, record, seed):
    """Returns the same as `_tuned_mcts`."""
    lookup, suffix = new_lookup(base, session), np.empty(MAX_CONTEXT, np.int32)
    tree = _new_tree(context[-1], 1 + puct.simulations * limits.successors + puct.paths)
    factors = _exploration_factors(puct)
    count, max_depth, state = 1, limits.depth - 1, np.uint64(seed)
    tokens, probabilities = lookup.tokens, lookup.probabilities
    for simulation in range(puct.simulations):
        leaf = node = _select(tree, factors, True)
        if _expandable(tree, leaf, max_depth):
            length = write_suffix(context, tree, leaf, suffix)
            found = drawn_successors(lookup, coupling, suffix, length, tree[leaf].depth, limits.successors)
            count = _add_children(tree, leaf, count, found, tokens, probabilities)
            node = tree[leaf].first if found else leaf
        length = write_suffix(context, tree, node, suffix)
        reward, state = _rollout(lookup, suffix, length, max_depth - tree[node].depth, limits.successors, state)
        reward += 1.0 + _sum_of_priors(tree, node)
        _finish_simulation(tree, leaf, node, reward, record, simulation)
    ranking = _keep_most_visited(lookup, context, tree, _ranking(tree, count), limits, puct.paths)
    return _extract_draft(tree, ranking, limits.budget, factors, True)


@njit(cache=True, inline="always")
def _select(tree, factors, unvisited_first):
    """Descend from the root, each time to the child with the highest PUCT score; returns a node without children."""
    node = 0
    while tree[node].children > 0:
        node = _best_child(tree, node, factors[tree[node].visits], unvisited_first)
    return node


@njit(cache=True, inline="always")
def _best_child(tree, node, factor, unvisited_first):
    """The child with the highest PUCT score; ties by order, which is by descending probability."""
    best, highest_score = -1, -np.inf
    for child in range(tree[node].first, tree[node].first + tree[node].children):
        if tree[child].exhausted:
            continue
        if tree[child].visits == 0 and unvisited_first:
            return child
        score = factor * tree[child].prior / (1 + tree[child].visits)
        if tree[child].visits > 0:
            score += tree[child].reward / tree[child].visits
        if score > highest_score:
            best, highest_score = child, score
        if tree[child].visits == 0:
            break  # later children are unvisited and less probable
    return best


@njit(cache=True)
def _exploration_factors(puct):
    """The factor (c1 + ln((N + c2 + 1) / c2)) · sqrt(N) of a child's P / (1 + n), for each visit count N of its parent."""
    visits = np.arange(puct.simulations + 1)
    return (puct.c1 + np.log((visits + puct.c2 + 1) / puct.c2)) * np.sqrt(visits)


@njit(cache=True, inline="always")
def _expandable(tree, node, max_depth):
    return tree[node].children == UNEXPANDED and tree[node].depth < max_depth


@njit(cache=True, inline="always")
def _add_children(tree, node, count, found, tokens, probabilities):
    """Add the ``found`` successors of ``node`` as its children; returns the new number of nodes."""
    tree[node].first, tree[node].children = count, found
    for i in range(found):
        _add_child(tree, count + i, tokens[i], node, probabilities[i])
    return count + found


@njit(cache=True, inline="always")
def _add_child(tree, child, token, parent, prior):
    """Add a node; the published weights are no probabilities and may exceed 1."""
    take(tree, child, token, parent, prior)
    tree[child].value = min(prior, 1.0) * tree[parent].value
    _set_unvisited(tree, child)


@njit(cache=True, inline="always")
def _finish_simulation(tree, leaf, node, reward, record, simulation):
    """Record the simulation, add a visit and the reward to ``node`` and its ancestors, and mark exhausted subtrees."""
    if len(record):
        record[simulation, 0], record[simulation, 1] = tree[leaf].depth + 1, reward
        for depth in range(tree[leaf].depth, -1, -1):
            record[simulation, 2 + depth] = leaf
            leaf = tree[leaf].parent
    while node >= 0:
        tree[node].visits += 1
        tree[node].reward += reward
        if tree[node].children > 0:
            tree[node].exhausted = _children_exhausted(tree, node)
        node = tree[node].parent


@njit(cache=True)
def _children_exhausted(tree, node):
    for child in range(tree[node].first, tree[node].first + tree[node].children):  # noqa: SIM110 -- a loop compiles to faster code
        if not tree[child].exhausted:
            return False
    return True


@njit(cache=True)
def _sum_of_priors(tree, node):
    total = 0.0
    while node > 0:
        total += tree[node].prior
        node = tree[node].parent
    return total


@njit(cache=True)
def _rollout(lookup, suffix, length, steps, keep, state):
    """Sample ``steps`` successors after ``suffix[:length]``; returns the sum of their probabilities and the next state."""
    total = 0.0
    for _ in range(steps):
        count = successors(lookup, suffix, length, keep)
        if count == 0:
            break
        draw, state = next_uniform(state)
        draw *= lookup.probabilities[:count].sum()
        chosen = 0
        while chosen < count - 1 and draw >= lookup.probabilities[chosen]:
            draw -= lookup.probabilities[chosen]
            chosen += 1
        total += lookup.probabilities[chosen]
        if length == MAX_CONTEXT:
            suffix[:-1] = suffix[1:].copy()
            length -= 1
        suffix[length] = lookup.tokens[chosen]
        length += 1
    return total, state


@njit(cache=True)
def _ranking(tree, count):
    """Visits of the first ``count`` nodes, ties by cumulative probability. A parent never ranks below its child."""
    return tree[:count].visits + 0.999 * tree[:count].value


@njit(cache=True)
def _keep_most_visited(lookup, context, tree, ranking, limits, paths):
    """The ranking of the ``paths`` most visited nodes and the most probable successor of each; -1 for all other nodes."""
    count, suffix = len(ranking), np.empty(MAX_CONTEXT, np.int32)
    kept = np.full(count + paths, -1.0)
    for node in np.sort(highest(ranking, paths, 0.0)):
        kept[node] = ranking[node]
        if node == 0:
            continue
        if tree[node].children > 0:
            kept[tree[node].first] = ranking[tree[node].first]
        elif _expandable(tree, node, limits.depth) and successors(
            lookup, suffix, write_suffix(context, tree, node, suffix), limits.successors
        ):
            _add_child(tree, count, lookup.tokens[0], node, lookup.probabilities[0])
            kept[count] = 0.999 * tree[count].value
            count += 1
    return kept[:count]


@njit(cache=True)
def _extract_draft(tree, ranking, budget, factors, unvisited_first):
    """The draft: the nodes of highest ranking that is not negative, in order of creation."""
    kept = np.sort(highest(ranking, budget, 0.0))
    draft_index = np.full(len(ranking), -1, np.int32)
    columns = np.full((len(COLUMNS), len(kept)), np.nan)
    draft_parents = np.full(len(kept), -1, np.int32)
    for i in range(len(kept)):
        node = kept[i]
        parent, visits = tree[node].parent, tree[node].visits
        draft_index[node] = i
        columns[PRIOR, i], columns[VISITS, i] = tree[node].prior, visits
        if visits > 0:
            columns[VALUE, i] = tree[node].reward / visits
        if node > 0:
            draft_parents[i] = draft_index[parent]
            columns[EXPLORATION, i] = factors[tree[parent].visits] * tree[node].prior / (1 + visits)
            if visits > 0:
                columns[SCORE, i] = columns[VALUE, i] + columns[EXPLORATION, i]
            elif not unvisited_first:
                columns[SCORE, i] = columns[EXPLORATION, i]
    return tree.token[kept], draft_parents, columns, draft_index

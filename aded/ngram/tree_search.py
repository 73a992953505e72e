"""Drafts from a matrix: PUCT Monte Carlo tree search, best-first, greedy and full traversal.

Every search draws the successors of a context from `aded.ngram.session_overlay.successors`, returns a `DraftTree` in
topological order
and is deterministic: the one that samples (rollouts) has a generator of its own, keyed by the given seed. Nothing here
knows the model that verifies the draft. (Longer than most modules: what is read at the top is compiled below.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aded.core.inspection import Simulation
from aded.core.jit import njit
from aded.core.tree import COLUMNS, DraftTree
from aded.ngram.medusa_mixture import NO_LATTICE, Lattice, mix
from aded.ngram.session_overlay import Overlay, make_room, successors
from aded.ngram.trigram import TrigramMatrix

FADE = 0.93  # best-first: a node is ranked by its joint probability times this for every level, as deeper guesses fail oftener
UNEXPANDED = -1  # number of children of a node that was not evaluated yet
NEWEST = 8  # tokens of a context that a search reads: at least the overlay's longest


class Limits(NamedTuple):
    """What bounds a draft.

    Attributes:
        budget: nodes, the root included.
        depth: tokens below the root.
        successors: children of a node.
    """

    budget: int
    depth: int
    successors: int


class Puct(NamedTuple):
    """Settings of the tree search.

    A child of prior P and n visits, with summed reward Q, under a parent of N visits is selected by
    Q/n + (c1 + ln((N + c2 + 1) / c2)) · P · sqrt(N) / (1 + n).

    Attributes:
        simulations: how many.
        c1, c2: as in the formula.
        published: search as the published draft maker does (arXiv 2407.12021): every child is visited once before any is
            visited twice, a simulation samples on to the last depth, and its reward is 1 plus the sum of the
            probabilities along the sampled path. Otherwise a simulation's reward is the probability that the node it
            adds is accepted, the product of the probabilities along its path, which is what that node adds to the
            expected number of accepted tokens; unvisited children count as Q/n = 0, and a branch where nothing is
            left to add is not entered again.
        paths: published only: how many of the most visited nodes make the draft, each with its best successor.
    """

    simulations: int
    c1: float
    c2: float
    published: bool = False
    paths: int = 24


@dataclass(frozen=True)
class Source:
    """What a search draws successors from: the shared matrix and the session's overlay; best-first, a lattice of guesses too."""

    matrix: TrigramMatrix
    overlay: Overlay
    lattice: Lattice = NO_LATTICE


def best_first(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """The nodes of highest joint probability, which counts for a little less with every level (``FADE``).

    Args:
        source: where successors come from.
        context: the newest tokens, the root last, int32 ``[length]``, ``length >= 1``.
        limits: bounds of the draft.
    """
    return _tree(*_best_first(source.matrix.arrays, source.overlay.arrays, source.lattice, context, *limits))


def greedy(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """The most probable successor of the most probable successor, and so on: a chain."""
    return best_first(source, context, limits._replace(successors=1))


def full(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """All successors, breadth first, until a limit is met."""
    return _tree(*_full(source.matrix.arrays, source.overlay.arrays, context, *limits))


def mcts(source: Source, context: np.ndarray, limits: Limits, puct: Puct, seed: int) -> DraftTree:
    """PUCT Monte Carlo tree search.

    The draft is made of the most visited nodes; among equals (the not yet visited ones too, unless ``puct.published``)
    those of higher joint probability.
    """
    found = _mcts(source.matrix.arrays, source.overlay.arrays, context, *limits, *puct, seed, _NO_RECORD)
    return _tree(*found[:3])


def record_mcts(source: Source, context: np.ndarray, limits: Limits, puct: Puct, seed: int) -> tuple[Simulation, ...]:
    """What each simulation of ``mcts`` with the same arguments did, in the nodes of the tree that it returns."""
    record = np.full((puct.simulations, limits.depth + 3), -1.0)
    _, _, _, place = _mcts(source.matrix.arrays, source.overlay.arrays, context, *limits, *puct, seed, record)
    return tuple(_simulation(row, place) for row in record if row[0] >= 0)


_NO_RECORD = np.empty((0, 0))


def _simulation(row: np.ndarray, place: np.ndarray) -> Simulation:
    """One row of the record: number of selected nodes, reward, the selected nodes; the last of them was expanded."""
    nodes = [int(place[int(node)]) for node in row[2 : 2 + int(row[0])]]
    return Simulation(tuple(nodes), nodes[-1], float(row[1]))


def _tree(tokens: np.ndarray, parents: np.ndarray, columns: np.ndarray) -> DraftTree:
    return DraftTree(tokens, parents, dict(zip(COLUMNS, columns)))


@njit(cache=True, inline="always")
def _suffix(context, tokens, parents, node, depth, suffix):
    """Write the newest tokens up to ``node``, oldest first, into ``suffix``; return their number."""
    count = min(NEWEST, depth + len(context))
    place = count - 1
    while node > 0 and place >= 0:
        suffix[place] = tokens[node]
        node = parents[node]
        place -= 1
    for i in range(place + 1):
        suffix[place - i] = context[len(context) - 1 - i]
    return count


@njit(cache=True)
def _best_first(base, overlay, lattice, context, budget, depth, keep):
    """Tokens, parents and columns ``[5, n]`` of the draft, in the order in which nodes were taken."""
    size = 1 + (budget - 1) * keep
    tokens, parents, depths = np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget, np.int32)
    columns = np.full((5, budget), np.nan)
    offer_token, offer_parent, offer_prior, offer_joint, offer_rank = (
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size), np.empty(size), np.empty(size),
    )  # fmt: skip
    heap, waiting, offers = np.empty(size, np.int32), 0, 0
    suffix, room = np.empty(NEWEST, np.int32), make_room()
    found, weights = room[0], room[1]
    tokens[0], parents[0], depths[0], columns[2, 0] = context[-1], -1, 0, 1.0
    count = 1
    while count < budget:
        node = count - 1
        if depths[node] < depth:
            length = _suffix(context, tokens, parents, node, depths[node], suffix)
            known = successors(base, overlay, suffix, length, keep, room)
            for i in range(mix(lattice, depths[node], known, keep, room)):
                offer_token[offers], offer_parent[offers], offer_prior[offers] = found[i], node, weights[i]
                offer_joint[offers] = weights[i] * columns[2, node]
                offer_rank[offers] = offer_joint[offers] * FADE ** (depths[node] + 1)
                _push(heap, waiting, offer_rank, offers)
                offers, waiting = offers + 1, waiting + 1
        if waiting == 0:
            break
        taken = _pop(heap, waiting, offer_rank)
        waiting -= 1
        tokens[count], parents[count] = offer_token[taken], offer_parent[taken]
        depths[count] = depths[parents[count]] + 1
        columns[0, count], columns[2, count] = offer_prior[taken], offer_joint[taken]
        count += 1
    return tokens[:count], parents[:count], columns[:, :count]


@njit(cache=True)
def _before(value, a, b):
    """Whether offer ``a`` is taken before ``b``: the higher value, the earlier one among equals."""
    return value[a] > value[b] or (value[a] == value[b] and a < b)


@njit(cache=True)
def _push(heap, size, value, item):
    place = size
    while place > 0 and _before(value, item, heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = item


@njit(cache=True)
def _pop(heap, size, value):
    top, last, size, place = heap[0], heap[size - 1], size - 1, 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(value, heap[child + 1], heap[child]):
            child += 1
        if not _before(value, heap[child], last):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = last
    return top


@njit(cache=True)
def _full(base, overlay, context, budget, depth, keep):
    """As `_best_first`, level by level."""
    tokens, parents, depths = np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget, np.int32)
    columns = np.full((5, budget), np.nan)
    suffix, room = np.empty(NEWEST, np.int32), make_room()
    found, weights = room[0], room[1]
    tokens[0], parents[0], depths[0], columns[2, 0] = context[-1], -1, 0, 1.0
    node, count = 0, 1
    while node < count and count < budget and depths[node] < depth:
        length = _suffix(context, tokens, parents, node, depths[node], suffix)
        for i in range(min(successors(base, overlay, suffix, length, keep, room), budget - count)):
            tokens[count], parents[count], depths[count] = found[i], node, depths[node] + 1
            columns[0, count], columns[2, count] = weights[i], weights[i] * columns[2, node]
            count += 1
        node += 1
    return tokens[:count], parents[:count], columns[:, :count]


@njit(cache=True)
def _mcts(base, overlay, context, budget, depth, keep, simulations, c1, c2, published, paths, seed, record):
    """As `_best_first`; also the draft's index of every node of the search tree (-1: not in the draft), by creation."""
    size = 1 + simulations * keep + paths
    tokens, parents, depths = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    prior, joint, reward = np.empty(size), np.empty(size), np.zeros(size)
    first, children, visits = np.zeros(size, np.int32), np.full(size, UNEXPANDED, np.int32), np.zeros(size, np.int32)
    closed = np.zeros(size, np.bool_)
    suffix, room = np.empty(NEWEST, np.int32), make_room()
    tokens[0], parents[0], depths[0], prior[0], joint[0] = context[-1], -1, 0, np.nan, 1.0
    count, deepest = 1, depth - 1 if published else depth
    state = np.uint64(seed)
    for simulation in range(simulations):
        if closed[0]:
            break
        node = 0
        while children[node] > 0:  # selection
            node = _select(node, first, children, visits, reward, prior, closed, c1, c2, published)
        leaf = node
        if children[node] == UNEXPANDED and depths[node] < deepest:  # expansion
            length = _suffix(context, tokens, parents, node, depths[node], suffix)
            first[node], children[node] = count, successors(base, overlay, suffix, length, keep, room)
            count = _expand(node, count, children[node], room, tokens, parents, depths, prior, joint)
            node = first[node] if published and children[node] > 0 else node
        if published:  # simulation
            length = _suffix(context, tokens, parents, node, depths[node], suffix)
            gain, state = _rollout(base, overlay, suffix, length, deepest - depths[node], keep, room, state)
            gain += 1.0 + _path_sum(node, parents, prior)
        else:
            gain = joint[node]
            closed[node] = children[node] <= 0
        if len(record):
            _write_path(record[simulation], gain, leaf, parents, depths)
        _backpropagate(node, gain, parents, first, children, visits, reward, closed, published)
    standing = visits + 0.999 * joint
    standing[count:] = -1.0
    if published:
        count = _crown(base, overlay, context, depth, keep, paths, count, tokens, parents, depths, prior, joint, first, children,
                       standing, suffix, room)  # fmt: skip
    return _cut(budget, count, tokens, parents, prior, reward, visits, standing, c1, c2, published)


@njit(cache=True, inline="always")
def _select(node, first, children, visits, reward, prior, closed, c1, c2, published):
    """The child of the highest PUCT score; the first one, which is the most probable, among equals."""
    factor = _exploration(visits[node], c1, c2)
    best, highest = -1, -np.inf
    for child in range(first[node], first[node] + children[node]):
        if closed[child]:
            continue
        if visits[child] == 0 and published:
            return child
        score = factor * prior[child] / (1 + visits[child])
        if visits[child] > 0:
            score += reward[child] / visits[child]
        if score > highest:
            best, highest = child, score
        if visits[child] == 0:
            break  # the ones after it are not visited either, and less probable
    return best


@njit(cache=True, inline="always")
def _expand(node, count, children, room, tokens, parents, depths, prior, joint):
    """Make the found successors children of ``node``; the number of nodes after."""
    found, weights = room[0], room[1]
    for i in range(children):
        tokens[count], parents[count], depths[count] = found[i], node, depths[node] + 1
        prior[count], joint[count] = weights[i], min(weights[i], 1.0) * joint[node]
        count += 1
    return count


@njit(cache=True, inline="always")
def _backpropagate(node, gain, parents, first, children, visits, reward, closed, published):
    """Count the visit in ``node`` and all above it; close those under which nothing is left to add."""
    while node >= 0:
        visits[node] += 1
        reward[node] += gain
        if not published and children[node] > 0:
            closed[node] = closed[first[node] : first[node] + children[node]].all()
        node = parents[node]


@njit(cache=True)
def _exploration(visits, c1, c2):
    """(c1 + ln((N + c2 + 1) / c2)) · sqrt(N), what a child's P / (1 + n) is multiplied by."""
    return (c1 + np.log((visits + c2 + 1) / c2)) * np.sqrt(visits)


@njit(cache=True)
def _path_sum(node, parents, prior):
    total = 0.0
    while node > 0:
        total += prior[node]
        node = parents[node]
    return total


@njit(cache=True)
def _rollout(base, overlay, suffix, length, steps, keep, room, state):
    """Sample ``steps`` successors in turn: the sum of their probabilities, and the generator's new state."""
    found, weights = room[0], room[1]
    total = 0.0
    for _ in range(steps):
        count = successors(base, overlay, suffix, length, keep, room)
        if count == 0:
            break
        draw, state = _uniform(state)
        draw *= weights[:count].sum()
        chosen = 0
        while chosen < count - 1 and draw >= weights[chosen]:
            draw -= weights[chosen]
            chosen += 1
        total += weights[chosen]
        if length == NEWEST:
            suffix[:-1] = suffix[1:].copy()
            length -= 1
        suffix[length] = found[chosen]
        length += 1
    return total, state


@njit(cache=True)
def _uniform(state):
    """The next number in [0, 1) of a splitmix64 generator, and its new state."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) / 9007199254740992.0, state


@njit(cache=True)
def _write_path(row, gain, leaf, parents, depths):
    row[0], row[1] = depths[leaf] + 1, gain
    for place in range(depths[leaf], -1, -1):
        row[2 + place] = leaf
        leaf = parents[leaf]


@njit(cache=True)
def _crown(base, overlay, context, depth, keep, paths, count, tokens, parents, depths, prior, joint, first, children, standing,
           suffix, room):  # fmt: skip
    """Published: strike out all but the most visited nodes and the best successor of each; the number of nodes after."""
    found, weights = room[0], room[1]
    order = _highest(standing[:count], paths)
    chosen = np.zeros(count, np.bool_)
    chosen[order] = True
    before = count
    for node in order:
        if node == 0:
            continue
        if children[node] > 0:
            chosen[first[node]] = True
        elif children[node] == UNEXPANDED and depths[node] < depth:
            length = _suffix(context, tokens, parents, node, depths[node], suffix)
            if successors(base, overlay, suffix, length, keep, room) > 0:
                tokens[count], parents[count], depths[count] = found[0], node, depths[node] + 1
                prior[count], joint[count] = weights[0], min(weights[0], 1.0) * joint[node]
                standing[count] = 0.999 * joint[count]
                count += 1
    for node in range(before):
        if not chosen[node]:
            standing[node] = -1.0
    return count


@njit(cache=True)
def _highest(standing, number):
    """Ascending indices of the ``number`` highest standings that are not negative, lower index first among equals."""
    least = 0.0
    if len(standing) > number:
        least = max(least, -np.partition(-standing, number - 1)[number - 1])
    equals = number - (standing > least).sum()
    chosen, count = np.empty(min(number, len(standing)), np.int64), 0
    for i in range(len(standing)):
        if standing[i] == least:
            equals -= 1
        if standing[i] > least or (standing[i] == least and equals >= 0):
            chosen[count] = i
            count += 1
    return chosen[:count]


@njit(cache=True)
def _cut(budget, count, tokens, parents, prior, reward, visits, standing, c1, c2, published):
    """The draft: the nodes of highest standing (a parent's is never below its child's), in order of creation."""
    kept = _highest(standing[:count], budget)
    place = np.full(count, -1, np.int32)
    columns = np.full((5, len(kept)), np.nan)
    up = np.full(len(kept), -1, np.int32)
    for i in range(len(kept)):
        node = kept[i]
        place[node] = i
        columns[0, i], columns[1, i] = prior[node], visits[node]
        if visits[node] > 0:
            columns[2, i] = reward[node] / visits[node]
        if node > 0:
            up[i] = place[parents[node]]
            columns[3, i] = _exploration(visits[parents[node]], c1, c2) * prior[node] / (1 + visits[node])
            if visits[node] > 0:
                columns[4, i] = columns[2, i] + columns[3, i]
            elif not published:
                columns[4, i] = columns[3, i]
    return tokens[kept], up, columns, place

"""Draft trees from the tri-gram matrix: PUCT Monte Carlo tree search, best-first, greedy and breadth-first search.

Each search takes the successors of a context from `aded.ngram.session_overlay.successors` and returns a `DraftTree` in
topological order. All searches are deterministic: the rollouts of PUCT sample with a generator seeded by the caller.
Nothing here depends on the target model. (Longer than most modules: the second half holds the compiled code of the first.)
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

DEPTH_DECAY = 0.93  # best-first: factor per level on a node's cumulative probability, as the acceptance rate falls with depth
UNEXPANDED = -1  # number of children of a node that is not expanded
MAX_CONTEXT = 8  # last tokens of a context that a search reads, at least the overlay's longest context


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
    """Sources of successors: the shared matrix, the session's overlay and, for best-first search, predictions of Medusa heads."""

    matrix: TrigramMatrix
    overlay: Overlay
    lattice: Lattice = NO_LATTICE


def best_first(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """Best-first search: the nodes of highest cumulative probability, discounted by ``DEPTH_DECAY`` per level.

    Args:
        source: where successors come from.
        context: the last tokens of the text, the root last, int32 ``[length]``, ``length >= 1``.
        limits: bounds of the draft.

    Returns:
        The draft; its column ``value`` is the cumulative probability.
    """
    return _tree(*_best_first(source.matrix.arrays, source.overlay.arrays, source.lattice, context, *limits))


def greedy(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """Greedy search: a chain of most probable successors. Arguments as in `best_first`."""
    return best_first(source, context, limits._replace(successors=1))


def full(source: Source, context: np.ndarray, limits: Limits) -> DraftTree:
    """Breadth-first search: all successors until a limit is reached. Arguments as in `best_first`."""
    return _tree(*_full(source.matrix.arrays, source.overlay.arrays, context, *limits))


def mcts(source: Source, context: np.ndarray, limits: Limits, puct: Puct, seed: int) -> DraftTree:
    """PUCT Monte Carlo tree search.

    The draft holds the most visited nodes, ties by cumulative probability. Unless ``puct.published``, unvisited nodes may fill
    the budget.

    Args:
        source, context, limits: as in `best_first`.
        puct: settings of the search.
        seed: seed of the rollouts.
    """
    draft = _mcts(source.matrix.arrays, source.overlay.arrays, context, *limits, *puct, seed, _NO_RECORD)
    return _tree(*draft[:3])


def record_mcts(source: Source, context: np.ndarray, limits: Limits, puct: Puct, seed: int) -> tuple[Simulation, ...]:
    """The simulations of ``mcts`` with the same arguments; node indices are those of the draft that it returns."""
    record = np.full((puct.simulations, limits.depth + 3), -1.0)
    _, _, _, draft_index = _mcts(source.matrix.arrays, source.overlay.arrays, context, *limits, *puct, seed, record)
    return tuple(_simulation(row, draft_index) for row in record if row[0] >= 0)


_NO_RECORD = np.empty((0, 0))


def _simulation(row: np.ndarray, draft_index: np.ndarray) -> Simulation:
    """Decode a row of the record: number of selected nodes, reward, the selected nodes; the last one was expanded."""
    nodes = [int(draft_index[int(node)]) for node in row[2 : 2 + int(row[0])]]
    return Simulation(tuple(nodes), nodes[-1], float(row[1]))


def _tree(tokens: np.ndarray, parents: np.ndarray, columns: np.ndarray) -> DraftTree:
    return DraftTree(tokens, parents, dict(zip(COLUMNS, columns)))


@njit(cache=True, inline="always")
def _write_suffix(context, tokens, parents, node, depth, suffix):
    """Write the last tokens of the path to ``node``, in order, into ``suffix``; returns their number."""
    count = min(MAX_CONTEXT, depth + len(context))
    position = count - 1
    while node > 0 and position >= 0:
        suffix[position] = tokens[node]
        node = parents[node]
        position -= 1
    for i in range(position + 1):
        suffix[position - i] = context[len(context) - 1 - i]
    return count


@njit(cache=True)
def _best_first(base, overlay, lattice, context, budget, depth, keep):
    """Tokens, parents and columns ``[5, n]`` of the draft, in the order in which nodes were popped from the heap."""
    size = 1 + (budget - 1) * keep
    tokens, parents, depths = np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget, np.int32)
    columns = np.full((5, budget), np.nan)
    open_token, open_parent, open_prior, open_cumulative, open_rank = (
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size), np.empty(size), np.empty(size),
    )  # fmt: skip
    heap, heap_size, n_open = np.empty(size, np.int32), 0, 0
    suffix, buffers = np.empty(MAX_CONTEXT, np.int32), make_room()
    found_tokens, probabilities = buffers[0], buffers[1]
    tokens[0], parents[0], depths[0], columns[2, 0] = context[-1], -1, 0, 1.0
    count = 1
    while count < budget:
        node = count - 1
        if depths[node] < depth:
            length = _write_suffix(context, tokens, parents, node, depths[node], suffix)
            n_successors = successors(base, overlay, suffix, length, keep, buffers)
            for i in range(mix(lattice, depths[node], n_successors, keep, buffers)):
                open_token[n_open], open_parent[n_open], open_prior[n_open] = found_tokens[i], node, probabilities[i]
                open_cumulative[n_open] = probabilities[i] * columns[2, node]
                open_rank[n_open] = open_cumulative[n_open] * DEPTH_DECAY ** (depths[node] + 1)
                _push(heap, heap_size, open_rank, n_open)
                n_open, heap_size = n_open + 1, heap_size + 1
        if heap_size == 0:
            break
        popped = _pop(heap, heap_size, open_rank)
        heap_size -= 1
        tokens[count], parents[count] = open_token[popped], open_parent[popped]
        depths[count] = depths[parents[count]] + 1
        columns[0, count], columns[2, count] = open_prior[popped], open_cumulative[popped]
        count += 1
    return tokens[:count], parents[:count], columns[:, :count]


@njit(cache=True)
def _pops_before(value, a, b):
    """Whether ``a`` is popped before ``b``: higher value first, ties by lower index."""
    return value[a] > value[b] or (value[a] == value[b] and a < b)


@njit(cache=True)
def _push(heap, size, value, item):
    position = size
    while position > 0 and _pops_before(value, item, heap[(position - 1) // 2]):
        heap[position] = heap[(position - 1) // 2]
        position = (position - 1) // 2
    heap[position] = item


@njit(cache=True)
def _pop(heap, size, value):
    top, last, size, position = heap[0], heap[size - 1], size - 1, 0
    while 2 * position + 1 < size:
        child = 2 * position + 1
        if child + 1 < size and _pops_before(value, heap[child + 1], heap[child]):
            child += 1
        if not _pops_before(value, heap[child], last):
            break
        heap[position] = heap[child]
        position = child
    heap[position] = last
    return top


@njit(cache=True)
def _full(base, overlay, context, budget, depth, keep):
    """Returns the same as `_best_first`, in breadth-first order."""
    tokens, parents, depths = np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget, np.int32)
    columns = np.full((5, budget), np.nan)
    suffix, buffers = np.empty(MAX_CONTEXT, np.int32), make_room()
    found_tokens, probabilities = buffers[0], buffers[1]
    tokens[0], parents[0], depths[0], columns[2, 0] = context[-1], -1, 0, 1.0
    node, count = 0, 1
    while node < count and count < budget and depths[node] < depth:
        length = _write_suffix(context, tokens, parents, node, depths[node], suffix)
        for i in range(min(successors(base, overlay, suffix, length, keep, buffers), budget - count)):
            tokens[count], parents[count], depths[count] = found_tokens[i], node, depths[node] + 1
            columns[0, count], columns[2, count] = probabilities[i], probabilities[i] * columns[2, node]
            count += 1
        node += 1
    return tokens[:count], parents[:count], columns[:, :count]


@njit(cache=True)
def _mcts(base, overlay, context, budget, depth, keep, simulations, c1, c2, published, paths, seed, record):
    """Returns the same as `_best_first`, and the draft index of each node of the search tree (-1: not in the draft)."""
    size = 1 + simulations * keep + paths
    tokens, parents, depths = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    prior, cumulative, total_reward = np.empty(size), np.empty(size), np.zeros(size)
    first, children, visits = np.zeros(size, np.int32), np.full(size, UNEXPANDED, np.int32), np.zeros(size, np.int32)
    exhausted = np.zeros(size, np.bool_)
    suffix, buffers = np.empty(MAX_CONTEXT, np.int32), make_room()
    tokens[0], parents[0], depths[0], prior[0], cumulative[0] = context[-1], -1, 0, np.nan, 1.0
    count, max_depth = 1, depth - 1 if published else depth
    state = np.uint64(seed)
    for simulation in range(simulations):
        if exhausted[0]:
            break
        node = 0
        while children[node] > 0:  # selection
            node = _select(node, first, children, visits, total_reward, prior, exhausted, c1, c2, published)
        leaf = node
        if children[node] == UNEXPANDED and depths[node] < max_depth:  # expansion
            length = _write_suffix(context, tokens, parents, node, depths[node], suffix)
            first[node], children[node] = count, successors(base, overlay, suffix, length, keep, buffers)
            count = _expand(node, count, children[node], buffers, tokens, parents, depths, prior, cumulative)
            node = first[node] if published and children[node] > 0 else node
        if published:  # simulation
            length = _write_suffix(context, tokens, parents, node, depths[node], suffix)
            reward, state = _rollout(base, overlay, suffix, length, max_depth - depths[node], keep, buffers, state)
            reward += 1.0 + _sum_of_priors(node, parents, prior)
        else:
            reward = cumulative[node]
            exhausted[node] = children[node] <= 0
        if len(record):
            _record_simulation(record[simulation], reward, leaf, parents, depths)
        _backpropagate(node, reward, parents, first, children, visits, total_reward, exhausted, published)
    ranking = visits + 0.999 * cumulative  # ties by cumulative probability
    ranking[count:] = -1.0
    if published:
        count = _keep_most_visited(base, overlay, context, depth, keep, paths, count, tokens, parents, depths, prior, cumulative,
                                   first, children, ranking, suffix, buffers)  # fmt: skip
    return _extract_draft(budget, count, tokens, parents, prior, total_reward, visits, ranking, c1, c2, published)


@njit(cache=True, inline="always")
def _select(node, first, children, visits, total_reward, prior, exhausted, c1, c2, published):
    """The child with the highest PUCT score; ties by order, which is by descending probability."""
    factor = _exploration(visits[node], c1, c2)
    best, highest = -1, -np.inf
    for child in range(first[node], first[node] + children[node]):
        if exhausted[child]:
            continue
        if visits[child] == 0 and published:
            return child
        score = factor * prior[child] / (1 + visits[child])
        if visits[child] > 0:
            score += total_reward[child] / visits[child]
        if score > highest:
            best, highest = child, score
        if visits[child] == 0:
            break  # later children are unvisited and less probable
    return best


@njit(cache=True, inline="always")
def _expand(node, count, children, buffers, tokens, parents, depths, prior, cumulative):
    """Add the successors in ``buffers`` as children of ``node``; returns the new number of nodes."""
    found_tokens, probabilities = buffers[0], buffers[1]
    for i in range(children):
        tokens[count], parents[count], depths[count] = found_tokens[i], node, depths[node] + 1
        prior[count], cumulative[count] = probabilities[i], min(probabilities[i], 1.0) * cumulative[node]
        count += 1
    return count


@njit(cache=True, inline="always")
def _backpropagate(node, reward, parents, first, children, visits, total_reward, exhausted, published):
    """Add a visit and the reward to ``node`` and its ancestors; mark those whose subtree has no node left to add."""
    while node >= 0:
        visits[node] += 1
        total_reward[node] += reward
        if not published and children[node] > 0:
            exhausted[node] = exhausted[first[node] : first[node] + children[node]].all()
        node = parents[node]


@njit(cache=True)
def _exploration(visits, c1, c2):
    """The factor (c1 + ln((N + c2 + 1) / c2)) · sqrt(N) of a child's P / (1 + n)."""
    return (c1 + np.log((visits + c2 + 1) / c2)) * np.sqrt(visits)


@njit(cache=True)
def _sum_of_priors(node, parents, prior):
    total = 0.0
    while node > 0:
        total += prior[node]
        node = parents[node]
    return total


@njit(cache=True)
def _rollout(base, overlay, suffix, length, steps, keep, buffers, state):
    """Sample a path of ``steps`` successors; returns the sum of their probabilities and the generator's new state."""
    found_tokens, probabilities = buffers[0], buffers[1]
    total = 0.0
    for _ in range(steps):
        count = successors(base, overlay, suffix, length, keep, buffers)
        if count == 0:
            break
        draw, state = _uniform(state)
        draw *= probabilities[:count].sum()
        chosen = 0
        while chosen < count - 1 and draw >= probabilities[chosen]:
            draw -= probabilities[chosen]
            chosen += 1
        total += probabilities[chosen]
        if length == MAX_CONTEXT:
            suffix[:-1] = suffix[1:].copy()
            length -= 1
        suffix[length] = found_tokens[chosen]
        length += 1
    return total, state


@njit(cache=True)
def _uniform(state):
    """A number in [0, 1) from a splitmix64 generator, and its new state."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) / 9007199254740992.0, state


@njit(cache=True)
def _record_simulation(row, reward, leaf, parents, depths):
    row[0], row[1] = depths[leaf] + 1, reward
    for position in range(depths[leaf], -1, -1):
        row[2 + position] = leaf
        leaf = parents[leaf]


@njit(cache=True)
def _keep_most_visited(base, overlay, context, depth, keep, paths, count, tokens, parents, depths, prior, cumulative, first,
                       children, ranking, suffix, buffers):  # fmt: skip
    """Published rule: keep the most visited nodes and the best successor of each; returns the new number of nodes."""
    found_tokens, probabilities = buffers[0], buffers[1]
    order = _highest(ranking[:count], paths)
    chosen = np.zeros(count, np.bool_)
    chosen[order] = True
    before = count
    for node in order:
        if node == 0:
            continue
        if children[node] > 0:
            chosen[first[node]] = True
        elif children[node] == UNEXPANDED and depths[node] < depth:
            length = _write_suffix(context, tokens, parents, node, depths[node], suffix)
            if successors(base, overlay, suffix, length, keep, buffers) > 0:
                tokens[count], parents[count], depths[count] = found_tokens[0], node, depths[node] + 1
                prior[count], cumulative[count] = probabilities[0], min(probabilities[0], 1.0) * cumulative[node]
                ranking[count] = 0.999 * cumulative[count]
                count += 1
    for node in range(before):
        if not chosen[node]:
            ranking[node] = -1.0
    return count


@njit(cache=True)
def _highest(ranking, number):
    """Sorted indices of the ``number`` highest values of ``ranking`` that are not negative, ties by lower index."""
    threshold = 0.0
    if len(ranking) > number:
        threshold = max(threshold, -np.partition(-ranking, number - 1)[number - 1])
    ties_left = number - (ranking > threshold).sum()
    chosen, count = np.empty(min(number, len(ranking)), np.int64), 0
    for i in range(len(ranking)):
        if ranking[i] == threshold:
            ties_left -= 1
        if ranking[i] > threshold or (ranking[i] == threshold and ties_left >= 0):
            chosen[count] = i
            count += 1
    return chosen[:count]


@njit(cache=True)
def _extract_draft(budget, count, tokens, parents, prior, total_reward, visits, ranking, c1, c2, published):
    """The draft: the nodes of highest ranking, in order of creation. A parent never ranks below its child."""
    kept = _highest(ranking[:count], budget)
    draft_index = np.full(count, -1, np.int32)
    columns = np.full((5, len(kept)), np.nan)
    draft_parents = np.full(len(kept), -1, np.int32)
    for i in range(len(kept)):
        node = kept[i]
        draft_index[node] = i
        columns[0, i], columns[1, i] = prior[node], visits[node]
        if visits[node] > 0:
            columns[2, i] = total_reward[node] / visits[node]
        if node > 0:
            draft_parents[i] = draft_index[parents[node]]
            columns[3, i] = _exploration(visits[parents[node]], c1, c2) * prior[node] / (1 + visits[node])
            if visits[node] > 0:
                columns[4, i] = columns[2, i] + columns[3, i]
            elif not published:
                columns[4, i] = columns[3, i]
    return tokens[kept], draft_parents, columns, draft_index

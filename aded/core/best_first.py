"""The nodes of highest value in a tree, in compiled code; with each node they contain its parent.

The value of a node is a product along its path, such as its cumulative probability. `take_best` expands a tree best-first: a
node gets its children when it is taken. `highest` selects from a tree whose nodes are all known.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

import numpy as np

from aded.core.compilation.jit import njit

FIELDS = [
    ("token", np.int32),
    ("parent", np.int32),  # -1 for the root
    ("depth", np.int32),
    ("prior", np.float64),  # NaN for the root
    ("value", np.float64),  # product of the priors along the path, 1 for the root
    ("children", np.int32),  # number of children
]
"""Fields of a node. The nodes of a tree are in the order in which they were taken."""
NODE = np.dtype(FIELDS, align=True)


@njit(cache=True, inline="always")
def take_root(nodes, token):
    """Take the root; ``nodes``: records with ``FIELDS``, and possibly others."""
    nodes[0].token, nodes[0].parent, nodes[0].depth, nodes[0].prior, nodes[0].value = token, -1, 0, np.nan, 1.0


@njit(cache=True, inline="always")
def take(nodes, node, token, parent, prior):
    """Take a child of ``parent`` as ``nodes[node]``."""
    nodes[node].token, nodes[node].parent, nodes[node].depth = token, parent, nodes[parent].depth + 1
    nodes[node].prior, nodes[node].value = prior, prior * nodes[parent].value


@njit(cache=True, inline="always")
def start(root, budget, width):
    """Start a best-first expansion.

    Args:
        root: token of the root.
        budget: maximum number of nodes, the root included.
        width: maximum number of children of a node.

    Returns:
        Records of ``NODE``, ``[budget]``, of which the root is taken; token and prior of each node's children, int32 and float64
        ``[budget, width]``, to be filled by the caller; the frontier.
    """
    nodes = np.empty(budget, NODE)
    take_root(nodes, root)
    frontier = [(0.0, 0, 0) for _ in range(0)]  # the best open child of each node: negative value, parent, rank
    return nodes, np.empty((budget, width), np.int32), np.empty((budget, width)), frontier


@njit(cache=True, inline="always")
def take_best(nodes, tokens, priors, frontier, taken, discount):
    """Take the child of highest value of all taken nodes; ties go to the earlier parent, then to the better rank.

    Args:
        nodes, tokens, priors, frontier: from `start`. The caller has written the children of the node that was taken last: their
            number into the node, their tokens and priors into its rows, highest prior first.
        taken: number of nodes taken so far.
        discount: factor per level by which values are discounted when they are compared.

    Returns:
        Whether there was a child to take.
    """
    node = taken - 1
    if nodes[node].children > 0:
        heappush(frontier, (-(priors[node, 0] * nodes[node].value * discount ** (nodes[node].depth + 1)), node, 0))
    if len(frontier) == 0:
        return False
    _, parent, rank = frontier[0]
    take(nodes, taken, tokens[parent, rank], parent, priors[parent, rank])
    rank += 1
    if rank < nodes[parent].children:
        heapreplace(frontier, (-(priors[parent, rank] * nodes[parent].value * discount ** nodes[taken].depth), parent, rank))
    else:
        heappop(frontier)
    return True


@njit(cache=True)
def highest(values, number, minimum):
    """The nodes of highest value. They contain their parents if a parent comes before its children and has at least their value.

    Args:
        values: float64 ``[n]``, not NaN.
        number: how many nodes to select, at least 1; fewer if fewer have the minimum.
        minimum: minimum value of a node.

    Returns:
        Node indices, highest value first, ties by lower index, int64 ``[k]``.
    """
    nodes, count = np.empty(min(number, len(values)), np.int64), 0
    for node in range(len(values)):  # insertion sort: few nodes, and most come in descending order
        value = values[node]
        if value < minimum or (count == number and value <= values[nodes[count - 1]]):
            continue
        count = min(count + 1, number)
        place = count - 1
        while place > 0 and values[nodes[place - 1]] < value:
            nodes[place] = nodes[place - 1]
            place -= 1
        nodes[place] = node
    return nodes[:count]


def warm_up() -> None:
    """Compile ``highest`` for calls that are not from compiled code, so that no timed step does."""
    highest(np.ones(1), 1, 0.0)

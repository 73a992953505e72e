"""Drafts token trees with a network that reads features: EAGLE-2's dynamic tree and EAGLE-1's static one."""

from __future__ import annotations

import numpy as np

from aded.core.tree import DraftTree
from aded.core.tree_shape import Shape
from aded.draft_models.feature_network import Children, FeatureNetwork
from aded.draft_models.tree_runner import BEAM, Beam, Levels, Sampler
from aded.sampling.settings import SamplingSettings

MOST_PROBABLE = Sampler(SamplingSettings(), coupled=False, replacement=False)
"""Children are the most probable tokens, also when the target samples."""


def beam_search(network: FeatureNetwork, children: Children, root: int, vocab_size: int, depth: int) -> Beam:
    """The candidates of a beam search (EAGLE-2, arXiv 2406.16858, section 4.1); ``Beam.best`` ranks them again.

    Args:
        network: has read all committed positions.
        children: the tokens after the root, one row.
        root: the root's token.
        vocab_size: of the target.
        depth: number of levels.
    """
    beam = Beam(root, vocab_size)
    for level in range(depth):
        beam.extend(children.tokens[:, :BEAM], children.probabilities[:, :BEAM])
        if level + 1 < depth:
            tree, rows = beam.expanded(), beam.rows
            children = network.draft(tree.tokens[rows], tree.parents[rows] - 1)  # the root is committed, not drafted
    return beam


def fill(network: FeatureNetwork, children: Children, root: int, shape: Shape) -> tuple[DraftTree, bool]:
    """The tree of a shape whose nodes are the network's most probable tokens by rank, and whether all probabilities are finite.

    Args:
        network, children, root: as in ``beam_search``.
        shape: the shape.
    """
    levels = Levels(shape, root)
    drafted = np.full(len(shape.parents), -1)  # index of each node among the drafted positions
    count = 0
    for depth in range(1, levels.depth + 1):
        parents, width = levels.parents_at(depth)
        if depth > 1:
            children = network.draft(levels.tokens[parents], drafted[levels.parents[parents]])
            drafted[parents] = count + np.arange(len(parents))
            count += len(parents)
        levels.add(depth, children.tokens[:, :width], children.probabilities[:, :width], None)
    return levels.tree(MOST_PROBABLE), levels.finite

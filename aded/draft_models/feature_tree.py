"""Drafts token trees with a network that reads features: EAGLE-2's dynamic tree and EAGLE-1's static one."""

from __future__ import annotations

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.core.tree_shape import Shape
from aded.draft_models.eagle_network import EagleNetwork
from aded.draft_models.feature_network import FeatureOutput
from aded.draft_models.tree_runner import BEAM, Beam, Levels, Sampler
from aded.sampling import sampler as sampling
from aded.sampling.settings import SamplingSettings

GREEDY = Sampler(SamplingSettings(), coupled=False, replacement=False)
"""Children are the most probable tokens, also when the target samples."""


def beam_search(network: EagleNetwork, output: FeatureOutput, root: int, vocab_size: int, depth: int) -> Beam:
    """The candidates of a beam search (EAGLE-2, arXiv 2406.16858, section 4.1); ``Beam.best`` ranks them again.

    Args:
        network: has read all committed positions.
        output: its output at the root, one row.
        root: the root's token.
        vocab_size: of the target.
        depth: number of levels.
    """
    beam, first = Beam(root, vocab_size), 0
    for level in range(depth):
        tokens, probabilities = children(network, output.logits, BEAM)
        beam.extend(tokens, probabilities)
        if level + 1 < depth and len(beam.rows):
            tree = beam.expanded()
            parents = tree.parents[beam.rows]
            output = _draft(network, output, parents - first, tree.tokens[beam.rows], parents - 1)
            first = int(beam.rows[0])
    return beam


def fill(network: EagleNetwork, output: FeatureOutput, root: int, shape: Shape) -> tuple[DraftTree, bool]:
    """The tree of a shape whose nodes are the network's most probable tokens by rank, and whether all logits were finite.

    Args:
        network, output, root: as in ``beam_search``.
        shape: ranks below the size of the draft vocabulary.
    """
    levels = Levels(shape, root)
    read, drafted = np.zeros(1, dtype=np.int64), np.zeros(len(shape.parents), dtype=np.int64)
    drafted[0], count = -1, 0  # index of each node among the drafted positions
    for depth in range(1, levels.depth + 1):
        parents, width = levels.parents_at(depth)
        if depth > 1:
            above = levels.parents[parents]
            output = _draft(network, output, np.searchsorted(read, above), levels.tokens[parents], drafted[above])
            drafted[parents] = count + np.arange(len(parents))
            count, read = count + len(parents), parents
        levels.add(depth, *children(network, output.logits, width), None)
    return levels.tree(GREEDY), levels.finite


def children(network: EagleNetwork, logits: torch.Tensor, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The most probable tokens after each row, int64, and their probabilities, float64, ``[n, width]`` each or narrower."""
    found = torch.stack([values.double() for values in sampling.top(logits, width)]).cpu().numpy()
    return network.tokens[found[0].astype(np.int64)], found[1]


def _draft(
    network: EagleNetwork, output: FeatureOutput, rows: np.ndarray, tokens: np.ndarray, parents: np.ndarray
) -> FeatureOutput:
    """Read a level: the features are those of ``rows`` of the output of the level above."""
    device = output.features.device
    features = output.features[torch.from_numpy(rows.astype(np.int64)).to(device)]
    return network.draft(features, torch.from_numpy(tokens.astype(np.int64)).to(device), torch.from_numpy(parents))

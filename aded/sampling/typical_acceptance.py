"""Typical acceptance (Medusa, arXiv 2401.10774, section 2.3.1): more accepted, and a distribution that is not the target's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.sampling.logits_pipeline import Rule
from aded.sampling.tree_walk import Verification


def verify(tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule) -> Verification:
    """The longest path whose every token is typical of the target after its parent; of equals, the most probable one.

    The token after it is drawn from the target. (The paper takes the arg max there and calls for one at the start of
    every step; then a text in which nothing is accepted would not be sampled at all.)

    Args and returns as ``aded.sampling.verify.verify``; ``rule.typical`` holds the thresholds.
    """
    ids = [int(i) for i in prefix]
    score = _scores(tree, logits, ids, rule)
    depths = np.where(np.isfinite(score), tree.depths, -1)
    end = max(range(len(tree)), key=lambda node: (depths[node], score[node], -node))
    path = tree.path_to(end)
    token, draw = rule.choose(logits[end], ids + tree.tokens[path[1:]].tolist())
    return Verification(path, token, [*[None] * (len(path) - 1), draw])


def _scores(tree: DraftTree, logits: torch.Tensor, prefix: list[int], rule: Rule) -> np.ndarray:
    """Log-probability of the path to each node, float64 ``[n]``; -inf where a token on it is not typical."""
    assert rule.typical is not None
    score = np.full(len(tree), -np.inf)
    score[0] = 0.0
    for parent in sorted(set(tree.parents[1:].tolist())):
        if not np.isfinite(score[parent]):
            continue
        children = np.flatnonzero(tree.parents == parent)
        row = rule.probabilities(logits[parent], prefix + tree.tokens[tree.path_to(parent)[1:]].tolist())
        entropy = -torch.special.xlogy(row, row).sum()
        found = torch.cat([row[torch.from_numpy(tree.tokens[children]).long().to(row.device)], entropy[None]]).cpu().numpy()
        threshold = min(rule.typical.epsilon, rule.typical.delta * np.exp(-found[-1]))
        typical = found[:-1] > threshold
        score[children[typical]] = score[parent] + np.log(found[:-1][typical])
    return score

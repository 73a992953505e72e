"""Typical acceptance (Medusa, arXiv 2401.10774, section 2.3.1): accepts more draft tokens, but is not lossless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import TypicalAcceptance
from aded.verification.tree_walk import Verification


def verify(tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule) -> Verification:
    """Accept the longest path of typical tokens; among equally long paths the most probable one.

    The next token is drawn from the target's distribution. (The paper uses the argmax there and always accepts the first token
    greedily; a text without any accepted draft token would then not be sampled at all.)

    Arguments and result as in ``aded.verification.verify.verify``; ``rule.typical`` holds the thresholds.
    """
    ids = [int(i) for i in prefix]
    score = _scores(tree, logits, ids, rule)
    depths = np.where(np.isfinite(score), tree.depths, -1)
    end = max(range(len(tree)), key=lambda node: (depths[node], score[node], -node))
    path = tree.path_to(end)
    token, draw = rule.choose(logits[end], ids + tree.tokens[path[1:]].tolist())
    return Verification(path, token, [*[None] * (len(path) - 1), draw])


def _scores(tree: DraftTree, logits: torch.Tensor, prefix: list[int], rule: Rule) -> np.ndarray:
    """Log-probability of the path to each node, float64 ``[n]``; -inf if a token of the path is not typical."""
    assert rule.typical is not None
    score = np.full(len(tree), -np.inf)
    score[0] = 0.0
    for parent in sorted(set(tree.parents[1:].tolist())):
        if not np.isfinite(score[parent]):
            continue
        children = np.flatnonzero(tree.parents == parent)
        row = rule.probabilities(logits[parent], prefix + tree.tokens[tree.path_to(parent)[1:]].tolist())
        test = check_children(row, tree.tokens[children], rule.typical)
        score[children[test.typical]] = score[parent] + np.log(test.probabilities[test.typical])
    return score


class TypicalTest(NamedTuple):
    """The test of the children of a node.

    Attributes:
        probabilities: the target's probability of each child, float64 ``[children]``.
        entropy: of the target's distribution, in nats.
        threshold: ``min(epsilon, delta * exp(-entropy))``.
    """

    probabilities: np.ndarray
    entropy: float
    threshold: float

    @property
    def typical(self) -> np.ndarray:
        """Whether the probability of each child is above the threshold, bool ``[children]``."""
        return self.probabilities > self.threshold


def check_children(row: torch.Tensor, tokens: np.ndarray, thresholds: TypicalAcceptance) -> TypicalTest:
    """Test the children of a node.

    Args:
        row: the target's distribution at the node, float64 ``[vocab]``.
        tokens: of the children, int32 ``[children]``.
        thresholds: epsilon and delta.
    """
    entropy = -torch.special.xlogy(row, row).sum()
    values = torch.cat([row[torch.from_numpy(tokens).long().to(row.device)], entropy[None]]).cpu().numpy()
    threshold = min(thresholds.epsilon, thresholds.delta * np.exp(-values[-1]))
    return TypicalTest(values[:-1], float(values[-1]), float(threshold))

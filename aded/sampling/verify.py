"""The verdict on a draft: which of its nodes the target would have written itself.

Losslessness is decided here alone. One token is drawn at each *node* that the walk stands on, from the target's own
distribution there, and the walk descends if a child holds it: the text is then the target's, whatever was drafted. (Drawing once
for each drafted candidate instead would favour drafted tokens.) The draw at a position depends on the seed and
that position only, so a sampled speculative run writes what the sampled plain run writes. A draft that was sampled itself and
says what from is judged in ``aded.sampling.rejection_sampler``: just as lossless, but equal to plain in distribution only, not
by seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.sampling import rejection_sampler, typical_acceptance
from aded.sampling.logits_pipeline import Rule
from aded.sampling.tree_walk import Verification, walk


def verify(
    tree: DraftTree,
    logits: torch.Tensor,
    prefix: Sequence[int] | np.ndarray,
    rule: Rule,
    graphs: dict[tuple[Any, ...], Any] | None = None,
) -> Verification:
    """Walk the tree along the target's own choices.

    Args:
        tree: ``n`` nodes.
        logits: the target's at every node, ``[n, vocab]``.
        prefix: all committed token ids; the last one is the root.
        rule: how the target chooses.
        graphs: where graphs of rejection sampling are kept; None: it runs without.
    """
    if not rule.settings.greedy and (tree.drawn is not None or rule.typical is not None):
        if rule.typical:
            return typical_acceptance.verify(tree, logits, prefix, rule)
        return rejection_sampler.verify(tree, logits, prefix, rule, graphs)
    if rule.settings.greedy and not rule.changes_logits:
        best = logits.argmax(dim=-1).tolist()  # one transfer for the whole tree
        return walk(tree, lambda node, path: (best[node], None))
    ids = [int(i) for i in prefix]

    def choose(node: int, path: list[int]) -> tuple[int, float | None]:
        return rule.choose(logits[node], ids + [int(tree.tokens[i]) for i in path[1:]])

    return walk(tree, choose)

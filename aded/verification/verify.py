"""Verification of a draft: which nodes are accepted, and which token follows.

At each accepted *node* one token is drawn from the target's distribution, and the walk descends if a child holds this token. The
text therefore follows the target's distribution for any draft. (A separate draw for each drafted candidate would favour
drafted tokens.) The draw at a position depends only on the seed and the position, so speculative and plain decoding with the same
seed emit the same tokens. A sampled draft with draft distributions is verified in ``aded.verification.rejection_sampler`` or
``aded.verification.block_verifier``: this is also lossless, but equal to plain decoding only in distribution, not token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.sampling.logits_pipeline import Rule
from aded.verification import block_verifier, rejection_sampler, typical_acceptance
from aded.verification.tree_walk import Verification, walk


def prepare(tree: DraftTree, vocab_size: int, dtype: torch.dtype, rule: Rule, graphs: dict[tuple[Any, ...], Any]) -> None:
    """Capture the graph that ``verify`` will use for a tree, if it uses one; logits are ``[n, vocab_size]`` of ``dtype``."""
    if rule.rejection_fits_graph(tree):
        _verifier_of(tree).prepare(tree, vocab_size, dtype, rule, graphs)


def verify(
    tree: DraftTree,
    logits: torch.Tensor,
    prefix: Sequence[int] | np.ndarray,
    rule: Rule,
    graphs: dict[tuple[Any, ...], Any] | None = None,
) -> Verification:
    """Verify a draft tree.

    Args:
        tree: ``n`` nodes.
        logits: the target's logits at every node, ``[n, vocab]``.
        prefix: all committed token ids; the last one is the root.
        rule: how the target chooses tokens.
        graphs: cache for CUDA graphs of rejection sampling; None to run without graphs.

    Returns:
        The accepted path and the bonus or correction token.
    """
    if not rule.settings.greedy and (tree.sampled_from is not None or rule.typical is not None):
        if rule.typical:
            return typical_acceptance.verify(tree, logits, prefix, rule)
        return cast(Verification, _verifier_of(tree).verify(tree, logits, prefix, rule, graphs))
    if rule.settings.greedy and not rule.changes_logits:
        best = logits.argmax(dim=-1).tolist()  # one transfer for the whole tree
        return walk(tree, lambda node, path: (best[node], None))
    ids = [int(i) for i in prefix]

    def choose(node: int, path: list[int]) -> tuple[int, float | None]:
        return rule.choose(logits[node], ids + [int(tree.tokens[i]) for i in path[1:]])

    return walk(tree, choose)


def _verifier_of(tree: DraftTree) -> ModuleType:
    """The module that verifies a sampled draft with draft distributions."""
    assert tree.sampled_from is not None
    return block_verifier if tree.drafted and tree.sampled_from.block else rejection_sampler

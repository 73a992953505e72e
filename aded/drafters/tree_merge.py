"""Merges the trees of several draft models into one (SpecInfer, arXiv 2305.09781, section 3: merge-based construction)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from aded.core.tree import DraftDistributions, DraftTree


def merge(trees: Sequence[DraftTree]) -> DraftTree:
    """The union of trees with the same root; equal paths are merged.

    If several trees contain a path, the highest prior is kept. In sampled trees every sampled token is kept, because each of
    them is verified: a token sampled twice at a node becomes two children, and all further tokens go below the first of them,
    since both have the same path.

    Args:
        trees: one or more trees with the same root token; all sampled in the same way, or none sampled.
    """
    assert len({int(tree.tokens[0]) for tree in trees}) == 1, "the trees have different roots"
    assert len({tree.sampled_from and tree.sampled_from.replacement for tree in trees}) == 1, (
        "sampled and other drafts cannot be merged"
    )
    merged = _Merged(int(trees[0].tokens[0]), sampled=trees[0].sampled_from is not None)
    for tree in trees:
        merged.add(tree)
    return merged.tree(trees)


class _Merged:
    def __init__(self, root: int, sampled: bool) -> None:
        self.sampled = sampled
        self.tokens, self.parents, self.priors, self.rows = [root], [-1], [np.nan], [-1]
        self._node_of: dict[tuple[int, int], int] = {}  # (parent, token) to the node of this path
        self._row_count = 0  # number of distributions of the trees so far

    def add(self, tree: DraftTree) -> None:
        merged = np.zeros(len(tree), dtype=np.int64)  # node of the merged tree for each node of this tree
        prior = tree.columns.get("prior", np.full(len(tree), np.nan))
        for node in range(1, len(tree)):
            parent, token = int(merged[tree.parents[node]]), int(tree.tokens[node])
            known = self._node_of.get((parent, token))
            merged[node] = self._append(parent, token, prior[node], tree, node) if known is None or self.sampled else known
            if known is None:
                self._node_of[parent, token] = int(merged[node])
            else:
                self.priors[known] = np.fmax(self.priors[known], prior[node])
                merged[node] = known
        self._row_count += 0 if tree.sampled_from is None else len(tree.sampled_from.distributions)

    def _append(self, parent: int, token: int, prior: float, tree: DraftTree, node: int) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        self.priors.append(prior)
        self.rows.append(-1 if tree.sampled_from is None else int(tree.sampled_from.rows[node]) + self._row_count)
        return len(self.tokens) - 1

    def tree(self, trees: Sequence[DraftTree]) -> DraftTree:
        drawn = [tree.sampled_from for tree in trees if tree.sampled_from is not None]
        columns = {} if all(np.isnan(self.priors)) else {"prior": np.array(self.priors)}
        all_drawn = None
        if drawn:
            all_drawn = DraftDistributions(
                _stacked([d.distributions for d in drawn]), np.array(self.rows, np.int32), drawn[0].replacement
            )
        return DraftTree(np.array(self.tokens), np.array(self.parents), columns, sampled_from=all_drawn)


def _stacked(distributions: Sequence[torch.Tensor]) -> torch.Tensor:
    """All distributions, on the device of the first, padded with zeros to the largest vocabulary."""
    width = max(q.shape[1] for q in distributions)
    return torch.cat([torch.nn.functional.pad(q.to(distributions[0].device), (0, width - q.shape[1])) for q in distributions])

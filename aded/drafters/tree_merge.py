"""One tree from the trees of several drafters (SpecInfer, arXiv 2305.09781, section 3: merge-based construction)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from aded.core.tree import DraftTree, Drawn


def merge(trees: Sequence[DraftTree]) -> DraftTree:
    """The union of trees over one root: equal paths become one.

    Of a path that several trees have, the highest prior is kept. Of sampled trees every draw stays, for all of them are
    judged: a token drawn a second time at a node is a second child there, and what was drawn after it joins what
    was drawn after the first, since both stand for the same text.

    Args:
        trees: one or more with the same root token; all sampled in one way, or none.
    """
    assert len({int(tree.tokens[0]) for tree in trees}) == 1, "the trees have one root"
    assert len({tree.drawn and tree.drawn.replacement for tree in trees}) == 1, "sampled drafts and others do not mix"
    merged = _Merged(int(trees[0].tokens[0]), sampled=trees[0].drawn is not None)
    for tree in trees:
        merged.add(tree)
    return merged.tree(trees)


class _Merged:
    def __init__(self, root: int, sampled: bool) -> None:
        self.sampled = sampled
        self.tokens, self.parents, self.priors, self.rows = [root], [-1], [np.nan], [-1]
        self._place: dict[tuple[int, int], int] = {}  # (parent, token) to the node that stands for this path
        self._rows = 0  # of distributions, of the trees so far

    def add(self, tree: DraftTree) -> None:
        place = np.zeros(len(tree), dtype=np.int64)
        prior = tree.columns.get("prior", np.full(len(tree), np.nan))
        for node in range(1, len(tree)):
            parent, token = int(place[tree.parents[node]]), int(tree.tokens[node])
            known = self._place.get((parent, token))
            place[node] = self._append(parent, token, prior[node], tree, node) if known is None or self.sampled else known
            if known is None:
                self._place[parent, token] = int(place[node])
            else:
                self.priors[known] = np.fmax(self.priors[known], prior[node])
                place[node] = known
        self._rows += 0 if tree.drawn is None else len(tree.drawn.distributions)

    def _append(self, parent: int, token: int, prior: float, tree: DraftTree, node: int) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        self.priors.append(prior)
        self.rows.append(-1 if tree.drawn is None else int(tree.drawn.rows[node]) + self._rows)
        return len(self.tokens) - 1

    def tree(self, trees: Sequence[DraftTree]) -> DraftTree:
        drawn = [tree.drawn for tree in trees if tree.drawn is not None]
        columns = {} if all(np.isnan(self.priors)) else {"prior": np.array(self.priors)}
        together = None
        if drawn:
            together = Drawn(_stacked([d.distributions for d in drawn]), np.array(self.rows, np.int32), drawn[0].replacement)
        return DraftTree(np.array(self.tokens), np.array(self.parents), columns, drawn=together)


def _stacked(distributions: Sequence[torch.Tensor]) -> torch.Tensor:
    """All rows, on the first one's device and as wide as the widest."""
    width = max(q.shape[1] for q in distributions)
    return torch.cat([torch.nn.functional.pad(q.to(distributions[0].device), (0, width - q.shape[1])) for q in distributions])

"""Medusa (arXiv 2401.10774): heads on the target's hidden state predict the next tokens; a sparse tree combines them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from aded.core.inspection import Explanation
from aded.core.limits import check_choice
from aded.core.tree import DraftTree
from aded.core.tree_shape import Shape, best_shape
from aded.draft_models.medusa_heads import HeadPredictions, HeadReader
from aded.drafters.base import Context, Drafter, Inspectable, Outcome
from aded.engine.outputs import DrafterNeeds
from aded.sampling.settings import TypicalAcceptance

if TYPE_CHECKING:
    import torch

TreeKind = Literal["adaptive", "static"]
NO_STATE = "the heads have no hidden state before the first step: plain step"


def check_tree(tree: str) -> None:
    """Check the kind of tree.

    Raises:
        AdedError: an unknown kind.
    """
    check_choice("tree", tree, get_args(TreeKind))


class MedusaDrafter(Drafter, Inspectable):
    """Drafts the tree of the heads' predictions with the highest expected number of accepted tokens.

    Args:
        reader: the Medusa heads of the target.
        tree: *adaptive* uses the heads' probabilities at each step; *static* uses the accuracy of each rank on held-out text,
            so that all steps have the same tree, as in the paper.
        typical: thresholds of typical acceptance, which replaces rejection sampling when sampling: lossy, more tokens per step.

    Raises:
        AdedError: an unknown kind of tree.
    """

    def __init__(self, reader: HeadReader, tree: TreeKind = "adaptive", typical: TypicalAcceptance | None = None) -> None:
        check_tree(tree)
        self.tree, self.typical = tree, typical
        self.needs = DrafterNeeds(reader=reader)
        self._reader = reader
        self._predictions: HeadPredictions | None = None  # for the tokens after the root
        best_shape(reader.accuracy, 2)  # JIT-compile now, not in a timed step

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._predictions = None

    def propose(self, context: Context, budget: int) -> DraftTree:
        predictions = self._predictions
        if predictions is None or budget == 1:
            return DraftTree.root_only(context.root)
        priors = predictions.probabilities if self.tree == "adaptive" else self._reader.accuracy
        return fill(best_shape(priors, budget), context.root, predictions.tokens, priors)

    def observe(self, outcome: Outcome) -> None:
        self._predictions = self._reader.predictions(outcome.reader_output)

    def explain(self, context: Context, budget: int) -> Explanation:
        return Explanation(note=NO_STATE if self._predictions is None and budget > 1 else None)

    def settings(self) -> dict[str, object]:
        thresholds = {} if self.typical is None else asdict(self.typical)
        return {"tree": self.tree, "heads": len(self._reader.accuracy), **thresholds}


def fill(shape: Shape, root: int, tokens: np.ndarray, values: np.ndarray) -> DraftTree:
    """The draft tree of a shape, with its tokens and priors.

    Args:
        shape: the shape, ``n`` nodes.
        root: the root's token.
        tokens, values: token and prior of each depth and rank, ``[depths, ranks]``.
    """
    index = shape.depths[1:] - 1, shape.ranks[1:]
    prior = np.concatenate([[np.nan], values[index]])
    return DraftTree(np.concatenate([[root], tokens[index]]), shape.parents, {"prior": prior})

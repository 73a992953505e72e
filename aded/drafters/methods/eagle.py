"""EAGLE (arXiv 2401.15077, 2406.16858, 2503.01840): a head drafts a tree from the target's features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import torch

from aded.core.inspection import Explanation
from aded.core.limits import check_choice, check_numbers
from aded.core.tree import DraftTree
from aded.core.tree_shape import best_shape
from aded.draft_models import feature_tree
from aded.draft_models.feature_heads import LoadedHead
from aded.draft_models.tree_runner import BEAM, Beam
from aded.drafters.base import Context, Outcome
from aded.drafters.head import NOT_FINITE, HeadDrafter
from aded.engine.outputs import DrafterNeeds

if TYPE_CHECKING:
    from aded.engine.target_view import TargetView

TreeKind = Literal["dynamic", "static"]
DEPTH, MAX_DEPTH = 6, 16
"""Default and largest depth of a dynamic tree."""
SHOWN_CANDIDATES = 12
"""Candidates of each level that an explanation lists."""
NO_FEATURES = "the prompt has one token, so the head has no features before the first step: plain step"


def check_settings(tree: str = "dynamic", depth: int = DEPTH) -> None:
    """Check the options.

    Raises:
        AdedError: an unknown kind of tree, or a depth out of range.
    """
    check_choice("tree", tree, get_args(TreeKind))
    check_numbers({"depth": (1, MAX_DEPTH)}, {"depth": depth})


class EagleDrafter(HeadDrafter):
    """Drafts a tree level by level with a head that reads the target's features at the committed tokens.

    A node's children are the head's most probable tokens, not samples, so the target's one draw per node verifies them.

    Args:
        loaded: the head.
        tree: *dynamic*: the nodes of highest cumulative probability that a beam search finds, as in EAGLE-2; *static*: the same
            shape in every step, as in EAGLE-1, built from the accuracy of each rank on held-out text.
        depth: maximum depth of a dynamic tree.

    Raises:
        AdedError: see ``check_settings``.
    """

    def __init__(self, loaded: LoadedHead, tree: TreeKind = "dynamic", depth: int = DEPTH) -> None:
        check_settings(tree, depth)
        self.tree, self.depth = tree, depth
        super().__init__(loaded)
        self._accuracy = loaded.accuracy
        self.needs = DrafterNeeds(hidden_layers=self.head.geometry.hidden_layers)
        self._beam: Beam | None = None  # of the last draft
        best_shape(self._accuracy, 2)  # JIT-compile now, not in a timed step

    def bind(self, target: TargetView) -> None:
        super().bind(target)
        self._vocab_size = target.vocab_size

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        assert features is not None, "needs name hidden layers"
        self.read_prompt(features, prompt)

    def prepare(self, context: Context, budget: int) -> None:
        if budget > 1:
            self.network.prepare(BEAM)

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._beam = self.candidates(context) if self.tree == "dynamic" and budget > 1 else None
        if self._beam is not None:
            return self._beam.best(budget)
        if self.tree == "static" and budget > 1 and self.children is not None and not self.notice:
            shape = best_shape(self._accuracy, budget)
            tree, finite = feature_tree.fill(self.network, self.children, context.root, shape)
            if finite:
                return tree
            self.notice = NOT_FINITE
        return DraftTree.root_only(context.root)

    def candidates(self, context: Context) -> Beam | None:
        """The candidates of a beam search; None if the head cannot draft, for which ``notice`` may give the reason."""
        if self.children is None or self.notice:
            return None
        beam = feature_tree.beam_search(self.network, self.children, context.root, self._vocab_size, self.depth)
        if not beam.finite:
            self.notice = NOT_FINITE
            return None
        return beam

    def observe(self, outcome: Outcome) -> None:
        self.read(outcome.accepted_features[: len(outcome.emitted)], outcome.emitted.tolist())

    def explain(self, context: Context, budget: int) -> Explanation:
        """The candidates of the beam search by level, and which of them the second ranking removed."""
        if self.children is None and budget > 1:
            return Explanation(note=NO_FEATURES)
        if self._beam is None:
            return Explanation()
        return Explanation(levels=tuple(self._beam.levels(budget, SHOWN_CANDIDATES)))

    def settings(self) -> dict[str, object]:
        depth = {"depth": self.depth} if self.tree == "dynamic" else {}
        layers = list(self.head.geometry.hidden_layers)
        return {"tree": self.tree, **depth, "hidden_layers": layers, "draft_vocabulary": len(self.head.tokens)}

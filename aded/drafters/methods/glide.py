"""GliDe with CaPE (arXiv 2402.02082): a head that attends to the target's KV cache drafts a chain, and siblings widen it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from aded.core.errors import MODEL_PLACEHOLDER, AdedError
from aded.core.inspection import AttendedSlots, Explanation
from aded.core.limits import check_choice, check_numbers
from aded.core.tree import DraftTree
from aded.draft_models.feature_heads import LoadedHead
from aded.draft_models.feature_network import Children
from aded.drafters.base import Context, Outcome
from aded.drafters.head import NOT_FINITE, HeadDrafter

if TYPE_CHECKING:
    from aded.engine.target_view import TargetView

DRAFT_LENGTH, MAX_DRAFT_LENGTH = 8, 16
"""Default and largest length of the chain."""
SIBLINGS = (8, 8, 8, 6, 6, 6, 4, 4, 2, 2, 2)
"""CaPE: number of siblings of a drafted token by its probability, in steps of 0.1 (section 3.3 and the published code)."""
CAPE = ("on", "off")
SHOWN_SLOTS = 8
"""Slots of the target's KV cache that an explanation lists for each drafted token."""
NO_TEXT = "the prompt has one token, so the target's KV cache is empty before the first step: plain step"


def check_settings(cape: str = "on", draft_length: int = DRAFT_LENGTH) -> None:
    """Check the options.

    Raises:
        AdedError: ``cape`` is neither on nor off, or the length is out of range.
    """
    check_choice("cape", cape, CAPE)
    check_numbers({"draft_length": (1, MAX_DRAFT_LENGTH)}, {"draft_length": draft_length})


class GlideDrafter(HeadDrafter):
    """Drafts a chain with a head that attends to the target's KV cache of verified tokens.

    The tokens are the head's most probable ones, not samples, so the target's one draw per node verifies them.

    Args:
        loaded: the head.
        cape: *on*: add to each drafted token its most probable siblings, more where the head is less confident; within the
            budget those of highest cumulative probability; *off*: the chain alone.
        draft_length: maximum length of the chain.

    Raises:
        AdedError: see ``check_settings``.
    """

    def __init__(self, loaded: LoadedHead, cape: str = "on", draft_length: int = DRAFT_LENGTH) -> None:
        check_settings(cape, draft_length)
        self.cape, self.draft_length = cape, draft_length
        super().__init__(loaded)
        self._target: TargetView | None = None
        self._chain: list[int] = []  # drafted last

    def bind(self, target: TargetView) -> None:
        keys, _ = target.kv(-1)
        g = self.head.geometry
        if keys.shape[::2] != (g.kv_heads, g.head_dim):
            raise AdedError(
                f"the head reads {g.kv_heads} heads of {g.head_dim} in the target's KV cache, and this model has {keys.shape[0]} "
                f"of {keys.shape[2]}; train one with `python -m aded train glide --model {MODEL_PLACEHOLDER}`"
            )
        super().bind(target)
        self._target = target

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        assert self._target is not None, "bind comes first"
        self.read_prompt(self._no_features(len(prompt) - 1), prompt, self._target.kv(-1))

    def prepare(self, context: Context, budget: int) -> None:
        if budget > 1:
            self.network.prepare(1)

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._chain, levels = [], self._levels(budget)
        if not all(np.isfinite(level.probabilities).all() for level in levels):
            self.notice, levels = NOT_FINITE, []
        if not levels:
            return DraftTree.root_only(context.root)
        self._chain = [int(level.tokens[0, 0]) for level in levels]
        return cape_tree(context.root, levels, budget - 1 - len(levels) if self.cape == "on" else 0)

    def observe(self, outcome: Outcome) -> None:
        self.read(self._no_features(len(outcome.emitted)), outcome.emitted.tolist())

    def close(self) -> None:
        super().close()
        self._target = None

    def explain(self, context: Context, budget: int) -> Explanation:
        """The verified tokens to which the head attended most when it drafted each token of the chain."""
        if self.children is None and budget > 1:
            return Explanation(note=NO_TEXT)
        if not self._chain:
            return Explanation()
        weights = self.network.attention_to_target(context.root, self._chain)
        return Explanation(attended=tuple(map(_most_attended, weights)))

    def settings(self) -> dict[str, object]:
        return {"cape": self.cape, "draft_length": self.draft_length, "draft_vocabulary": len(self.head.tokens)}

    def _levels(self, budget: int) -> list[Children]:
        """The head's predictions after the root and after each token of the chain but the last."""
        length = 0 if self.notice else min(self.draft_length, budget - 1)
        levels = [self.children] if self.children is not None and length > 0 else []
        while levels and len(levels) < length:
            levels.append(self.network.draft(levels[-1].tokens[0, :1], np.array([len(levels) - 2])))
        return levels

    def _no_features(self, count: int) -> torch.Tensor:
        return self.network.keys.new_empty(count, 0)


def cape_tree(root: int, levels: Sequence[Children], spare: int) -> DraftTree:
    """The chain of most probable tokens, and siblings of them (section 3.3).

    Args:
        root: the root's token.
        levels: the predictions after the root and after each token of the chain but the last.
        spare: maximum number of siblings: those of highest cumulative probability are kept.
    """
    probabilities = np.array([level.probabilities[0] for level in levels])  # [length, ranks]
    before = np.cumprod(np.append(1.0, probabilities[:-1, 0]))
    wanted = np.array(SIBLINGS)[(10 * probabilities[:, 0]).astype(int).clip(0, 10)]
    ranks = np.arange(probabilities.shape[1])
    cumulative = np.where((ranks >= 1) & (ranks <= wanted[:, None]), before[:, None] * probabilities, -1.0)
    best = np.argsort(-cumulative, axis=None, kind="stable")[:spare]
    kept = np.zeros(cumulative.size, dtype=bool)
    kept[best] = cumulative.ravel()[best] >= 0
    kept = kept.reshape(cumulative.shape) | (ranks == 0)
    depth = np.nonzero(kept)[0]
    first = np.cumsum(kept.sum(1)) - kept.sum(1) + 1  # node of the chain at each depth
    candidates = np.array([level.tokens[0] for level in levels])
    parents = np.append(-1, np.append(0, first[:-1])[depth])
    return DraftTree(np.append(root, candidates[kept]), parents, {"prior": np.append(np.nan, probabilities[kept])})


def _most_attended(weights: np.ndarray) -> AttendedSlots:
    slots = np.argsort(-weights, kind="stable")[:SHOWN_SLOTS]
    return AttendedSlots(tuple(slots.tolist()), tuple(weights[slots].tolist()))

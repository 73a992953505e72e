"""Speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318): a small model drafts a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from aded.core.errors import AdedError
from aded.core.inspection import Explanation
from aded.core.tree import DraftTree, Drawn
from aded.draft_models.chain_runner import LENGTHS, ChainPool, ChainRunner
from aded.drafters.base import Context, Drafter, Outcome
from aded.drafters.draft_length_policy import Cost, LevelCost, ShapePolicy
from aded.sampling.rejection_sampler import draft_key
from aded.sampling.rng import key_of, signed
from aded.sampling.settings import SamplingSettings

VerificationKind = Literal["rejection", "coupled"]
NO_GAIN = "by its acceptance so far, no draft of this model pays: plain step"


class SpeculativeDrafter(Drafter):
    """Drafts what a smaller model of the same tokenizer would write.

    Args:
        pool: the draft model.
        target, level: what a pass of the target and a token of the draft cost, see ``aded.drafters.draft_length_policy``.
        verification: *rejection*, as published: the draft is drawn on its own and judged by the distributions that it was drawn
            from. *coupled* (Daliri, Musco and Suresh 2024, arXiv 2408.07978): it is drawn with the random numbers that the target
            is going to use and judged by one draw a node, so that the text is that of plain decoding with the same seed.
        draft_length: tokens of every draft; 0 takes what pays.

    Raises:
        AdedError: an unknown verification, or a length out of range.
    """

    def __init__(
        self,
        pool: ChainPool,
        target: Cost,
        level: LevelCost,
        verification: VerificationKind = "rejection",
        draft_length: int = 0,
    ) -> None:
        check_verification(verification)
        check_length(draft_length)
        self.verification, self.draft_length = verification, int(draft_length)
        self._pool, self._target, self._level = pool, target, level
        self._runner: ChainRunner | None = None
        self._settings = SamplingSettings()
        self._policy = self._new_policy()

    def follow(self, settings: SamplingSettings) -> None:
        self._settings = settings
        self._policy = self._new_policy()  # costs are measured now, not when a prompt is read

    def start(self, prompt: Sequence[int]) -> None:
        self._policy, self.notice = self._new_policy(), None
        if self._runner is None:
            self._runner = self._pool.take()
        self._runner.start(prompt)

    def prepare(self, context: Context, budget: int) -> None:
        length = self._length(context, budget)
        if length:
            self._running.prepare(context.tokens, length, self._settings)

    def propose(self, context: Context, budget: int) -> DraftTree:
        length = self._length(context, budget)
        if not length:
            return DraftTree.root_only(context.root)
        keys = self._keys(len(context.tokens), length)
        chain = self._running.chain(context.tokens, length, self._settings, keys)
        self.notice = self._running.notice
        tokens, parents = np.concatenate([[context.root], chain.tokens]), np.arange(-1, len(chain.tokens))
        if chain.distributions is not None and self.verification == "coupled":
            return DraftTree(tokens, parents)
        prior = {"prior": np.concatenate([[np.nan], chain.probabilities])}
        drawn = None if chain.distributions is None else Drawn(chain.distributions, parents.astype(np.int32))
        return DraftTree(tokens, parents, prior, drawn=drawn)

    def observe(self, outcome: Outcome) -> None:
        self._policy.observe(outcome.tree, outcome.path, len(outcome.emitted))

    def close(self) -> None:
        if self._runner is not None:
            self._pool.give_back(self._runner)
            self._runner = None

    def explain(self, context: Context, budget: int) -> Explanation:
        drafts = budget == 1 or self._length(context, budget) > 0
        return Explanation(note=None if drafts else self.notice or NO_GAIN)

    def settings(self) -> dict[str, object]:
        return {
            "draft_model": self._pool.draft.label,
            "verification": self.verification,
            "draft_length": self.draft_length or "what pays",
        }

    @property
    def _running(self) -> ChainRunner:
        assert self._runner is not None, "start comes before propose"
        return self._runner

    def _new_policy(self) -> ShapePolicy:
        if self.draft_length:
            return ShapePolicy(self.draft_length, 1)
        return ShapePolicy(LENGTHS[-1], 1, self._target, self._level(self._settings.greedy))

    def _length(self, context: Context, budget: int) -> int:
        room = min(budget, 1 + self._running.levels(context.tokens))
        self.notice = self._running.notice
        wanted = len(self._policy.shape(len(context.tokens), room).parents) - 1 if room > 1 else 0
        return max((length for length in LENGTHS if length <= wanted), default=0)

    def _keys(self, position: int, length: int) -> list[int]:
        """The key of each drafted token's draw: the target's own if coupled."""
        if self._settings.greedy:
            return []
        key = key_of if self.verification == "coupled" else draft_key
        return [signed(key(self._settings.seed, position + i)) for i in range(length)]


def check_length(draft_length: int) -> None:
    """Refuse a draft length out of range."""
    if not 0 <= draft_length <= LENGTHS[-1] or draft_length != int(draft_length):
        raise AdedError(f"draft length is {draft_length}; give a number from 1 to {LENGTHS[-1]}, or 0 for what pays")


def check_verification(verification: str) -> None:
    """Refuse an unknown kind of verification."""
    if verification not in get_args(VerificationKind):
        raise AdedError(f"verification is {verification!r}; choose one of {', '.join(get_args(VerificationKind))}")

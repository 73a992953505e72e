"""Speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318): a draft model writes a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from aded.core.inspection import Explanation
from aded.core.limits import check_choice, check_numbers
from aded.core.tree import DraftDistributions, DraftTree
from aded.draft_models.chain_runner import LENGTHS, ChainRunner
from aded.drafters.base import Context, Drafter, Inspectable, Outcome
from aded.drafters.budget.draft_length_policy import Cost, LevelCost, ShapePolicy
from aded.sampling.rng import key_of, signed
from aded.sampling.settings import SamplingSettings
from aded.verification.block_verifier import draft_keys
from aded.verification.rejection_sampler import draft_key

if TYPE_CHECKING:
    import torch

    from aded.engine.target_view import TargetView

VerificationKind = Literal["rejection", "block", "coupled"]
NO_GAIN = "at its acceptance rate so far, drafting is slower than plain decoding: plain step"


class SpeculativeDrafter(Drafter, Inspectable):
    """Drafts a chain of tokens with a smaller model that uses the same tokenizer.

    Args:
        runner: the draft model.
        target, level: cost of a forward pass of the target, and of one drafted token, see
            ``aded.drafters.budget.draft_length_policy``.
        verification: *rejection*, as in the papers: rejection sampling with the draft model's distributions, which uses random
            numbers independent of the target's. *block* (Sun et al., arXiv 2403.10444): the same kind of draft, but prefixes of
            the chain are tested instead of tokens, which accepts at least as many on average. *coupled* (Daliri, Musco and Suresh
            2024, arXiv 2408.07978): the draft is sampled with the random numbers that the target will use and verified with one
            draw per node; the text is the same as that of plain decoding with the same seed.
        draft_length: number of tokens of every draft; 0: the throughput-optimal length.

    Raises:
        AdedError: an unknown kind of verification, or a length out of range.
    """

    def __init__(
        self,
        runner: ChainRunner,
        target: Cost,
        level: LevelCost,
        verification: VerificationKind = "rejection",
        draft_length: int = 0,
    ) -> None:
        check_verification(verification)
        check_length(draft_length)
        self.verification, self.draft_length = verification, int(draft_length)
        self._runner, self._target_cost, self._level_cost = runner, target, level
        self._settings = SamplingSettings()
        self._policy = self._new_policy()

    def bind(self, target: TargetView) -> None:
        self._settings = target.settings
        self._policy = self._new_policy()  # measures the costs now, not while a prompt is read

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._policy, self.notice = self._new_policy(), None
        self._runner.start(prompt)

    def prepare(self, context: Context, budget: int) -> None:
        length = self._length(context, budget)
        if length:
            self._runner.prepare(context.tokens, length, self._settings)

    def propose(self, context: Context, budget: int) -> DraftTree:
        length = self._length(context, budget)
        if not length:
            return DraftTree.root_only(context.root)
        keys = self._keys(len(context.tokens), length)
        chain = self._runner.chain(context.tokens, length, self._settings, keys)
        self.notice = self._runner.notice
        tokens, parents = np.concatenate([[context.root], chain.tokens]), np.arange(-1, len(chain.tokens))
        if chain.distributions is not None and self.verification == "coupled":
            return DraftTree(tokens, parents)
        prior = {"prior": np.concatenate([[np.nan], chain.probabilities])}
        drawn = None if chain.distributions is None else self._drawn_from(chain.distributions, parents)
        return DraftTree(tokens, parents, prior, sampled_from=drawn)

    def _drawn_from(self, distributions: torch.Tensor, parents: np.ndarray) -> DraftDistributions:
        return DraftDistributions(distributions, parents.astype(np.int32), block=self.verification == "block")

    def observe(self, outcome: Outcome) -> None:
        self._policy.observe(outcome.tree, outcome.path, len(outcome.emitted))

    def close(self) -> None:
        self._runner.close()

    def explain(self, context: Context, budget: int) -> Explanation:
        drafts = budget == 1 or self._length(context, budget) > 0
        return Explanation(note=None if drafts else self.notice or NO_GAIN)

    def settings(self) -> dict[str, object]:
        return {
            "draft_model": self._runner.draft.label,
            "verification": self.verification,
            "draft_length": self.draft_length or "automatic",
        }

    def _new_policy(self) -> ShapePolicy:
        if self.draft_length:
            return ShapePolicy(self.draft_length, 1)
        return ShapePolicy(LENGTHS[-1], 1, self._target_cost, self._level_cost(self._settings.greedy))

    def _length(self, context: Context, budget: int) -> int:
        """Number of tokens to draft: the largest of ``LENGTHS`` within the policy's choice, or 0."""
        nodes = min(budget, 1 + self._runner.levels(context.tokens))
        self.notice = self._runner.notice
        optimal = len(self._policy.shape(len(context.tokens), nodes).parents) - 1 if nodes > 1 else 0
        return max((length for length in LENGTHS if length <= optimal), default=0)

    def _keys(self, position: int, length: int) -> list[int]:
        """The random key of each drafted token, signed 64 bits: the target's key if coupled; none if greedy."""
        seed = self._settings.seed
        if self._settings.greedy:
            return []
        if self.verification == "block":
            return [signed(key) for key in draft_keys(seed, position, length)]
        key = key_of if self.verification == "coupled" else draft_key
        return [signed(key(seed, position + i)) for i in range(length)]


def check_length(draft_length: int) -> None:
    """Check the draft length; 0 is automatic.

    Raises:
        AdedError: a length out of range.
    """
    check_numbers({"draft_length": (0, LENGTHS[-1])}, {"draft_length": draft_length})


def check_verification(verification: str, kinds: Sequence[str] = get_args(VerificationKind)) -> None:
    """Check the kind of verification; ``kinds``: those that the method has.

    Raises:
        AdedError: an unknown kind.
    """
    check_choice("verification", verification, kinds)

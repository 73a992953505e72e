"""Makes drafts from the lattice of head predictions of blockwise parallel decoding (Kim et al. 2024, arXiv 2404.09221).

The lattice has the most probable tokens of each head, with p_head. Rescoring weights them by a model that conditions on the
tokens before: log p_head + alpha · log p_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from aded.core.limits import Limits, check_numbers
from aded.core.tree import DraftTree
from aded.draft_models.lattice_sampler import LatticeSampler
from aded.draft_models.medusa_heads import HeadPredictions
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.specinfer import shape_of
from aded.ngram.best_paths import best_paths
from aded.ngram.session_counts import SessionCounts
from aded.ngram.tree_search import MAX_CONTEXT
from aded.ngram.trigram import TrigramMatrix

RescoringKind = Literal["global", "local", "none", "control"]
"""By the tri-gram matrix (`BestPaths`), by a draft model (`LocalRescoring`), `NoRescoring`, or `BestPaths` with alpha 0."""
LIMITS: Limits = {"alpha": (0.0, 10.0), "paths": (1, 64)}
LOCAL_ALPHA, GLOBAL_ALPHA = 2.0, 1.0
"""Default weights of the rescoring model, tuned on 15 recorded greedy answers of the bundled model."""
PATHS = 16
"""Default number of paths in a draft, as in the paper."""


def check_settings(**settings: float) -> None:
    """Check ``alpha`` and ``paths``, as far as they are given.

    Raises:
        AdedError: a value is out of range.
    """
    check_numbers(LIMITS, settings)


@dataclass(frozen=True)
class RescoredDraft:
    """A draft, and the rescored probabilities of the lattice along its best path.

    Attributes:
        tree: the draft; its column ``prior`` has the (rescored) probability of each node.
        rescored: float64 ``[depths, ranks]``, 0 at depths that were not rescored; None without rescoring.
    """

    tree: DraftTree
    rescored: np.ndarray | None = None


class Rescoring:
    """Makes drafts from lattices; ``BlockwiseDrafter`` forwards the calls of ``Drafter`` to it.

    Attributes:
        notice: a message for the user about drafting in the current decode, or None.
    """

    notice: str | None = None

    def draft(self, context: Context, lattice: HeadPredictions, budget: int) -> RescoredDraft:
        """Make a draft.

        Args:
            context: the committed tokens.
            lattice: the predictions of the tokens after the root, most probable first.
            budget: maximum number of nodes, at least 2.
        """
        raise NotImplementedError

    def settings(self) -> dict[str, object]:
        """The settings for the trace."""
        raise NotImplementedError

    def start(self, prompt: Sequence[int]) -> None:
        """Begin a decode."""

    def prepare(self, context: Context, depths: int) -> None:
        """Prepare a draft of up to ``depths`` levels; called before the timed step."""

    def observe(self, outcome: Outcome) -> None:
        """Learn from a verified draft."""

    def close(self) -> None:
        """End a decode and release its resources."""


class NoRescoring(Rescoring):
    """The chain of the most probable token of each head (Stern et al. 2018, arXiv 1811.03115)."""

    def draft(self, context: Context, lattice: HeadPredictions, budget: int) -> RescoredDraft:
        length = min(budget - 1, len(lattice.tokens))
        tokens = np.concatenate([[context.root], lattice.tokens[:length, 0]])
        prior = np.concatenate([[np.nan], lattice.probabilities[:length, 0]])
        return RescoredDraft(DraftTree(tokens, np.arange(-1, length), {"prior": prior}))

    def settings(self) -> dict[str, object]:
        return {"rescoring": "none"}


class LocalRescoring(Rescoring):
    """A chain chosen greedily: at each depth, the token of the lattice with the highest log p_head + alpha · log p_draft.

    Args:
        runner: runs the draft model.
        alpha: weight of the draft model, 0 to 10.

    Raises:
        AdedError: ``alpha`` is out of range.
    """

    def __init__(self, runner: TreeRunner, alpha: float = LOCAL_ALPHA) -> None:
        check_settings(alpha=alpha)
        self._runner, self.alpha = runner, float(alpha)

    def start(self, prompt: Sequence[int]) -> None:
        self._runner.start(prompt)
        self.notice = self._runner.notice

    def prepare(self, context: Context, depths: int) -> None:
        if self._runner.levels(context.tokens):
            self._runner.prepare(context.tokens, depths + 1, beam_search=False)

    def draft(self, context: Context, lattice: HeadPredictions, budget: int) -> RescoredDraft:
        length = min(budget - 1, len(lattice.tokens), self._runner.levels(context.tokens))
        self.notice = self._runner.notice
        if not length:
            return RescoredDraft(DraftTree.root_only(context.root))
        sampler = LatticeSampler(lattice, self.alpha, len(context.tokens))
        tree = self._runner.expand(context.tokens, shape_of((1,) * length, length + 1), sampler)
        self.notice = self._runner.notice
        return RescoredDraft(tree, sampler.rescored)

    def close(self) -> None:
        self._runner.close()

    def settings(self) -> dict[str, object]:
        return {"rescoring": "local", "alpha": self.alpha, "draft_model": self._runner.draft.label}


class BestPaths(Rescoring):
    """The paths of highest score through the lattice, as one tree (see `aded.ngram.best_paths`): global n-gram rescoring.

    The n-gram model is the tri-gram matrix: base counts, and session counts of prompt and output.

    Args:
        vocab_size: size of the target's vocabulary.
        matrix: the base counts, shared and read-only; None: session counts only.
        alpha: weight of the matrix, 0 to 10; with 0 (the control), the paths are those of the heads alone.
        paths: number of paths, 1 to 64.

    Raises:
        AdedError: a value is out of range.
    """

    def __init__(
        self, vocab_size: int, matrix: TrigramMatrix | None = None, alpha: float = GLOBAL_ALPHA, paths: int = PATHS
    ) -> None:
        check_settings(alpha=alpha, paths=paths)
        self.alpha, self.paths = float(alpha), int(paths)
        self._has_base = matrix is not None
        self._base = (matrix if matrix is not None else TrigramMatrix.empty(vocab_size)).without_higher_orders
        self._session = SessionCounts()
        self.start([0, 0])  # JIT-compile now, not in a timed step
        self.draft(Context(np.zeros(2, np.int32), 2), HeadPredictions(np.zeros((1, 1), np.int32), np.ones((1, 1))), 2)

    def start(self, prompt: Sequence[int]) -> None:
        self._session.clear()
        self._session.learn(self._base, np.asarray(prompt, dtype=np.int32), 0)

    def draft(self, context: Context, lattice: HeadPredictions, budget: int) -> RescoredDraft:
        suffix = context.tokens[-MAX_CONTEXT:]
        search = self.alpha, self.paths, budget
        tree, rescored = best_paths(self._base, self._session, suffix, lattice.tokens, lattice.probabilities, *search)
        return RescoredDraft(tree, rescored if self.alpha else None)

    def observe(self, outcome: Outcome) -> None:
        suffix = outcome.context.tokens[-MAX_CONTEXT:]
        self._session.learn(self._base, np.concatenate([suffix, outcome.emitted]).astype(np.int32), len(suffix))

    def settings(self) -> dict[str, object]:
        if not self.alpha:
            return {"rescoring": "control", "paths": self.paths}
        return {"rescoring": "global", "alpha": self.alpha, "paths": self.paths, "base_matrix": self._has_base}

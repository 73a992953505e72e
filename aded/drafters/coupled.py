"""The base class of drafters that draft what the target will draw (see `aded.sampling.coupling`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aded.core.limits import check_flags
from aded.drafters.base import Context, Drafter, Outcome
from aded.sampling.coupling import INITIAL_EXPONENT, UNCOUPLED, Coupling, coupling_with, exponent_after

if TYPE_CHECKING:
    from aded.engine.target_view import TargetView


class CoupledDrafter(Drafter):
    """A drafter whose successors have weights, which are coupled with the target's draws if it samples.

    Args:
        coupling: whether to couple.

    Attributes:
        initial_exponent: the exponent at the start of a decode.

    Raises:
        AdedError: ``coupling`` is neither true nor false.
    """

    initial_exponent = INITIAL_EXPONENT

    def __init__(self, coupling: bool) -> None:
        check_flags({"coupling": coupling})
        self.coupling = coupling
        self._coupling = UNCOUPLED
        empty = np.zeros(0, dtype=np.int32)
        exponent_after(UNCOUPLED, empty, empty, np.zeros(0), empty, empty)  # JIT-compile now

    def bind(self, target: TargetView) -> None:
        coupling = coupling_with(target.settings) if self.coupling else UNCOUPLED
        self._coupling = coupling._replace(exponent=self.initial_exponent)

    def _coupled(self, context: Context) -> Coupling:
        """The coupling for the tokens after ``context``."""
        return self._coupling._replace(position=len(context.tokens))

    def _learn_exponent(self, outcome: Outcome) -> None:
        """Learn the exponent from a verified draft; the column ``prior`` of the tree has the coupled probabilities."""
        if not self._coupling.on or len(outcome.tree) == 1:
            return
        tree, coupling = outcome.tree, self._coupled(outcome.context)
        path, emitted = outcome.path.astype(np.int32), outcome.emitted.astype(np.int32)
        exponent = exponent_after(coupling, tree.tokens, tree.parents, tree.columns["prior"], path, emitted)
        self._coupling = self._coupling._replace(exponent=exponent)

"""What the loop asks of a drafting method, and what it tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import ReferenceType

import numpy as np

from aded.core.errors import AdedError, DraftError
from aded.core.inspection import Answer, Explanation, MatrixRow, MatrixSize
from aded.core.tree import DraftTree
from aded.engine.outputs import DrafterNeeds

if TYPE_CHECKING:
    from aded.decoding.decoder import Decoder
    from aded.sampling.settings import SamplingSettings, TypicalAcceptance


@dataclass(frozen=True)
class Context:
    """The committed text, prompt and output.

    Attributes:
        tokens: token ids, int32 ``[length]``; the last one is the root of the next tree.
        prompt_length: how many of them are the prompt's.
    """

    tokens: np.ndarray
    prompt_length: int

    @property
    def root(self) -> int:
        return int(self.tokens[-1])


@dataclass(frozen=True)
class Outcome:
    """What verification found out.

    Attributes:
        tree: the verified draft, ``n`` nodes.
        path: accepted nodes from the root on, int32 ``[a + 1]``.
        context: the committed text *before* this step (it ends with the root).
        emitted: the tokens that this step adds to it, int32 ``[e]``: accepted ones, then the target's own.
        top_tokens: the target's most probable tokens at every node, int32 ``[n, k]``, or None if not needed.
        top_probabilities: their probabilities, float32 ``[n, k]``, or None.
        hidden: the target's last hidden states, ``[n, hidden]``, or None.
        read: what the drafter's reader made of the one at the last accepted node, float64 ``[size]``, or None.
    """

    tree: DraftTree
    path: np.ndarray
    context: Context
    emitted: np.ndarray
    top_tokens: np.ndarray | None = None
    top_probabilities: np.ndarray | None = None
    hidden: object | None = None
    read: np.ndarray | None = None


Knowledge = dict[str, np.ndarray]
"""What a session has taught a drafter, as arrays that can cross to another process; what sessions share is not in it."""


def draft(drafter: Drafter, context: Context, budget: int, vocab_size: int, repeats: bool = False) -> DraftTree:
    """What a drafter proposes, checked (see ``DraftTree.check``): the one place through which a draft gets to the target.

    Raises:
        AdedError: the draft cannot be verified; the message names the drafter and the fault.
    """
    try:
        tree = drafter.propose(context, budget)
        if not isinstance(tree, DraftTree):
            raise DraftError(f"it is of type {type(tree).__name__}, not DraftTree")
        tree.check(context.root, budget, vocab_size, repeats and tree.drawn is not None)
        return tree
    except DraftError as fault:
        raise AdedError(f"{type(drafter).__name__} made a draft that cannot be verified: {fault}; correct its propose") from None


class Drafter:
    """A drafting method: ``propose`` guesses the coming tokens, ``observe`` learns from the verdict.

    Subclasses override what they need. One drafter serves one decode at a time and keeps all state of its own.

    Attributes:
        typical: how its drafts are accepted where it gives losslessness up; None for all other methods.
        notice: what the user should know of the decode's drafts so far, or None.
        decode: a weak reference to the decode that it served last, or None.
    """

    needs = DrafterNeeds()
    typical: TypicalAcceptance | None = None
    notice: str | None = None
    decode: ReferenceType[Decoder] | None = None

    def follow(self, settings: SamplingSettings) -> None:
        """Learn how the target chooses its tokens; called once, before the first decode."""

    def start(self, prompt: Sequence[int]) -> None:
        """Forget the last decode and read the prompt's token ids."""

    def prepare(self, context: Context, budget: int) -> None:
        """Do what ``propose(context, budget)`` needs done and no step should be charged for, such as capturing a graph."""

    def propose(self, context: Context, budget: int) -> DraftTree:
        """Draft a tree of at most ``budget`` nodes, the root included (``budget >= 1``)."""
        raise NotImplementedError

    def observe(self, outcome: Outcome) -> None:
        """Learn from a verified draft."""

    def close(self) -> None:
        """The decode is over: give back what it held; ``start`` begins another one."""

    def explain(self, context: Context, budget: int) -> Explanation:
        """Tell how ``propose(context, budget)`` came about; called between it and ``observe``, never timed."""
        return Explanation()

    def rows(self, outcome: Outcome) -> list[MatrixRow]:
        """The matrix rows that ``observe(outcome)`` changes, as they stand now; called before and after it, never timed."""
        return []

    def size(self) -> MatrixSize | None:
        """How large the matrix is now; None for a method that has none. Never timed."""
        return None

    def represent(self, context: Context) -> list[Answer]:
        """What stands in for the model in this method says would follow ``context``; called before ``observe``, never timed."""
        return []

    def knowledge(self) -> Knowledge | None:
        """A copy of what has been learned; None for a method that keeps nothing from text to text."""
        return None

    def recall(self, knowledge: Knowledge) -> None:
        """Take in what a drafter of the same settings has learned; this one is new."""
        raise AssertionError(f"{type(self).__name__} keeps nothing")

    def settings(self) -> dict[str, object]:
        """The method's own settings, for the record (JSON values)."""
        return {}

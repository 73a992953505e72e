"""The interface between the decoding loop and a drafting method."""

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
    """The committed tokens: prompt and output.

    Attributes:
        tokens: token ids, int32 ``[length]``; the last one is the root of the next tree.
        prompt_length: number of prompt tokens.
    """

    tokens: np.ndarray
    prompt_length: int

    @property
    def root(self) -> int:
        return int(self.tokens[-1])


@dataclass(frozen=True)
class Outcome:
    """The result of verifying a draft.

    Attributes:
        tree: the verified draft, ``n`` nodes.
        path: the accepted path: node indices from the root on, int32 ``[a + 1]``.
        context: the committed tokens *before* this step; the last one is the root.
        emitted: the tokens that this step adds, int32 ``[e]``: accepted draft tokens, then the bonus or correction token.
        top_tokens: the target's most probable tokens at every node, int32 ``[n, k]``, or None if not needed.
        top_probabilities: their probabilities, float32 ``[n, k]``, or None.
        hidden: the target's last hidden states, ``[n, hidden]``, or None.
        read: output of the drafter's ``StateReader`` for the hidden state at the last accepted node, float64 ``[size]``, or None.
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
"""What a drafter has learned in a session, as arrays that can be sent to another process; shared data is not included."""


def draft(drafter: Drafter, context: Context, budget: int, vocab_size: int, repeats: bool = False) -> DraftTree:
    """Call ``drafter.propose`` and check its tree (``DraftTree.check``). Every draft is checked here before verification.

    Raises:
        AdedError: the draft cannot be verified; the message names the drafter and the error.
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
    """A drafting method: ``propose`` drafts a tree, ``observe`` learns from its verification.

    Subclasses override what they need. A drafter serves one decode at a time and shares no mutable state with other drafters.

    Attributes:
        typical: thresholds of typical acceptance, for a lossy method; None for a lossless one.
        notice: a message for the user about drafting in the current decode, or None.
        decode: a weak reference to the last decode that used this drafter, or None.
    """

    needs = DrafterNeeds()
    typical: TypicalAcceptance | None = None
    notice: str | None = None
    decode: ReferenceType[Decoder] | None = None

    def follow(self, settings: SamplingSettings) -> None:
        """Receive the target's sampling settings; called once, before the first decode."""

    def start(self, prompt: Sequence[int]) -> None:
        """Begin a decode: reset the state of the last one and read the prompt's token ids."""

    def prepare(self, context: Context, budget: int) -> None:
        """Prepare ``propose(context, budget)`` outside the timed step, for example by capturing a CUDA graph."""

    def propose(self, context: Context, budget: int) -> DraftTree:
        """Draft a tree of at most ``budget`` nodes, the root included (``budget >= 1``)."""
        raise NotImplementedError

    def observe(self, outcome: Outcome) -> None:
        """Learn from a verified draft."""

    def close(self) -> None:
        """Release the resources of the decode that has ended; ``start`` begins another one."""

    def explain(self, context: Context, budget: int) -> Explanation:
        """How ``propose(context, budget)`` found its draft; called after it and before ``observe``, not timed."""
        return Explanation()

    def rows(self, outcome: Outcome) -> list[MatrixRow]:
        """The current matrix rows that ``observe(outcome)`` changes; called before and after it, not timed."""
        return []

    def size(self) -> MatrixSize | None:
        """The current size of the matrix; None for a method without one. Not timed."""
        return None

    def represent(self, context: Context) -> list[Answer]:
        """Next-token predictions of the method's LLM representative after ``context``; called before ``observe``, not timed."""
        return []

    def knowledge(self) -> Knowledge | None:
        """A copy of what has been learned; None for a method that keeps nothing between decodes."""
        return None

    def recall(self, knowledge: Knowledge) -> None:
        """Load what a drafter with the same settings has learned; called on a new drafter."""
        raise AssertionError(f"{type(self).__name__} keeps nothing")

    def settings(self) -> dict[str, object]:
        """The settings of the method for the trace, as JSON values."""
        return {}

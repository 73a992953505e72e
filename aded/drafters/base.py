"""The interface between the decoding loop and a drafting method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import ReferenceType

import numpy as np

from aded.core.errors import AdedError, DraftError
from aded.core.inspection import Explanation, MatrixRow, MatrixSize, Prediction
from aded.core.tree import DraftTree
from aded.engine.outputs import DrafterNeeds
from aded.engine.target_view import TargetView

if TYPE_CHECKING:
    import torch

    from aded.decoding.decoder import Decoder
    from aded.sampling.settings import TypicalAcceptance


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

    def copy(self) -> Context:
        """A copy for one call of a drafter, so that what it writes into the array changes nothing."""
        return replace(self, tokens=self.tokens.copy())


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
        features: the target's hidden states at every node, of the layers that the drafter needs (``DrafterNeeds.hidden_layers``),
            ``[n, layers * hidden]`` on the device, valid until the next forward pass; or None.
        reader_output: output of the drafter's ``StateReader`` at the last accepted node, float64 ``[size]``, or None.
    """

    tree: DraftTree
    path: np.ndarray
    context: Context
    emitted: np.ndarray
    top_tokens: np.ndarray | None = None
    top_probabilities: np.ndarray | None = None
    features: torch.Tensor | None = None
    reader_output: np.ndarray | None = None

    def copy(self) -> Outcome:
        """A copy for one call of a drafter, so that what it writes into the arrays changes nothing; tensors are not copied."""
        arrays = {name: value.copy() for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, tree=self.tree.copy(), context=self.context.copy(), **arrays)

    @property
    def accepted_features(self) -> torch.Tensor:
        """Features of the nodes of the accepted path, the root first, ``[a + 1, layers * hidden]``."""
        assert self.features is not None, "the drafter's needs name no hidden layers"
        return self.features[self.path.tolist()]


StateDict = dict[str, np.ndarray]
"""What a drafter has learned in a session, as arrays that can be sent to another process; shared data is not included."""


def draft(
    drafter: Drafter, context: Context, budget: int, vocab_size: int, repeats: bool = False, custom: bool = False
) -> DraftTree:
    """The tree that ``drafter.propose`` makes, checked (see ``DraftTree.check``). Every draft is made here.

    Args:
        repeats: whether siblings of a sampled draft may repeat a token.
        custom: see `is_custom`.

    Raises:
        AdedError: the draft cannot be verified; the message names the drafter and the error.
    """
    root = context.root
    try:
        tree = drafter.propose(context.copy() if custom else context, budget)
        if not isinstance(tree, DraftTree):
            raise DraftError(f"it is of type {type(tree).__name__}, not DraftTree")
        tree.check(root, budget, vocab_size, repeats and tree.sampled_from is not None)
        if custom and tree.sampled_from is not None:
            tree.sampled_from.check_values(tree.tokens)
        return tree.copy() if custom else tree
    except DraftError as fault:
        raise AdedError(f"{type(drafter).__name__} made a draft that cannot be verified: {fault}; correct its propose") from None


def is_custom(drafter: Drafter) -> bool:
    """Whether the drafter's class is not from this folder: then it receives copies, and its drafts are checked in full."""
    return not type(drafter).__module__.startswith(f"{__package__}.")


class Drafter:
    """A drafting method: ``propose`` drafts a tree, ``observe`` learns from its verification.

    Only ``propose`` must be overridden. A decode calls ``bind``, ``start``, then for every step ``prepare``, ``propose`` and
    ``observe``, at last ``close``. A drafter serves one decode at a time and shares no mutable state with other drafters. See
    ``Inspectable`` for what the page shows and ``Persistent`` for learning from one decode to the next.

    Attributes:
        needs: what the target must return besides the verdict.
        typical: thresholds of typical acceptance, for a lossy method; None for a lossless one.
        notice: a message for the user about drafting in the current decode, or None.
        decode: a weak reference to the last decode that used this drafter, or None.
    """

    needs = DrafterNeeds()
    typical: TypicalAcceptance | None = None
    notice: str | None = None
    decode: ReferenceType[Decoder] | None = None

    def bind(self, target: TargetView) -> None:
        """Receive the view of the target for the decode that begins; not called where recorded text replaces the target."""

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        """Begin a decode: reset the state of the last one and read the prompt.

        Args:
            prompt: its token ids.
            features: the target's features of all prompt tokens but the last (which is the root of the first tree),
                ``[len(prompt) - 1, layers * hidden]`` on the device; None if ``needs`` names no hidden layers.
        """

    def prepare(self, context: Context, budget: int) -> None:
        """Prepare ``propose(context, budget)`` outside the timed step, for example by capturing a CUDA graph."""

    def propose(self, context: Context, budget: int) -> DraftTree:
        """Draft a tree of at most ``budget`` nodes, the root included (``budget >= 1``)."""
        raise AdedError(f"{type(self).__name__} has no propose; define it")

    def observe(self, outcome: Outcome) -> None:
        """Learn from a verified draft."""

    def close(self) -> None:
        """Release the resources of the decode that has ended; ``start`` begins another one."""

    def settings(self) -> dict[str, object]:
        """The settings of the method for the trace, as JSON values."""
        return {}


class Inspectable:
    """A drafter that reports how it drafted and what it learned. None of these calls is timed."""

    def explain(self, context: Context, budget: int) -> Explanation:
        """How ``propose(context, budget)`` found its draft; called after it and before ``observe``, if ``budget`` exceeds 1."""
        return Explanation()

    def matrix_rows(self, outcome: Outcome) -> list[MatrixRow]:
        """The current matrix rows that ``observe(outcome)`` changes; called before and after it."""
        return []

    def matrix_size(self) -> MatrixSize | None:
        """The current size of the matrix; None for a method without one."""
        return None

    def predictions(self, context: Context) -> list[Prediction]:
        """Next-token predictions of the method's LLM representative after ``context``; called before and after ``observe``."""
        return []


class Persistent(ABC):
    """A drafter that can carry what it has learned from one decode, or one process, to the next."""

    @abstractmethod
    def state_dict(self) -> StateDict:
        """A copy of what has been learned."""

    @abstractmethod
    def load_state_dict(self, state: StateDict) -> None:
        """Load what a drafter with the same settings has learned; called on a new drafter."""

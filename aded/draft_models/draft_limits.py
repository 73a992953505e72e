"""Limits of a draft model: the maximum depth of its draft after a text, and why it stops drafting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

INITIAL_HEADROOM = 1024
"""Initial capacity of a draft model's cache in tokens, in addition to the prompt."""


def levels_left(draft: TargetModel, context: np.ndarray) -> tuple[int, str | None]:
    """Maximum depth of a draft after a text: the rest of the draft model's context; 0 if a token is outside its vocabulary.

    Args:
        context: committed token ids, int ``[n]``, ``n >= 1``.

    Returns:
        The depth, and if it is 0 the reason for the user.
    """
    if (largest := int(context.max())) >= draft.vocab_size:
        return 0, f"{draft.label} stops drafting: token id {largest} is outside its vocabulary of {draft.vocab_size} tokens"
    if (left := draft.context_limit + 1 - len(context)) < 1:
        return 0, f"{draft.label} stops drafting: the text is longer than its context of {draft.context_limit} tokens"
    return left, None


def non_finite(draft: TargetModel) -> str:
    """The reason for the user when a draft model stops because its probabilities are not finite."""
    return f"{draft.label} stops drafting: its logits are not finite; the weights are damaged or overflow in {draft.dtype}"

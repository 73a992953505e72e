"""Levels of a draft where a model drafts it: how many it can read, and what one more costs.

The cost is measured once on this model and device, then kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


def levels_left(draft: TargetModel, context: np.ndarray) -> tuple[int, str | None]:
    """How many levels a draft model can draft behind a text: as many as its context still holds, and it must know every token.

    Args:
        context: committed token ids, int ``[n]``, ``n >= 1``.

    Returns:
        The levels, and where there are none the reason, for the user.
    """
    if (largest := int(context.max())) >= draft.vocab_size:
        return (
            0,
            f"{draft.label} stops drafting: it does not know token id {largest}, for its vocabulary ends at {draft.vocab_size}",
        )
    if (left := draft.context_limit + 1 - len(context)) < 1:
        return 0, f"{draft.label} stops drafting: the text is longer than its context of {draft.context_limit} tokens"
    return left, None


def non_finite(draft: TargetModel) -> str:
    """Why a draft model stops drafting whose probabilities are not finite."""
    return f"{draft.label} stops drafting: its logits are not finite; the weights are damaged or overflow in {draft.dtype}"

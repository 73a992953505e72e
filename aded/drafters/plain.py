"""Plain decoding: the method that drafts nothing, one token a forward pass."""

from __future__ import annotations

from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter


class PlainDrafter(Drafter):
    """Every step is the root alone."""

    def propose(self, context: Context, budget: int) -> DraftTree:
        return DraftTree.root_only(context.root)

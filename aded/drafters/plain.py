"""Plain decoding: the method that drafts nothing, one token a forward pass."""

from __future__ import annotations

from aded.drafters.base import Context, Drafter
from aded.tree import DraftTree


class PlainDrafter(Drafter):
    """Every step is the root alone."""

    def propose(self, context: Context, budget: int) -> DraftTree:
        return DraftTree.root_only(context.root)

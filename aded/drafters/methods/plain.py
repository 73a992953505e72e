"""Plain decoding: no draft, one token per forward pass."""

from __future__ import annotations

from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter


class PlainDrafter(Drafter):
    """Drafts nothing: every tree is its root alone."""

    def propose(self, context: Context, budget: int) -> DraftTree:
        return DraftTree.root_only(context.root)

"""Prompt lookup decoding: copy the tokens that followed an earlier occurrence of the last n-gram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.core.inspection import Explanation
from aded.core.limits import Limits, check_numbers
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter, Inspectable, Outcome

if TYPE_CHECKING:
    import torch

LIMITS: Limits = {"max_ngram": (1, 64), "draft_length": (1, 255)}
NO_MATCH = "the newest tokens have not occurred in the text before: plain step"


class PromptLookupDrafter(Drafter, Inspectable):
    """Drafts the continuation of an earlier occurrence of the longest suffix of the text that has one.

    Each n-gram is indexed once, when the token after it is known, so the time per step does not depend on the text's length.

    Args:
        max_ngram: length of the longest n-gram to look up; shorter ones, down to 1, follow.
        draft_length: maximum number of drafted tokens.
        most_recent: copy from the last earlier occurrence; otherwise from the first.

    Raises:
        AdedError: a length is out of range.
    """

    def __init__(self, max_ngram: int = 3, draft_length: int = 10, most_recent: bool = True) -> None:
        check_numbers(LIMITS, {"max_ngram": max_ngram, "draft_length": draft_length})
        self.max_ngram = max_ngram
        self.draft_length = draft_length
        self.most_recent = most_recent
        self._text: list[int] = []
        self._next: dict[tuple[int, ...], int] = {}  # n-gram -> index in the text where its continuation begins

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._text, self._next = [], {}
        self._append(prompt)

    def propose(self, context: Context, budget: int) -> DraftTree:
        length = min(self.draft_length, budget - 1)
        begin = self._match()
        if begin is None or length < 1:
            return DraftTree.root_only(context.root)
        return DraftTree.chain(context.root, self._text[begin : begin + length])

    def observe(self, outcome: Outcome) -> None:
        self._append(np.asarray(outcome.emitted).tolist())

    def explain(self, context: Context, budget: int) -> Explanation:
        return Explanation(note=NO_MATCH if budget > 1 and self._match() is None else None)

    def settings(self) -> dict[str, object]:
        return {"max_ngram": self.max_ngram, "draft_length": self.draft_length, "most_recent": self.most_recent}

    def _match(self) -> int | None:
        """Index where the continuation of the longest matching suffix begins, or None."""
        for size in range(min(self.max_ngram, len(self._text)), 0, -1):
            begin = self._next.get(tuple(self._text[-size:]))
            if begin is not None:
                return begin
        return None

    def _append(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            end = len(self._text)
            for size in range(1, min(self.max_ngram, end) + 1):
                ngram = tuple(self._text[end - size :])
                if self.most_recent:
                    self._next[ngram] = end
                else:
                    self._next.setdefault(ngram, end)
            self._text.append(int(token))

"""Lookahead decoding (arXiv 2402.02057): the target generates the n-grams that it verifies, by Jacobi iteration.

A *window* of guessed tokens after the text is refined in every forward pass. It has ``window`` columns (W); each column holds
the last ``ngram - 1`` (N - 1) iterates of one trajectory, one iterate per level. The target's prediction at a column's last
iterate completes an n-gram of tokens at consecutive positions. A pool stores the n-grams by their first token. The n-grams
that begin with the last token of the text are the *guesses*; the forward pass that refines the window also verifies them.

The attention mask of the method is a tree mask. Level 0 begins with the root and continues as a chain below it. The token of
level l > 0 in column i is a child of the token of level l - 1 in the same column. It therefore attends to the root, to level 0
up to column i, and to the earlier levels of its column, and its position is i + l after the root: these are the mask and the
positions of the paper. The guesses are branches from the root. Branches with equal prefixes share nodes, which does not change
what a node attends to. Window tokens are verified and accepted like any other draft token.

The draft is not coupled with the draws of a target that samples (`aded.sampling.coupling`): the n-grams of the pool have no
weights, and each recurs at another position, where other random numbers decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.core.inspection import Explanation
from aded.core.limits import Limits, check_numbers
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter, Inspectable, Outcome
from aded.engine.outputs import DrafterNeeds

if TYPE_CHECKING:
    import torch

LIMITS: Limits = {"ngram": (2, 16), "window": (1, 64), "guesses": (1, 64)}


class LookaheadDrafter(Drafter, Inspectable):
    """Drafts the window and the guesses, and collects the n-grams that the window generates.

    Args:
        ngram: length of an n-gram (N); the window has ``ngram - 1`` levels.
        window: number of window columns (W).
        guesses: maximum number of n-grams verified per forward pass, and kept in the pool per first token, the latest ones (G).
        pool_from_prompt: add the n-grams of the prompt to the pool.
        seed: random seed of the initial window, whose tokens are sampled from the prompt.

    Window and guesses take ``(window + guesses) * (ngram - 1)`` nodes, the root included. With a smaller budget
    both are reduced in proportion; the window keeps at least one column.

    Raises:
        AdedError: a value is out of range.
    """

    needs = DrafterNeeds(top_k=1)

    def __init__(self, ngram: int = 4, window: int = 10, guesses: int = 10, pool_from_prompt: bool = True, seed: int = 0) -> None:
        check_numbers(LIMITS, {"ngram": ngram, "window": window, "guesses": guesses})
        self.ngram, self.window, self.guesses = ngram, window, guesses
        self.pool_from_prompt = pool_from_prompt
        self.seed = seed
        self._levels: list[list[int]] = []  # the window, oldest iterates first; level 0 begins with the root
        self._pool: dict[int, dict[tuple[int, ...], None]] = {}  # first token -> other tokens of each n-gram, oldest first

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        rng = np.random.default_rng((self.seed, len(prompt)))
        self._levels = [rng.choice(np.asarray(prompt), self.window + self.ngram - 2).tolist()]
        self._pool = {}
        if self.pool_from_prompt:
            for start in range(len(prompt) - self.ngram + 1):
                self._add_ngram(prompt[start : start + self.ngram])

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._levels[0][0] = context.root
        columns, guesses = self._split(budget)
        window = DraftTree.from_paths(context.root, self._trajectories(columns), budget)
        paths = [*self._trajectories(columns), *self._guesses(context.root)[:guesses]]
        tree = DraftTree.from_paths(context.root, paths, budget)
        return DraftTree(tree.tokens, tree.parents, required=window.drafted)

    def observe(self, outcome: Outcome) -> None:
        """Advance the window by one level with the target's predictions, for the columns that the verified tree contains."""
        assert outcome.top_tokens is not None, "lookahead needs the target's most probable token at every node"
        predictions = []
        for path in self._trajectories(len(self._levels[0])):
            node = _find(outcome.tree, path)
            if node is None:
                break
            predictions.append(int(outcome.top_tokens[node, 0]))
        if predictions and len(outcome.tree) > 1:
            self._advance([level[: len(predictions)] for level in self._levels] + [predictions])

    def explain(self, context: Context, budget: int) -> Explanation:
        columns, guesses = self._split(budget)
        found = self._guesses(context.root)
        return Explanation(
            f"a window of {len(self._trajectories(columns))} columns and {len(self._levels)} levels, "
            f"{min(len(found), guesses)} guesses from a pool of {sum(map(len, self._pool.values()))} n-grams"
        )

    def settings(self) -> dict[str, object]:
        names = ("ngram", "window", "guesses", "pool_from_prompt", "seed")
        return {name: getattr(self, name) for name in names}

    def _split(self, budget: int) -> tuple[int, int]:
        """Number of window columns and of guesses that fit into ``budget`` nodes."""
        branches = budget // (self.ngram - 1)
        if branches >= self.window + self.guesses:
            return self.window, self.guesses
        columns = max(1, branches * self.window // (self.window + self.guesses))
        return columns, max(0, branches - columns)

    def _trajectories(self, columns: int) -> list[list[int]]:
        """The path from the root to each column's last iterate; one more column for every level that is still empty."""
        needed = columns + self.ngram - 1 - len(self._levels)
        chain, *later = self._levels
        return [chain[1 : i + 1] + [level[i] for level in later] for i in range(min(needed, len(chain)))]

    def _guesses(self, root: int) -> list[tuple[int, ...]]:
        """The other tokens of the pool's n-grams that begin with ``root``, latest first."""
        return list(reversed(self._pool.get(root, {})))

    def _advance(self, rows: list[list[int]]) -> None:
        """Set the window of the next step from ``rows``: the current levels and the target's predictions at the last level.

        The next root is one position later. A full window drops its lowest level, and its columns enter the pool as n-grams; a
        window that is not full yet drops its first column.
        """
        if len(rows) == self.ngram:
            for column in zip(*rows):
                self._add_ngram(column)
            self._levels = rows[1:]
        elif len(rows[0]) > 1:
            self._levels = [row[1:] for row in rows]

    def _add_ngram(self, ngram: Sequence[int]) -> None:
        first, rest = int(ngram[0]), tuple(map(int, ngram[1:]))
        ngrams = self._pool.setdefault(first, {})
        ngrams.pop(rest, None)
        ngrams[rest] = None
        if len(ngrams) > self.guesses:
            del ngrams[next(iter(ngrams))]


def _find(tree: DraftTree, path: Sequence[int]) -> int | None:
    """The node at the end of ``path`` (tokens below the root), or None if the tree does not contain the whole path."""
    node: int | None = 0
    for token in path:
        node = tree.child(node, token) if node is not None else None
    return node

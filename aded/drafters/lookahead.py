"""Lookahead decoding (arXiv 2402.02057): the target itself makes the n-grams that it verifies, by Jacobi iteration.

A *window* of guessed tokens ahead of the text is refined by one pass after the other: ``window`` columns (W), of which
each holds the last ``ngram - 1`` (N - 1) iterates of one trajectory, level by level. What the target answers at a column's
newest iterate completes an n-gram of tokens at consecutive positions; n-grams go to a pool by their first token. Those that
begin with the text's newest token are the *guesses*, verified in the pass that refines the window.

The method's attention pattern is that of a tree. Level 0 begins with the root and goes on as a chain below it; the token of
level l > 0 in column i is a child of level l - 1 in the same column. So it sees the root, level 0 up to column i and its own
column's earlier levels, and stands i + l behind the root, which is the published mask and position; guesses are branches
from the root. Branches with equal prefixes are stored once, which changes nothing of what a node sees. Nodes of the window
that happen to be right are accepted like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aded.core.errors import AdedError
from aded.core.inspection import Explanation
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter, Outcome
from aded.engine.outputs import DrafterNeeds

LIMITS = {"ngram": (2, 16), "window": (1, 64), "guesses": (1, 64)}


class LookaheadDrafter(Drafter):
    """Drafts the window and the guesses; learns the n-grams that the window makes.

    Args:
        ngram: tokens of an n-gram (N): the window has ``ngram - 1`` levels.
        window: its columns (W).
        guesses: most n-grams verified in a pass, and most kept for a first token, the latest ones (G).
        pool_from_prompt: begin with the prompt's own n-grams.
        seed: of the window's first tokens, which are drawn from the prompt.

    Window and guesses take ``(window + guesses) * (ngram - 1)`` nodes, the root included. Where the budget is smaller, both
    are cut in proportion, and the window to no less than a column.

    Raises:
        AdedError: a value is out of range.
    """

    needs = DrafterNeeds(top_k=1)

    def __init__(self, ngram: int = 4, window: int = 10, guesses: int = 10, pool_from_prompt: bool = True, seed: int = 0) -> None:
        for name, value in (("ngram", ngram), ("window", window), ("guesses", guesses)):
            low, high = LIMITS[name]
            if not low <= value <= high or value != int(value):
                raise AdedError(f"{name} is {value}; give a whole number from {low} to {high}")
        self.ngram, self.window, self.guesses = ngram, window, guesses
        self.pool_from_prompt = pool_from_prompt
        self.seed = seed
        self._levels: list[list[int]] = []  # the window, oldest iterates first; level 0 begins with the root's place
        self._pool: dict[int, dict[tuple[int, ...], None]] = {}  # first token -> the others, least recently seen first

    def start(self, prompt: Sequence[int]) -> None:
        random = np.random.default_rng((self.seed, len(prompt)))
        self._levels = [random.choice(np.asarray(prompt), self.window + self.ngram - 2).tolist()]
        self._pool = {}
        if self.pool_from_prompt:
            for begin in range(len(prompt) - self.ngram + 1):
                self._keep(prompt[begin : begin + self.ngram])

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._levels[0][0] = context.root
        columns, guesses = self._shares(budget)
        window = DraftTree.from_paths(context.root, self._trajectories(columns), budget)
        paths = [*self._trajectories(columns), *self._guesses(context.root)[:guesses]]
        tree = DraftTree.from_paths(context.root, paths, budget)
        return DraftTree(tree.tokens, tree.parents, required=window.drafted)

    def observe(self, outcome: Outcome) -> None:
        """Move the window on by a level: as many columns as the verified part of the draft holds; none leaves it as it is."""
        assert outcome.top_tokens is not None, "lookahead needs the target's most probable token at every node"
        answers = []
        for path in self._trajectories(len(self._levels[0])):
            node = _end(outcome.tree, path)
            if node is None:
                break
            answers.append(int(outcome.top_tokens[node, 0]))
        if answers and len(outcome.tree) > 1:
            self._advance([level[: len(answers)] for level in self._levels] + [answers])

    def explain(self, context: Context, budget: int) -> Explanation:
        columns, guesses = self._shares(budget)
        found = self._guesses(context.root)
        return Explanation(
            f"a window of {len(self._trajectories(columns))} columns and {len(self._levels)} levels, "
            f"{min(len(found), guesses)} guesses from a pool of {sum(map(len, self._pool.values()))} n-grams"
        )

    def settings(self) -> dict[str, object]:
        names = ("ngram", "window", "guesses", "pool_from_prompt", "seed")
        return {name: getattr(self, name) for name in names}

    def _shares(self, budget: int) -> tuple[int, int]:
        """Columns of the full window and guesses that ``budget`` nodes allow."""
        fitting = budget // (self.ngram - 1)
        if fitting >= self.window + self.guesses:
            return self.window, self.guesses
        columns = max(1, fitting * self.window // (self.window + self.guesses))
        return columns, max(0, fitting - columns)

    def _trajectories(self, columns: int) -> list[list[int]]:
        """The path below the root to each column's newest iterate; one more column for every level still to be filled."""
        wanted = columns + self.ngram - 1 - len(self._levels)
        chain, *later = self._levels
        return [chain[1 : i + 1] + [level[i] for level in later] for i in range(min(wanted, len(chain)))]

    def _guesses(self, root: int) -> list[tuple[int, ...]]:
        """What followed a token in the pool, latest first."""
        return list(reversed(self._pool.get(root, {})))

    def _advance(self, rows: list[list[int]]) -> None:
        """Take the levels and the target's answers to the newest one, column by column, as the levels of the next step.

        The next root is one position on. An old level seen from there is a level lower in the same column, or the same
        level a column earlier: so a full window loses its lowest level, one still to be filled its first column.
        """
        if len(rows) == self.ngram:
            for column in zip(*rows):
                self._keep(column)
            self._levels = rows[1:]
        elif len(rows[0]) > 1:
            self._levels = [row[1:] for row in rows]

    def _keep(self, ngram: Sequence[int]) -> None:
        first, rest = int(ngram[0]), tuple(map(int, ngram[1:]))
        known = self._pool.setdefault(first, {})
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self.guesses:
            del known[next(iter(known))]


def _end(tree: DraftTree, path: Sequence[int]) -> int | None:
    """The node where ``path`` ends, or None where it is not all in the tree."""
    node: int | None = 0
    for token in path:
        node = tree.child(node, token) if node is not None else None
    return node

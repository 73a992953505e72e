"""Window and pool of lookahead decoding (Fu et al. 2024, arXiv 2402.02057): a model generates n-grams by Jacobi iteration.

A *window* of guessed tokens after the text is refined in every forward pass. It has ``window`` columns (W); each column holds
the last ``ngram - 1`` (N - 1) iterates of one trajectory, one iterate per level. The model's prediction at a column's last
iterate completes an n-gram of tokens at consecutive positions. A pool stores the n-grams by their first token. The n-grams
that begin with the last token of the text are the *guesses*; the forward pass that refines the window also verifies them.

The attention mask of the method is a tree mask. Level 0 begins with the root and continues as a chain below it. The token of
level l > 0 in column i is a child of the token of level l - 1 in the same column. It therefore attends to the root, to level 0
up to column i, and to the earlier levels of its column, and its position is i + l after the root: these are the mask and the
positions of the paper. The guesses are branches from the root. Branches with equal prefixes share nodes, which does not change
what a node attends to. Window tokens are verified and accepted like any other draft token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from aded.core.limits import Limits, check_numbers
from aded.core.tree import DraftTree

LIMITS: Limits = {"ngram": (2, 16), "window": (1, 64), "guesses": (1, 64)}
MAX_FIRST_TOKENS = 1 << 14
"""Maximum number of first tokens whose n-grams a pool keeps; the ones that were not added to for longest are dropped."""


class NgramPool:
    """N-grams by their first token: of each, the latest ``per_token``."""

    def __init__(self, per_token: int) -> None:
        self._per_token = per_token
        self._rest: dict[int, dict[tuple[int, ...], None]] = {}  # first token -> other tokens of each n-gram, oldest first

    def __len__(self) -> int:
        return sum(map(len, self._rest.values()))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """All n-grams, of each first token the oldest first."""
        return ((first, *rest) for first, known in self._rest.items() for rest in known)

    def clear(self) -> None:
        """Delete all n-grams."""
        self._rest.clear()

    def add(self, ngram: Sequence[int]) -> None:
        """Add an n-gram of at least two tokens, or make it the latest."""
        first, rest = int(ngram[0]), tuple(map(int, ngram[1:]))
        known = self._rest.pop(first, {})
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self._per_token:
            del known[next(iter(known))]
        self._rest[first] = known
        if len(self._rest) > MAX_FIRST_TOKENS:
            del self._rest[next(iter(self._rest))]

    def add_all(self, text: Sequence[int], ngram: int) -> None:
        """Add all n-grams of ``ngram`` tokens in a text."""
        for start in range(len(text) - ngram + 1):
            self.add(text[start : start + ngram])

    def discard(self, ngram: Sequence[int]) -> None:
        """Remove an n-gram if it is there."""
        self._rest.get(int(ngram[0]), {}).pop(tuple(map(int, ngram[1:])), None)

    def beginning_with(self, first: int) -> list[tuple[int, ...]]:
        """The other tokens of the n-grams that begin with ``first``, latest first."""
        return list(reversed(self._rest.get(first, {})))


class Lookahead:
    """The window, and the pool that it fills.

    Args:
        ngram: length of an n-gram (N); the window has ``ngram - 1`` levels.
        window: number of window columns (W).
        guesses: maximum number of n-grams verified per forward pass, and kept in the pool per first token, the latest ones (G).
        seed: random seed of the initial window, whose tokens are sampled from the prompt.

    Attributes:
        levels: the window, oldest iterates first; level 0 begins with the root.
        pool: the n-grams.

    Raises:
        AdedError: a value is out of range.
    """

    def __init__(self, ngram: int, window: int, guesses: int, seed: int) -> None:
        check_numbers(LIMITS, {"ngram": ngram, "window": window, "guesses": guesses})
        self.ngram, self.window, self.guesses, self.seed = ngram, window, guesses, seed
        self.levels: list[list[int]] = []
        self.pool = NgramPool(guesses)

    @property
    def nodes(self) -> int:
        """Number of nodes of a full draft, the root included."""
        return (self.window + self.guesses) * (self.ngram - 1)

    def start(self, prompt: Sequence[int]) -> None:
        """Begin a decode with a new window; the pool stays."""
        rng = np.random.default_rng((self.seed, len(prompt)))
        self.levels = [rng.choice(np.asarray(prompt), self.window + self.ngram - 2).tolist()]

    def draft(self, root: int, budget: int) -> DraftTree:
        """The tree of the window, whose nodes are required, and of the guesses.

        With less than ``nodes`` nodes both are reduced in proportion; the window keeps at least one column.
        """
        self.levels[0][0] = root
        columns, guesses = self._split(budget)
        trajectories = self._trajectories(columns)
        window = DraftTree.from_paths(root, trajectories, budget)
        tree = DraftTree.from_paths(root, [*trajectories, *self.pool.beginning_with(root)[:guesses]], budget)
        return DraftTree(tree.tokens, tree.parents, required=window.drafted)

    def sizes(self, root: int, budget: int) -> tuple[int, int]:
        """Number of window columns and of guesses of such a draft."""
        columns, guesses = self._split(budget)
        return len(self._trajectories(columns)), min(len(self.pool.beginning_with(root)), guesses)

    def advance(self, tree: DraftTree, choices: np.ndarray) -> None:
        """Advance the window by one level, for the columns that the verified tree contains.

        A full window drops its lowest level, and its columns enter the pool as n-grams; a window that is not full yet drops its
        first column. The next root is one position later.

        Args:
            tree: the verified part of a draft.
            choices: the model's most probable token at every node, int ``[n]``.
        """
        predictions = []
        for path in self._trajectories(len(self.levels[0])):
            node = _find(tree, path)
            if node is None:
                break
            predictions.append(int(choices[node]))
        if not predictions or len(tree) == 1:
            return
        rows = [level[: len(predictions)] for level in self.levels] + [predictions]
        if len(rows) == self.ngram:
            for column in zip(*rows):
                self.pool.add(column)
            self.levels = rows[1:]
        elif len(rows[0]) > 1:
            self.levels = [row[1:] for row in rows]

    def _split(self, budget: int) -> tuple[int, int]:
        """Number of window columns and of guesses that fit into ``budget`` nodes."""
        branches = budget // (self.ngram - 1)
        if branches >= self.window + self.guesses:
            return self.window, self.guesses
        columns = max(1, branches * self.window // (self.window + self.guesses))
        return columns, max(0, branches - columns)

    def _trajectories(self, columns: int) -> list[list[int]]:
        """The path from the root to each column's last iterate; one more column for every level that is still empty."""
        needed = columns + self.ngram - 1 - len(self.levels)
        chain, *later = self.levels
        return [chain[1 : i + 1] + [level[i] for level in later] for i in range(min(needed, len(chain)))]


def _find(tree: DraftTree, path: Iterable[int]) -> int | None:
    """The node at the end of ``path`` (tokens below the root), or None if the tree does not contain the whole path."""
    node: int | None = 0
    for token in path:
        node = tree.child(node, token) if node is not None else None
    return node

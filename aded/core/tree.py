"""A draft as flat arrays: the shape that every method hands over and that the target verifies in one pass.

Knows nothing of language models: tokens are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from aded.core.errors import DraftError
from aded.core.jit import njit

COLUMNS = ("prior", "visits", "value", "exploration", "score")
"""What a drafter may say of each node (float64 ``[n]``, NaN where it does not apply)."""


@dataclass(frozen=True)
class Drawn:
    """What the nodes of a sampled draft were drawn from, which their verdict has to know.

    Attributes:
        distributions: exactly as drawn from, a float64 tensor ``[m, vocab]`` on any device; tokens beyond ``vocab`` have none.
        rows: which of them each node was drawn from, int32 ``[n]``, -1 for the root.
        replacement: whether siblings were drawn independently; else each was drawn from what its elder siblings left.
    """

    distributions: Any
    rows: np.ndarray
    replacement: bool = True

    def check(self, parents: np.ndarray, vocab_size: int) -> None:
        """Refuse what nodes with these parents, int32 ``[n]``, cannot have been drawn from.

        Raises:
            DraftError: it says what is wrong.
        """
        rows = np.asarray(self.rows)[1:].astype(np.int64)
        count, width = self.distributions.shape if self.distributions.ndim == 2 else (0, 0)
        if len(rows) != len(parents) - 1 or (len(rows) and not 0 <= rows.min() <= rows.max() < count) or width > vocab_size:
            raise DraftError("its nodes were not each drawn from one of its distributions over the target's vocabulary")
        if len(np.unique(rows)) < len(np.unique((rows << 32) + parents[1:])):
            raise DraftError("children of different nodes were drawn from one distribution; give each node a row of its own")


@dataclass(frozen=True)
class DraftTree:
    """Drafted continuations in topological order (every parent stands before its children).

    Node 0 is the *root*: the newest committed token, whose keys and values are not computed yet. A draft of
    nothing is the root alone, a chain is a tree of width one.

    Attributes:
        tokens: token ids, int32 ``[n]``, ``n >= 1``.
        parents: index of each node's parent, int32 ``[n]``; ``parents[0] == -1``.
        columns: what the drafter knows of each node, by name (see ``COLUMNS``), float64 ``[n]``.
        origin: for a part of a larger draft, each node's index there, int32 ``[n]``; by default its own.
        required: so many nodes right behind the root are there to be learned from, not to be accepted: a draft is not to be
            cut for want of what they bring.
        drawn: of a draft that was sampled and is to be judged by what it was drawn from. Siblings, in the order in which they
            were drawn, may then hold one token twice; nodes may be left out only for reasons that do not look at what was drawn.

    Raises:
        DraftError: the arrays are no such tree.
    """

    tokens: np.ndarray
    parents: np.ndarray
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    origin: np.ndarray | None = None
    required: int = 0
    drawn: Drawn | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", _int32(self.tokens, "token ids"))
        object.__setattr__(self, "parents", _int32(self.parents, "parents"))
        n = self.tokens.size
        if n < 1 or not self.tokens.shape == self.parents.shape == (n,):
            raise DraftError("tokens and parents are not two flat arrays of one length, 1 or more")
        if not _ordered(self.parents):
            raise DraftError("parents are out of order: the root's is -1, and every other parent stands before its children")
        if not 0 <= self.required < n:
            raise DraftError(f"{self.required} required nodes are more than the draft holds beside its root")
        for name, column in self.columns.items():
            if name not in COLUMNS or len(column) != n:
                raise DraftError(f"column {name!r} is not one of {', '.join(COLUMNS)} with one value a node")

    @classmethod
    def root_only(cls, token: int) -> DraftTree:
        """The empty draft: its step is a plain one."""
        return cls(np.array([token]), np.array([-1]))

    @classmethod
    def chain(cls, root: int, tokens: Sequence[int]) -> DraftTree:
        """The root followed by ``tokens`` in a row."""
        return cls(np.array([root, *tokens]), np.arange(-1, len(tokens)))

    @classmethod
    def from_paths(cls, root: int, paths: Iterable[Sequence[int]], limit: int | None = None) -> DraftTree:
        """Merge token paths that start below the root; equal prefixes are stored once, ``limit`` bounds the nodes."""
        tokens, parents = [root], [-1]
        index: dict[tuple[int, int], int] = {}
        for path in paths:
            node = 0
            for token in path:
                child = index.get((node, int(token)))
                if child is None:
                    if limit is not None and len(tokens) >= limit:
                        break
                    child = index[node, int(token)] = len(tokens)
                    tokens.append(int(token))
                    parents.append(node)
                node = child
        return cls(np.array(tokens), np.array(parents))

    def check(self, root: int, budget: int, vocab_size: int, repeats: bool) -> None:
        """Refuse what must not reach the target.

        Args:
            root: the newest committed token.
            budget: most nodes, the root included.
            vocab_size: token ids are below it.
            repeats: whether siblings may hold one token twice: they are judged by what they were drawn from.

        Raises:
            DraftError: it says what is wrong.
        """
        if len(self) > budget:
            raise DraftError(f"it has {len(self)} nodes, its root included, and {budget} were asked for")
        if self.tokens[0] != root:
            raise DraftError(f"its root is token {self.tokens[0]}, and the text ends with token {root}")
        if not _ordered(self.parents):
            raise DraftError("parents are out of order")
        foreign, repeated = _misplaced(self.tokens, self.parents, vocab_size)
        if foreign >= 0:
            raise DraftError(f"node {foreign} holds token id {self.tokens[foreign]}, and ids are from 0 to {vocab_size - 1}")
        if repeated >= 0 and not repeats:
            raise DraftError(f"node {repeated} holds token {self.tokens[repeated]}, which an elder sibling holds already")
        if self.drawn is not None:
            self.drawn.check(self.parents, vocab_size)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """Number of drafted tokens: every node but the root."""
        return len(self) - 1

    @cached_property
    def depths(self) -> np.ndarray:
        """Distance from the root, int32 ``[n]``."""
        return _depths(self.parents)

    @cached_property
    def ancestors(self) -> np.ndarray:
        """Ancestor-or-self mask, bool ``[n, n]``: row i is True at every node that node i may attend to."""
        return _ancestors(self.parents)

    @cached_property
    def _child_by_token(self) -> dict[tuple[int, int], int]:
        pairs: dict[tuple[int, int], int] = {}
        for node in range(1, len(self)):
            pairs.setdefault((int(self.parents[node]), int(self.tokens[node])), node)
        return pairs

    def child(self, node: int, token: int) -> int | None:
        """The child of ``node`` that holds ``token``, or None."""
        return self._child_by_token.get((node, token))

    def path_to(self, node: int) -> list[int]:
        """Node indices from the root to ``node``, both included."""
        path = []
        while node >= 0:
            path.append(node)
            node = int(self.parents[node])
        return path[::-1]

    @property
    def leaves(self) -> list[int]:
        """Nodes without children."""
        return sorted(set(range(len(self))) - set(self.parents.tolist()))

    @property
    def is_chain(self) -> bool:
        """True where no node has two children."""
        return bool((self.parents == np.arange(-1, len(self) - 1)).all())

    def select(self, nodes: Sequence[int] | np.ndarray) -> DraftTree:
        """The part made of ``nodes`` (ascending, closed under parents, starting with the root)."""
        keep = np.asarray(nodes, dtype=np.int64)
        place = np.full(len(self) + 1, -1, dtype=np.int32)  # the last entry stands for "no parent"
        place[keep] = np.arange(len(keep), dtype=np.int32)
        origin = keep.astype(np.int32) if self.origin is None else self.origin[keep]
        columns = {name: column[keep] for name, column in self.columns.items()}
        required = int(np.searchsorted(keep, self.required, "right")) - 1
        drawn = self.drawn and replace(self.drawn, rows=self.drawn.rows[keep])
        return DraftTree(self.tokens[keep], place[self.parents[keep]], columns, origin, required, drawn)

    def within(self, depth: int) -> DraftTree:
        """The part at most ``depth`` below the root."""
        return self if len(self) == 1 or self.depths.max() <= depth else self.select(np.flatnonzero(self.depths <= depth))

    def first_chain(self) -> DraftTree:
        """The path along each node's first child: what is left of the tree for a model that can verify chains only."""
        first = {int(p): i for i, p in reversed(list(enumerate(self.parents.tolist())))}
        path = [0]
        while path[-1] in first:
            path.append(first[path[-1]])
        return self.select(path)


def _int32(values: Any, what: str) -> np.ndarray:
    """Integers as a contiguous int32 array; the very same numbers, or ``DraftError``."""
    given = np.asarray(values)
    if given.dtype == np.int32:
        return np.ascontiguousarray(given)
    if given.dtype.kind not in "iu":
        raise DraftError(f"{what} are no integers")
    made = np.ascontiguousarray(given, dtype=np.int32)
    if (made != given).any():
        raise DraftError(f"{what} hold {given[made != given][0]}, which is no 32-bit integer")
    return made


@njit(cache=True)
def _ordered(parents):  # int32 [n] -> bool
    for node in range(1, len(parents)):
        if not 0 <= parents[node] < node:
            return False
    return parents[0] == -1


@njit(cache=True)
def _misplaced(tokens, parents, vocab_size):
    """The first node whose token is outside the vocabulary, and the first that repeats an elder sibling's; -1 for none."""
    repeated = -1
    for node in range(len(tokens)):
        if not 0 <= tokens[node] < vocab_size:
            return node, repeated
        for elder in range(max(parents[node], 0) + 1, node if repeated < 0 else 0):
            if parents[elder] == parents[node] and tokens[elder] == tokens[node]:
                repeated = node
    return -1, repeated


@njit(cache=True)
def _depths(parents):  # int32 [n] -> int32 [n]
    depths = np.zeros(len(parents), dtype=np.int32)
    for node in range(1, len(parents)):
        depths[node] = depths[parents[node]] + 1
    return depths


@njit(cache=True)
def _ancestors(parents):  # int32 [n] -> bool [n, n]
    n = len(parents)
    mask = np.zeros((n, n), dtype=np.bool_)
    mask[0, 0] = True
    for node in range(1, n):
        parent = parents[node]
        for other in range(parent + 1):
            mask[node, other] = mask[parent, other]
        mask[node, node] = True
    return mask


def warm_up() -> None:
    """Compile what is compiled here, so that it does not happen inside a timed step."""
    tree = DraftTree.chain(0, [1])
    tree.check(0, 2, 2, False)
    assert tree.depths[1] == 1
    assert tree.ancestors.shape == (2, 2)

"""A draft tree as flat arrays: the output of every drafter, verified by the target model in one forward pass.

Independent of language models: tokens are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from aded.core.compilation.jit import njit
from aded.core.errors import DraftError
from aded.core.limits import is_whole

COLUMNS = ("prior", "visits", "value", "exploration", "score")
"""Values that a drafter may give per node, float64 ``[n]``, NaN if not applicable."""
TOLERANCE = 1e-6
"""Largest error of the sum of a draft distribution."""


@dataclass(frozen=True)
class DraftDistributions:
    """The draft distributions q that the nodes of a sampled draft were drawn from, for rejection sampling.

    Attributes:
        distributions: exactly the distributions used, float64 tensor ``[m, vocab]`` on any device; tokens outside ``vocab``
            have probability 0.
        rows: row of ``distributions`` that each node was drawn from, int32 ``[n]``, -1 for the root.
        replacement: whether siblings were drawn with replacement.
        block: whether the draft, a chain, is verified as a block (`aded.verification.block_verifier`), not token by token.
    """

    distributions: Any
    rows: np.ndarray
    replacement: bool = True
    block: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _int32(self.rows, "rows of the distributions"))
        for name in ("replacement", "block"):
            if not isinstance(getattr(self, name), bool):
                raise DraftError(f"{name} is of type {type(getattr(self, name)).__name__}, not true or false")

    def check(self, parents: np.ndarray, vocab_size: int) -> None:
        """Check that nodes with these parents can have been drawn from the distributions.

        Args:
            parents: int32 ``[n]``.
            vocab_size: of the target.

        Raises:
            DraftError: a row is missing or out of range, children of different nodes share a row, or a block is not a chain.
        """
        if self.block and (parents != np.arange(-1, len(parents) - 1)).any():
            raise DraftError("block verification is for a chain, in which each node is the child of the one before it")
        if not str(getattr(self.distributions, "dtype", None)) == "torch.float64":
            raise DraftError("its distributions are no float64 tensor")
        rows = self.rows[1:].astype(np.int64)
        count, width = self.distributions.shape if self.distributions.ndim == 2 else (0, 0)
        if len(rows) != len(parents) - 1 or (len(rows) and not 0 <= rows.min() <= rows.max() < count) or width > vocab_size:
            raise DraftError("each node of a sampled draft needs one of its distributions, over at most the target's vocabulary")
        if len(np.unique(rows)) < len(np.unique((rows << 32) + parents[1:])):
            raise DraftError("children of different nodes share a row of the distributions; give each parent a separate row")

    def check_values(self, tokens: np.ndarray) -> None:
        """Check, at the cost of reading every distribution, that nodes with these tokens (int32 ``[n]``) can have been drawn.

        Raises:
            DraftError: a distribution is not finite, is negative or does not sum to 1, a token has probability 0, or a token was
                drawn twice from one distribution without replacement.
        """
        q = self.distributions
        used = q[np.unique(self.rows[1:]).tolist()]
        if not bool(((used >= 0).all(1) & ((used.sum(1) - 1).abs() < TOLERANCE)).all()):
            raise DraftError("its distributions are not all finite, 0 or more, and of sum 1")
        for node in range(1, len(tokens)):
            if tokens[node] >= q.shape[1] or q[self.rows[node], tokens[node]] <= 0:
                raise DraftError(f"node {node} holds token {tokens[node]}, whose probability in its distribution is 0")
            if not self.replacement and ((self.rows[1:node] == self.rows[node]) & (tokens[1:node] == tokens[node])).any():
                raise DraftError(f"node {node} repeats token {tokens[node]} of its distribution, drawn without replacement")


@dataclass(frozen=True)
class DraftTree:
    """A draft tree in topological order (parents before children).

    Node 0 is the *root*: the last committed token, whose keys and values are not in the KV cache yet. An empty draft is the
    root alone; a chain is a tree of width one.

    Attributes:
        tokens: token ids, int32 ``[n]``, ``n >= 1``.
        parents: index of each node's parent, int32 ``[n]``; ``parents[0] == -1``.
        columns: values per node by name (see ``COLUMNS``), float64 ``[n]``.
        origin: in a subtree made by ``select``, the index of each node in the full draft, int32 ``[n]``; None for a full draft.
        required: number of nodes directly after the root that the drafter needs to learn from. They are verified even if they
            are unlikely to be accepted.
        sampled_from: draft distributions of a sampled draft, for rejection sampling. Siblings are in the order in which they were
            drawn and may repeat a token. Nodes may be dropped only for reasons that do not depend on the drawn tokens.

    Raises:
        DraftError: the arrays are not such a tree.
    """

    tokens: np.ndarray
    parents: np.ndarray
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    origin: np.ndarray | None = None
    required: int = 0
    sampled_from: DraftDistributions | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", _int32(self.tokens, "token ids"))
        object.__setattr__(self, "parents", _int32(self.parents, "parents"))
        n = self.tokens.size
        if n < 1 or not self.tokens.shape == self.parents.shape == (n,):
            raise DraftError("tokens and parents are not one-dimensional arrays of equal length, 1 or more")
        if not _is_topological(self.parents):
            raise DraftError("parents are out of order: the root has parent -1, and every other parent comes before its children")
        if not is_whole(self.required) or not 0 <= self.required < n:
            raise DraftError(f"required is {self.required!r}; it ranges from 0 to the {n - 1} nodes without the root")
        if self.sampled_from is not None and not isinstance(self.sampled_from, DraftDistributions):
            raise DraftError(f"sampled_from is of type {type(self.sampled_from).__name__}, not DraftDistributions")
        if not isinstance(self.columns, Mapping):
            raise DraftError(f"columns are of type {type(self.columns).__name__}, not a dict by name")
        if self.columns:
            object.__setattr__(self, "columns", {name: _column(name, self.columns[name], n) for name in self.columns})
        if self.origin is not None:
            object.__setattr__(self, "origin", _int32(self.origin, "origins"))
            if self.origin.shape != (n,):
                raise DraftError("origin is not one node index per node")

    @classmethod
    def unchecked(cls, tokens: np.ndarray, parents: np.ndarray, columns: Mapping[str, np.ndarray], **others: Any) -> DraftTree:
        """A tree from arrays of the documented dtypes and shapes; nothing is checked or converted, which saves time."""
        tree = object.__new__(cls)
        fields = {"origin": None, "required": 0, "sampled_from": None, **others}
        tree.__dict__.update(tokens=tokens, parents=parents, columns=columns, **fields)
        return tree

    @classmethod
    def root_only(cls, token: int) -> DraftTree:
        """The empty draft: its step is a plain decoding step."""
        return cls(np.array([token]), np.array([-1]))

    @classmethod
    def chain(cls, root: int, tokens: Sequence[int]) -> DraftTree:
        """A chain of ``tokens`` below the root."""
        return cls(np.array([root, *tokens]), np.arange(-1, len(tokens)))

    @classmethod
    def from_paths(cls, root: int, paths: Iterable[Sequence[int]], limit: int | None = None) -> DraftTree:
        """Merge token paths that start below the root. Common prefixes share nodes; ``limit`` is the maximum number of nodes."""
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
        """Check a draft before verification.

        Args:
            root: the last committed token.
            budget: maximum number of nodes, including the root.
            vocab_size: token ids must be below it.
            repeats: whether siblings may repeat a token, as in rejection sampling.

        Raises:
            DraftError: the draft violates one of these limits.
        """
        if len(self) > budget:
            raise DraftError(f"it has {len(self)} nodes including the root, but at most {budget} were asked for")
        if self.tokens[0] != root:
            raise DraftError(f"its root is token {self.tokens[0]}, but the text ends with token {root}")
        if not _is_topological(self.parents):
            raise DraftError("parents are out of order")
        outside, repeated = _invalid_nodes(self.tokens, self.parents, vocab_size)
        if outside >= 0:
            raise DraftError(f"node {outside} holds token id {self.tokens[outside]}, but ids range from 0 to {vocab_size - 1}")
        if repeated >= 0 and not repeats:
            raise DraftError(f"node {repeated} repeats token {self.tokens[repeated]} of an earlier sibling")
        if self.sampled_from is not None:
            self.sampled_from.check(self.parents, vocab_size)

    def copy(self) -> DraftTree:
        """A copy that shares no array of nodes and nothing computed from them; draft distributions are shared."""
        drawn = self.sampled_from and replace(self.sampled_from, rows=self.sampled_from.rows.copy())
        columns = {name: column.copy() for name, column in self.columns.items()}
        origin = None if self.origin is None else self.origin.copy()
        fields = {"origin": origin, "required": self.required, "sampled_from": drawn}
        return DraftTree.unchecked(self.tokens.copy(), self.parents.copy(), columns, **fields)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """Number of drafted tokens: all nodes except the root."""
        return len(self) - 1

    @cached_property
    def depths(self) -> np.ndarray:
        """Distance from the root, int32 ``[n]``."""
        return _depths(self.parents)

    @cached_property
    def ancestors(self) -> np.ndarray:
        """Tree attention mask, bool ``[n, n]``: node i attends to node j if j is i or an ancestor of i."""
        return _ancestors(self.parents)

    @cached_property
    def _child_by_token(self) -> dict[tuple[int, int], int]:
        children: dict[tuple[int, int], int] = {}
        for node in range(1, len(self)):
            children.setdefault((int(self.parents[node]), int(self.tokens[node])), node)
        return children

    def child(self, node: int, token: int) -> int | None:
        """The child of ``node`` that holds ``token``, or None."""
        return self._child_by_token.get((node, token))

    def path_to(self, node: int) -> list[int]:
        """Node indices from the root to ``node`` (inclusive)."""
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
        """Whether no node has two children."""
        return bool((self.parents == np.arange(-1, len(self) - 1)).all())

    def select(self, nodes: Sequence[int] | np.ndarray) -> DraftTree:
        """The subtree of ``nodes``, which are ascending and contain the root and the parent of every node."""
        keep = np.asarray(nodes, dtype=np.int64)
        index = np.full(len(self) + 1, -1, dtype=np.int32)  # the last entry is for parent -1
        index[keep] = np.arange(len(keep), dtype=np.int32)
        origin = keep.astype(np.int32) if self.origin is None else self.origin[keep]
        columns = {name: column[keep] for name, column in self.columns.items()}
        required = int(np.searchsorted(keep, self.required, "right")) - 1
        drawn = self.sampled_from and replace(self.sampled_from, rows=self.sampled_from.rows[keep])
        fields = {"origin": origin, "required": required, "sampled_from": drawn}
        return DraftTree.unchecked(self.tokens[keep], index[self.parents[keep]], columns, **fields)

    def within(self, depth: int) -> DraftTree:
        """The subtree of nodes at most ``depth`` below the root."""
        return self if len(self) == 1 or self.depths.max() <= depth else self.select(np.flatnonzero(self.depths <= depth))

    def first_chain(self) -> DraftTree:
        """The path of first children, for a target model that can verify chains only."""
        first_child = {parent: node for node, parent in reversed(list(enumerate(self.parents.tolist())))}
        path = [0]
        while path[-1] in first_child:
            path.append(first_child[path[-1]])
        return self.select(path)


def _column(name: str, values: Any, n: int) -> np.ndarray:
    """Values per node as float64 ``[n]``."""
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        column = np.empty(0)
    if name not in COLUMNS or column.shape != (n,):
        raise DraftError(f"column {name!r} is not one of {', '.join(COLUMNS)} with one number per node")
    return column


def _int32(values: Any, what: str) -> np.ndarray:
    """Integers as a contiguous int32 array; ``DraftError`` if a value does not fit."""
    try:
        given = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise DraftError(f"{what} are not integers") from None
    if given.dtype == np.int32:
        return np.ascontiguousarray(given)
    if given.dtype.kind not in "iu":
        raise DraftError(f"{what} are not integers")
    converted = np.ascontiguousarray(given, dtype=np.int32)
    if (converted != given).any():
        raise DraftError(f"{what} hold {given[converted != given][0]}, which is no 32-bit integer")
    return converted


@njit(cache=True)
def _is_topological(parents):  # int32 [n] -> bool
    for node in range(1, len(parents)):
        if not 0 <= parents[node] < node:
            return False
    return parents[0] == -1


@njit(cache=True)
def _invalid_nodes(tokens, parents, vocab_size):
    """The first node with a token outside the vocabulary, and the first that repeats an earlier sibling's token; -1 for none."""
    repeated = -1
    for node in range(len(tokens)):
        if not 0 <= tokens[node] < vocab_size:
            return node, repeated
        for sibling in range(max(parents[node], 0) + 1, node if repeated < 0 else 0):
            if parents[sibling] == parents[node] and tokens[sibling] == tokens[node]:
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
    """Compile the functions of this module, so that no timed step has to."""
    tree = DraftTree.chain(0, [1])
    tree.check(0, 2, 2, False)
    assert tree.depths[1] == 1
    assert tree.ancestors.shape == (2, 2)

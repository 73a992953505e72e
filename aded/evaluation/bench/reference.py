"""Peer: ADED's published draft maker (the Rust package ``draftretriever``) as a drafter in the project's own loop."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.drafters.aded import PUBLISHED_WINDOW
from aded.drafters.base import Context, Drafter
from aded.evaluation.bench.contenders import Contender, drafter_contender
from aded.ngram.trigram import TrigramMatrix

NAME = "aded-reference"
PADDING_BELOW = 0
"""Ids below this fill a path up to the common length."""


def reference_contender(target: Any, matrix: TrigramMatrix | None) -> Contender:
    """The published draft maker on the model's own base matrix.

    Args:
        target: a model, or what stands for it where recorded text is replayed.
        matrix: the base matrix that ADED uses here.

    Raises:
        AdedError: the package is not installed, or there is no matrix for this model.
    """
    package = _package()
    if matrix is None:
        raise AdedError(f"there is no tri-gram matrix for this model, which {NAME} cannot do without; leave the peer out")
    store = Store(matrix)
    return drafter_contender(NAME, "ADED, published draft maker", target, lambda: ReferenceDrafter(package, store))


def _package() -> Any:
    try:
        import draftretriever
    except ImportError:
        raise AdedError(
            f"{NAME} needs the published draft maker; install it with `pip install draftretriever`, or leave the peer out"
        ) from None
    return draftretriever


class Store:
    """A matrix in a temporary file, as the package reads it: bincode of a map from pairs to maps from successors to
    probabilities."""

    def __init__(self, matrix: TrigramMatrix) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aded-reference-")
        self.path = str(Path(self._folder.name) / "datastore.idx")
        pairs = np.flatnonzero(matrix.contexts[:, 0] >= 0)  # without the rows that single tokens back off to
        parts = [struct.pack("<Q", len(pairs))]
        for first, second in matrix.contexts[pairs].tolist():
            tokens, probabilities = matrix.row(first, second)
            parts.append(struct.pack("<iiQ", first, second, len(tokens)))
            parts += [struct.pack("<if", t, p) for t, p in zip(tokens.tolist(), probabilities.tolist())]
        Path(self.path).write_bytes(b"".join(parts))


class ReferenceDrafter(Drafter):
    """The package counts the tokens it is given at every search, so it is given each new one once.

    It keeps at most ``choices`` nodes below the root, throwing its longest paths away first.
    """

    def __init__(self, package: Any, store: Store) -> None:
        self._package, self._store = package, store
        self._reader: Any = None

    def start(self, prompt: Sequence[int]) -> None:
        self._reader = self._package.Reader(self._store.path)
        self._next = max(0, len(prompt) - PUBLISHED_WINDOW)

    def propose(self, context: Context, budget: int) -> DraftTree:
        window = context.tokens[self._next :].tolist()
        self._next = max(0, len(context.tokens) - 2)  # the newest pair is the beginning of the next window
        if budget == 1 or len(window) < 2:
            return DraftTree.root_only(context.root)
        paths = self._reader.search(window, choices=budget - 1)[0]
        return DraftTree.from_paths(context.root, [[t for t in path if t >= PADDING_BELOW] for path in paths], budget)

    def settings(self) -> dict[str, object]:
        return {"package": "draftretriever"}

"""Peer: ADED's published implementation of drafting (the Rust package ``draftretriever``) in the project's decoding loop."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter
from aded.drafters.methods.aded import PUBLISHED_WINDOW
from aded.evaluation.bench.systems import System, drafter_system
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch

NAME = "aded-reference"
MIN_TOKEN_ID = 0
"""Smaller ids are padding in the package's paths."""


def reference_system(target: Any, matrix: TrigramMatrix | None) -> System:
    """The published package on the model's base matrix.

    Args:
        target: the target model, or its stand-in for recorded text.
        matrix: the base matrix that ADED uses.

    Raises:
        AdedError: the package is not installed, or there is no matrix for this model.
    """
    package = _package()
    if matrix is None:
        raise AdedError(f"there is no tri-gram matrix for this model, and {NAME} needs one; leave the peer out")
    store = Store(matrix)
    return drafter_system(NAME, "ADED, published draft maker", target, lambda: ReferenceDrafter(package, store))


def _package() -> Any:
    try:
        import draftretriever
    except ImportError:
        raise AdedError(
            f"{NAME} needs the package draftretriever; install it with `pip install draftretriever`, or leave the peer out"
        ) from None
    return draftretriever


class Store:
    """A matrix in a temporary file in the package's format: bincode of a map from bigrams to maps from successors to
    probabilities."""

    def __init__(self, matrix: TrigramMatrix) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aded-reference-")
        self.path = str(Path(self._folder.name) / "datastore.idx")
        bigrams = np.flatnonzero(matrix.contexts[:, 0] >= 0)  # without the back-off rows of single tokens
        chunks = [struct.pack("<Q", len(bigrams))]
        for first, second in matrix.contexts[bigrams].tolist():
            tokens, probabilities = matrix.row(first, second)
            chunks.append(struct.pack("<iiQ", first, second, len(tokens)))
            chunks += [struct.pack("<if", t, p) for t, p in zip(tokens.tolist(), probabilities.tolist())]
        Path(self.path).write_bytes(b"".join(chunks))


class ReferenceDrafter(Drafter):
    """Drafts with the package, which counts the tokens passed to each search; so each new token is passed only once.

    The package returns at most ``choices`` nodes below the root and discards its longest paths first.
    """

    def __init__(self, package: Any, store: Store) -> None:
        self._package, self._store = package, store
        self._reader: Any = None

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._reader = self._package.Reader(self._store.path)
        self._next = max(0, len(prompt) - PUBLISHED_WINDOW)

    def propose(self, context: Context, budget: int) -> DraftTree:
        window = context.tokens[self._next :].tolist()
        self._next = max(0, len(context.tokens) - 2)  # the next window starts with the newest bigram
        if budget == 1 or len(window) < 2:
            return DraftTree.root_only(context.root)
        paths = self._reader.search(window, choices=budget - 1)[0]
        return DraftTree.from_paths(context.root, [[t for t in path if t >= MIN_TOKEN_ID] for path in paths], budget)

    def settings(self) -> dict[str, object]:
        return {"package": "draftretriever"}

"""Text for training: token ids from files or from the model itself, packed into rows of one length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from aded import corpus
from aded.errors import AdedError
from aded.weights import Progress

if TYPE_CHECKING:
    from aded.model import TargetModel

SELF = "self"
HELD_OUT = 0.02
MOST_HELD_OUT = 64
"""Rows that the held-out figures are measured on at most."""


@dataclass(frozen=True)
class Rows:
    """Packed text.

    Attributes:
        training: int64 ``[rows, length]``; held_out: ``[rows', length]``, never trained on.
        seed: of the order in which rows are taken.
    """

    training: np.ndarray
    held_out: np.ndarray
    seed: int = 0

    def batch(self, step: int, size: int) -> torch.Tensor:
        """The rows of a step, int64 ``[size, length]``: every row once an epoch, in an order that step and seed decide."""
        places = np.arange(step * size, (step + 1) * size)
        epochs, within = np.divmod(places, len(self.training))
        orders = {e: np.random.default_rng([self.seed, e]).permutation(len(self.training)) for e in set(epochs.tolist())}
        return torch.from_numpy(self.training[[orders[e][i] for e, i in zip(epochs.tolist(), within.tolist())]])


def pack(tokens: np.ndarray, length: int, seed: int = 0) -> Rows:
    """Cut a flat array of token ids into rows and hold some of them out.

    Raises:
        AdedError: there is less than two rows of text.
    """
    count = len(tokens) // length
    if count < 2:
        raise AdedError(f"the corpus has {len(tokens)} tokens; give at least {2 * length}, or a smaller --length")
    rows = tokens[: count * length].reshape(count, length).astype(np.int64)
    held_out = min(max(1, int(HELD_OUT * count)), MOST_HELD_OUT)
    chosen = np.zeros(count, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(count)[:held_out]] = True
    return Rows(rows[~chosen], rows[chosen], seed)


def read(sources: Sequence[str], target: TargetModel, tokens: int, seed: int, progress: Progress) -> np.ndarray:
    """The token ids of all sources, in turn, int64 ``[n]``.

    Args:
        sources: ``.npy`` files of token ids, text files, or ``self`` for text that the model writes itself.
        tokens: how many the model shall write itself.

    Raises:
        AdedError: a file cannot be read, or holds ids that are not of this model's tokenizer.
    """
    found = np.concatenate([_read(source, target, tokens, seed, progress) for source in sources])
    if found.max(initial=0) >= target.vocab_size:
        raise AdedError(
            f"the corpus holds token id {found.max()}, the model has {target.vocab_size}; give text of this model's tokenizer"
        )
    return found


def _read(source: str, target: TargetModel, tokens: int, seed: int, progress: Progress) -> np.ndarray:
    if source == SELF:
        return _self_written(target, tokens, seed, progress)
    if source.endswith(".npy"):
        return corpus.read_tokens(source)
    texts = corpus.read_texts(source)
    end = target.tokenizer.eos_token_id
    ids = [[*target.tokenizer(text, add_special_tokens=False)["input_ids"], *([] if end is None else [end])] for text in texts]
    return np.array([i for text in ids for i in text], dtype=np.int64)


def _self_written(target: TargetModel, tokens: int, seed: int, progress: Progress) -> np.ndarray:
    from aded.selfwriting import SelfWriter

    written: list[np.ndarray] = []
    count = 0
    for conversation in SelfWriter(target, seed=seed):
        written.append(conversation.tokens.astype(np.int64))
        count += len(written[-1])
        progress(f"the model writes: {count:,} of {tokens:,} tokens", min(count / tokens, 1.0))
        if count >= tokens:
            break
    return np.concatenate(written)

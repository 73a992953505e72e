"""Training text: token ids from files or written by the model, packed into rows of equal length, with a loss mask.

In a conversation, only tokens of the model's answers enter the loss: only answers are ever drafted, and the chat template around
them is constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from aded.core.errors import AdedError
from aded.data import corpus
from aded.data.records import read_records
from aded.engine.loading.weights import Progress

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

SELF = "self"
HELD_OUT = 0.02
"""Fraction of the rows that is held out."""
MAX_HELD_OUT_ROWS = 64
MAX_POSITIONS = 1024
"""Positions of a recorded output in one evaluation batch."""
CHUNK = 1024
"""Rows checked at a time."""
IGNORE_INDEX = -100
"""Label of a token that is not in the loss, as in PyTorch's losses."""


@dataclass(frozen=True)
class Text:
    """Token ids (int64) and their loss mask (bool; true where the model wrote the token); both ``[n]`` or ``[rows, length]``."""

    ids: np.ndarray
    loss_mask: np.ndarray

    @classmethod
    def plain(cls, ids: np.ndarray) -> Text:
        """Text whose tokens are all in the loss."""
        return cls(ids.astype(np.int64), np.ones(ids.shape, dtype=bool))

    def __getitem__(self, index: slice | np.ndarray) -> Text:
        return Text(self.ids[index], self.loss_mask[index])

    def reshape(self, *shape: int) -> Text:
        return Text(self.ids.reshape(shape), self.loss_mask.reshape(shape))


@dataclass(frozen=True)
class Batch:
    """Rows of text and the positions to train on: those whose next token is in the loss, or a random sample of them.

    Attributes:
        ids: int64 ``[rows, length]``.
        loss_mask: as in ``Text``, bool ``[rows, length]``.
        positions: indices into the flattened rows, int64 ``[m]``; never the last position of a row.
        rows: row indices in the training text, int64 ``[rows]``; None for other text.
    """

    ids: torch.Tensor
    loss_mask: torch.Tensor
    positions: torch.Tensor
    rows: np.ndarray | None = None

    @classmethod
    def of(cls, text: Text) -> Batch:
        """All positions of rows ``[rows, length]``."""
        is_label = text.loss_mask & (np.arange(text.ids.shape[1]) > 0)
        positions = torch.from_numpy(np.flatnonzero(is_label) - 1)
        return cls(torch.from_numpy(text.ids), torch.from_numpy(text.loss_mask), positions)

    def sample(self, share: float, rng: np.random.Generator) -> Batch:
        """The batch with a random fraction ``share`` of its positions, at least one if it has any."""
        count = min(max(1, round(share * len(self.positions))), len(self.positions))
        chosen = np.sort(rng.permutation(len(self.positions))[:count])
        return replace(self, positions=self.positions[torch.from_numpy(chosen)])

    def to(self, device: torch.device) -> Batch:
        return Batch(self.ids.to(device), self.loss_mask.to(device), self.positions.to(device), self.rows)

    def labels(self, ahead: int) -> torch.Tensor:
        """The next tokens of each position, int64 ``[ahead, m]``, nearest first; ``IGNORE_INDEX`` after the answer's end."""
        ids, loss_mask, length = self.ids.flatten(), self.loss_mask.flatten(), self.ids.shape[1]
        column, valid, labels = self.positions % length, torch.ones_like(self.positions, dtype=torch.bool), []
        for offset in range(1, ahead + 1):
            index = (self.positions + offset).clamp_max(len(ids) - 1)
            valid = valid & (column + offset < length) & loss_mask[index]
            labels.append(torch.where(valid, ids[index], IGNORE_INDEX))
        return torch.stack(labels)

    def max_labels(self, ahead: int) -> int:
        """The largest number of labels, at most ``ahead``, that any position has in a row."""
        return int((self.labels(ahead) != IGNORE_INDEX).any(1).sum())


@dataclass(frozen=True)
class Rows:
    """Packed text, split into training and held-out rows.

    Attributes:
        training: ``[rows, length]``.
        held_out: ``[rows', length]``, never trained on.
        seed: determines the order of the rows and the sampled positions.
        share: fraction of a step's positions that is trained on.
    """

    training: Text
    held_out: Text
    seed: int = 0
    share: float = 1.0

    def batch(self, step: int, size: int) -> Batch:
        """The batch of a training step. Each epoch visits every row once; ``seed`` and ``step`` determine rows and positions."""
        count = len(self.training.ids)
        epochs, within = np.divmod(np.arange(step * size, (step + 1) * size), count)
        orders = {e: np.random.default_rng([self.seed, e]).permutation(count) for e in set(epochs.tolist())}
        chosen = np.array([orders[e][i] for e, i in zip(epochs.tolist(), within.tolist())])
        batch = replace(Batch.of(self.training[chosen]), rows=chosen)
        return batch.sample(self.share, np.random.default_rng([self.seed, step, size]))

    def evaluation_batches(self) -> list[Batch]:
        """The held-out rows, one per batch, with all their positions."""
        return [Batch.of(self.held_out[row : row + 1]) for row in range(len(self.held_out.ids))]


def pack(text: Text, length: int, seed: int = 0, share: float = 1.0) -> Rows:
    """Cut flat text into rows and hold some of them out.

    Raises:
        AdedError: the text is shorter than two rows.
    """
    count = len(text.ids) // length
    if count < 2:
        raise AdedError(f"the corpus has {len(text.ids)} tokens; give at least {2 * length}, or a smaller --length")
    rows = text[: count * length].reshape(count, length)
    held_out = min(max(1, int(HELD_OUT * count)), MAX_HELD_OUT_ROWS)
    chosen = np.zeros(count, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(count)[:held_out]] = True
    return Rows(rows[~chosen], rows[chosen], seed, share)


def check_learnable(rows: Rows, ahead: int, special: Collection[int]) -> None:
    """Check that the text can be trained and evaluated on.

    Args:
        rows: the packed text.
        ahead: number of tokens predicted after a position.
        special: ids of special tokens, such as separators.

    Raises:
        AdedError: the tokens in the loss are all special or all the same, or no position has ``ahead`` labels.
    """
    distinct = np.unique(rows.training.ids[rows.training.loss_mask])
    if len(distinct) < 2 or np.isin(distinct, sorted(special)).all():
        raise AdedError("the corpus holds only separators or a single repeated token; give --corpus texts with words in them")
    _check_label_count(_chunks(rows.training), ahead, "the corpus")
    _check_label_count(rows.evaluation_batches(), ahead, "the held-out part of the corpus")


def _chunks(text: Text) -> Iterator[Batch]:
    return (Batch.of(text[start : start + CHUNK]) for start in range(0, len(text.ids), CHUNK))


def _check_label_count(batches: Iterable[Batch], ahead: int, source: str) -> None:
    longest = 0
    for batch in batches:
        longest = max(longest, batch.max_labels(ahead))
        if longest == ahead:
            return
    fewer = " or fewer --heads" if ahead > 2 else ""
    raise AdedError(
        f"{source} has at most {longest} tokens of an answer in a row, and training needs {ahead}; give longer texts, a larger "
        f"--length{fewer}"
    )


def recorded(path: str, target: TargetModel, ahead: int = 1) -> list[Batch]:
    """Recorded outputs (see ``aded.data.records``) as evaluation batches: the positions of each record's output.

    Args:
        path: JSON lines of prompt and output token ids.
        target: the target model.
        ahead: number of tokens predicted after a position.

    Raises:
        AdedError: the file cannot be read, no output has ``ahead`` tokens, or an id is outside the model's vocabulary.
    """
    batches = []
    for record in read_records(path):
        ids = np.concatenate([record.prompt, record.output]).astype(np.int64)[: target.context_limit]
        _check_ids(ids, target)
        batch = Batch.of(Text(ids, np.arange(len(ids)) >= len(record.prompt)).reshape(1, -1))
        batches += [replace(batch, positions=part) for part in batch.positions.split(MAX_POSITIONS) if len(part)]
    if not batches:
        raise AdedError(f"{path} holds no recorded output; give --held-out a file with some")
    _check_label_count(batches, ahead, path)
    return batches


def read(sources: Sequence[str], target: TargetModel, tokens: int, seed: int, progress: Progress) -> Text:
    """The text of all sources, concatenated, ``[n]``.

    Args:
        sources: ``.npy`` files of token ids, text files, or ``self`` for text that the model writes.
        target: the target model.
        tokens: number of tokens that the model writes for ``self``.
        seed: for sampling the model's text.
        progress: called with a message and the fraction done.

    Raises:
        AdedError: a file cannot be read, or an id is outside the model's vocabulary.
    """
    files = {source: _read(source, target) for source in sources if source != SELF}
    for ids in files.values():
        _check_ids(ids, target)  # before the model writes its text, which takes long
    ids_of = [files[source] if source in files else _self_written(target, tokens, seed, progress) for source in sources]
    texts = [answers(ids, target) for ids in ids_of]
    return Text(np.concatenate([text.ids for text in texts]), np.concatenate([text.loss_mask for text in texts]))


def answers(ids: np.ndarray, target: TargetModel) -> Text:
    """Flat text whose loss mask covers the answers of conversations; all of it if it has no chat template of this model."""
    from aded.data.self_generation import answers_in

    return Text(ids.astype(np.int64), answers_in(ids, target.tokenizer))


def _check_ids(ids: np.ndarray, target: TargetModel) -> None:
    if ids.max(initial=0) >= target.vocab_size:
        raise AdedError(
            f"the corpus has token id {ids.max()}, but the model has {target.vocab_size} tokens; use the model's tokenizer"
        )


def _read(source: str, target: TargetModel) -> np.ndarray:
    if source.endswith(".npy"):
        return corpus.read_tokens(source)
    texts = corpus.read_texts(source)
    eos = target.tokenizer.eos_token_id
    ids = [[*target.tokenizer(text, add_special_tokens=False)["input_ids"], *([] if eos is None else [eos])] for text in texts]
    return np.array([i for text in ids for i in text], dtype=np.int64)


def _self_written(target: TargetModel, tokens: int, seed: int, progress: Progress) -> np.ndarray:
    from aded.data.self_generation import ConversationGenerator

    written: list[np.ndarray] = []
    count = 0
    for conversation in ConversationGenerator(target, seed=seed):
        written.append(conversation.tokens.astype(np.int64))
        count += len(written[-1])
        progress(f"the model writes: {count:,} of {tokens:,} tokens", min(count / tokens, 1.0))
        if count >= tokens:
            break
    return np.concatenate(written)

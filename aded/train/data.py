"""Text for training: token ids from files or from the model itself, packed into rows of one length, and what of it counts.

Of a conversation, only the model's answer counts: drafts are made of that alone, and the template around it is always the same.
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
from aded.engine.weights import Progress

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

SELF = "self"
HELD_OUT = 0.02
MOST_HELD_OUT = 64
"""Rows that the held-out figures are measured on at most."""
MOST_PLACES = 1024
"""Positions of a recorded output that are measured at once."""
CHUNK = 1024
"""Rows that are looked through at once."""
NO_LABEL = -100
"""What stands for a token that does not count, as in PyTorch's losses."""


@dataclass(frozen=True)
class Text:
    """Token ids, int64, and which of them count as written by the model, bool; both ``[n]`` or ``[rows, length]``."""

    ids: np.ndarray
    counts: np.ndarray

    @classmethod
    def plain(cls, ids: np.ndarray) -> Text:
        """Text in which every token counts."""
        return cls(ids.astype(np.int64), np.ones(ids.shape, dtype=bool))

    def __getitem__(self, places: slice | np.ndarray) -> Text:
        return Text(self.ids[places], self.counts[places])

    def reshape(self, *shape: int) -> Text:
        return Text(self.ids.reshape(shape), self.counts.reshape(shape))


@dataclass(frozen=True)
class Batch:
    """Rows of text, and the positions to learn from: those whose next token counts, or a share of them.

    Attributes:
        ids: int64 ``[rows, length]``; counts: as in ``Text``, bool ``[rows, length]``.
        places: indices into the flattened rows, int64 ``[m]``; none is at a row's end.
        rows: which rows of the training text these are, int64 ``[rows]``; None for other text.
    """

    ids: torch.Tensor
    counts: torch.Tensor
    places: torch.Tensor
    rows: np.ndarray | None = None

    @classmethod
    def of(cls, text: Text) -> Batch:
        """All positions of rows ``[rows, length]``."""
        next_counts = text.counts & (np.arange(text.ids.shape[1]) > 0)
        places = torch.from_numpy(np.flatnonzero(next_counts) - 1)
        return cls(torch.from_numpy(text.ids), torch.from_numpy(text.counts), places)

    def sample(self, share: float, rng: np.random.Generator) -> Batch:
        """This share of the positions, at random; one at least if there are any."""
        wanted = min(max(1, round(share * len(self.places))), len(self.places))
        chosen = np.sort(rng.permutation(len(self.places))[:wanted])
        return replace(self, places=self.places[torch.from_numpy(chosen)])

    def to(self, device: torch.device) -> Batch:
        return Batch(self.ids.to(device), self.counts.to(device), self.places.to(device), self.rows)

    def labels(self, ahead: int) -> torch.Tensor:
        """The tokens that follow each position, int64 ``[ahead, m]``: the nearest first, ``NO_LABEL`` behind the answer's end."""
        ids, counts, length = self.ids.flatten(), self.counts.flatten(), self.ids.shape[1]
        column, known, rows = self.places % length, torch.ones_like(self.places, dtype=torch.bool), []
        for step in range(1, ahead + 1):
            at = (self.places + step).clamp_max(len(ids) - 1)
            known = known & (column + step < length) & counts[at]
            rows.append(torch.where(known, ids[at], NO_LABEL))
        return torch.stack(rows)

    def reach(self, ahead: int) -> int:
        """The most tokens, up to ``ahead``, that count and follow one of the positions without a gap."""
        return int((self.labels(ahead) != NO_LABEL).any(1).sum())


@dataclass(frozen=True)
class Rows:
    """Packed text.

    Attributes:
        training: ``[rows, length]``; held_out: ``[rows', length]``, never trained on.
        seed: of the order in which rows are taken, and of the positions.
        share: of the positions of a step that are learned from.
    """

    training: Text
    held_out: Text
    seed: int = 0
    share: float = 1.0

    def batch(self, step: int, size: int) -> Batch:
        """What a step learns from: every row once an epoch, in an order that step and seed decide, as they do the positions."""
        places = np.arange(step * size, (step + 1) * size)
        count = len(self.training.ids)
        epochs, within = np.divmod(places, count)
        orders = {e: np.random.default_rng([self.seed, e]).permutation(count) for e in set(epochs.tolist())}
        chosen = np.array([orders[e][i] for e, i in zip(epochs.tolist(), within.tolist())])
        whole = replace(Batch.of(self.training[chosen]), rows=chosen)
        return whole.sample(self.share, np.random.default_rng([self.seed, step, size]))

    def unseen(self) -> list[Batch]:
        """The held-out rows, one a batch, with all positions that count."""
        return [Batch.of(self.held_out[row : row + 1]) for row in range(len(self.held_out.ids))]


def pack(text: Text, length: int, seed: int = 0, share: float = 1.0) -> Rows:
    """Cut flat text into rows and hold some of them out.

    Raises:
        AdedError: there is less than two rows of text.
    """
    count = len(text.ids) // length
    if count < 2:
        raise AdedError(f"the corpus has {len(text.ids)} tokens; give at least {2 * length}, or a smaller --length")
    rows = text[: count * length].reshape(count, length)
    held_out = min(max(1, int(HELD_OUT * count)), MOST_HELD_OUT)
    chosen = np.zeros(count, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(count)[:held_out]] = True
    return Rows(rows[~chosen], rows[chosen], seed, share)


def check_learnable(rows: Rows, ahead: int, special: Collection[int]) -> None:
    """Refuse text that nothing can be learned from, or that leaves nothing to measure on.

    Args:
        ahead: how many tokens after a position are predicted.
        special: token ids that are no text, such as separators.

    Raises:
        AdedError: tokens that count are all special or all the same one, or no position has ``ahead`` of them behind it.
    """
    counted = np.unique(rows.training.ids[rows.training.counts])
    if len(counted) < 2 or np.isin(counted, sorted(special)).all():
        raise AdedError("the corpus holds only separators or a single repeated token; give --corpus texts with words in them")
    _check_reach(_chunks(rows.training), ahead, "the corpus")
    _check_reach(rows.unseen(), ahead, "the held-out part of the corpus")


def _chunks(text: Text) -> Iterator[Batch]:
    return (Batch.of(text[start : start + CHUNK]) for start in range(0, len(text.ids), CHUNK))


def _check_reach(batches: Iterable[Batch], ahead: int, what: str) -> None:
    most = 0
    for batch in batches:
        most = max(most, batch.reach(ahead))
        if most == ahead:
            return
    fewer = " or fewer --heads" if ahead > 2 else ""
    raise AdedError(
        f"{what} has at most {most} tokens of an answer in a row, and training needs {ahead}; give longer texts, a larger "
        f"--length{fewer}"
    )


def recorded(path: str, target: TargetModel, ahead: int = 1) -> list[Batch]:
    """Recorded decodes (see ``aded.evaluation.replay``) to measure on: of each, the positions of its output.

    Args:
        ahead: how many tokens after a position are predicted.

    Raises:
        AdedError: the file cannot be read, holds no output so long, or ids that are not of this model's tokenizer.
    """
    batches = []
    for record in read_records(path):
        ids = np.concatenate([record.prompt, record.output]).astype(np.int64)[: target.context_limit]
        _check(ids, target)
        whole = Batch.of(Text(ids, np.arange(len(ids)) >= len(record.prompt)).reshape(1, -1))
        batches += [replace(whole, places=places) for places in whole.places.split(MOST_PLACES) if len(places)]
    if not batches:
        raise AdedError(f"{path} holds no recorded output; give --held-out a file with some")
    _check_reach(batches, ahead, path)
    return batches


def read(sources: Sequence[str], target: TargetModel, tokens: int, seed: int, progress: Progress) -> Text:
    """The text of all sources, in turn, ``[n]``.

    Args:
        sources: ``.npy`` files of token ids, text files, or ``self`` for text that the model writes itself.
        tokens: how many the model shall write itself.

    Raises:
        AdedError: a file cannot be read, or holds ids that are not of this model's tokenizer.
    """
    files = {source: _read(source, target) for source in sources if source != SELF}
    for ids in files.values():
        _check(ids, target)  # before the model writes, which is the long work
    parts = [files[source] if source in files else _self_written(target, tokens, seed, progress) for source in sources]
    marked = [answers(part, target) for part in parts]
    return Text(np.concatenate([text.ids for text in marked]), np.concatenate([text.counts for text in marked]))


def answers(ids: np.ndarray, target: TargetModel) -> Text:
    """Flat text in which the answers of conversations count; all of it where it holds none of this model's chat template."""
    from aded.data.self_generation import answers_in

    return Text(ids.astype(np.int64), answers_in(ids, target.tokenizer))


def _check(ids: np.ndarray, target: TargetModel) -> None:
    if ids.max(initial=0) >= target.vocab_size:
        raise AdedError(
            f"the corpus holds token id {ids.max()}, the model has {target.vocab_size}; give text of this model's tokenizer"
        )


def _read(source: str, target: TargetModel) -> np.ndarray:
    if source.endswith(".npy"):
        return corpus.read_tokens(source)
    texts = corpus.read_texts(source)
    end = target.tokenizer.eos_token_id
    ids = [[*target.tokenizer(text, add_special_tokens=False)["input_ids"], *([] if end is None else [end])] for text in texts]
    return np.array([i for text in ids for i in text], dtype=np.int64)


def _self_written(target: TargetModel, tokens: int, seed: int, progress: Progress) -> np.ndarray:
    from aded.data.self_generation import SelfWriter

    written: list[np.ndarray] = []
    count = 0
    for conversation in SelfWriter(target, seed=seed):
        written.append(conversation.tokens.astype(np.int64))
        count += len(written[-1])
        progress(f"the model writes: {count:,} of {tokens:,} tokens", min(count / tokens, 1.0))
        if count >= tokens:
            break
    return np.concatenate(written)

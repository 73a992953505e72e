"""How well a tri-gram matrix represents its model: both are asked what comes next, at every position of the model's outputs.

The representatives are those of `aded.ngram.representative`; the overlay has learned the text up to there, and the model's
answers along it: since the prompt began, or over all prompts of a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.data.records import Record
from aded.ngram.representative import NEWEST, TOPS, agreement, answers, most_probable
from aded.ngram.session_overlay import TOLD, Overlay
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch

    from aded.engine.target_model import TargetModel

POSITIONS = (32, 64, 128, 256)
"""Bounds of the classes of output positions."""
CHUNK = 64  # tokens in one pass of the model
ALL = "all"
PROMPTS = (1, 4, 16)
"""Bounds of the classes of successive prompts."""


@dataclass
class Agreement:
    """Sums over positions; see `measures` for their means."""

    positions: int = 0
    unseen: int = 0
    distance: float = 0.0
    shared: tuple[float, ...] = (0.0,) * len(TOPS)

    def add(self, unseen: bool, distance: float, shared: Iterable[float]) -> None:
        """Count one position."""
        self.positions += 1
        self.unseen += unseen
        self.distance += distance
        self.shared = tuple(a + b for a, b in zip(self.shared, shared))

    def measures(self) -> dict[str, float | int]:
        """Positions, share of unseen pairs, mean total variation, mean overlap of the most probable 1, 4 and 12."""
        n = max(self.positions, 1)
        tops = {f"top_{k}": shared / n for k, shared in zip(TOPS, self.shared)}
        return {"positions": self.positions, "unseen": self.unseen / n, "total_variation": self.distance / n, **tops}


def compare(
    model: TargetModel, matrix: TrigramMatrix, records: Sequence[Record], progress: Any, keep: bool = False
) -> list[dict[str, Any]]:
    """One row for each representative and class of output positions (and of successive prompts), all positions first.

    Args:
        model: the target that wrote the records.
        matrix: of its tokenizer.
        records: prompts and outputs.
        progress: called with a message and the fraction done.
        keep: the overlay keeps what it learned from one record to the next.

    Raises:
        AdedError: no record, or one with ids outside the vocabulary or too long for the model.
    """
    if not any(len(record.output) for record in records):
        raise AdedError("there is no output to compare on; give a file that holds some")
    for number, record in enumerate(records, 1):
        _check_record(model, record, number)
    found: dict[tuple[str, str], Agreement] = {}
    overlay = Overlay()
    for number, record in enumerate(records):
        progress(f"comparing, {number + 1} of {len(records)}", number / len(records))
        if not keep:
            overlay.clear()
        classes = [_class_of(number, PROMPTS, "prompt")] if keep else []
        _compare_one(model, matrix, record, overlay, classes, found)
    where = list(dict.fromkeys(where for _, where in sorted(found, key=lambda key: _place_of(key[1]))))
    return [
        {"representative": who, "where": place, **found[who, place].measures()}
        for who in dict.fromkeys(who for who, _ in found)
        for place in where
    ]


def _compare_one(
    model: TargetModel,
    matrix: TrigramMatrix,
    record: Record,
    overlay: Overlay,
    classes: Sequence[str],
    found: dict[tuple[str, str], Agreement],
) -> None:
    text = np.concatenate([record.prompt, record.output]).astype(np.int32)
    start = len(record.prompt)
    overlay.learn(matrix, text[:start], 0)
    for at, target in enumerate(distributions(model, text, start), start):
        newest = text[max(0, at - NEWEST) : at]
        for answer in answers(matrix, overlay, newest):
            measured = agreement(answer.tokens, answer.probabilities, target)
            for where in (ALL, _class_of(at - start, POSITIONS, "token"), *classes):
                found.setdefault((answer.who, where), Agreement()).add(answer.unseen, *measured)
        overlay.learn(matrix, text[max(0, at - NEWEST) : at + 1], len(newest))
        overlay.tell(newest, DraftTree.root_only(int(text[at - 1])), *_answer(target))


def _check_record(model: TargetModel, record: Record, number: int) -> None:
    """Refuse a text that the model cannot have written; one that fills the context has a last token that is never read."""
    length = len(record.prompt) + len(record.output)
    if length > model.context_limit:
        raise AdedError(
            f"text {number} has {length} tokens and the context of {model.label} {model.context_limit}; leave the text out"
        )
    for ids in (record.prompt, record.output):
        if ids.min(initial=0) < 0 or ids.max(initial=0) >= model.vocab_size:
            raise AdedError(
                f"text {number} holds token ids that are none of {model.label}'s 0 to {model.vocab_size - 1}; record it again"
            )


def _answer(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    best = most_probable(target, min(TOLD, len(target)))
    return best[None].astype(np.int32), target[best][None].astype(np.float32)


def distributions(model: TargetModel, text: np.ndarray, start: int) -> Iterator[np.ndarray]:
    """The model's distribution of each token from ``text[start]`` on, given those before it, float32 ``[vocab]``."""
    session = model.session(len(text) + CHUNK)
    try:
        session.prefill(text[: start - 1].tolist())
        step = CHUNK if model.mode != "plain" else 1
        for at in range(start - 1, len(text) - 1, step):
            chunk = text[at : min(at + step, len(text) - 1)]
            logits: torch.Tensor = session.forward_tree(DraftTree.chain(int(chunk[0]), chunk[1:].tolist())).logits
            yield from logits.float().softmax(-1).cpu().numpy()
            session.commit(range(len(chunk)))
    finally:
        session.close()


def answer(model: TargetModel, question: str, most: int, category: str = "") -> Record:
    """The model's greedy output."""
    from aded.decoding.decoder import Decoder, GenerationSettings

    trace = Decoder(model, "aded", GenerationSettings(max_new_tokens=most), record=False).run(question)
    prompt, output = (np.array(ids, dtype=np.int32) for ids in (trace.header.prompt_tokens, trace.token_ids))
    return Record(prompt, output, category)


def _class_of(place: int, bounds: Sequence[int], unit: str) -> str:
    """The class of a place, from 0, in words that count from 1."""
    over = sum(place >= bound for bound in bounds)
    low = bounds[over - 1] + 1 if over else 1
    if over == len(bounds):
        return f"{unit}s from {low}"
    return f"{unit} {low}" if low == bounds[over] else f"{unit}s {low} to {bounds[over]}"


def _place_of(where: str) -> tuple[bool, bool, int]:
    """The order of classes: all, then tokens, then prompts, each from the first on."""
    words = where.split()
    return where != ALL, where.startswith("prompt"), next((int(word) for word in words if word.isdigit()), 0)

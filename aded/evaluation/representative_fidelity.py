"""Fidelity of a tri-gram matrix: its next-token distributions compared with the model's, at every position of model outputs.

The LLM representatives are those of `aded.ngram.representative`. At each position, the session counts have been learned from the
preceding text and from the model's top-k tokens along it, of one prompt or of all prompts of a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.data.records import Record
from aded.ngram.representative import MAX_CONTEXT, TOP_KS, TargetDistribution, agreement, most_probable, predictions
from aded.ngram.session_counts import OBSERVED_TOP_K, SessionCounts
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch

    from aded.engine.target_model import TargetModel

POSITIONS = (32, 64, 128, 256)
"""Upper bounds of the classes of output positions."""
CHUNK = 64  # tokens per forward pass
ALL = "all"
PROMPTS = (1, 4, 16)
"""Upper bounds of the classes of successive prompts."""


@dataclass
class Agreement:
    """Sums over positions; `measures` gives the means."""

    positions: int = 0
    unseen: int = 0
    distance: float = 0.0
    shared: tuple[float, ...] = (0.0,) * len(TOP_KS)

    def add(self, unseen: bool, distance: float, shared: Iterable[float]) -> None:
        """Add one position."""
        self.positions += 1
        self.unseen += unseen
        self.distance += distance
        self.shared = tuple(a + b for a, b in zip(self.shared, shared))

    def measures(self) -> dict[str, float | int]:
        """Number of positions, fraction of unseen bigrams, mean total variation, mean overlap of the top 1, 4 and 12."""
        n = max(self.positions, 1)
        tops = {f"top_{k}": shared / n for k, shared in zip(TOP_KS, self.shared)}
        return {"positions": self.positions, "unseen": self.unseen / n, "total_variation": self.distance / n, **tops}


def compare(
    model: TargetModel, matrix: TrigramMatrix, records: Sequence[Record], progress: Any, keep: bool = False
) -> list[dict[str, Any]]:
    """One row for each LLM representative and class of output positions (and of successive prompts), all positions first.

    Args:
        model: the target model, which generated the records.
        matrix: a matrix for its tokenizer.
        records: prompts and outputs.
        progress: called with a message and the fraction done.
        keep: keep the session counts from one record to the next.

    Raises:
        AdedError: there is no output, or a record has ids outside the vocabulary or is too long for the model.
    """
    if not any(len(record.output) for record in records):
        raise AdedError("there is no output to compare on; give a file with recorded outputs")
    for number, record in enumerate(records, 1):
        _check_record(model, record, number)
    found: dict[tuple[str, str], Agreement] = {}
    session_counts = SessionCounts()
    for number, record in enumerate(records):
        progress(f"comparing: {number + 1} of {len(records)}", number / len(records))
        if not keep:
            session_counts.clear()
        classes = [_class_of(number, PROMPTS, "prompt")] if keep else []
        _compare_one(model, matrix, record, session_counts, classes, found)
    where = list(dict.fromkeys(where for _, where in sorted(found, key=lambda key: _sort_key(key[1]))))
    return [
        {"representative": who, "where": place, **found[who, place].measures()}
        for who in dict.fromkeys(who for who, _ in found)
        for place in where
    ]


def _compare_one(
    model: TargetModel,
    matrix: TrigramMatrix,
    record: Record,
    session_counts: SessionCounts,
    classes: Sequence[str],
    found: dict[tuple[str, str], Agreement],
) -> None:
    text = np.concatenate([record.prompt, record.output]).astype(np.int32)
    start = len(record.prompt)
    session_counts.learn(matrix, text[:start], 0)
    for at, distribution in enumerate(distributions(model, text, start), start):
        target = TargetDistribution(distribution)
        newest = text[max(0, at - MAX_CONTEXT) : at]
        for made in predictions(matrix, session_counts, newest):
            measured = agreement(made.tokens, made.probabilities, target)
            for where in (ALL, _class_of(at - start, POSITIONS, "token"), *classes):
                found.setdefault((made.who, where), Agreement()).add(made.unseen, *measured)
        session_counts.learn(matrix, text[max(0, at - MAX_CONTEXT) : at + 1], len(newest))
        session_counts.observe_top_k(newest, DraftTree.root_only(int(text[at - 1])), *_top_k(distribution))


def _check_record(model: TargetModel, record: Record, number: int) -> None:
    """Check that the model can have generated the record; its last token needs no forward pass, so it may fill the context."""
    length = len(record.prompt) + len(record.output)
    if length > model.context_limit:
        raise AdedError(
            f"text {number} has {length} tokens and the context of {model.label} {model.context_limit}; leave the text out"
        )
    for ids in (record.prompt, record.output):
        if ids.min(initial=0) < 0 or ids.max(initial=0) >= model.vocab_size:
            raise AdedError(
                f"text {number} has token ids outside {model.label}'s range 0 to {model.vocab_size - 1}; record it again"
            )


def _top_k(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    best = most_probable(target, min(OBSERVED_TOP_K, len(target)))
    return best[None].astype(np.int32), target[best][None].astype(np.float32)


def distributions(model: TargetModel, text: np.ndarray, start: int) -> Iterator[np.ndarray]:
    """The model's distribution, float32 ``[vocab]``, of each token from ``text[start]`` on; ``text`` is int32 ``[n]``."""
    session = model.session(len(text) + CHUNK)
    try:
        session.prefill(text[: start - 1].tolist())
        step = CHUNK if model.mode != "plain" else 1
        for at in range(start - 1, len(text) - 1, step):
            chunk = text[at : min(at + step, len(text) - 1)]
            logits: torch.Tensor = session.forward_tree(DraftTree.chain(int(chunk[0]), chunk[1:].tolist())).logits
            yield from logits.float().softmax(-1).cpu().numpy()
            session.compact(range(len(chunk)))
    finally:
        session.close()


def answer(model: TargetModel, question: str, max_new_tokens: int, category: str = "") -> Record:
    """The model's greedy answer to a question."""
    from aded.decoding.decoder import Decoder, GenerationSettings

    trace = Decoder(model, "aded", GenerationSettings(max_new_tokens=max_new_tokens), record=False).run(question)
    prompt, output = (np.array(ids, dtype=np.int32) for ids in (trace.header.prompt_tokens, trace.token_ids))
    return Record(prompt, output, category)


def _class_of(index: int, bounds: Sequence[int], unit: str) -> str:
    """The label of the class of an index (from 0); labels count from 1."""
    over = sum(index >= bound for bound in bounds)
    low = bounds[over - 1] + 1 if over else 1
    if over == len(bounds):
        return f"{unit}s from {low}"
    return f"{unit} {low}" if low == bounds[over] else f"{unit}s {low} to {bounds[over]}"


def _sort_key(where: str) -> tuple[bool, bool, int]:
    """Sort key of class labels: all, then tokens, then prompts, in ascending order."""
    return where != ALL, where.startswith("prompt"), next((int(word) for word in where.split() if word.isdigit()), 0)

"""How well a tri-gram matrix represents its model: both are asked what comes next, at every position of the model's outputs.

Two representatives are compared with the model: the *base* alone (the row of the last pair, or where that pair is unseen
the row of the last token), and the *session*, which is what a search draws from: the base with an overlay that has learned
the text up to there, and the model's answers along it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.errors import AdedError
from aded.overlay import TOLD, Overlay
from aded.replay import Record
from aded.tree import DraftTree
from aded.trigram import MOST_SUCCESSORS, TrigramMatrix

if TYPE_CHECKING:
    import torch

    from aded.model import TargetModel

TOPS = (1, 4, 12)
POSITIONS = (32, 64, 128, 256)
"""Bounds of the classes of output positions."""
CHUNK = 64  # tokens in one pass of the model
NEWEST = 8  # tokens of a context that the overlay reads
ALL = "all"


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


def compare(model: TargetModel, matrix: TrigramMatrix, records: Sequence[Record], progress: Any) -> list[dict[str, Any]]:
    """One row for each representative and class of output positions, all positions first.

    Args:
        model: the target that wrote the records.
        matrix: of its tokenizer.
        records: prompts and outputs.
        progress: called with a message and the fraction done.

    Raises:
        AdedError: no record, or one with ids outside the vocabulary or too long for the model.
    """
    if not any(len(record.output) for record in records):
        raise AdedError("there is no output to compare on; give a file that holds some")
    found: dict[tuple[str, str], Agreement] = {}
    for number, record in enumerate(records):
        progress(f"comparing, {number + 1} of {len(records)}", number / len(records))
        _compare_one(model, matrix, record, found)
    classes = [ALL, *_classes()]
    return [
        {"representative": who, "output": where, **found[who, where].measures()}
        for who in ("base", "session")
        for where in classes
        if (who, where) in found
    ]


def _compare_one(model: TargetModel, matrix: TrigramMatrix, record: Record, found: dict[tuple[str, str], Agreement]) -> None:
    text = np.concatenate([record.prompt, record.output]).astype(np.int32)
    model.check_prompt(text.tolist())
    overlay, start = Overlay(), len(record.prompt)
    overlay.learn(matrix, text[:start], 0)
    pairs = {(int(text[i - 2]), int(text[i - 1])) for i in range(2, start)}  # that something followed
    for at, target in enumerate(distributions(model, text, start), start):
        newest = text[max(0, at - NEWEST) : at]
        first, second = int(text[at - 2]) if at > 1 else -1, int(text[at - 1])
        row = matrix.row(first, second) if at > 1 else matrix.row(-1, second)
        base = row if len(row[0]) else matrix.row(-1, second)
        session = overlay.successors(matrix, newest, 4 * MOST_SUCCESSORS)
        for who, drawn, unseen in (
            ("base", base, at < 2 or not len(row[0])),
            ("session", session, at < 2 or (not len(row[0]) and (first, second) not in pairs)),
        ):
            for where in (ALL, _class_of(at - start)):
                found.setdefault((who, where), Agreement()).add(unseen, *agreement(*drawn, target))
        overlay.learn(matrix, text[max(0, at - NEWEST) : at + 1], len(newest))
        overlay.tell(newest, DraftTree.root_only(second), *_answer(target))
        pairs.add((first, second))


def agreement(tokens: np.ndarray, probabilities: np.ndarray, target: np.ndarray) -> tuple[float, tuple[float, ...]]:
    """Total variation from the target, and the share of its 1, 4 and 12 most probable tokens that are also the matrix's.

    Args:
        tokens, probabilities: the matrix's successors, most probable first, ``[k]``; what they lack to 1 lies on no token.
        target: the model's distribution, ``[vocab]``.
    """
    known = target[tokens].astype(np.float64)
    lacking = max(0.0, 1.0 - float(probabilities.sum()))
    distance = (np.abs(known - probabilities).sum() + max(0.0, 1.0 - float(known.sum())) + lacking) / 2
    best = _best(target, min(max(TOPS), len(target)))
    return float(distance), tuple(len(np.intersect1d(best[:k], tokens[:k])) / min(k, len(target)) for k in TOPS)


def _best(target: np.ndarray, count: int) -> np.ndarray:
    """The most probable ids, most probable first, lower id first among equals."""
    least = np.partition(target, -count)[-count]
    candidates = np.flatnonzero(target >= least)
    return candidates[np.argsort(-target[candidates], kind="stable")][:count]


def _answer(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    best = _best(target, min(TOLD, len(target)))
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


def run(options: Any, progress: Any) -> list[dict[str, Any]]:
    """The command ``matrix compare``.

    Raises:
        AdedError: whatever the user can cause: a bad file, a foreign tokenizer, a limit out of range.
    """
    from aded.bench.questions import read_questions, spread_out
    from aded.cli import load_model
    from aded.replay import read_records

    if options.questions:
        questions = spread_out(read_questions(options.questions), options.limit)
    else:
        records = spread_out(read_records(options.recorded), options.limit)
    TrigramMatrix.load(options.file)  # damage is found before a model is loaded
    model = load_model(options, progress)
    matrix = TrigramMatrix.load(options.file, fingerprint=model.fingerprint, vocab_size=model.vocab_size)
    if options.questions:
        records = [answer(model, question.text, options.max_new_tokens, question.category) for question in questions]
    return compare(model, matrix, records, progress)


def answer(model: TargetModel, question: str, most: int, category: str = "") -> Record:
    """The model's greedy output."""
    from aded.decode import Decoder, GenerationSettings

    trace = Decoder(model, "aded", GenerationSettings(max_new_tokens=most), record=False).run(question)
    prompt, output = (np.array(ids, dtype=np.int32) for ids in (trace.header.prompt_tokens, trace.token_ids))
    return Record(prompt, output, category)


def _classes() -> list[str]:
    bounds = [0, *POSITIONS]
    return [f"{low + 1} to {high}" for low, high in zip(bounds, POSITIONS)] + [f"from {POSITIONS[-1] + 1}"]


def _class_of(position: int) -> str:
    return _classes()[sum(position >= bound for bound in POSITIONS)]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| representative | output tokens | positions | unseen pairs | total variation | top 1 | top 4 | top 12 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        tops = " | ".join(f"{row[f'top_{k}']:.3f}" for k in TOPS)
        share, distance = f"{row['unseen']:.1%}", f"{row['total_variation']:.3f}"
        lines.append(f"| {row['representative']} | {row['output']} | {row['positions']} | {share} | {distance} | {tops} |")
    return "\n".join(lines)

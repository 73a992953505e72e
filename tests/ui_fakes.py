"""Invented traces for tests of the page: a plain run and an ADED run with the same text."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from typing import Any

from aded.core.trace import (
    Agreement,
    Budget,
    Choice,
    Header,
    LensPosition,
    LensRecord,
    Race,
    RowChange,
    Seconds,
    Size,
    Step,
    Trace,
    TreeRecord,
)

WORDS = (
    "A language model reads the text so far and gives every possible next token a probability. Reading one token costs "
    "almost as much as reading twenty, because the weights have to come from memory either way. So a draft of several "
    "tokens is checked in one forward pass:\n\nthe model says at every token of the draft what it would have written itself, and "
    "the draft is kept as long as both agree. The text stays the same, only the waiting gets shorter."
)
C1, C2 = 1.25, 19652.0


def rounded_times(race: Race) -> Race:
    """The race as the page gets it: with times to a tenth of a microsecond."""

    def rounded(step: Step) -> Step:
        return replace(step, seconds=Seconds(*(round(time, 7) for time in astuple(step.seconds))))

    return Race([replace(run, steps=[rounded(step) for step in run.steps]) for run in race.lanes])


def words(text: str = WORDS) -> list[str]:
    """Tokens of an invented tokenizer: words with the space before them."""
    out: list[str] = []
    for piece in text.replace("\n", " \n").split(" "):
        out.append(piece if not out or piece.startswith("\n") else " " + piece)
    return out


def make_header(method: str, **changes: object) -> Header:
    header = Header(
        method=method,
        label={"plain": "Plain decoding", "aded": "ADED"}.get(method, method),
        lossless=True,
        model="made-up-model",
        fingerprint="0" * 16,
        device="cpu",
        dtype="float32",
        versions={"aded": "0"},
        settings={"max_new_tokens": 128, "temperature": 0.0},
        method_settings={} if method != "aded" else {"search": "mcts", "simulations": 150, "c1": C1, "c2": C2},
        seed=0,
        prompt="Explain speculative decoding.",
        prompt_tokens=[1, 2, 3],
        prompt_texts=["Explain", " speculative", " decoding."],
    )
    return replace(header, **changes)  # type: ignore[arg-type]


def make_step(
    index: int,
    texts: Sequence[str],
    ids: Sequence[int],
    accepted: int,
    rng: random.Random,
    size: int = 26,
    newest: Sequence[str] = (" is", " a"),
) -> Step:
    """A step that writes ``texts`` after ``newest``: ``accepted`` drafted tokens, then a bonus or correction token."""
    parents, tokens, names, visits = [-1], [ids[0] - 1], ["·"], [150.0]
    for depth in range(accepted):
        parents.append(depth)
        tokens.append(ids[depth])
        names.append(texts[depth])
        visits.append(visits[-1] * rng.uniform(0.45, 0.8))
    while len(parents) < size:
        parent = rng.choice([rng.randrange(len(parents)), rng.randrange(1 + len(parents) // 3)])
        if _depth(parents, parent) >= 5:
            continue
        parents.append(parent)
        tokens.append(900 + len(parents))
        names.append(rng.choice([" the", " of", " a", ",", " is", ".", " model", " token", "\n", " it", " that", " in", " text"]))
        visits.append(max(1.0, visits[parent] * rng.uniform(0.05, 0.3)))
    path = list(range(accepted + 1))
    prior = [None] + [round(rng.uniform(0.02, 0.95), 3) for _ in parents[1:]]
    visits = [float(round(v)) for v in visits]
    value: list[float | None] = [None] + [round(rng.uniform(1, 2.4), 3) for _ in parents[1:]]
    explore = [None] + [_explore(visits[parents[i]], prior[i] or 0, visits[i]) for i in range(1, len(parents))]
    verdict = ["root"] + [
        "accepted" if i in path else "rejected" if parents[i] in path else "unreached" for i in range(1, len(parents))
    ]
    why = {
        "root": "root",
        "accepted": "target chose it",
        "unreached": "parent not accepted",
        "rejected": "target chose a sibling",
    }
    last = path[-1]
    reason = [
        "target chose an undrafted token" if v == "rejected" and parents[i] == last else why[v] for i, v in enumerate(verdict)
    ]
    tree = TreeRecord(
        tokens=tokens,
        parents=parents,
        texts=names,
        columns={
            "prior": prior,
            "visits": list(visits),
            "value": value,
            "exploration": explore,
            "score": [None if e is None or q is None else q + e for q, e in zip(value, explore)],
        },
        probability=[None] + [0.6 if v == "accepted" else 0.05 if v == "rejected" else None for v in verdict[1:]],
        rank=[None] + [1 if v == "accepted" else 3 if v == "rejected" else None for v in verdict[1:]],
        verdict=verdict,  # type: ignore[arg-type]
        reason=reason,  # type: ignore[arg-type]
    )
    choices = [
        Choice(n, ids[k], texts[k], 0.6, 1, k < accepted, [ids[k], 7, 8], [texts[k], " other", " more"], [0.6, 0.2, 0.05])
        for k, n in enumerate(path)
    ]
    row = RowChange(
        key=[ids[0] - 2, ids[0] - 1],
        key_texts=list(newest),
        tokens=[ids[0], 12, 13, 14, 15, 16],
        texts=[texts[0], " part", " principle", " branch", " tool", "\n"],
        before=[0.22, 0.1, 0.14, 0.02, 0.09, 0.06],
        after=[0.25, 0.14, 0.13, 0.06, 0.085, 0.06],
        learned=[0.2, 0.14, 0.03, 0.06, 0.0, 0.0],
    )
    plain = size == 1
    seconds = Seconds(
        draft=0.0 if plain else 0.004,
        verify=0.021 + rng.uniform(0, 0.006) + 0.0002 * size,
        commit=0.0004,
        update=0.0 if plain else 0.001,
    )
    return Step(
        index=index,
        position=10 + ids[0],
        tree=tree,
        path=path,
        choices=choices,
        emitted=list(ids),
        texts=list(texts),
        origins=["draft"] * accepted + ["target"],
        budget=Budget(size, "one node: nothing is drafted" if plain else "as set"),
        seconds=seconds,
        rows=[] if plain else [row],
        agreement=[] if plain else [_agreement(who, rng) for who in ("base", "overlay", "session")],
        size=None if plain else Size(120_000, 9_000_000, 40 + 6 * index, 144 * (40 + 6 * index)),
        note="plain decoding drafts nothing" if plain else None,
        lens=None if plain else _lens(choices),
    )


def _lens(choices: Sequence[Choice]) -> LensRecord:
    """A logit lens that has the chosen token on top from the second of three layers on."""
    positions = [
        LensPosition([7, c.token, c.token], [" other", c.text, c.text], [0.3, 0.4, 0.6], [0.1, 0.4, 0.6], [3, 1, 1])
        for c in choices
    ]
    return LensRecord([1, 2, 4], [1, 2], positions)


def make_trace(
    method: str, tokens: Sequence[str] | None = None, seed: int = 0, finish: str | None = "length", size: int = 26
) -> Trace:
    texts, rng = list(tokens if tokens is not None else words()), random.Random(f"{method}{seed}")
    before = [" speculative", " decoding.", *texts]
    steps: list[Step] = []
    at = 0
    while at < len(texts):
        accepted = 0 if method == "plain" else min(rng.choice([0, 0, 1, 1, 2, 2, 3, 5]), len(texts) - at - 1)
        part = texts[at : at + accepted + 1]
        ids = [100 + i for i in range(at, at + len(part))]
        steps.append(make_step(len(steps), part, ids, accepted, rng, 1 if method == "plain" else size, before[at : at + 2]))
        at += len(part)
    ids = [100 + i for i in range(len(texts))]
    return Trace(make_header(method), steps, 0.08, "".join(texts), ids, finish)  # type: ignore[arg-type]


def make_race(tokens: Sequence[str] | None = None) -> Race:
    return Race([make_trace("plain", tokens), make_trace("aded", tokens)])


def _depth(parents: Sequence[int], node: int) -> int:
    depth = 0
    while parents[node] >= 0:
        node, depth = parents[node], depth + 1
    return depth


def _agreement(who: str, rng: random.Random) -> Agreement:
    values = [round(rng.random(), 3) for _ in range(4)]
    return Agreement(who, who == "overlay", *values)  # type: ignore[arg-type]


def _explore(parent_visits: float, prior: float, visits: float) -> float:
    return prior * math.sqrt(parent_visits) / (1 + visits) * (C1 + math.log((parent_visits + C2 + 1) / C2))


class FakeDecoder:
    """A fake ``aded.decoding.decoder.Decoder``: its steps are those of a given trace."""

    prefill_progress: tuple[int, int] | None = None
    drafter: Any = None

    def __init__(self, trace: Trace) -> None:
        self.goal = trace
        self.trace = replace(trace, steps=[], text="", token_ids=[], finish_reason=None)

    @property
    def finish_reason(self) -> str | None:
        return self.trace.finish_reason

    def advance(self) -> Step:
        step = self.goal.steps[len(self.trace.steps)]
        steps = [*self.trace.steps, step]
        last = len(steps) == len(self.goal.steps)
        ids = [t for s in steps for t in s.emitted]
        text = "".join(piece for s in steps for piece in s.texts)
        finish = self.goal.finish_reason if last else None
        self.trace = replace(self.trace, steps=steps, text=text, token_ids=ids, finish_reason=finish)
        return step


def fake_race(decoders: Sequence[FakeDecoder]) -> Iterator[tuple[int, Step]]:
    """As ``aded.decoding.race.race``: the run with the least decode time takes the next step."""
    while True:
        unfinished = [i for i, d in enumerate(decoders) if d.trace.finish_reason is None]
        if not unfinished:
            return
        run = min(unfinished, key=lambda i: decoders[i].trace.decode_seconds)
        yield run, decoders[run].advance()

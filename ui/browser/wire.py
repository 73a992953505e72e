"""JSON lines for the browser: one line per event, so that a growing race only adds lines.

Kinds of lines, in order: one ``race``, then any number of ``step``, ``run`` and ``status``. The browser rebuilds the whole
``aded.core.trace.Race`` from them, so a race can be saved without the server.
"""

from __future__ import annotations

import dataclasses
import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from aded.core.trace import Race, Seconds, Step, Trace, TraceError, to_json
from ui.browser.layout import layout

Colours = dict[str, tuple[str, str]]
"""Method name to its colours in the light and the dark theme."""

SERIES_COLOURS = [
    ("#994db3", "#dd8afe"),
    ("#b15904", "#f5a936"),
    ("#21207b", "#098bc0"),
    ("#881940", "#cc5b7c"),
    ("#024401", "#b4fcbd"),
]
"""Colours of several runs of one method, light and dark: distinct hues, also with colour blindness."""
MAX_PROBABILITY = 1 + 1e-3
"""Probabilities may exceed 1 by rounding."""


def line(kind: str, **fields: Any) -> str:
    """One event as a JSON line that contains no markup."""
    return orjson.dumps({"t": kind, **fields}, option=orjson.OPT_SERIALIZE_NUMPY).decode().replace("<", "\\u003c") + "\n"


def race_line(
    runs: Sequence[Trace],
    colours: Colours,
    source: str,
    title: str,
    earlier_prompts: Sequence[int | None] | None = None,
    link: Mapping[str, str] | None = None,
    key: str | None = None,
    turns: Sequence[Mapping[str, Any] | None] | None = None,
) -> str:
    """The first line: the runs, and an id that no other race has. ``source`` is ``run``, ``recorded`` or ``file``.

    Args:
        earlier_prompts: number of prompts that each run had learned from before; None for a run that keeps nothing.
        link: the settings of the race as in a link, whatever the controls have by now; None if it was not run on the page.
        key: the id; None for a random one.
        turns: of a conversation, what each run answers (``ui.race.conversation``); None for its first turn.
    """
    prompts, turns = earlier_prompts or [None] * len(runs), turns or [None] * len(runs)
    shown = _run_colours([trace.header.method for trace in runs], colours)
    heads = [
        {"header": to_json(trace.header), "colours": colour, "earlier_prompts": count, "turn": turn}
        for trace, colour, count, turn in zip(runs, shown, prompts, turns)
    ]
    return line("race", id=key or secrets.token_hex(8), source=source, title=title, settings=link, runs=heads)


def _run_colours(methods: Sequence[str], colours: Colours) -> list[tuple[str, str] | None]:
    """Colour of each run: that of its method; several runs of one method, as in an ablation, get different ones."""
    return [_series_colour(name, methods, i) if methods.count(name) > 1 else colours.get(name) for i, name in enumerate(methods)]


def _series_colour(method: str, methods: Sequence[str], index: int) -> tuple[str, str]:
    """Colours of several runs of a method are as far apart in the list as possible."""
    place, count = list(methods[:index]).count(method), list(methods).count(method)
    return SERIES_COLOURS[
        round(place * (len(SERIES_COLOURS) - 1) / (count - 1)) if count <= len(SERIES_COLOURS) else place % len(SERIES_COLOURS)
    ]


def step_line(run: int, step: Step) -> str:
    """One step as recorded, with its layout; its times to a tenth of a microsecond."""
    seconds = Seconds(*(round(phase, 7) for phase in dataclasses.astuple(step.seconds)))
    return line("step", run=run, step=dataclasses.replace(step, seconds=seconds), layout=layout(step))


def run_line(run: int, trace: Trace, kept: bool = False) -> str:
    """Fields of a run that change until it ends; ``kept``: whether what it learned is kept for the next race."""
    fields = {
        "prefill_seconds": trace.prefill_seconds,
        "text": trace.text,
        "finish_reason": trace.finish_reason,
        "repeat_seconds": trace.repeat_seconds,
    }
    return line("run", run=run, kept=kept, **fields)


def status_line(running: bool, kept_prompts: Mapping[str, int] | None = None) -> str:
    """Whether more steps will come.

    Args:
        kept_prompts: at the end of a race, the number of prompts that each method has learned from and keeps.
    """
    return line("status", running=running, kept_prompts=dict(kept_prompts or {}))


def check_drawable(race: Race) -> None:
    """Check what the page requires beyond the checks of ``aded.core.trace``, for files from outside.

    Raises:
        TraceError: a step refers to missing nodes, related lists differ in length, or a probability is
            not between 0 and 1.
    """
    if not race.lanes:
        raise TraceError("damaged", "the race has no runs; record it again", "race.lanes")
    for run, trace in enumerate(race.lanes):
        for number, step in enumerate(trace.steps):
            if problem := _problem(step):
                where = f"race.lanes[{run}].steps[{number}]"
                raise TraceError("damaged", f"damaged trace: {where}: {problem}; record it again", where)


def _problem(step: Step) -> str | None:
    n, parents = len(step.tree.tokens), step.tree.parents
    if step.path[:1] != [0] or any(parents[b] != a for a, b in itertools.pairwise(step.path)):
        return "the accepted path is not a path from the root"
    if not step.emitted:
        return "it has no new tokens"
    if any(not 0 <= choice.node < n for choice in step.choices):
        return "a choice was made at a missing node"
    if any(len(row.key) != 2 or len(row.key_texts) != 2 for row in step.rows):
        return "a row of the matrix is not that of a bigram"
    rows = [(row.tokens, row.texts, row.before, row.after) for row in step.rows]
    tops = [(choice.top_tokens, choice.top_texts, choice.top_probabilities) for choice in step.choices]
    if any(len({len(part) for part in parts}) > 1 for parts in (*rows, *tops)):
        return "related lists differ in length"
    if not all(0 <= share <= MAX_PROBABILITY for share in _shares(step)):
        return "a probability is not between 0 and 1"
    return None


def _shares(step: Step) -> Iterator[float]:
    """All probabilities of a step, and shares of them."""
    yield from (p for p in step.tree.probability if p is not None)
    for choice in step.choices:
        yield from (choice.probability, *choice.top_probabilities)
        for trial in choice.rejection.trials if choice.rejection else ():
            yield from (trial.p, trial.q, trial.uniform, trial.ratio, trial.rejection)
            yield from (*trial.top_p, *trial.top_q, *trial.logits_q)
        yield from (choice.rejection.residual_probability or 0.0, *choice.rejection.residual) if choice.rejection else ()
        yield from (trial.p for trial in choice.typical.trials) if choice.typical else ()
    for column in step.lattice:
        yield from (*column.heads, *column.rescored)
    for level in step.levels:
        yield from level.cumulative
    for token in step.attended:
        yield from token.weights
    for position in step.lens.positions if step.lens else ():
        yield from (*position.probabilities, *position.chosen)
    if step.block:
        yield from (step.block.weight, step.block.left, step.block.residual_probability)
        yield from (*step.block.p, *step.block.q, *step.block.residual)
        yield from (
            number
            for test in step.block.tests
            for number in (test.p, test.q, test.weight, test.left or 0.0, test.passes, test.uniform)
        )
    for row in step.rows:
        yield from (*row.before, *row.after, *row.learned)
    for near in (*step.agreement, *step.agreement_after):
        yield from (near.total_variation, near.top_1, near.top_4, near.top_12)


def to_lines(race: Race, colours: Colours, source: str, title: str, key: str | None = None) -> str:
    """A finished race as JSON lines; ``key``: see ``race_line``."""
    parts = [race_line(race.lanes, colours, source, title, key=key)]
    parts += [step_line(i, step) for i, trace in enumerate(race.lanes) for step in trace.steps]
    parts += [run_line(i, trace) for i, trace in enumerate(race.lanes)]
    return "".join(parts) + status_line(running=False)

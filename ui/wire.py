"""What goes to the browser: the record itself, one JSON line an event, so that a growing race ships only its tail.

Line kinds, in order: one ``race``, then any number of ``step``, ``lane`` and ``status``. The browser rebuilds the whole
``aded.core.trace.Race`` from them, which is why saving a race needs no server.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aded.core.trace import Race, Step, Trace, TraceError, to_json
from ui.layout import layout

Colours = dict[str, tuple[str, str]]
"""Method name to its colour on paper and its colour in the dark."""

PLACES = [
    ("#994db3", "#dd8afe"),
    ("#b15904", "#f5a936"),
    ("#21207b", "#098bc0"),
    ("#881940", "#cc5b7c"),
    ("#024401", "#b4fcbd"),
]
"""Colours of lanes of one method, on paper and in the dark: a hue a place, far apart, also for who lacks red or green cones."""
ONE = 1 + 1e-3
"""The greatest probability, with what rounding may add."""


def line(kind: str, **fields: Any) -> str:
    """One event as a JSON line; nothing in it looks like markup to whoever carries it."""
    text = json.dumps({"t": kind, **fields}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c") + "\n"


def race_line(
    lanes: Sequence[Trace],
    colours: Colours,
    source: str,
    title: str,
    remembers: Sequence[int | None] | None = None,
    link: Mapping[str, str] | None = None,
) -> str:
    """The first line: who runs, under a name that no other race has. ``source`` is ``run``, ``recorded`` or ``file``.

    Args:
        remembers: prompts that each lane had learned from before this one; None for a lane that keeps nothing.
        link: the settings of the run as a link names them, whatever the controls say by now; None for what is no run of the page.
    """
    known = remembers or [None] * len(lanes)
    shown = _lane_colours([trace.header.method for trace in lanes], colours)
    heads = [{"header": to_json(t.header), "colours": c, "remembers": n} for t, c, n in zip(lanes, shown, known)]
    return line("race", id=secrets.token_hex(4), source=source, title=title, settings=link, lanes=heads)


def _lane_colours(methods: Sequence[str], colours: Colours) -> list[tuple[str, str] | None]:
    """Each lane's colour: its method's own; lanes of one method, as in an ablation, take those of their places."""
    return [_of_place(name, methods, i) if methods.count(name) > 1 else colours.get(name) for i, name in enumerate(methods)]


def _of_place(method: str, methods: Sequence[str], index: int) -> tuple[str, str]:
    """The places of a method's lanes stand as far apart in the row of colours as it allows."""
    place, count = list(methods[:index]).count(method), list(methods).count(method)
    return PLACES[round(place * (len(PLACES) - 1) / (count - 1)) if count <= len(PLACES) else place % len(PLACES)]


def step_line(lane: int, step: Step) -> str:
    """One step as recorded, and where its nodes stand."""
    return line("step", lane=lane, step=to_json(step), layout=dataclasses.asdict(layout(step)))


def lane_line(lane: int, trace: Trace, taught: bool = False) -> str:
    """What belongs to a lane as a whole and changes until it ends; ``taught``: what it learned is kept for the next race."""
    fields = {"prefill_seconds": trace.prefill_seconds, "text": trace.text, "finish_reason": trace.finish_reason}
    return line("lane", lane=lane, taught=taught, **fields)


def status_line(running: bool, kept: Mapping[str, int] | None = None) -> str:
    """Whether more steps will come.

    Args:
        kept: at a run's end, how many prompts have taught each method what it keeps.
    """
    return line("status", running=running, kept=dict(kept or {}))


def check_drawable(race: Race) -> None:
    """What the page relies on beyond what ``aded.core.trace`` checks, for a file that somebody else wrote.

    Raises:
        TraceError: a step refers to nodes that are not there, lists that belong together differ in length, or a
            probability is none.
    """
    if not race.lanes:
        raise TraceError("damaged", "the race has no lanes; record it again", "race.lanes")
    for lane, trace in enumerate(race.lanes):
        for number, step in enumerate(trace.steps):
            if problem := _problem(step):
                where = f"race.lanes[{lane}].steps[{number}]"
                raise TraceError("damaged", f"damaged trace: {where}: {problem}; record it again", where)


def _problem(step: Step) -> str | None:
    n, parents = len(step.tree.tokens), step.tree.parents
    if step.path[:1] != [0] or any(parents[b] != a for a, b in itertools.pairwise(step.path)):
        return "the accepted path is no path from the root"
    if not step.emitted:
        return "it writes nothing"
    if any(not 0 <= choice.node < n for choice in step.choices):
        return "a choice was made at a node that is not there"
    if any(len(row.key) != 2 or len(row.key_texts) != 2 for row in step.rows):
        return "a row of the matrix is not that of a pair"
    rows = [(row.tokens, row.texts, row.before, row.after) for row in step.rows]
    tops = [(choice.top_tokens, choice.top_texts, choice.top_probabilities) for choice in step.choices]
    if any(len({len(part) for part in parts}) > 1 for parts in (*rows, *tops)):
        return "lists that belong together differ in length"
    if not all(0 <= share <= ONE for share in _shares(step)):
        return "a probability is not between 0 and 1"
    return None


def _shares(step: Step) -> Iterator[float]:
    """Every number of a step that is a probability or a share of one."""
    yield from (p for p in step.tree.probability if p is not None)
    for choice in step.choices:
        yield from (choice.probability, *choice.top_probabilities)
    for row in step.rows:
        yield from (*row.before, *row.after, *row.learned)
    for near in step.agreement:
        yield from (near.total_variation, near.top_1, near.top_4, near.top_12)


def whole(race: Race, colours: Colours, source: str, title: str) -> str:
    """A finished race as one string."""
    parts = [race_line(race.lanes, colours, source, title)]
    parts += [step_line(i, step) for i, trace in enumerate(race.lanes) for step in trace.steps]
    parts += [lane_line(i, trace) for i, trace in enumerate(race.lanes)]
    return "".join(parts) + status_line(running=False)

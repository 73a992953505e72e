"""What goes to the browser: the record itself, one JSON line an event, so that a growing race ships only its tail.

Line kinds, in order: one ``race``, then any number of ``step``, ``lane`` and ``verdict``. The browser rebuilds the whole
``aded.trace.Race`` from them, which is why saving a race needs no server.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from typing import Any

from aded.errors import AdedError
from aded.trace import Race, Step, Trace, to_json
from ui.layout import layout

Colours = dict[str, tuple[str, str]]
"""Method name to its colour on paper and its colour in the dark."""

SAME_SPEED = 0.05
"""Ratios this close to 1 are called equal."""

_identities = itertools.count(1)


def line(kind: str, **fields: Any) -> str:
    """One event as a JSON line; nothing in it looks like markup to whoever carries it."""
    text = json.dumps({"t": kind, **fields}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c") + "\n"


def race_line(lanes: Sequence[Trace], colours: Colours, source: str, title: str) -> str:
    """The first line: who runs. ``source`` is ``run``, ``recorded`` or ``file``."""
    heads = [{"header": to_json(t.header), "colours": colours.get(t.header.method)} for t in lanes]
    return line("race", id=next(_identities), source=source, title=title, lanes=heads)


def step_line(lane: int, step: Step) -> str:
    """One step as recorded, and where its nodes stand."""
    return line("step", lane=lane, step=to_json(step), layout=dataclasses.asdict(layout(step)))


def lane_line(lane: int, trace: Trace) -> str:
    """What belongs to a lane as a whole and changes until it ends."""
    fields = {"prefill_seconds": trace.prefill_seconds, "text": trace.text, "finish_reason": trace.finish_reason}
    return line("lane", lane=lane, **fields)


def verdict_line(lanes: Sequence[Trace], running: bool) -> str:
    """The verdict in words."""
    return line("verdict", running=running, **verdict(lanes, running))


def check_drawable(race: Race) -> None:
    """What the page relies on beyond what ``aded.trace`` checks, for a file that somebody else wrote.

    Raises:
        AdedError: a step refers to nodes that are not there, or lists that belong together differ in length.
    """
    if not race.lanes:
        raise AdedError("the race has no lanes; record it again")
    for step in (step for trace in race.lanes for step in trace.steps):
        if problem := _problem(step):
            raise AdedError(f"damaged trace: step {step.index}: {problem}; record it again")


def _problem(step: Step) -> str | None:
    n, parents = len(step.tree.tokens), step.tree.parents
    if step.path[:1] != [0] or any(parents[b] != a for a, b in itertools.pairwise(step.path)):
        return "the accepted path is no path from the root"
    if not step.emitted:
        return "it writes nothing"
    if any(not 0 <= choice.node < n for choice in step.choices):
        return "a choice was made at a node that is not there"
    rows = [(row.tokens, row.texts, row.before, row.after) for row in step.rows]
    tops = [(choice.top_tokens, choice.top_texts, choice.top_probabilities) for choice in step.choices]
    if any(len({len(part) for part in parts}) > 1 for parts in (*rows, *tops)):
        return "lists that belong together differ in length"
    return None


def whole(race: Race, colours: Colours, source: str, title: str) -> str:
    """A finished race as one string."""
    parts = [race_line(race.lanes, colours, source, title)]
    parts += [step_line(i, step) for i, trace in enumerate(race.lanes) for step in trace.steps]
    parts += [lane_line(i, trace) for i, trace in enumerate(race.lanes)]
    return "".join(parts) + verdict_line(race.lanes, running=False)


def verdict(lanes: Sequence[Trace], running: bool = False) -> dict[str, str]:
    """One plain sentence on speed and text, and the small print. Tokens are compared, not texts."""
    if not lanes or not any(trace.steps for trace in lanes):
        return {"sentence": "No step yet.", "detail": ""}
    base = next((t for t in lanes if t.header.method == "plain"), None)
    others = [t for t in lanes if t is not base]
    if base is None or not others or not base.steps:
        return {"sentence": " ".join(_alone(t) for t in lanes if t.steps), "detail": _CLOCKS}
    stopped = not running and any(t.finish_reason in (None, "cancelled") for t in lanes)
    speeds = "; ".join(_speed(t, base, running) for t in others if t.steps)
    if not speeds:
        return {"sentence": "No step yet.", "detail": ""}
    sentence = f"{speeds}; {_texts(lanes, running or stopped)}."
    if stopped:
        sentence = f"Stopped midway. Until then, {sentence}"
    return {"sentence": sentence, "detail": " ".join(filter(None, [_sampling_note(lanes), _CLOCKS]))}


_CLOCKS = "Each lane on its own clock; prefill, warm-up and drawing are not counted."


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first token that is not the same in both, None where one is a prefix of the other."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)


def _tokens(trace: Trace) -> list[int]:
    return [t for step in trace.steps for t in step.emitted]


def _rate(trace: Trace) -> float:
    seconds = trace.decode_seconds
    return len(_tokens(trace)) / seconds if seconds > 0 else 0.0


def _alone(trace: Trace) -> str:
    tokens = len(_tokens(trace))
    return f"{trace.header.label}: {_rate(trace):.0f} tokens a second, {tokens / len(trace.steps):.1f} tokens a forward pass."


def _speed(trace: Trace, base: Trace, running: bool) -> str:
    slow, fast = _rate(base), _rate(trace)
    name, where = trace.header.label, "so far" if running else "here"
    if not slow or not fast:
        return f"{name} has no time measured yet"
    ratio = fast / slow
    if abs(ratio - 1) < SAME_SPEED:
        return f"{name} is as fast as {_name(base)} {where} ({ratio:.2f} times)"
    if ratio < 1:
        return f"{name} is not faster {where}: {ratio:.2f} times {_name(base)}"
    return f"{name} is {ratio:.1f} times {_name(base)} {where}"


def _name(base: Trace) -> str:
    return "plain decoding" if base.header.method == "plain" else base.header.label


def _texts(lanes: Sequence[Trace], midway: bool) -> str:
    first, *rest = (_tokens(t) for t in lanes)
    differences = [d for d in (first_difference(first, other) for other in rest) if d is not None]
    count = "both" if len(lanes) == 2 else f"all {len(lanes)}"
    if differences:
        return f"the texts differ from token {min(differences) + 1} on"
    if midway:
        common = min(len(first), *map(len, rest))
        words = "the first token" if common == 1 else f"the first {common} tokens"
        return (
            f"{words}, which {count} have written, {'is' if common == 1 else 'are'} identical"
            if common
            else "nothing to compare yet"
        )
    if any(len(other) != len(first) for other in rest):
        return f"one text is longer; its first {min(len(first), *map(len, rest))} tokens are identical"
    return f"{count} texts are identical"


def _temperature(trace: Trace) -> float:
    value = trace.header.settings.get("temperature")  # settings of an opened file may be anything
    return value if isinstance(value, (int, float)) else 0.0


def _sampling_note(lanes: Sequence[Trace]) -> str:
    """Why texts may differ although nothing is wrong, or because the method allows it."""
    lossy = [t.header.label for t in lanes if not t.header.lossless]
    if lossy:
        return f"{' and '.join(lossy)} may change the text: not a lossless method."
    if any(first_difference(_tokens(lanes[0]), _tokens(t)) is not None for t in lanes[1:]):
        sampled = any(_temperature(t) > 0 for t in lanes)
        return "Sampled texts may differ; what stays the same is the distribution." if sampled else ""
    return ""

"""What goes to the browser: the record itself, one JSON line an event, so that a growing race ships only its tail.

Line kinds, in order: one ``race``, then any number of ``step``, ``lane`` and ``verdict``. The browser rebuilds the whole
``aded.trace.Race`` from them, which is why saving a race needs no server.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
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
    if not any(trace.steps for trace in lanes):
        return {"sentence": NO_STEP, "detail": ""}
    midway = running or any(t.finish_reason in (None, "cancelled") for t in lanes)
    speeds = _speeds(lanes, running)
    if speeds is None:
        return {"sentence": NO_STEP, "detail": ""}
    sentence = "; ".join(filter(None, [speeds, _texts(lanes, midway) if len(lanes) > 1 else ""])) + "."
    if midway and not running:
        sentence = f"Stopped midway. Until then, {sentence}"
    return {"sentence": sentence, "detail": " ".join(filter(None, [*_notes(lanes), _CLOCKS]))}


NO_STEP = "No step yet."
_CLOCKS = (
    "Lanes take turns on the device, each step having it to itself, and each lane has its own clock; "
    "prefill, warm-up and drawing are not counted."
)
COUNTS = ("no", "one", "two", "three", "four", "five", "six")


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first token that is not the same in both, None where one is a prefix of the other."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)


def _plain(lanes: Sequence[Trace]) -> Trace | None:
    return next((t for t in lanes if t.header.method == "plain"), None)


def _tokens(trace: Trace) -> list[int]:
    return [t for step in trace.steps for t in step.emitted]


def _rate(trace: Trace) -> float:
    seconds = trace.decode_seconds
    return len(_tokens(trace)) / seconds if seconds > 0 else 0.0


def _speeds(lanes: Sequence[Trace], running: bool) -> str | None:
    """Every lane against plain decoding, fastest first, or each alone where plain decoding is not there; None: too early."""
    base, started = _plain(lanes), [t for t in lanes if t.steps]
    if base is None or len(lanes) == 1:
        return "; ".join(map(_alone, started))
    others = sorted((t for t in started if t is not base), key=_rate, reverse=True)
    if not base.steps or not others:
        return None
    first, *rest = others
    return "; ".join([_speed(first, base, f"plain decoding {'so far' if running else 'here'}"), *(_speed(t, base) for t in rest)])


def _alone(trace: Trace) -> str:
    tokens = len(_tokens(trace))
    return f"{trace.header.label}: {_rate(trace):.0f} tokens a second, {tokens / len(trace.steps):.1f} tokens a forward pass"


def _speed(trace: Trace, base: Trace, what: str = "") -> str:
    """A lane's rate as a multiple of the base's; ``what`` names the base where no clause before has done so."""
    slow, fast = _rate(base), _rate(trace)
    name = trace.header.label
    if not slow or not fast:
        return f"{name} has no time measured yet"
    ratio, than = fast / slow, f" {what}" if what else ""
    if abs(ratio - 1) < SAME_SPEED:
        return f"{name} is as fast as {what or 'plain'} ({ratio:.2f} times)"
    if ratio < 1:
        return f"{name} is not faster: {ratio:.2f} times{than}"
    return f"{name} is {ratio:.1f} times{than}" if what else f"{name} {ratio:.1f} times"


def _texts(lanes: Sequence[Trace], midway: bool) -> str:
    """Whether the lanes wrote the same, compared with plain decoding where it is one of them."""
    base = _plain(lanes) or lanes[0]
    written = [_tokens(t) for t in lanes]
    differing = {t.header.label: d for t in lanes if (d := first_difference(_tokens(base), _tokens(t))) is not None}
    if differing:
        return _differences(differing, len(lanes))
    common, count = min(map(len, written)), _all(len(lanes))
    if midway:
        words = "the first token" if common == 1 else f"the first {common} tokens"
        verb = "is" if common == 1 else "are"
        return f"{words}, which {count} have written, {verb} identical" if common else "nothing to compare yet"
    if common < max(map(len, written)):
        return f"the texts differ in length; their first {common} tokens are identical"
    return f"{count} texts are identical"


def _all(count: int) -> str:
    return "both" if count == 2 else f"all {COUNTS[count] if count < len(COUNTS) else count}"


def _differences(differing: Mapping[str, int], count: int) -> str:
    """Who wrote something else than the base, and from where on."""
    if count == 2:
        return f"the texts differ from token {min(differing.values()) + 1} on"
    words = [f"that of {name} differs from token {at + 1} on" for name, at in differing.items()]
    same = count - len(differing)
    others = f"the other {COUNTS[same] if same < len(COUNTS) else same} texts are identical" if same > 1 else ""
    return "; ".join(filter(None, [words[0].replace("that", "the text", 1), *words[1:], others]))


def _temperature(trace: Trace) -> float:
    value = trace.header.settings.get("temperature")  # settings of an opened file may be anything
    return value if isinstance(value, (int, float)) else 0.0


def _notes(lanes: Sequence[Trace]) -> list[str]:
    """Which method may change the text; and where a lossless one wrote another text, what that means."""
    lossy = [t.header.label for t in lanes if not t.header.lossless]
    notes = [f"{' and '.join(lossy)} may change the text: not {'a lossless method' if len(lossy) == 1 else 'lossless methods'}."]
    base = _plain(lanes) or lanes[0]
    others = [t for t in lanes if t.header.lossless and first_difference(_tokens(base), _tokens(t)) is not None]
    if any(_temperature(t) > 0 for t in others):
        notes.append("Sampled texts may differ; what stays the same is the distribution.")
    elif others:
        notes.append("Greedy texts of lossless methods should not differ: here they did.")
    return notes if lossy else notes[1:]

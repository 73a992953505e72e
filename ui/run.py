"""The run behind the button: a form in, updates of the page out. Knows the engine's interface, and no Gradio.

The engine is reached through ``Engine``, whose parts are imported when a run needs them: the page stands before torch does.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from aded.errors import AdedError
from aded.methods import METHODS
from aded.trace import Trace
from ui.form import Entrant, Form
from ui.models import ModelHolder
from ui.picker import FEWEST
from ui.wire import Colours, lane_line, race_line, status_line, step_line
from ui.words import Refused, Saying, say

UPDATE_SECONDS = 1 / 12
"""Least time between two updates of the page."""
LONG = 400_000
"""Characters from which on updates become rarer, since every update costs the browser time in proportion."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notice:
    """A line for the user: ``info``, ``busy`` (with a meter), ``done`` or ``error``; its sentences in no language yet."""

    kind: str
    sayings: Sequence[Saying]
    fraction: float | None = None

    @property
    def text(self) -> str:
        """The sentences in the fallback language."""
        return " ".join(say(key, **values) for key, values in self.sayings)


@dataclass(frozen=True)
class Update:
    """What changes on the page; None leaves a part as it is.

    Attributes:
        view: the race as JSON lines; ``notice``: the line under the buttons; ``running``: whether there is something to stop.
        unavailable: methods that cannot run on the model, and why; known once it is loaded.
        cost: what a step costs on this machine (``aded.budget.StepCost`` as JSON); known once it was measured.
    """

    view: str | None = None
    notice: Notice | None = None
    running: bool = True
    unavailable: Mapping[str, str] | None = None
    cost: Mapping[str, Any] | None = None


@dataclass
class Memory:
    """A drafter that keeps what it learns, and how many prompts have taught it."""

    drafter: Any
    prompts: int = 0


class Session:
    """One visitor's own state: whether the run that this visitor started shall stop, and what drafters have learned of it."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.memories: dict[str, Memory] = {}

    def __deepcopy__(self, memo: object) -> Session:
        """Gradio copies the initial state for every visitor; a copy is a state of its own."""
        return Session()


class Engine:
    """The engine's calls that a run makes; tests put another in its place."""

    def settings(self, arguments: Mapping[str, Any]) -> Any:
        from aded.decode import GenerationSettings

        return GenerationSettings(**arguments)

    def unavailable(self, model: Any) -> dict[str, str]:
        """The methods that cannot run on the model as it stands, and why."""
        reasons = {name: method.unavailable(model) for name, method in METHODS.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def drafter(self, model: Any, entrant: Entrant, seed: int) -> Any:
        return METHODS[entrant.method].make(model, entrant.options, seed)

    def decoder(self, model: Any, entrant: Entrant, settings: Any, drafter: Any = None) -> Any:
        """A decode of an entrant; ``drafter`` is one that has learned already."""
        from aded.decode import Decoder

        decoder = Decoder(model, drafter or entrant.method, settings, options=entrant.options)
        method = METHODS[entrant.method]
        decoder.method = dataclasses.replace(method, label=entrant.label or method.label)
        return decoder

    def cost(self, model: Any) -> dict[str, Any] | None:
        """What a step costs on this machine; None where there is no one machine to ask."""
        return None if model.shared else dataclasses.asdict(model.cost)

    def race(self, decoders: Sequence[Any], prompt: str) -> Iterator[tuple[int, Any]]:
        from aded.race import race

        return race(decoders, prompt)


class Stopped(Exception):
    """The visitor pressed Stop before the race began."""


def run(
    form: Form,
    session: Session,
    holder: ModelHolder,
    colours: Colours,
    engine: Engine | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Update]:
    """One run from press to end. Never raises: what goes wrong becomes a notice, and the picture stays as it was."""
    try:
        if not form.prompt.strip():
            raise Refused("notice.prompt")
        yield from _race(form, session, holder, colours, engine or Engine(), clock)
    except Stopped:
        yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
    except AdedError as error:
        yield failed(error)
    except Exception as error:
        log.exception("the run failed")
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        yield Update(notice=Notice("error", [("notice.failed", {"reason": reason})]), running=False)


def failed(error: AdedError) -> Update:
    """The end of a run that could not be, in words; the picture stays as it was."""
    return Update(notice=refusal(error), running=False)


def refusal(error: AdedError) -> Notice:
    """What went wrong, in words; the engine's own errors are said as they are."""
    return Notice("error", error.sayings if isinstance(error, Refused) else [_engine(str(error))])


def _race(
    form: Form, session: Session, holder: ModelHolder, colours: Colours, engine: Engine, clock: Callable[[], float]
) -> Iterator[Update]:
    arguments, wanted = form.settings(), form.entrants()
    yield from _load(session, holder)
    model = holder.model
    unavailable = engine.unavailable(model)
    yield Update(notice=Notice("busy", [("notice.reading", {})]), unavailable=unavailable)
    entrants, left_out = _runnable(wanted, unavailable)
    settings = engine.settings(arguments)
    memories = _recall(session, entrants, arguments["seed"], lambda *lane: engine.drafter(model, *lane))
    decoders = [engine.decoder(model, one, settings, memory and memory.drafter) for one, memory in zip(entrants, memories)]
    yield Update(cost=engine.cost(model))
    remembers = [memory.prompts if memory else None for memory in memories]
    started = clock()
    steps = engine.race(decoders, form.prompt)
    with closing(steps):  # type: ignore[type-var]
        text = ""
        for text in _stream(steps, decoders, remembers, session, colours, clock):
            yield Update(view=text, notice=Notice("busy", [("notice.running", {"count": len(decoders)}), *left_out]))
    lanes = [decoder.trace for decoder in decoders]
    for memory in filter(None, memories):
        memory.prompts += 1
    text += "".join(lane_line(i, trace) for i, trace in enumerate(lanes)) + status_line(running=False)
    notice = _farewell(lanes, session, clock() - started, left_out)
    yield Update(view=text, notice=notice, running=False)


def _recall(session: Session, entrants: Sequence[Entrant], seed: int, make: Callable[[Entrant, int], Any]) -> list[Memory | None]:
    """The memory of each lane that keeps one: that of the last race if it was set as now; what no lane uses is forgotten."""
    keys = [repr((entrant, seed)) if entrant.options.get("keep") else None for entrant in entrants]
    known = {key: session.memories.get(key) or Memory(make(one, seed)) for key, one in zip(keys, entrants) if key is not None}
    session.memories = known
    return [None if key is None else known[key] for key in keys]


def _runnable(entrants: Sequence[Entrant], unavailable: Mapping[str, str]) -> tuple[list[Entrant], list[Saying]]:
    """The entrants that can run, and a sentence for each that cannot.

    Raises:
        AdedError: fewer than two can.
    """
    lacking = [entrant.method for entrant in entrants if entrant.method in unavailable]
    left_out: list[Saying] = [("notice.left", {"reason": unavailable[method].rstrip(".")}) for method in lacking]
    runnable = [entrant for entrant in entrants if entrant.method not in unavailable]
    if len(runnable) < FEWEST:
        raise Refused("notice.few", and_then=left_out)
    return runnable, left_out


def _load(session: Session, holder: ModelHolder) -> Iterator[Update]:
    """Wait for the model, and tell what the loading does."""
    for state in holder.loading():
        if session.stop.is_set():
            raise Stopped
        yield Update(notice=Notice("busy", [_engine(state.text, "…")], state.fraction))
    if session.stop.is_set():
        raise Stopped


def _stream(
    steps: Iterator[tuple[int, Any]],
    decoders: Sequence[Any],
    remembers: Sequence[int | None],
    session: Session,
    colours: Colours,
    clock: Callable[[], float],
) -> Iterator[str]:
    """The growing text of JSON lines, at most one update every ``UPDATE_SECONDS``; ends when the race does or Stop is pressed."""
    text, due, sent = "", 0.0, ""
    for lane, step in steps:
        if not text:
            text = race_line([d.trace for d in decoders], colours, "run", "", remembers)
        text += step_line(lane, step)
        if session.stop.is_set():
            break
        if clock() >= due:
            sent = text = text + status_line(running=True)
            yield sent
            due = clock() + UPDATE_SECONDS * max(1.0, len(text) / LONG)
    if text != sent:
        yield text


def _farewell(lanes: Sequence[Trace], session: Session, seconds: float, left_out: Sequence[Saying]) -> Notice:
    if session.stop.is_set():
        return Notice("info", [("notice.stopped", {})])
    reasons: list[Saying] = [(f"notice.{t.finish_reason}", {}) for t in lanes if t.finish_reason in ENDS]
    notices = [_engine(trace.header.notice) for trace in lanes if trace.header.notice]
    done: Saying = ("notice.done", {"seconds": f"{seconds:.1f}"})
    said = [*reasons, *notices, *left_out]
    return Notice("done", [done, *(saying for i, saying in enumerate(said) if saying not in said[:i])])


ENDS = ("context", "eos", "stop")
"""Reasons for the end of a text that are worth a sentence."""


def _engine(text: str, end: str = ".") -> Saying:
    """An engine message as a sentence, in the engine's language."""
    text = text.strip()
    return "notice.text", {"text": text[:1].upper() + text[1:] + ("" if text.endswith((".", "…", "!", "?")) else end)}

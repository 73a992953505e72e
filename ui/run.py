"""The run behind the button: a form in, updates of the page out. Knows the engine's interface, and no Gradio.

The engine is reached through ``Engine``, whose parts are imported when a run needs them: the page stands before torch does.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from aded.errors import AdedError
from aded.methods import METHODS
from aded.trace import Trace
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
    """

    view: str | None = None
    notice: Notice | None = None
    running: bool = True
    unavailable: Mapping[str, str] | None = None


class Session:
    """One visitor's own state: whether the run that this visitor started shall stop."""

    def __init__(self) -> None:
        self.stop = threading.Event()

    def __deepcopy__(self, memo: object) -> Session:
        """Gradio copies the initial state for every visitor; a copy is a state of its own."""
        return Session()


@dataclass(frozen=True)
class Form:
    """What the visitor asked for, as typed."""

    prompt: str
    methods: Sequence[str]
    budget: str = "auto"
    numbers: Mapping[str, float | None] = field(default_factory=dict)  # of GenerationSettings
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of each method; None stands for its default

    def settings(self) -> dict[str, Any]:
        """Arguments of ``GenerationSettings``.

        Raises:
            AdedError: a field is empty or not a number.
        """
        values = {name: _number(name, value, whole=name in WHOLE) for name, value in self.numbers.items()}
        return {**values, "budget": _budget(self.budget)}

    def method_options(self, method: str) -> dict[str, Any]:
        """The options that were set for a method.

        Raises:
            AdedError: one that must be a number is none.
        """
        options = self.options.get(method, {}).items()
        given = {name: value for name, value in options if value is not None and str(value).strip()}
        return {name: _parsed(name, value) if name in NUMERIC else value for name, value in given.items()}


WHOLE = ("max_new_tokens", "top_k", "seed", "simulations")
NUMERIC = ("simulations", "c1")
"""Options of methods that are typed as text, so that an empty field can stand for the preset's value."""


def _number(name: str, value: float | None, whole: bool) -> float | int:
    words = name.replace("_", " ")
    if value is None or not math.isfinite(value):
        raise AdedError(f"{words} is empty or not finite; give a number")
    if whole and value != int(value):
        raise AdedError(f"{words} is {value}; give a whole number")
    return int(value) if whole else float(value)


def _parsed(name: str, text: str | float) -> float | int:
    try:
        return _number(name, float(text), whole=name in WHOLE)
    except ValueError as error:
        raise (
            error if isinstance(error, AdedError) else AdedError(f"{name} is '{text}'; give a number or leave it empty")
        ) from None


def _budget(text: str) -> int | str:
    word = text.strip().lower()
    if word in ("", "auto"):
        return "auto"
    try:
        return int(word)
    except ValueError:
        raise AdedError(f"draft budget is '{text}'; give 'auto' or a number of nodes") from None


class Engine:
    """The engine's calls that a run makes; tests put another in its place."""

    def settings(self, arguments: Mapping[str, Any]) -> Any:
        from aded.decode import GenerationSettings

        return GenerationSettings(**arguments)

    def unavailable(self, model: Any) -> dict[str, str]:
        """The methods that cannot run on the model as it stands, and why."""
        reasons = {name: method.unavailable(model) for name, method in METHODS.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def decoder(self, model: Any, method: str, settings: Any, options: Mapping[str, Any]) -> Any:
        from aded.decode import Decoder

        return Decoder(model, method, settings, options=options)

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
    arguments, options = form.settings(), {method: form.method_options(method) for method in form.methods}
    yield from _load(session, holder)
    unavailable = engine.unavailable(holder.model)
    yield Update(notice=Notice("busy", [("notice.reading", {})]), unavailable=unavailable)
    methods, left_out = _runnable(form.methods, unavailable)
    settings = engine.settings(arguments)
    decoders = [engine.decoder(holder.model, method, settings, options[method]) for method in methods]
    started = clock()
    steps = engine.race(decoders, form.prompt)
    with closing(steps):  # type: ignore[type-var]
        text = ""
        for text in _stream(steps, decoders, session, colours, clock):
            yield Update(view=text, notice=Notice("busy", [("notice.running", {"count": len(decoders)}), *left_out]))
    lanes = [decoder.trace for decoder in decoders]
    text += "".join(lane_line(i, trace) for i, trace in enumerate(lanes)) + status_line(running=False)
    yield Update(view=text, notice=_farewell(lanes, session, clock() - started, left_out), running=False)


def _runnable(methods: Sequence[str], unavailable: Mapping[str, str]) -> tuple[list[str], list[Saying]]:
    """The methods that can run, and a sentence for each that cannot.

    Raises:
        AdedError: fewer than two can.
    """
    left_out = [("notice.left", {"reason": unavailable[method].rstrip(".")}) for method in methods if method in unavailable]
    runnable = [method for method in methods if method not in unavailable]
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
    steps: Iterator[tuple[int, Any]], decoders: Sequence[Any], session: Session, colours: Colours, clock: Callable[[], float]
) -> Iterator[str]:
    """The growing text of JSON lines, at most one update every ``UPDATE_SECONDS``; ends when the race does or Stop is pressed."""
    text, due, sent = "", 0.0, ""
    for lane, step in steps:
        if not text:
            text = race_line([d.trace for d in decoders], colours, "run", "")
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

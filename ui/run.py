"""The run behind the button: a form in, updates of the page out. Knows the engine's interface, and no Gradio."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from aded.core.errors import AdedError
from aded.core.trace import Trace
from ui.engine import Engine, Turn
from ui.form import Entrant, Form
from ui.models import Loading, ModelHolder
from ui.picker import FEWEST
from ui.remembering import kept, recall, settle
from ui.serving.limits import Limits
from ui.serving.runs import Control
from ui.serving.sessions import Memory
from ui.wire import Colours, lane_line, race_line, status_line, step_line
from ui.words import Refused, Saying, say, without_folders

UPDATE_SECONDS = 1 / 14
"""Time between two updates of the page; each waits for the end of a turn, and the next one makes up for that."""
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

    def over(self, older: Update) -> Update:
        """Both as one, for a page that has not seen the older one."""
        return Update(**{f.name: _first(getattr(self, f.name), getattr(older, f.name)) for f in fields(self)})


def _first(new: Any, old: Any) -> Any:
    return old if new is None else new


def run(
    form: Form,
    memories: dict[str, Memory],
    holder: ModelHolder,
    colours: Colours,
    control: Control | None = None,
    limits: Limits | None = None,
    engine: Engine | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Update | None]:
    """One run from press to end, the loading of the model included: an update, or None, after each step.

    Never raises: what goes wrong becomes a notice, and the picture stays as it was.
    """
    control = control or Control()
    try:
        check_form(form, limits or Limits())
        for state in holder.loading():
            if control.reason:
                break
            yield Update(notice=loading(state))
        yield from race(form, memories, holder, colours, control, limits, engine, clock)
    except Exception as error:
        if not isinstance(error, AdedError):
            log.exception("the run failed")
        yield failed(error)


def check_form(form: Form, limits: Limits) -> None:
    """Refuse what cannot be run, before it waits for anything.

    Raises:
        AdedError: the prompt is empty or too long, or a field is no number.
    """
    if not form.prompt.strip():
        raise Refused("notice.prompt")
    if len(form.prompt) > limits.prompt_characters:
        raise Refused("notice.long", count=len(form.prompt), most=limits.prompt_characters)
    form.settings()
    form.entrants()


def loading(state: Loading) -> Notice:
    """What the loading of the model does."""
    return Notice("busy", [_engine(state.text, "…")], state.fraction)


def failed(error: BaseException) -> Update:
    """The end of a run that could not be, in words; the picture stays as it was."""
    return Update(notice=refusal(error), running=False)


def refusal(error: BaseException) -> Notice:
    """What went wrong, in words; the engine's own errors are said as they are."""
    if isinstance(error, Refused):
        return Notice("error", error.sayings)
    if isinstance(error, AdedError):
        return Notice("error", [_engine(str(error))])
    reason = f"{type(error).__name__}: {without_folders((str(error).splitlines() or [''])[0])}"
    return Notice("error", [("notice.failed", {"reason": reason})])


def race(
    form: Form,
    memories: dict[str, Memory],
    holder: ModelHolder,
    colours: Colours,
    control: Control,
    limits: Limits | None = None,
    engine: Engine | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Update | None]:
    """A race on the loaded model, a step each time it is asked: an update where one is due, else None.

    Args:
        memories: what the visitor's methods have learned; a race that ends adds to it (``ui.remembering``).
        control: ends it within a step, and is told the tokens that were written.

    Raises:
        AdedError: it cannot be run as asked.
    """
    limits, engine = limits or Limits(), engine or Engine()
    if control.reason:
        yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
        return
    model, (arguments, said) = holder.model, capped(form.settings(), limits)
    unavailable = engine.unavailable(model)
    yield Update(notice=Notice("busy", [engine.first_words]), unavailable=unavailable)
    entrants, left_out = _runnable(form.entrants(), unavailable)
    said += left_out
    settings = engine.settings(arguments)
    recalled = recall(memories, entrants, lambda one, known: engine.drafter(model, one, arguments["seed"], known))
    decoders = [engine.decoder(model, one, settings, known and known.drafter) for one, known in zip(entrants, recalled)]
    engine.measure(model)
    remembers = [known.prompts if known else None for known in recalled]
    started, text = clock(), ""
    for text, due in _stream(engine.steps(decoders, form.prompt, control), decoders, remembers, colours, clock, form.link):
        notice = Notice("busy", [("notice.running", {"count": len(decoders)}), *said])
        yield Update(view=text, notice=notice) if due else None
    lanes = [decoder.trace for decoder in decoders if text]
    taught = [known for known, decoder in zip(recalled, decoders) if known and engine.learns(decoder)]
    forgotten = settle(memories, taught, form) if lanes else []
    text += "".join(lane_line(i, trace, recalled[i] in taught) for i, trace in enumerate(lanes))
    text += status_line(running=False, kept=kept(memories))
    notice = _farewell(lanes, control, limits, clock() - started, said, forgotten)
    yield Update(view=text if lanes else None, notice=notice, running=False)


def capped(arguments: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], list[Saying]]:
    """The settings within the limits, and a sentence if that changed them."""
    most = limits.max_new_tokens
    if arguments["max_new_tokens"] <= most:
        return arguments, []
    return {**arguments, "max_new_tokens": most}, [("notice.capped", {"count": most})]


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


def _stream(
    turns: Iterator[Turn],
    decoders: Sequence[Any],
    remembers: Sequence[int | None],
    colours: Colours,
    clock: Callable[[], float],
    link: Mapping[str, str] | None,
) -> Iterator[tuple[str, bool]]:
    """After each turn the text of JSON lines so far, and whether to send it: on average every ``UPDATE_SECONDS``."""
    text, due = "", 0.0
    for turn in turns:
        if turn is None:
            yield text, False
            continue
        lane, step = turn
        text = text or race_line([d.trace for d in decoders], colours, "run", "", remembers, link)
        text += step_line(lane, step)
        now = clock() >= due
        if now:
            text += status_line(running=True)
            due = max(clock(), due + UPDATE_SECONDS * max(1.0, len(text) / LONG))
        yield text, now


def _farewell(
    lanes: Sequence[Trace],
    control: Control,
    limits: Limits,
    seconds: float,
    left_out: Sequence[Saying],
    forgotten: Sequence[Saying],
) -> Notice:
    if control.reason:
        ends: dict[str, Saying] = {"seconds": ("notice.seconds", {"seconds": f"{control.seconds or limits.run_seconds:g}"})}
        ends["shutdown"] = ("notice.shutdown", {})
        return Notice("info", [ends.get(control.reason, ("notice.stopped" if lanes else "notice.early", {})), *forgotten])
    reasons: list[Saying] = [(f"notice.{t.finish_reason}", {}) for t in lanes if t.finish_reason in ENDS]
    notices = [_engine(trace.header.notice) for trace in lanes if trace.header.notice]
    done: Saying = ("notice.done", {"seconds": f"{seconds:.1f}"})
    said = [*reasons, *notices, *left_out, *forgotten]
    return Notice("done", [done, *(saying for i, saying in enumerate(said) if saying not in said[:i])])


ENDS = ("context", "eos", "stop")
"""Reasons for the end of a text that are worth a sentence."""


def _engine(text: str, end: str = ".") -> Saying:
    """An engine message as a sentence, in the engine's language."""
    text = without_folders(text.strip())
    return "notice.text", {"text": text[:1].upper() + text[1:] + ("" if text.endswith((".", "…", "!", "?")) else end)}

"""A race on the page: a form in, updates of the page out. Uses the engine's interface; independent of Gradio."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from aded.core.errors import AdedError
from aded.core.trace import Trace
from aded.drafters.registry import METHODS, RunSpec
from ui.engine import Engine, RaceStep
from ui.form import Form
from ui.models import Loading, ModelHolder
from ui.picker import MIN_METHODS
from ui.serving.jobs import Control
from ui.serving.limits import Limits
from ui.serving.sessions import Memory
from ui.session_memory import LearningRun, keep_learned, learned_prompts, resume
from ui.wire import Colours, race_line, run_line, status_line, step_line
from ui.words import Message, Refused, say, without_folders, word

UPDATE_SECONDS = 1 / 14
"""Minimum time between two updates of the page; each waits for the end of a step, and the next one compensates for that."""
LONG = 400_000
"""From this number of characters on, updates are less frequent, since each takes the browser time in proportion."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notice:
    """A message line: ``info``, ``busy`` (with a progress bar), ``done`` or ``error``; its messages are not translated yet."""

    kind: str
    messages: Sequence[Message]
    fraction: float | None = None

    @property
    def text(self) -> str:
        """The messages in English."""
        return " ".join(say(key, **values) for key, values in self.messages)


@dataclass(frozen=True)
class Update:
    """What changes on the page; None leaves a part unchanged.

    Attributes:
        view: the race as JSON lines; ``notice``: the line below the buttons; ``running``: whether a race can be stopped.
        unavailable: methods that cannot run on the model, and why; known after it is loaded.
    """

    view: str | None = None
    notice: Notice | None = None
    running: bool = True
    unavailable: Mapping[str, str] | None = None

    def merged(self, older: Update) -> Update:
        """Both updates as one, for a page that has not received the older one."""
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
    """A race from start to end, with loading of the model: an update, or None, after each step.

    Never raises: errors become notices, and the view stays unchanged.
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
    """Refuse a form that cannot run, before it waits in the queue.

    Raises:
        AdedError: the prompt is empty or too long, or a number is not valid.
    """
    if not form.text.strip():
        raise Refused("notice.prompt")
    if len(form.text) > limits.prompt_characters:
        raise Refused("notice.long", count=len(form.text), maximum=limits.prompt_characters)
    form.settings()
    form.runs()


def loading(state: Loading) -> Notice:
    """Progress of loading the model."""
    return Notice("busy", [_engine(state.text, "…")], state.fraction)


def failed(error: BaseException) -> Update:
    """The end of a race that failed, with a message; the view stays unchanged."""
    return Update(notice=refusal(error), running=False)


def refusal(error: BaseException) -> Notice:
    """An error as a notice; messages of the engine are unchanged."""
    if isinstance(error, Refused):
        return Notice("error", error.messages)
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
    """A race on the loaded model, one step per ``next``: an update if one is due, else None.

    Args:
        memories: what the visitor's methods have learned; a race that ends adds to it (``ui.session_memory``).
        control: stops it within a step, and counts new tokens.

    Raises:
        AdedError: it cannot run as requested.
    """
    limits, engine = limits or Limits(), engine or Engine()
    if control.reason:
        yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
        return
    model, (arguments, messages) = holder.model, capped(form.settings(), limits)
    yield _doing(control, ("notice.checking", {}))
    unavailable = engine.unavailable(model)
    yield Update(unavailable=unavailable)
    runs, left_out = _runnable(form.runs(), unavailable)
    messages += left_out
    states, decoders = yield from _prepared(memories, runs, arguments, model, engine, control)
    if control.reason:
        yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
        return
    yield _doing(control, engine.first_message)
    earlier_prompts = [state.prompts if state else None for state in states]
    started, text = clock(), ""
    for text, due in _stream(engine.steps(decoders, form.prompt, control), decoders, earlier_prompts, colours, clock, form.link):
        reading = None if text else engine.reading(decoders)
        progress = prefill_notice(*reading, len(decoders)) if reading else None
        control.doing = None if text else progress.messages[0] if progress else control.doing
        notice = Notice("busy", [("notice.running", {"count": len(decoders)}), *messages])
        yield Update(view=text, notice=notice) if due else Update(notice=progress) if progress else None
    traces = [decoder.trace for decoder in decoders if text]
    learned = [state for state, decoder in zip(states, decoders) if state and engine.learns(decoder)]
    deleted = keep_learned(memories, learned, form) if traces else []
    text += "".join(run_line(i, trace, states[i] in learned) for i, trace in enumerate(traces))
    text += status_line(running=False, kept_prompts=learned_prompts(memories))
    notice = _final_notice(traces, control, limits, clock() - started, messages, deleted)
    yield Update(view=text if traces else None, notice=notice, running=False)


def _doing(control: Control, message: Message) -> Update:
    """What is done before the first step."""
    control.doing = message
    return Update(notice=Notice("busy", [message]))


def _prepared(
    memories: dict[str, Memory],
    runs: Sequence[RunSpec],
    arguments: Mapping[str, Any],
    model: Any,
    engine: Engine,
    control: Control,
) -> Generator[Update, None, tuple[list[LearningRun | None], list[Any]]]:
    """The states and the decoders of the runs, with an update before each long part; incomplete if stopped."""
    if engine.unmeasured(model):
        yield _doing(control, ("notice.measuring", {}))
    engine.measure(model)
    settings, states, decoders = engine.settings(arguments), [], []
    for index, one in enumerate(runs):
        if control.reason:
            break
        yield _doing(control, preparing(one, index + 1, len(runs)))
        states += resume(memories, [one], lambda run, known: engine.drafter(model, run, arguments["seed"], known))
        decoders.append(engine.decoder(model, one, settings, states[-1] and states[-1].drafter))
    return states, decoders


def preparing(one: RunSpec, run: int, runs: int) -> Message:
    """That the drafter of a run is being made: files are read, and at first code is compiled and costs are measured."""
    name = word(f"article.{one.method}", one.label or METHODS[one.method].label)
    return "notice.preparing", {"name": name, "run": run, "runs": runs}


def prefill_notice(run: int, read: int, tokens: int, runs: int) -> Notice:
    """How much of the prompt a run has read, and all runs together as a fraction."""
    values = {"read": f"{read:,}", "tokens": f"{tokens:,}", "run": run + 1, "runs": runs}
    return Notice("busy", [("notice.prefill", values)], (run + read / tokens) / runs)


def capped(arguments: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], list[Message]]:
    """The settings within the limits, and a message if they were changed."""
    most = limits.max_new_tokens
    if arguments["max_new_tokens"] <= most:
        return arguments, []
    return {**arguments, "max_new_tokens": most}, [("notice.capped", {"count": most})]


def _runnable(runs: Sequence[RunSpec], unavailable: Mapping[str, str]) -> tuple[list[RunSpec], list[Message]]:
    """The runs that are possible, and a message for each that is not.

    Raises:
        AdedError: fewer than two are possible.
    """
    missing = [run.method for run in runs if run.method in unavailable]
    left_out: list[Message] = [("notice.left", {"reason": unavailable[method].rstrip(".")}) for method in missing]
    runnable = [run for run in runs if run.method not in unavailable]
    if len(runnable) < MIN_METHODS:
        raise Refused("notice.few", and_then=left_out)
    return runnable, left_out


def _stream(
    steps: Iterator[RaceStep],
    decoders: Sequence[Any],
    earlier_prompts: Sequence[int | None],
    colours: Colours,
    clock: Callable[[], float],
    link: Mapping[str, str] | None,
) -> Iterator[tuple[str, bool]]:
    """After each step the JSON lines so far, and whether to send them: on average every ``UPDATE_SECONDS``."""
    text, due = "", 0.0
    for item in steps:
        if item is None:
            yield text, False
            continue
        run, step = item
        text = text or race_line([d.trace for d in decoders], colours, "run", "", earlier_prompts, link)
        text += step_line(run, step)
        now = clock() >= due
        if now:
            text += status_line(running=True)
            due = max(clock(), due + UPDATE_SECONDS * max(1.0, len(text) / LONG))
        yield text, now


def _final_notice(
    traces: Sequence[Trace],
    control: Control,
    limits: Limits,
    seconds: float,
    left_out: Sequence[Message],
    deleted: Sequence[Message],
) -> Notice:
    if control.reason:
        ends: dict[str, Message] = {"seconds": ("notice.seconds", {"seconds": f"{control.seconds or limits.run_seconds:g}"})}
        ends["shutdown"] = ("notice.shutdown", {})
        return Notice("info", [ends.get(control.reason, ("notice.stopped" if traces else "notice.early", {})), *deleted])
    reasons: list[Message] = [(f"notice.{t.finish_reason}", {}) for t in traces if t.finish_reason in REPORTED_REASONS]
    notices = [_engine(trace.header.notice) for trace in traces if trace.header.notice]
    done: Message = ("notice.done", {"seconds": f"{seconds:.1f}"})
    messages = [*reasons, *notices, *left_out, *deleted]
    return Notice("done", [done, *(message for i, message in enumerate(messages) if message not in messages[:i])])


REPORTED_REASONS = ("context", "eos", "stop")
"""Finish reasons that are mentioned in the final notice."""


def _engine(text: str, end: str = ".") -> Message:
    """An engine message as a sentence, not translated."""
    text = without_folders(text.strip())
    return "notice.text", {"text": text[:1].upper() + text[1:] + ("" if text.endswith((".", "…", "!", "?")) else end)}

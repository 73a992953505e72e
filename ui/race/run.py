"""A race on the page: a form in, updates of the page out. Uses the engine's interface; independent of Gradio."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from aded.core.errors import AdedError
from aded.drafters.registry import RunSpec
from ui.browser.wire import Colours, race_line, run_line, status_line, step_line
from ui.picker import MIN_METHODS
from ui.race.conversation import Conversation, ConversationRun, begin, separate
from ui.race.engine import Engine, RaceStep
from ui.race.form import Form
from ui.race.models import ModelHolder
from ui.race.notices import Notice, final_notice, loading, prefill_notice, preparing, refusal
from ui.race.session_memory import LearningRun, keep_learned, learned_prompts, resume
from ui.serving.jobs import Control
from ui.serving.limits import Limits
from ui.serving.sessions import Memory, Session
from ui.words import Message, Refused

UPDATE_SECONDS = 1 / 14
"""Minimum time between two updates of the page; each waits for the end of a step, and the next one compensates for that."""
LONG = 400_000
"""From this number of characters on, updates are less frequent, since each takes the browser time in proportion."""

log = logging.getLogger(__name__)


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
    session: Session,
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
        yield from race(form, session, holder, colours, control, limits, engine, clock=clock)
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


def failed(error: BaseException, turn: bool = False) -> Update:
    """The end of a race that failed, with a message; the view stays unchanged.

    Args:
        turn: whether it was to continue a conversation, which can still be continued.
    """
    notice = refusal(error)
    more: list[Message] = [("turn.again", {})] if turn and not isinstance(error, Refused) else []
    return Update(notice=replace(notice, messages=[*notice.messages, *more]), running=False)


def race(
    form: Form,
    session: Session,
    holder: ModelHolder,
    colours: Colours,
    control: Control,
    limits: Limits | None = None,
    engine: Engine | None = None,
    message: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Update | None]:
    """A race on the loaded model, one step per ``next``: an update if one is due, else None.

    Args:
        session: has what the visitor's methods have learned, to which a race that ends adds (``ui.race.session_memory``), and the
            conversation, which is then the one that this race begins or continues.
        control: stops it within a step, and counts new tokens.
        message: the next one of the conversation, whose form is given; None begins another conversation.

    Raises:
        AdedError: it cannot run as requested.
    """
    limits, engine, forgets = limits or Limits(), engine or Engine(), session.forgets
    if control.reason:
        yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
        return
    model, (arguments, messages) = holder.model, capped(form.settings(), limits)
    yield _doing(control, ("notice.checking", {}))
    unavailable = engine.unavailable(model)
    yield Update(unavailable=unavailable)
    runs, notes = _asked(form, session, message, unavailable)
    if limits.prefix_bytes:
        runs = [run if run.cache else replace(run, cache=engine.prefix_cache()) for run in runs]
    states, decoders = yield from _prepared(session.memories, runs, arguments, model, engine, control)
    if control.reason:
        yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
        return
    yield _doing(control, engine.first_message)
    conversation = Conversation(secrets.token_hex(8), model, form, runs)
    ready = _Ready(session, forgets, engine, colours, conversation, states, decoders)
    started, text, sent = clock(), "", [0] * len(runs)
    messages += notes
    try:
        for text, due in _stream(engine.steps(decoders, [run.prompt for run in runs], control), ready.head, sent, clock):
            reading = None if text else engine.reading(decoders)
            progress = prefill_notice(*reading, len(decoders)) if reading else None
            control.doing = None if text else progress.messages[0] if progress else control.doing
            notice = Notice("busy", [("notice.running", {"count": len(decoders)}), *messages])
            yield Update(view=text, notice=notice) if due else Update(notice=progress) if progress else None
        view, deleted = ready.end(ready.rest(text, sent)) if text else (None, [])
    finally:
        ready.free_unless_kept()
    traces = [decoder.trace for decoder in decoders if text]
    notice = final_notice(traces, control, limits, clock() - started, messages, deleted)
    yield Update(view=view, notice=replace(notice, race=conversation.race) if view else notice, running=False)


@dataclass(frozen=True)
class _Ready:
    """A race whose runs are ready to start.

    Attributes:
        forgets: the session's, before the runs took what was learned.
        asked: the conversation without the answers of this race.
        states: what each run learns; None for one that keeps nothing.
    """

    session: Session
    forgets: int
    engine: Engine
    colours: Colours
    asked: Conversation
    states: Sequence[LearningRun | None]
    decoders: Sequence[Any]

    def head(self) -> str:
        """The first JSON line."""
        traces = [decoder.trace for decoder in self.decoders]
        earlier_prompts = [state.prompts if state else None for state in self.states]
        turns = [run.turn(trace) for run, trace in zip(self.asked.runs, traces)]
        return race_line(traces, self.colours, "run", "", earlier_prompts, self.asked.form.link, self.asked.race, turns)

    def rest(self, text: str, sent: Sequence[int]) -> str:
        """The lines with the steps that were made before a stop but not sent; ``sent``: number of steps of each run."""
        made = [decoder.trace.steps for decoder in self.decoders]
        return text + "".join(step_line(run, step) for run, steps in enumerate(made) for step in steps[sent[run] :])

    def end(self, text: str) -> tuple[str, list[Message]]:
        """Keep what was learned, and the conversation; returns all lines, and messages about learned states that are deleted."""
        memories, states, runs = self.session.memories, zip(self.states, self.decoders), self.asked.runs
        learned = separate([state for state, decoder in states if state and self.engine.learns(decoder)], runs)
        deleted = keep_learned(memories, learned, self.asked.form)
        traces = [decoder.trace for decoder in self.decoders]
        text += "".join(run_line(i, trace, self.states[i] in learned) for i, trace in enumerate(traces))
        drafters = map(self.engine.learned, self.decoders)
        answered = [run.answered(*ended) for run, *ended in zip(runs, traces, drafters)]
        self.session.conversation = conversation = replace(self.asked, runs=answered)
        if self.session.forgets > self.forgets:
            conversation.forget()
            deleted = [("notice.forgotten", {}), *deleted]
        return text + status_line(running=False, kept_prompts=learned_prompts(memories)), deleted

    def free_unless_kept(self) -> None:
        """Free the KV caches that the session's conversation does not keep: of a race or a turn that failed or was left."""
        conversation: Conversation | None = self.session.conversation
        kept = [run.cache for run in conversation.runs] if conversation else []
        for cache in [run.cache for run in self.asked.runs if run.cache]:
            if not any(cache is other for other in kept):
                cache.free()


def _asked(
    form: Form, session: Session, message: str | None, unavailable: Mapping[str, str]
) -> tuple[list[ConversationRun], list[Message]]:
    """The runs of a race, and messages about what is left out or was freed.

    Another conversation frees the KV caches of the one before, whose texts stay until the race has ended.

    Raises:
        AdedError: fewer than two methods can run.
    """
    conversation: Conversation | None = session.conversation
    if message is not None and conversation is not None:
        return conversation.ask(message)
    runs, left_out = _runnable(form.runs(), unavailable)
    if conversation is not None:
        conversation.free_caches()
    return begin(runs, form), left_out


def _doing(control: Control, message: Message) -> Update:
    """What is done before the first step."""
    control.doing = message
    return Update(notice=Notice("busy", [message]))


def _prepared(
    memories: dict[str, Memory],
    asked: Sequence[ConversationRun],
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
    for index, run in enumerate(asked):
        if control.reason:
            break
        source, one = run.source(memories)
        yield _doing(control, preparing(one, index + 1, len(asked)))
        states += resume(source, [one], lambda run, known: engine.drafter(model, run, arguments["seed"], known))
        decoders.append(engine.decoder(model, one, settings, states[-1] and states[-1].drafter, prefix_cache=run.cache))
    return states, decoders


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
    steps: Iterator[RaceStep], head: Callable[[], str], sent: list[int], clock: Callable[[], float]
) -> Iterator[tuple[str, bool]]:
    """After each step the JSON lines so far, and whether to send them: on average every ``UPDATE_SECONDS``.

    Args:
        head: makes the first line, at the first step.
        sent: number of steps of each run, which are counted here.
    """
    text, due = "", 0.0
    for item in steps:
        if item is None:
            yield text, False
            continue
        run, step = item
        text = text or head()
        text, sent[run] = text + step_line(run, step), sent[run] + 1
        now = clock() >= due
        if now:
            text += status_line(running=True)
            due = max(clock(), due + UPDATE_SECONDS * max(1.0, len(text) / LONG))
        yield text, now

"""Jobs of the HTTP API: arguments of an endpoint become a form, progress and results become JSON. Independent of Gradio."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from aded.core.chat import Chat
from aded.core.errors import AdedError, remedy_for_missing
from aded.core.trace import Race, Trace, to_json
from aded.drafters.artifacts import matrix_for
from aded.drafters.registry import METHODS, find_method
from ui.numbers import FIELDS, LONGEST, Field
from ui.picker import MAX_METHODS
from ui.race.engine import Engine
from ui.race.form import Form
from ui.race.models import ModelHolder
from ui.race.run import UPDATE_SECONDS, capped, check_form
from ui.race.session_memory import keep_learned, resume
from ui.serving.http.streams import session_of
from ui.serving.jobs import Control, Job
from ui.serving.limits import Limits
from ui.serving.service import Service
from ui.serving.sessions import Memory, Session
from ui.words import cut, say, without_folders

Answer = dict[str, Any]
Runs = Sequence[Trace]
MAX_SUCCESSORS = 32


def ask(prompt: object, methods: object, numbers: Mapping[str, object], budget: object = "auto") -> Form:
    """A form from the arguments that a client sent.

    Raises:
        AdedError: a value has the wrong type or is out of range, or there is no such method.
    """
    names = [methods] if isinstance(methods, str) else methods
    if not isinstance(prompt, (str, Chat)):
        raise AdedError("the prompt is not text; give a string")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not 1 <= len(names) <= MAX_METHODS:
        raise AdedError(f"methods must be one to {MAX_METHODS} names; `methods` lists them")
    for name, value in numbers.items():
        check_number(name, value, FIELDS[name])
    if not isinstance(budget, (str, int)) or len(str(budget)) > LONGEST:
        raise AdedError(f"draft budget is '{cut(str(budget), LONGEST)}'; give 'auto' or a number of nodes")
    found = tuple(find_method(cut(name)).name for name in names)
    if twice := [name for name in found if found.count(name) > 1]:
        raise AdedError(f"methods names '{twice[0]}' twice; give each method once")
    return Form(prompt, found, str(budget), numbers)  # type: ignore[arg-type]


def check_number(name: str, value: object, field: Field) -> None:
    """Raise ``AdedError`` if a value is no number of this field; ``name``: of the argument."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AdedError(f"{name} is not a number; give a {'whole ' if field.integer else ''}number")
    if not field.minimum <= value <= field.maximum:
        raise AdedError(f"{name} is out of range; give a number from {field.minimum:.15g} to {field.maximum:.16g}")
    if field.integer and value != int(value):
        raise AdedError(f"{name.replace('_', ' ')} is {value}; give a whole number")


def ask_one(prompt: object, method: object, numbers: Mapping[str, object], budget: object = "auto") -> Form:
    """A form for one method.

    Raises:
        AdedError: see ``ask``.
    """
    if not isinstance(method, str):
        raise AdedError("method is not a string; give one of the names that `methods` lists")
    return ask(prompt, [method], numbers, budget)


async def stream(
    service: Service,
    name: str,
    model: object,
    form: Form,
    progress: Callable[[Runs], Answer],
    result: Callable[[Runs], Answer],
    event: str | None = None,
    record: bool = False,
    continues: bool = False,
) -> AsyncGenerator[Answer, None]:
    """The answers of a job, as they come: state ``waiting``, ``running``, and at the end how it ended.

    Args:
        name: of the stream in which the answers are read; it contains the session.
        progress: content of an answer while the runs are in progress; ``result``: additional content at the end.
        event: id by which the call can be cancelled.
        record: whether ``result`` needs steps that are recorded in full.
        continues: see ``decode``; the form has one method.

    Raises:
        AdedError: the job is refused or cannot run.
    """
    if not isinstance(model, str):
        raise AdedError("the model is not a string; leave it empty for the page's model")
    holder = service.models.find(model)
    check_form(form, service.limits)
    session = service.sessions.get(session_of(name))
    work = partial(
        decode,
        form=form,
        holder=holder,
        limits=service.limits,
        engine=service.engine,
        progress=progress,
        result=result,
        record=record,
        session=session if continues else None,
    )
    job: Job[Answer] = service.submit(session, holder, work, on_shutdown=lambda last: shut_down(last, progress(())))
    if event is not None:
        service.calls[event] = job
    async with aclosing(service.follow(job, lambda: waiting(job, progress(())) if job.place else None, name)) as answers:
        async for answer in answers:
            yield answer


def waiting(job: Job[Answer], empty: Answer) -> Answer:
    """The answer of a queued job."""
    return answer("waiting", empty, place=job.place, wait_seconds=job.wait)


def shut_down(last: Answer | None, empty: Answer) -> Answer:
    """The last answer of a job whose step did not end before the server shut down."""
    return {**last, "state": "shutdown"} if last else answer("shutdown", empty)


def answer(state: str, content: Answer, **more: Any) -> Answer:
    """One answer; all endpoints that run the model have the same fields in every state."""
    return {"state": state, "place": 0, "wait_seconds": None, "notices": [], **content, **more}


def decode(
    control: Control,
    form: Form,
    holder: ModelHolder,
    limits: Limits,
    engine: Engine,
    progress: Callable[[Runs], Answer],
    result: Callable[[Runs], Answer],
    record: bool = False,
    session: Session | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Answer | None]:
    """The work of the job, one step per ``next``: an answer if one is due, else None, and one at the end.

    Args:
        session: whose learned state, KV cache and token ids the job uses and keeps; None for none of them.

    Raises:
        AdedError: a method cannot run on the model, or a setting is out of range.
    """
    if control.reason:
        yield answer(control.reason, progress(()))
        return
    model, (arguments, messages) = holder.model, capped(form.settings(), limits)
    notices = [say(key, **values) for key, values in messages]
    settings = engine.settings(arguments)
    memories, prefix_cache = ({}, None) if session is None else _kept(session, holder, limits, engine)
    states = resume(memories, form.runs(), lambda run, known: engine.drafter(model, run, arguments["seed"], known))
    decoders = [
        engine.decoder(model, run, settings, state and state.drafter, record=record, prefix_cache=prefix_cache)
        for run, state in zip(form.runs(), states)
    ]
    yield answer("running", progress(()), notices=notices)
    started, due = False, 0.0
    for step in engine.steps(decoders, [_continued(form.prompt, session, holder)] * len(decoders), control):
        started = started or step is not None
        if step is None or clock() < due:
            yield None
            continue
        yield answer("running", progress([decoder.trace for decoder in decoders]), notices=notices)
        due = clock() + UPDATE_SECONDS
    runs = [decoder.trace for decoder in decoders] if started else []
    if started and session is not None:
        keep_learned(memories, [state for state, decoder in zip(states, decoders) if state and engine.learns(decoder)], form)
        session.memories, session.ids = memories, (holder.spec, (*runs[0].header.prompt_tokens, *runs[0].token_ids))
    if control.reason == "seconds":
        seconds = control.seconds or limits.run_seconds
        notices = [*notices, f"the request reached its limit of {seconds:g} s of model time"]
    reused = {"cached_tokens": prefix_cache.reused} if prefix_cache else {}
    yield answer(control.reason or "done", {**progress(runs), **result(runs), **reused}, notices=notices)


def _kept(session: Session, holder: ModelHolder, limits: Limits, engine: Engine) -> tuple[dict[str, Memory], Any]:
    """What a session's methods have learned with this model, and its KV cache."""
    if session.prefix_cache is None and limits.prefix_bytes:
        session.prefix_cache = engine.prefix_cache()
    return session.memories if session.ids[0] == holder.spec else {}, session.prefix_cache


def _continued(prompt: str | Chat, session: Session | None, holder: ModelHolder) -> str | Chat:
    """The prompt, with the token ids of the session's last decode if that was on the same model."""
    spec, ids = session.ids if session is not None else ("", ())
    return replace(prompt, ids=ids) if isinstance(prompt, Chat) and spec == holder.spec else prompt


def error_text(service: Service, error: Exception) -> str:
    """An error for a client, in one sentence; a refusal is counted."""
    if isinstance(error, AdedError):
        service.count(error)
        return without_folders(str(error))
    return f"the run failed: {type(error).__name__}; try again"


def text_progress(runs: Runs) -> Answer:
    """One run: its text so far."""
    first = runs[0] if runs else None
    return {"text": first.text if first else "", "tokens": len(first.token_ids) if first else 0, "summary": None}


def text_result(runs: Runs) -> Answer:
    """One run: its statistics."""
    return {"summary": runs[0].summary() if runs else None}


def race_progress(runs: Runs) -> Answer:
    """All runs: their progress."""
    return {"lanes": [_row(run) for run in runs], "identical": None}


def race_result(runs: Runs) -> Answer:
    """All runs: their statistics, and whether they wrote the same tokens; None if no step was made."""
    texts = {tuple(run.token_ids) for run in runs}
    rows = [{**_row(run), **run.summary()} for run in runs]
    return {"lanes": rows, "identical": len(texts) == 1 if runs else None}


def _row(run: Trace) -> Answer:
    return {"method": run.header.method, "text": run.text, "tokens": len(run.token_ids)}


def trace_progress(runs: Runs) -> Answer:
    """All runs: number of new tokens; the record is sent at the end."""
    return {"tokens": sum(len(run.token_ids) for run in runs), "trace": None}


def trace_result(runs: Runs) -> Answer:
    """All runs: every step, in the format of ``python -m aded generate --trace``; several runs form a race."""
    record: Trace | Race | None = (runs[0] if len(runs) == 1 else Race(list(runs))) if runs else None
    return {"trace": None if record is None else to_json(record)}


def methods_of(service: Service) -> Answer:
    """The table of methods and the models."""
    unavailable = unavailable_methods(service)
    keys = ("name", "label", "lossless", "description", "options")
    rows = [{**{key: getattr(m, key) for key in keys}, "unavailable": unavailable.get(m.name)} for m in METHODS.values()]
    return {"models": service.models.names, "loaded": service.models.first.loaded, "methods": rows}


def unavailable_methods(service: Service) -> dict[str, str]:
    """The methods that cannot run on the page's model, and why; known after it is loaded."""
    holder = service.models.first
    return service.engine.unavailable(holder.model) if holder.loaded else {}


def row_of(model: Any, text: str) -> Answer:
    """The row of the base matrix for the last two tokens of a text.

    Raises:
        AdedError: the text has fewer than two tokens, or the model has no matrix.
    """
    from aded.engine.loading.tokenizer import TokenTexts

    ids = [int(i) for i in model.tokenizer(text, add_special_tokens=False)["input_ids"]][-2:]
    if len(ids) < 2:
        raise AdedError("the text has fewer than two tokens; give two words or more")
    matrix = matrix_for(model)
    if matrix is None:
        raise AdedError(f"there is no matrix for this model; {remedy_for_missing(model.spec)}")
    tokens, probabilities = matrix.row(*ids)
    best = sorted(zip(probabilities.tolist(), tokens.tolist()), reverse=True)[:MAX_SUCCESSORS]
    texts = TokenTexts(model.tokenizer)
    successors = [{"token": token, "text": texts(token), "probability": probability} for probability, token in best]
    bigram = {"bigram": ids, "pair": ids}  # "pair": its name in earlier versions
    return {**bigram, "texts": texts.all(ids), "known": bool(successors), "successors": successors}

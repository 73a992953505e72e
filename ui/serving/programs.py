"""Runs for programs: what an endpoint is given becomes a form, what a run does becomes plain JSON. Knows no Gradio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from aded.core.errors import AdedError
from aded.core.trace import Race, Trace, to_json
from aded.drafters.artifacts import matrix_for
from aded.drafters.registry import METHODS, find_method
from ui.engine import Engine
from ui.form import Form
from ui.models import ModelHolder
from ui.numbers import FIELDS, LONGEST
from ui.picker import MOST
from ui.run import capped, check_form
from ui.serving.limits import Limits
from ui.serving.runs import Control, Run
from ui.serving.service import Service
from ui.serving.streams import session_of
from ui.words import cut, say

Answer = dict[str, Any]
Lanes = Sequence[Trace]
MAX_SUCCESSORS = 32


def ask(prompt: object, methods: object, numbers: Mapping[str, object], budget: object = "auto") -> Form:
    """A form of what a program sent, which may be anything at all.

    Raises:
        AdedError: a value is of the wrong kind, or there is no such method.
    """
    names = [methods] if isinstance(methods, str) else methods
    if not isinstance(prompt, str):
        raise AdedError("the prompt is no text; give a string")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not 1 <= len(names) <= MOST:
        raise AdedError(f"methods must be one to {MOST} names; `methods` lists them")
    for name, value in numbers.items():
        _check_number(name, value)
    if not isinstance(budget, (str, int)) or len(str(budget)) > LONGEST:
        raise AdedError(f"draft budget is '{cut(str(budget), LONGEST)}'; give 'auto' or a number of nodes")
    found = tuple(find_method(cut(name)).name for name in names)
    return Form(prompt, found, str(budget), numbers)  # type: ignore[arg-type]


def _check_number(name: str, value: object) -> None:
    field = FIELDS[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AdedError(f"{name} is not a number; give a {'whole ' if field.whole else ''}number")
    if not field.least <= value <= field.most:
        raise AdedError(f"{name} is out of range; give a number from {field.least:.15g} to {field.most:.16g}")


def ask_one(prompt: object, method: object, numbers: Mapping[str, object], budget: object = "auto") -> Form:
    """A form of what a program sent for one method.

    Raises:
        AdedError: as ``ask``.
    """
    if not isinstance(method, str):
        raise AdedError("method is no name; give one that `methods` lists")
    return ask(prompt, [method], numbers, budget)


async def stream(
    service: Service,
    name: str,
    model: object,
    form: Form,
    tell: Callable[[Lanes], Answer],
    end: Callable[[Lanes], Answer],
    event: str | None = None,
) -> AsyncGenerator[Answer, None]:
    """A run's answers as they come: ``waiting``, ``running``, and at last how it ended.

    Args:
        name: of the stream that the answers are read in, which tells the session too.
        tell: what to say of the lanes while they run; ``end``: what to add once they have ended.
        event: what the call can be cancelled by.

    Raises:
        AdedError: it is refused, or cannot be run.
    """
    if not isinstance(model, str):
        raise AdedError("the model is no text; leave it empty for the page's own")
    holder = service.models.find(model)
    check_form(form, service.limits)
    job = partial(decode, form=form, holder=holder, limits=service.limits, engine=service.engine, tell=tell, end=end)
    session = service.sessions.get(session_of(name))
    run: Run[Answer] = service.submit(session, holder, job, farewell=lambda last: shut_down(last, tell(())))
    if event is not None:
        service.calls[event] = run
    async with aclosing(service.follow(run, lambda: waiting(run, tell(())), name)) as answers:
        async for answer in answers:
            yield answer


def waiting(run: Run[Answer], empty: Answer) -> Answer:
    """The answer of a run that stands in line."""
    return answer("waiting", empty, place=run.place, wait_seconds=run.wait)


def shut_down(last: Answer | None, empty: Answer) -> Answer:
    """The answer of a run whose step the server, which ends, could not wait for: what it had told by then."""
    return {**last, "state": "shutdown"} if last else answer("shutdown", empty)


def answer(state: str, content: Answer, **more: Any) -> Answer:
    """One answer; every endpoint that runs the model gives the same fields at every time."""
    return {"state": state, "place": 0, "wait_seconds": None, "notices": [], **content, **more}


def decode(
    control: Control,
    form: Form,
    holder: ModelHolder,
    limits: Limits,
    engine: Engine,
    tell: Callable[[Lanes], Answer],
    end: Callable[[Lanes], Answer],
) -> Iterator[Answer | None]:
    """The job: an answer a step, and one for the end.

    Raises:
        AdedError: a method cannot run on the model, or a setting is out of range.
    """
    if control.reason:
        yield answer(control.reason, tell(()))
        return
    model, (arguments, said) = holder.model, capped(form.settings(), limits)
    notices = [say(key, **values) for key, values in said]
    settings = engine.settings(arguments)
    decoders = [engine.decoder(model, entrant, settings) for entrant in form.entrants()]
    yield answer("running", tell(()), notices=notices)
    began = False
    for turn in engine.steps(decoders, form.prompt, control):
        began = began or turn is not None
        yield answer("running", tell([decoder.trace for decoder in decoders]), notices=notices) if turn else None
    lanes = [decoder.trace for decoder in decoders] if began else []
    yield answer(control.reason or "done", {**tell(lanes), **end(lanes)}, notices=notices)


def told_text(lanes: Lanes) -> Answer:
    """Of one lane: its text so far."""
    first = lanes[0] if lanes else None
    return {"text": first.text if first else "", "tokens": len(first.token_ids) if first else 0, "summary": None}


def ended_text(lanes: Lanes) -> Answer:
    """Of one lane: its figures."""
    return {"summary": lanes[0].summary() if lanes else None}


def told_race(lanes: Lanes) -> Answer:
    """Of all lanes: how far they are."""
    return {"lanes": [_row(lane) for lane in lanes], "identical": None}


def ended_race(lanes: Lanes) -> Answer:
    """Of all lanes: their figures too, and whether they wrote the same; None where no step was made."""
    texts = {tuple(lane.token_ids) for lane in lanes}
    rows = [{**_row(lane), **lane.summary()} for lane in lanes]
    return {"lanes": rows, "identical": len(texts) == 1 if lanes else None}


def _row(lane: Trace) -> Answer:
    return {"method": lane.header.method, "text": lane.text, "tokens": len(lane.token_ids)}


def told_trace(lanes: Lanes) -> Answer:
    """Of all lanes: tokens so far; the record comes at the end."""
    return {"tokens": sum(len(lane.token_ids) for lane in lanes), "trace": None}


def ended_trace(lanes: Lanes) -> Answer:
    """Of all lanes: every step, as ``python -m aded generate --trace`` writes it; a race where there are several."""
    record: Trace | Race | None = (lanes[0] if len(lanes) == 1 else Race(list(lanes))) if lanes else None
    return {"trace": None if record is None else to_json(record)}


def methods_of(service: Service) -> Answer:
    """The table of methods, and the models that are served."""
    holder = service.models.first
    lacking = service.engine.unavailable(holder.model) if holder.loaded else {}
    keys = ("name", "label", "lossless", "description", "options")
    rows = [{**{key: getattr(m, key) for key in keys}, "unavailable": lacking.get(m.name)} for m in METHODS.values()]
    return {"models": service.models.names, "loaded": holder.loaded, "methods": rows}


def row_of(model: Any, text: str) -> Answer:
    """The base matrix's row for the last two tokens of a text.

    Raises:
        AdedError: the text has fewer than two tokens, or the model has no matrix.
    """
    from aded.engine.tokenizer import TokenTexts

    ids = [int(i) for i in model.tokenizer(text, add_special_tokens=False)["input_ids"]][-2:]
    if len(ids) < 2:
        raise AdedError("the text has fewer than two tokens; give two words or more")
    matrix = matrix_for(model)
    if matrix is None:
        raise AdedError("no matrix was made for this model; make one with `python -m aded matrix build`")
    tokens, probabilities = matrix.row(*ids)
    best = sorted(zip(probabilities.tolist(), tokens.tolist()), reverse=True)[:MAX_SUCCESSORS]
    texts = TokenTexts(model.tokenizer)
    successors = [{"token": token, "text": texts(token), "probability": probability} for probability, token in best]
    return {"pair": ids, "texts": texts.all(ids), "known": bool(successors), "successors": successors}

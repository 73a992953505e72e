"""A race as ZeroGPU's worker runs it: a task in, news out, all of it picklable; no tensor crosses.

The worker is forked from the server. It finds there the model's weights in the server's memory (``park``), moves its own
view of them to the card, and keeps the ready model in a global of its own, which a warm worker finds again. Whatever was
captured or measured is made inside a call, where it is missing; nothing is compiled. Loading in the server costs no
visitor's quota, and forking copies nothing; reading the weights in the worker would take some seconds of every first call,
and the emulated ``.to("cuda")`` of the package would keep the model's self-test from running where the card is not yet real.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from aded.core.errors import AdedError
from aded.core.trace import FinishReason, Footprint, Step, Trace
from aded.drafters.base import StateDict
from ui.engine import Engine
from ui.form import Entrant

START_SECONDS, LANE_SECONDS, TOKEN_SECONDS = 12.0, 1.0, 0.02
"""A fresh worker (the card's start, weights, self-test, costs measured in 2 s and 16 graphs); a lane's prompt and its graphs, one
for each of eight sizes at 0.1 s; a token, record included (of the token itself plain decoding takes 3 ms on an H200)."""
LONGEST_SECONDS = 110
"""Most that is ever asked for: visitors without an account have two minutes a day."""
CUT_SECONDS = 2.0
"""What is left of the time when a race is cut, so that its end still gets through."""
PARKED_DTYPE = "bfloat16"
"""Every card of ZeroGPU has it, and the server, which has none, cannot ask."""


@dataclass(frozen=True)
class Task:
    """What a worker is asked to run.

    Attributes:
        settings: arguments of ``GenerationSettings``.
        known: what each lane's drafter has learned before; None for one that is new or keeps nothing.
    """

    model: str
    device: str
    dtype: str
    prompt: str
    settings: Mapping[str, Any]
    entrants: Sequence[Entrant]
    known: Sequence[StateDict | None]

    @property
    def seconds(self) -> int:
        """The time to ask for: no more than it may take, since a longer one waits longer and needs more quota."""
        lane = LANE_SECONDS + TOKEN_SECONDS * self.settings["max_new_tokens"]
        return min(LONGEST_SECONDS, ceil(START_SECONDS + lane * len(self.entrants)))


@dataclass(frozen=True)
class Opened:
    """All prompts have been read: each lane's record without steps."""

    lanes: list[Trace]


@dataclass(frozen=True)
class Made:
    """A lane has made a step, and may have ended with it."""

    lane: int
    step: Step
    finish_reason: FinishReason | None


@dataclass(frozen=True)
class Closed:
    """The race is over.

    Attributes:
        learned: what each lane's drafter knows now, where it keeps something.
        footprint: what was held on the card.
        cut: whether it had used its time up.
    """

    learned: list[StateDict | None]
    footprint: Footprint | None
    cut: bool


@dataclass(frozen=True)
class Refusal:
    """It cannot be run as asked, and why. (Of what a worker raises, only the name of its class comes back.)"""

    text: str


News = Opened | Made | Closed | Refusal | None
"""None: nothing to tell, but a worker is asked to stop after what it has told, so it tells often."""


@dataclass
class ParkedModel:
    """A model that is not on any card: what the server itself needs of it, and its weights for workers."""

    spec: str
    label: str
    tokenizer: Any
    fingerprint: str
    vocab_size: int
    weights: Any


PARKED: dict[str, ParkedModel] = {}
"""Models in the server's memory, by what they were asked for as; a worker has those that were there when it was forked."""
READY: dict[str, Any] = {}
"""Models on the card, in a worker; in the server it stays empty."""


def park(spec: str, device: str, dtype: str, progress: Callable[[str, float | None], None]) -> ParkedModel:
    """Load a model's weights into the server's memory, on the processor and for a card (a ``ui.models.Loader``)."""
    progress("starting the engine", None)
    from aded.engine import weights
    from aded.engine.loader import DTYPES, load_stock
    from aded.engine.tokenizer import tokenizer_fingerprint

    name = weights.resolve(spec, progress)
    progress("loading the model", None)
    model, tokenizer = load_stock(name, spec, DTYPES[PARKED_DTYPE if dtype == "auto" else dtype], {})
    vocab_size = int(model.config.get_text_config().vocab_size)
    PARKED[spec] = ParkedModel(spec, weights.label_of(spec), tokenizer, tokenizer_fingerprint(tokenizer), vocab_size, model)
    return PARKED[spec]


def ready(spec: str, device: str, dtype: str) -> Any:
    """The model on the card, for this call and those that the same worker has later."""
    if spec not in READY:
        from aded.engine.loader import choose_device
        from aded.engine.target_model import TargetModel

        parked = PARKED.get(spec) or park(spec, device, dtype, lambda text, fraction: None)
        READY[spec] = TargetModel(parked.weights.to(choose_device(device)), parked.tokenizer, spec, parked.label)
    return READY[spec]


ENGINE, LOAD = Engine(), ready


def work(task: Task) -> Iterator[News]:
    """Run a race; the function that gets the card. Closing it ends the race within a step."""
    until = time.monotonic() + task.seconds - CUT_SECONDS
    try:
        model = LOAD(task.model, task.device, task.dtype)
        yield None
        decoders = []
        for entrant, known in zip(task.entrants, task.known):
            decoders.append(_decoder(model, entrant, task.settings, known))
            yield None
        yield from _run(model, decoders, task, until)
    except AdedError as error:
        yield Refusal(str(error))


def _decoder(model: Any, entrant: Entrant, settings: Mapping[str, Any], known: StateDict | None) -> Any:
    drafter = ENGINE.drafter(model, entrant, settings["seed"]) if entrant.options.get("keep") else None
    if drafter is not None and known is not None:
        drafter.load_state_dict(known)
    return ENGINE.decoder(model, entrant, ENGINE.settings(settings), drafter)


def _run(model: Any, decoders: Sequence[Any], task: Task, until: float) -> Iterator[News]:
    opened, cut = False, False
    with closing(ENGINE.race(decoders, task.prompt)) as turns:  # type: ignore[type-var]
        for turn in turns:
            if turn is None:
                yield None
                continue
            if not opened:
                opened = True
                ENGINE.measure(model)
                yield Opened([_without_steps(decoder.trace) for decoder in decoders])
            lane, step = turn
            yield Made(lane, step, decoders[lane].finish_reason)
            if cut := time.monotonic() > until:
                break
    kept = [d.drafter.state_dict() if e.options.get("keep") else None for d, e in zip(decoders, task.entrants)]
    yield Closed(kept, getattr(model, "footprint", None), cut)


def _without_steps(trace: Trace) -> Trace:
    return replace(trace, steps=[], text="", token_ids=[], finish_reason=None)

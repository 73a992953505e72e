"""A race in a ZeroGPU worker: a task in, events out, all of them picklable and without tensors.

The worker is forked from the server. It finds the model's weights in host memory (``load_to_host``), copies them to the GPU,
and keeps the loaded model in a global variable, which a warm worker finds again. Captured graphs and measured costs are
made inside a call if they are missing; nothing is compiled. Loading in the server uses no visitor's quota, and forking copies
nothing; reading the weights in the worker would take some seconds of every first call, and with the package's emulated
``.to("cuda")`` the model's self-test would not run on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from aded.core.chat import Chat
from aded.core.errors import AdedError
from aded.core.trace import FinishReason, Footprint, Step, Trace
from aded.drafters.base import StateDict
from aded.drafters.registry import RunSpec
from ui.race.engine import Engine

START_SECONDS, RUN_SECONDS, TOKEN_SECONDS = 12.0, 1.0, 0.02
"""Estimates: start of a fresh worker (GPU, weights, self-test, cost measurement of 2 s and 16 graphs); a run's prompt and its
graphs, one for each of eight sizes at 0.1 s; a token, with its record (plain decoding alone takes 3 ms per token on an H200)."""
MAX_SECONDS = 110
"""Maximum time that is requested: visitors without an account have two minutes per day."""
CUT_SECONDS = 2.0
"""Time reserved for the last events of a race that is cut at its time limit."""
HOST_DTYPE = "bfloat16"
"""Supported by every GPU of ZeroGPU; the server has no GPU to ask."""


@dataclass(frozen=True)
class Task:
    """What a worker is asked to run.

    Attributes:
        prompts: of each run; ``settings``: arguments of ``GenerationSettings``.
        learned: what each run's drafter learned before; None for a new one, or one that keeps nothing.
        record: whether steps are recorded in full.
    """

    model: str
    device: str
    dtype: str
    prompts: Sequence[str | Chat]
    settings: Mapping[str, Any]
    runs: Sequence[RunSpec]
    learned: Sequence[StateDict | None]
    record: bool = True

    @property
    def seconds(self) -> int:
        """The GPU time to request: not more than necessary, since longer requests wait longer and need more quota."""
        each = RUN_SECONDS + TOKEN_SECONDS * self.settings["max_new_tokens"]
        return min(MAX_SECONDS, ceil(START_SECONDS + each * len(self.runs)))


@dataclass(frozen=True)
class RaceStarted:
    """The prefill of all runs has ended: each run's record without steps."""

    runs: list[Trace]


@dataclass(frozen=True)
class StepDone:
    """A run has made a step, and may have ended with it."""

    run: int
    step: Step
    finish_reason: FinishReason | None


@dataclass(frozen=True)
class RaceEnded:
    """The race has ended.

    Attributes:
        learned: what each run's drafter has learned, if it keeps it.
        footprint: GPU memory.
        cut: whether it reached its time limit, perhaps before it started.
    """

    learned: list[StateDict | None]
    footprint: Footprint | None
    cut: bool


@dataclass(frozen=True)
class RaceRefused:
    """The race cannot run, and why. (For exceptions of a worker, only the class name is returned.)"""

    text: str


WorkerEvent = RaceStarted | StepDone | RaceEnded | RaceRefused | None
"""None: nothing to report; a worker can only be stopped after an event, so there are many."""


@dataclass
class HostModel:
    """A model in host memory: what the server needs of it, and its weights for workers."""

    spec: str
    label: str
    tokenizer: Any
    fingerprint: str
    vocab_size: int
    weights: Any


HOST_MODELS: dict[str, HostModel] = {}
"""Models in host memory, by specification; a worker has those that were loaded before it was forked."""
GPU_MODELS: dict[str, Any] = {}
"""Models on the GPU of a worker; empty in the server."""


def load_to_host(spec: str, device: str, dtype: str, progress: Callable[[str, float | None], None]) -> HostModel:
    """Load a model's weights into host memory, in the dtype for GPUs (a ``ui.race.models.Loader``)."""
    progress("starting the engine", None)
    from aded.engine.loading import weights
    from aded.engine.loading.loader import DTYPES, load_stock
    from aded.engine.loading.tokenizer import tokenizer_fingerprint

    name = weights.resolve(spec, progress)
    progress("loading the model", None)
    model, tokenizer = load_stock(name, spec, DTYPES[HOST_DTYPE if dtype == "auto" else dtype], {})
    vocab_size = int(model.config.get_text_config().vocab_size)
    HOST_MODELS[spec] = HostModel(spec, weights.label_of(spec), tokenizer, tokenizer_fingerprint(tokenizer), vocab_size, model)
    return HOST_MODELS[spec]


def model_on_gpu(spec: str, device: str, dtype: str) -> Any:
    """The model on the GPU, for this call and later ones of the same worker."""
    if spec not in GPU_MODELS:
        from aded.engine.loading.loader import choose_device
        from aded.engine.target_model import TargetModel

        host = HOST_MODELS.get(spec) or load_to_host(spec, device, dtype, lambda text, fraction: None)
        GPU_MODELS[spec] = TargetModel(host.weights.to(choose_device(device)), host.tokenizer, spec, host.label)
    return GPU_MODELS[spec]


ENGINE, LOAD = Engine(), model_on_gpu


def work(task: Task) -> Iterator[WorkerEvent]:
    """Run a race; this function gets the GPU. Closing the iterator stops the race within a step."""
    until = time.monotonic() + task.seconds - CUT_SECONDS
    try:
        model = LOAD(task.model, task.device, task.dtype)
        yield None
        decoders = []
        for run, learned in zip(task.runs, task.learned):
            decoders.append(_decoder(model, run, task, learned))
            yield None
        yield from _run(model, decoders, task, until)
    except AdedError as error:
        yield RaceRefused(str(error))


def _decoder(model: Any, run: RunSpec, task: Task, learned: StateDict | None) -> Any:
    drafter = ENGINE.drafter(model, run, task.settings["seed"]) if run.options.get("keep") else None
    if drafter is not None and learned is not None:
        drafter.load_state_dict(learned)
    return ENGINE.decoder(model, run, ENGINE.settings(task.settings), drafter, record=task.record)


def _run(model: Any, decoders: Sequence[Any], task: Task, until: float) -> Iterator[WorkerEvent]:
    started, cut = False, False
    with closing(ENGINE.race(decoders, task.prompts)) as steps:  # type: ignore[type-var]
        for item in steps:
            if item is not None and not started:
                started = True
                ENGINE.measure(model)
                yield RaceStarted([_without_steps(decoder.trace) for decoder in decoders])
            yield StepDone(*item, decoders[item[0]].finish_reason) if item else None
            if cut := time.monotonic() > until:
                break
    kept = [d.drafter.state_dict() if e.options.get("keep") else None for d, e in zip(decoders, task.runs)]
    yield RaceEnded(kept, getattr(model, "footprint", None), cut)


def _without_steps(trace: Trace) -> Trace:
    return replace(trace, steps=[], text="", token_ids=[], finish_reason=None)

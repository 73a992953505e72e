"""Races on ZeroGPU, as seen by the server: the engine's calls, executed by a worker with a GPU (``ui.serving.zerogpu.worker``).

One function gets the GPU: a synchronous generator, wrapped by the decorator of the package ``spaces``. A separate thread reads
it, in the context of the visitor's request, from which the package takes the quota; the scheduler's steps return what was read
so far. So a visitor who waits for a GPU delays nobody else, and a stop takes effect at once: further events are discarded, and
the generator is closed, which ends the worker within a step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from contextvars import Context
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

from aded.core.chat import Chat
from aded.core.errors import AdedError
from aded.core.trace import FinishReason, Footprint, Step, Trace
from aded.drafters.base import StateDict
from aded.drafters.registry import RunSpec
from ui.race.engine import END, Engine, RaceStep
from ui.serving.jobs import Control
from ui.serving.zerogpu import worker
from ui.serving.zerogpu.quota import RECORDED, WorkerLost, as_refusal
from ui.serving.zerogpu.worker import RaceEnded, RaceRefused, RaceStarted, StepDone, Task, WorkerEvent

POLL_SECONDS = 0.01
"""How long a scheduler step waits for an event."""
GRACE_SECONDS = 5.0
"""Additional time for a worker that has started; it cuts its race itself, so later it hangs or is gone."""


class RemoteDrafter:
    """Represents a drafter that keeps what it learns: the state that a worker returned, None before the first race."""

    def __init__(self, learned: StateDict | None = None) -> None:
        self.learned = learned


class RemoteDecoder:
    """A run in a worker.

    Attributes:
        closed: whether the worker has reported its end.
        returned: whether the learned state of its drafter was returned.
        prefill_progress: None, because workers do not report it.
    """

    prefill_progress: tuple[int, int] | None = None

    def __init__(
        self, model: Any, run: RunSpec, settings: Mapping[str, Any], drafter: RemoteDrafter | None, record: bool
    ) -> None:
        self.model, self.run, self.settings, self.drafter, self.record = model, run, settings, drafter, record
        self.closed = self.returned = False
        self._started: Trace | None = None
        self._steps: list[Step] = []
        self._finish: FinishReason | None = None
        self._footprint: Footprint | None = None

    @property
    def learned(self) -> StateDict | None:
        """What its drafter learned in earlier races."""
        return self.drafter.learned if self.drafter else None

    @property
    def trace(self) -> Trace:
        """The record so far."""
        assert self._started is not None, "the worker has reported the start of the run"
        text = "".join(piece for step in self._steps for piece in step.texts)
        ids = [token for step in self._steps for token in step.emitted]
        steps, finish = list(self._steps), self._finish
        return replace(self._started, steps=steps, text=text, token_ids=ids, finish_reason=finish, footprint=self._footprint)

    def open(self, trace: Trace) -> None:
        """The worker has ended the prefill."""
        self._started = trace

    def add(self, made: StepDone) -> None:
        """The worker has made a step."""
        self._steps.append(made.step)
        self._finish = made.finish_reason

    def take_back(self, learned: StateDict | None, footprint: Footprint | None) -> None:
        """The worker has ended: store the learned state for the next race."""
        self._footprint, self.closed, self.returned = footprint, True, learned is not None
        if self.drafter is not None and learned is not None:
            self.drafter.learned = learned

    def end(self) -> None:
        """No more steps will come."""
        self._finish = self._finish or "cancelled"


class ZeroEngine(Engine):
    """An engine whose races run in ZeroGPU workers.

    Args:
        gpu: the decorator ``spaces.GPU``; it must be used before the page is launched.
        device, dtype: of the model on the GPU.
    """

    first_message = ("gpu.waiting", {})

    def __init__(self, gpu: Callable[..., Any], device: str = "auto", dtype: str = "auto") -> None:
        self._placement = (device, dtype)
        self._work = gpu(duration=lambda task: task.seconds)(worker.work)

    def settings(self, arguments: Mapping[str, Any]) -> Any:
        super().settings(arguments)  # invalid settings are refused here, without a GPU
        return dict(arguments)

    def drafter(self, model: Any, run: RunSpec, seed: int, known: RemoteDrafter | None = None) -> RemoteDrafter:
        return RemoteDrafter(known.learned if known else None)

    def prefix_cache(self) -> None:
        """A worker ends with its race, and its KV caches with it."""

    def decoder(
        self, model: Any, run: RunSpec, settings: Any, drafter: Any = None, *, record: bool = True, prefix_cache: Any = None
    ) -> RemoteDecoder:
        return RemoteDecoder(model, run, settings, drafter, record)

    def compiling(self) -> bool:
        """Workers compile."""
        return False

    def unmeasured(self, model: Any) -> bool:
        """Workers measure, which have a GPU."""
        return False

    def measure(self, model: Any) -> None:
        """Workers do, which have a GPU."""

    def learns(self, decoder: RemoteDecoder) -> bool:
        """A stopped race returns nothing: its drafters keep their earlier state."""
        return decoder.returned

    def learned(self, decoder: RemoteDecoder) -> RemoteDrafter | None:
        """Only drafters that keep what they learn return it."""
        return decoder.drafter if decoder.returned else None

    def steps(self, decoders: Sequence[RemoteDecoder], prompts: Sequence[str | Chat], control: Control) -> Iterator[RaceStep]:
        task = self._task(decoders, prompts)
        try:
            with closing(BackgroundIterator(lambda: self._work(task), control.context)) as feed:
                while control.reason is None and feed.seconds < task.seconds + GRACE_SECONDS:
                    if (event := feed.take(POLL_SECONDS)) is END:
                        break
                    control.waiting = not feed.started
                    yield self._handle(event, decoders, control, task.seconds)
        except Exception as error:
            raise as_refusal(error) from error
        finally:
            for decoder in decoders:
                decoder.end()
        if control.reason is None and not all(decoder.closed for decoder in decoders):
            raise WorkerLost("gpu.aborted", and_then=[RECORDED])

    def _task(self, decoders: Sequence[RemoteDecoder], prompts: Sequence[str | Chat]) -> Task:
        first, runs = decoders[0], [decoder.run for decoder in decoders]
        return Task(
            first.model.spec, *self._placement, prompts, first.settings, runs, [d.learned for d in decoders], first.record
        )

    def _handle(self, event: WorkerEvent, decoders: Sequence[RemoteDecoder], control: Control, seconds: int) -> RaceStep:
        if isinstance(event, RaceRefused):
            raise AdedError(event.text)
        if isinstance(event, RaceStarted):
            for decoder, trace in zip(decoders, event.runs):
                decoder.open(trace)
        if isinstance(event, RaceEnded):
            for decoder, learned in zip(decoders, event.learned):
                decoder.take_back(learned, event.footprint)
            if event.cut:
                control.seconds = seconds
                control.stop("seconds")
        if not isinstance(event, StepDone):
            return None
        decoders[event.run].add(event)
        control.tokens += len(event.step.emitted)
        return event.run, event.step


class BackgroundIterator:
    """Reads an iterator in its own thread, to the end or until it is closed.

    Args:
        make: creates the iterator, in the thread and in ``context``.
    """

    def __init__(self, make: Callable[[], Any], context: Context) -> None:
        self._read_items: SimpleQueue[Any] = SimpleQueue()
        self._closed = threading.Event()
        self._started_at: float | None = None
        threading.Thread(target=context.run, args=(self._read, make), name="gpu", daemon=True).start()

    @property
    def started(self) -> bool:
        """Whether there has been an item."""
        return self._started_at is not None

    @property
    def seconds(self) -> float:
        """Seconds since the first item; 0 before it."""
        return 0.0 if self._started_at is None else time.monotonic() - self._started_at

    def take(self, seconds: float) -> Any:
        """The next item; None if there is none within ``seconds``, ``END`` after the last one.

        Raises:
            the exception that reading raised.
        """
        try:
            item = self._read_items.get(timeout=seconds)
        except Empty:
            return None
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        """Stop reading: the iterator is closed as soon as it has its next item."""
        self._closed.set()

    def _read(self, make: Callable[[], Any]) -> None:
        try:
            with closing(make()) as items:
                for item in items:
                    self._started_at = self._started_at or time.monotonic()
                    if self._closed.is_set():
                        return
                    self._read_items.put(item)
            self._read_items.put(END)
        except Exception as error:
            self._read_items.put(error)

"""Races on ZeroGPU, as the server sees them: the engine's calls, answered by a worker (``ui.serving.worker``) that has a card.

One function gets the card: a synchronous generator, wrapped by the decorator that the package ``spaces`` brings. It is read
by a thread of its own, in the context of the visitor's request, because the package takes from there whose quota it is; the
scheduler's turns are what has been read by then. So a visitor who waits for a card keeps nobody else waiting, and a stop is
heard at once: what the worker still makes is thrown away, and the generator closed, which ends the worker within a step.
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

from aded.core.errors import AdedError
from aded.core.trace import FinishReason, Footprint, Step, Trace
from aded.drafters.base import StateDict
from ui.engine import OVER, Engine, Turn
from ui.form import Entrant
from ui.serving import worker
from ui.serving.quota import RECORDED, WorkerLost, said
from ui.serving.runs import Control
from ui.serving.worker import Closed, Made, News, Opened, Refusal, Task

LOOK_SECONDS = 0.01
"""How long a turn waits for news."""
LATE_SECONDS = 5.0
"""How long after its time a worker that has begun may still be heard of: it cuts its race itself, so it hangs or is gone."""


class RemoteDrafter:
    """What stands for a drafter that keeps what it learns: the state that a worker sent back, None before the first."""

    def __init__(self, learned: StateDict | None = None) -> None:
        self.learned = learned


class RemoteDecoder:
    """A lane in a worker.

    Attributes:
        closed: whether the worker has told its end.
        returned: whether what it taught its drafter has come back.
    """

    def __init__(self, model: Any, entrant: Entrant, settings: Mapping[str, Any], drafter: RemoteDrafter | None) -> None:
        self.model, self.entrant, self.settings, self.drafter = model, entrant, settings, drafter
        self.closed = self.returned = False
        self._opened: Trace | None = None
        self._steps: list[Step] = []
        self._finish: FinishReason | None = None
        self._footprint: Footprint | None = None

    @property
    def known(self) -> StateDict | None:
        """What its drafter has learned before."""
        return self.drafter.learned if self.drafter else None

    @property
    def trace(self) -> Trace:
        """The record so far."""
        assert self._opened is not None, "the worker has told of the lane"
        text = "".join(piece for step in self._steps for piece in step.texts)
        ids = [token for step in self._steps for token in step.emitted]
        steps, finish = list(self._steps), self._finish
        return replace(self._opened, steps=steps, text=text, token_ids=ids, finish_reason=finish, footprint=self._footprint)

    def open(self, trace: Trace) -> None:
        """The worker has read its prompt."""
        self._opened = trace

    def add(self, made: Made) -> None:
        """The worker has made a step."""
        self._steps.append(made.step)
        self._finish = made.finish_reason

    def take_back(self, learned: StateDict | None, footprint: Footprint | None) -> None:
        """The worker has ended: put what it taught the drafter where the next race finds it."""
        self._footprint, self.closed, self.returned = footprint, True, learned is not None
        if self.drafter is not None and learned is not None:
            self.drafter.learned = learned

    def end(self) -> None:
        """No more steps come."""
        self._finish = self._finish or "cancelled"


class ZeroEngine(Engine):
    """An engine whose races run in ZeroGPU's workers.

    Args:
        gpu: the decorator ``spaces.GPU``; one has to be used before the page is launched.
        device, dtype: of the model on the card.
    """

    first_words = ("gpu.waiting", {})

    def __init__(self, gpu: Callable[..., Any], device: str = "auto", dtype: str = "auto") -> None:
        self._where = (device, dtype)
        self._work = gpu(duration=lambda task: task.seconds)(worker.work)

    def settings(self, arguments: Mapping[str, Any]) -> Any:
        super().settings(arguments)  # refused here, not on the card
        return dict(arguments)

    def drafter(self, model: Any, entrant: Entrant, seed: int, known: RemoteDrafter | None = None) -> RemoteDrafter:
        return RemoteDrafter(known.learned if known else None)

    def decoder(self, model: Any, entrant: Entrant, settings: Any, drafter: Any = None) -> RemoteDecoder:
        return RemoteDecoder(model, entrant, settings, drafter)

    def measure(self, model: Any) -> None:
        """A worker does, which has the card."""

    def learns(self, decoder: RemoteDecoder) -> bool:
        """A race that was stopped sends nothing back: its drafters know what they knew before."""
        return decoder.returned

    def steps(self, decoders: Sequence[RemoteDecoder], prompt: str, control: Control) -> Iterator[Turn]:
        task = self._task(decoders, prompt)
        try:
            with closing(Feed(lambda: self._work(task), control.context)) as feed:
                while control.reason is None and feed.seconds < task.seconds + LATE_SECONDS:
                    if (news := feed.take(LOOK_SECONDS)) is OVER:
                        break
                    yield self._heard(news, decoders, control, task.seconds)
        except Exception as error:
            raise said(error) from error
        finally:
            for decoder in decoders:
                decoder.end()
        if control.reason is None and not all(decoder.closed for decoder in decoders):
            raise WorkerLost("gpu.aborted", and_then=[RECORDED])

    def _task(self, decoders: Sequence[RemoteDecoder], prompt: str) -> Task:
        first, entrants = decoders[0], [decoder.entrant for decoder in decoders]
        return Task(first.model.spec, *self._where, prompt, first.settings, entrants, [d.known for d in decoders])

    def _heard(self, news: News, decoders: Sequence[RemoteDecoder], control: Control, seconds: int) -> Turn:
        if isinstance(news, Refusal):
            raise AdedError(news.text)
        if isinstance(news, Opened):
            for decoder, trace in zip(decoders, news.lanes):
                decoder.open(trace)
        if isinstance(news, Closed):
            for decoder, learned in zip(decoders, news.learned):
                decoder.take_back(learned, news.footprint)
            if news.cut:
                control.seconds = seconds
                control.stop("seconds")
        if not isinstance(news, Made):
            return None
        decoders[news.lane].add(news)
        control.tokens += len(news.step.emitted)
        return news.lane, news.step


class Feed:
    """An iterator that a thread of its own reads to the end, or until it is closed.

    Args:
        make: makes it, in the thread and in ``context``.
    """

    def __init__(self, make: Callable[[], Any], context: Context) -> None:
        self._read_items: SimpleQueue[Any] = SimpleQueue()
        self._closed = threading.Event()
        self._begun: float | None = None
        threading.Thread(target=context.run, args=(self._read, make), name="gpu", daemon=True).start()

    @property
    def seconds(self) -> float:
        """Since the first item; 0 before it."""
        return 0.0 if self._begun is None else time.monotonic() - self._begun

    def take(self, seconds: float) -> Any:
        """The next item; None if there is none within ``seconds``, ``OVER`` behind the last one.

        Raises:
            what reading it ended with.
        """
        try:
            item = self._read_items.get(timeout=seconds)
        except Empty:
            return None
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        """Read no more: the iterator is closed as soon as it has its next item."""
        self._closed.set()

    def _read(self, make: Callable[[], Any]) -> None:
        try:
            with closing(make()) as items:
                for item in items:
                    self._begun = self._begun or time.monotonic()
                    if self._closed.is_set():
                        return
                    self._read_items.put(item)
            self._read_items.put(OVER)
        except Exception as error:
            self._read_items.put(error)

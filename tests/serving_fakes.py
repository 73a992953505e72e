"""A fake engine, and servers that use it, for tests of serving."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from types import SimpleNamespace
from typing import Any

from app_process import free_port
from browsing import sync_api
from ui_fakes import FakeDecoder, fake_race, make_trace
from waiting import HANG, until

from aded.core.errors import AdedError
from aded.drafters.base import Drafter
from aded.drafters.registry import RunSpec
from ui.race.engine import Engine
from ui.race.form import Form
from ui.race.models import Models
from ui.race.run import Update
from ui.serving import server
from ui.serving.limits import Limits
from ui.serving.service import Service
from ui.serving.sessions import Session

NUMBERS = {"max_new_tokens": 32, "temperature": 0.0, "top_p": 1.0, "top_k": 0, "seed": 0}


class FakeDrafter(Drafter):
    """A drafter that only keeps what an earlier drafter has learned."""

    def __init__(self, known: Any = None) -> None:
        self.known = known


class FakeEngine(Engine):
    def __init__(self) -> None:
        self.closed = False
        self.missing: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.drafters: list[Any] = []
        self.caches: list[Any] = []
        self.prompts: list[Any] = []
        self.given: list[dict[str, Any]] = []

    def settings(self, arguments: Any) -> Any:
        if arguments["max_new_tokens"] < 1:
            raise AdedError("max new tokens is 0; give 1 or more")
        self.given.append(dict(arguments))
        return dict(arguments)

    def unavailable(self, model: Any) -> dict[str, str]:
        return self.missing

    def drafter(self, model: Any, run: RunSpec, seed: int, known: Any = None) -> Any:
        return FakeDrafter(known)

    def prefix_cache(self) -> Any:
        return SimpleNamespace(reused=2, bytes=100, free=lambda: None)

    def decoder(
        self, model: Any, run: RunSpec, settings: Any, drafter: Any = None, *, record: bool = True, prefix_cache: Any = None
    ) -> Any:
        self.caches.append(prefix_cache)
        self.asked.append((run.method, dict(run.options)))
        self.drafters.append(drafter)
        decoder = FakeDecoder(make_trace(run.method))
        decoder.drafter = drafter or FakeDrafter()
        return decoder

    def learned(self, decoder: Any) -> Any:
        return decoder.drafter

    def unmeasured(self, model: Any) -> bool:
        return False

    def measure(self, model: Any) -> None:
        self.measured = True

    def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
        self.prompts.append(prompts)
        try:
            yield from fake_race(decoders)
        finally:
            self.closed = True


class BrokenEngine(FakeEngine):
    """Its races fail while it is ``broken``."""

    broken = True

    def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
        if self.broken:
            raise RuntimeError("out of memory\nand more")
        return super().race(decoders, prompts)


class GatedEngine(FakeEngine):
    """A fake engine whose steps, except the first ``free`` ones, wait for a gate: a run lasts as long as a test needs.

    Attributes:
        on: set when a run has begun; ``held``: set when a step waits for the gate.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pause, self.free = 0.0, 0
        self.gate = threading.Event()
        self.on, self.held = threading.Event(), threading.Event()

    def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
        for count, step in enumerate(super().race(decoders, prompts)):
            self.on.set()
            if count >= self.free:
                self.held.set()
                self.gate.wait(HANG)
            time.sleep(self.pause)
            yield step


class Live:
    """A server whose runs have invented steps, each shown at once: fifteen, and the rest after the gate is open.

    Attributes:
        address: ends in a slash.
    """

    def __init__(self, address: str, engine: GatedEngine, service: Service) -> None:
        self.address, self.engine, self.service = address, engine, service

    def stop(self, page: sync_api.Page) -> None:
        """Press Stop, and let the current step end."""
        page.locator("#ax-stop").click()
        until(lambda: self.service.scheduler._running_jobs()[0].control.reason)
        self.engine.gate.set()


def fake_service(engine: Engine | None = None, **limits: Any) -> Service:
    """A service with a fake engine and a model that is only a name."""
    return Service(
        Models(("default", "second"), loader=lambda *_: SimpleNamespace(label="made-up-model")),
        Limits(**limits),
        engine or FakeEngine(),
    )


def form(**changes: Any) -> Form:
    return Form(**{"prompt": "hello", "methods": ("plain", "aded"), "numbers": NUMBERS, **changes})


def updates(
    service: Service,
    asked: Form | None = None,
    session: Session | None = None,
    when: Any = lambda update: None,
    message: str | None = None,
) -> list[Update]:
    """All updates of a race, as the page receives them; ``when`` is called with each one at once; ``message``: see ``race``."""

    async def read() -> list[Update]:
        found = []
        race = service.race(session or service.sessions.get("a"), asked or form(), {}, message)
        async with aclosing(race) as changes:
            async for update in changes:
                found.append(update)
                when(update)
        return found

    return asyncio.run(asyncio.wait_for(read(), HANG))


def words(update: Update) -> str:
    return update.notice.text if update.notice else ""


@contextmanager
def serving(service: Service, tools: bool = False, root_path: str = "") -> Iterator[str]:
    """Serve the page and its endpoints on a free port; yields the address."""
    port = free_port()
    shown = server.launch(service, server.Address("127.0.0.1", port, root_path=root_path), tools)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        service.close(HANG)
        shown.close(verbose=False)

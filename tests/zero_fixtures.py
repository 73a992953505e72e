"""A service whose races run in workers of the fake ZeroGPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from serving_fakes import FakeEngine
from waiting import HANG
from zero_fakes import Spaces

from ui.race.engine import Engine
from ui.race.models import Models
from ui.serving.limits import Limits
from ui.serving.service import Service
from ui.serving.zerogpu import worker
from ui.serving.zerogpu.worker import HostModel
from ui.serving.zerogpu.zero import ZeroEngine


@pytest.fixture
def spaces() -> Iterator[Spaces]:
    found = Spaces()
    yield found
    found.close()


@pytest.fixture
def on_zero(spaces: Spaces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """Makes a service whose races run in workers; its engine and model exist when the workers are forked."""
    services = []
    for name in ("START_SECONDS", "MAX_SECONDS"):  # a busy machine, or one that compiles first, takes longer than a GPU
        monkeypatch.setattr(worker, name, 10 * HANG)

    def make(engine: Engine | None = None, model: Any = None, **limits: Any) -> Service:
        monkeypatch.setattr(worker, "ENGINE", engine or FakeEngine())
        monkeypatch.setattr(worker, "LOAD", lambda *_: model)
        models = Models(loader=lambda *_: HostModel("default", "made-up-model", None, "none-97", 97, None))
        services.append(Service(models, Limits(**limits), ZeroEngine(spaces.GPU)))
        return services[-1]

    yield make
    for service in services:
        service.close()

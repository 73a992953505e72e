"""A server whose races run in a stand-in's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from serving_fakes import FakeEngine
from waiting import HANG
from zero_fakes import Spaces

from ui.engine import Engine
from ui.models import Models
from ui.serving import worker
from ui.serving.limits import Limits
from ui.serving.service import Service
from ui.serving.worker import ParkedModel
from ui.serving.zero import ZeroEngine


@pytest.fixture
def spaces() -> Iterator[Spaces]:
    found = Spaces()
    yield found
    found.close()


@pytest.fixture
def on_zero(spaces: Spaces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """Makes a service whose races run in workers, by an engine and on a model that are there when workers are forked."""
    made = []
    for name in ("START_SECONDS", "LONGEST_SECONDS"):  # a machine that is busy, or compiles first, takes longer than a GPU
        monkeypatch.setattr(worker, name, 10 * HANG)

    def make(engine: Engine | None = None, model: Any = None, **limits: Any) -> Service:
        monkeypatch.setattr(worker, "ENGINE", engine or FakeEngine())
        monkeypatch.setattr(worker, "LOAD", lambda *_: model)
        models = Models(loader=lambda *_: ParkedModel("default", "made-up-model", None, "none-97", 97, None))
        made.append(Service(models, Limits(**limits), ZeroEngine(spaces.GPU)))
        return made[-1]

    yield make
    for service in made:
        service.close()

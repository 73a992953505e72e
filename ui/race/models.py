"""The target models of the process: each is loaded once, at its first use, and shared by all visitors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError
from ui.words import cut

Progress = Callable[[str, "float | None"], None]
"""Called with a message and the fraction done (0 to 1), None if unknown."""
Loader = Callable[[str, str, str, Progress], Any]
"""Loads a model; its arguments are spec, device, dtype and progress (see ``aded.engine.target_model.TargetModel.load``)."""


@dataclass(frozen=True)
class Loading:
    """Progress of loading: a message, and the fraction done (0 to 1), None if unknown."""

    text: str
    fraction: float | None = None


def load_target(spec: str, device: str, dtype: str, progress: Progress) -> Any:
    """Load a ``TargetModel``; torch and the engine are imported here and not when the page is built."""
    progress("starting the engine", None)
    from aded.engine.target_model import TargetModel

    return TargetModel.load(spec, device=device, dtype=dtype, progress=progress)


def name_of(spec: str) -> str:
    """The name of a model for visitors: the spec, or the last component of a path, so that no folder of the machine is shown."""
    is_path = spec.startswith((".", "/", "~")) or spec.endswith(".gguf") or spec.count("/") > 1
    return Path(os.path.expanduser(spec)).resolve().name if is_path else spec


class ModelHolder:
    """Loads a model once, in a separate thread, so that waiting for it can be cancelled.

    Attributes:
        spec: the model as given by the operator.
        latest: the latest progress of loading.
    """

    def __init__(self, spec: str = "default", device: str = "auto", dtype: str = "auto", loader: Loader = load_target) -> None:
        self.spec = spec
        self._arguments = (spec, device, dtype)
        self._loader = loader
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.latest = Loading("loading the model")
        self._error: Exception | None = None
        self._model: Any = None

    @property
    def loaded(self) -> bool:
        return self._model is not None

    @property
    def busy(self) -> bool:
        """Whether the model is being loaded."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def model(self) -> Any:
        """The loaded model.

        Raises:
            Exception: the one with which loading failed last, usually an ``AdedError``; the next ``start()`` tries again.
        """
        if self._model is None:
            assert self._error is not None, "loading has ended"
            raise self._error
        return self._model

    def start(self) -> None:
        """Start loading, unless the model is loaded or being loaded."""
        with self._lock:
            if self._model is None and not self.busy:
                self._thread = threading.Thread(target=self._load, name="model", daemon=True)
                self._thread.start()

    def loading(self, interval: float = 0.1) -> Iterator[Loading]:
        """Start loading if necessary, and yield its progress every ``interval`` seconds until it has ended, also by an error."""
        self.start()
        while not self.loaded and self._thread is not None and self._thread.is_alive():
            yield self.latest
            self._thread.join(interval)

    def _load(self) -> None:
        try:
            self._model = self._loader(*self._arguments, self._report)
        except Exception as error:
            self._error = error

    def _report(self, text: str, fraction: float | None) -> None:
        self.latest = Loading(text, fraction)


class Models:
    """The models that visitors may use, as allowed by the operator.

    Args:
        specs: the page's model first.
    """

    def __init__(
        self, specs: Sequence[str] = ("default",), device: str = "auto", dtype: str = "auto", loader: Loader = load_target
    ) -> None:
        self._holders: dict[str, ModelHolder] = {}
        for spec in specs:
            name = spec if name_of(spec) in self._holders else name_of(spec)
            self._holders[name] = ModelHolder(spec, device, dtype, loader)

    @property
    def names(self) -> list[str]:
        return list(self._holders)

    @property
    def first(self) -> ModelHolder:
        """The page's model."""
        return next(iter(self._holders.values()))

    @property
    def busy(self) -> bool:
        """Whether one of the models is being loaded."""
        return any(holder.busy for holder in self._holders.values())

    def find(self, name: str = "") -> ModelHolder:
        """The holder of a model, by its name for visitors or its spec; an empty name is the page's model.

        Raises:
            AdedError: the operator has not allowed this model.
        """
        if not name:
            return self.first
        named = {holder.spec: holder for holder in self._holders.values()} | self._holders
        if name not in named:
            raise AdedError(f"the model '{cut(name)}' is not available here; give one of: {', '.join(self.names)}")
        return named[name]

"""The models of the process: each loaded on first need, shared by all users, never reloaded."""

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
Loader = Callable[[str, str, str, Progress], Any]
"""(spec, device, dtype, progress) to a model."""


@dataclass(frozen=True)
class Loading:
    """What the loading does now, and how far it is (0 to 1) where that is known."""

    text: str
    fraction: float | None = None


def load_target(spec: str, device: str, dtype: str, progress: Progress) -> Any:
    """The engine's loader; its heavy imports happen here and not when the page is built."""
    progress("starting the engine", None)
    from aded.engine.target_model import TargetModel

    return TargetModel.load(spec, device=device, dtype=dtype, progress=progress)


def name_of(spec: str) -> str:
    """What visitors call a model: a file or folder by its last name, which says nothing of this machine."""
    is_path = spec.startswith((".", "/", "~")) or spec.endswith(".gguf") or spec.count("/") > 1
    return Path(os.path.expanduser(spec)).resolve().name if is_path else spec


class ModelHolder:
    """Loads the model once, in a thread of its own, so that whoever waits for it can stop waiting.

    Attributes:
        spec: the model as the operator named it.
        latest: what the loading does now.
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
        """Whether it is being loaded now."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def model(self) -> Any:
        """The loaded model.

        Raises:
            the error that loading ended with, for example AdedError; the next ``start()`` tries again.
        """
        if self._error is not None:
            raise self._error
        assert self._model is not None, "loading has run to its end"
        return self._model

    def start(self) -> None:
        """Start loading if nobody has."""
        with self._lock:
            if self._model is None and not self.busy:
                self._error = None
                self._thread = threading.Thread(target=self._load, name="model", daemon=True)
                self._thread.start()

    def loading(self, interval: float = 0.1) -> Iterator[Loading]:
        """Start loading if nobody has, and yield what it does until it is over; ends at once when the model is there."""
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
    """The models that visitors may use: those that the operator named, and no others.

    Args:
        specs: the page's own model first.
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
        """The page's own."""
        return next(iter(self._holders.values()))

    @property
    def busy(self) -> bool:
        """Whether one is being loaded now."""
        return any(holder.busy for holder in self._holders.values())

    def find(self, name: str = "") -> ModelHolder:
        """The holder of a model by its name, or as the operator named it; an empty name stands for the page's own.

        Raises:
            AdedError: the operator has not allowed it.
        """
        if not name:
            return self.first
        named = {holder.spec: holder for holder in self._holders.values()} | self._holders
        if name not in named:
            raise AdedError(f"the model '{cut(name)}' is not served here; take one of: {', '.join(self.names)}")
        return named[name]

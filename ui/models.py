"""The one model of the process: loaded on first need, shared by all users, never reloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

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
    from aded.model import TargetModel

    return TargetModel.load(spec, device=device, dtype=dtype, progress=progress)


class ModelHolder:
    """Loads the model once, in a thread of its own, so that whoever waits for it can stop waiting."""

    def __init__(self, spec: str = "default", device: str = "auto", dtype: str = "auto", loader: Loader = load_target) -> None:
        self._arguments = (spec, device, dtype)
        self._loader = loader
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._latest = Loading("loading the model")
        self._error: Exception | None = None
        self._model: Any = None

    @property
    def loaded(self) -> bool:
        return self._model is not None

    @property
    def model(self) -> Any:
        """The loaded model.

        Raises:
            the error that loading ended with, for example AdedError; the next ``loading()`` tries again.
        """
        if self._error is not None:
            raise self._error
        assert self._model is not None, "loading() has run to its end"
        return self._model

    def loading(self, interval: float = 0.1) -> Iterator[Loading]:
        """Start loading if nobody has, and yield what it does until it is over; ends at once when the model is there."""
        thread = self._start()
        while thread is not None and thread.is_alive():
            yield self._latest
            thread.join(interval)

    def _start(self) -> threading.Thread | None:
        with self._lock:
            running = self._thread is not None and self._thread.is_alive()
            if self._model is None and not running:
                self._error = None
                self._thread = threading.Thread(target=self._load, name="model", daemon=True)
                self._thread.start()
            return None if self.loaded else self._thread

    def _load(self) -> None:
        try:
            self._model = self._loader(*self._arguments, self._report)
        except Exception as error:
            self._error = error

    def _report(self, text: str, fraction: float | None) -> None:
        self._latest = Loading(text, fraction)

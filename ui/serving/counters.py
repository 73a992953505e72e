"""What the server counts, as Prometheus reads it (``/metrics``) and as a line on the page says it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector, generate_latest

from ui.serving.runs import Run

FIRST_TOKEN = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160)
TURN_WAIT = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
MEGABYTE = 1 << 20


class Counters:
    """Counters of one server, in a registry of their own; a ``Watcher`` of the scheduler."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._runs = self._make(Counter, "runs", "Runs that ended, by outcome", ["outcome"])
        self._tokens = self._make(Counter, "tokens", "Tokens written, of all lanes")
        self._refusals = self._make(Counter, "refusals", "What was refused, by reason", ["reason"])
        self._first = self._make(Histogram, "first_token_seconds", "From the press to the first token", buckets=FIRST_TOKEN)
        self._waits = self._make(Histogram, "turn_wait_seconds", "A run's wait between two of its turns", buckets=TURN_WAIT)

    def _make(self, kind: Any, name: str, words: str, labels: tuple[str, ...] | list[str] = (), **settings: Any) -> Any:
        return kind(f"aded_{name}", words, labels, registry=self.registry, **settings)

    def gauge(self, name: str, words: str, value: Callable[[], float]) -> None:
        """A number that is asked for whenever the counters are read."""
        self._make(Gauge, name, words).set_function(value)

    def refused(self, reason: str) -> None:
        self._refusals.labels(reason).inc()

    def turned(self, run: Run[Any], waited: float) -> None:
        self._waits.observe(max(waited, 0.0))

    def ended(self, run: Run[Any]) -> None:
        self._runs.labels(run.outcome).inc()
        self._tokens.inc(run.control.tokens)
        if run.first is not None:
            self._first.observe(run.first - run.submitted)

    def text(self) -> bytes:
        """All counters in Prometheus' text format."""
        return generate_latest(self.registry)

    def value(self, name: str, labels: Mapping[str, str] | None = None) -> float:
        """One sample by its full name; 0 where nothing was counted yet."""
        return self.registry.get_sample_value(name, dict(labels or {})) or 0.0


def device_memory() -> float:
    """Bytes held on the cards; 0 where there are none, they are workers' (ZeroGPU), or the engine has not been started."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0.0
    return float(sum(torch.cuda.memory_allocated(i) for i in range(torch.cuda.device_count())))


def resident_memory(counters: Counters) -> float:
    """Bytes of memory that the process holds; 0 where the system does not tell."""
    return counters.value("process_resident_memory_bytes")

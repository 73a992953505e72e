"""Counters of the server, for Prometheus (``/metrics``) and for the status line on the page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector, generate_latest

from ui.serving.jobs import Job

FIRST_TOKEN = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160)
STEP_WAIT = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
MEGABYTE = 1 << 20


class Counters:
    """Counters of one server in their own registry; a ``Watcher`` of the scheduler."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._jobs = self._make(Counter, "runs", "Jobs that ended, by outcome", ["outcome"])
        self._tokens = self._make(Counter, "tokens", "New tokens of all runs")
        self._refusals = self._make(Counter, "refusals", "Refused requests, by reason", ["reason"])
        self._first = self._make(
            Histogram, "first_token_seconds", "Time from the request to the first token", buckets=FIRST_TOKEN
        )
        self._waits = self._make(Histogram, "turn_wait_seconds", "Time between two steps of a running job", buckets=STEP_WAIT)

    def _make(self, kind: Any, name: str, words: str, labels: tuple[str, ...] | list[str] = (), **settings: Any) -> Any:
        return kind(f"aded_{name}", words, labels, registry=self.registry, **settings)

    def gauge(self, name: str, words: str, value: Callable[[], float]) -> None:
        """A value that is read whenever the counters are read."""
        self._make(Gauge, name, words).set_function(value)

    def refused(self, reason: str) -> None:
        self._refusals.labels(reason).inc()

    def scheduled(self, job: Job[Any], waited: float) -> None:
        self._waits.observe(max(waited, 0.0))

    def ended(self, job: Job[Any]) -> None:
        self._jobs.labels(job.outcome).inc()
        self._tokens.inc(job.control.tokens)
        if job.first_token is not None:
            self._first.observe(job.first_token - job.submitted)

    def text(self) -> bytes:
        """All counters in Prometheus' text format."""
        return generate_latest(self.registry)

    def value(self, name: str, labels: Mapping[str, str] | None = None) -> float:
        """One sample by its full name; 0 if nothing was counted."""
        return self.registry.get_sample_value(name, dict(labels or {})) or 0.0


def device_memory() -> float:
    """Bytes allocated on the GPUs by this process; 0 without a GPU, with ZeroGPU workers, or before the engine has started."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0.0
    return float(sum(torch.cuda.memory_allocated(i) for i in range(torch.cuda.device_count())))


def resident_memory(counters: Counters) -> float:
    """Resident memory of the process in bytes; 0 if the system does not report it."""
    return counters.value("process_resident_memory_bytes")

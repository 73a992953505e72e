"""Tensor code that is run over and over on the same buffers: one CUDA graph on a card, as it is elsewhere."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

WARM_UP_RUNS = 2
_ONE_CAPTURE = threading.Lock()


class Replay:
    """A body of tensor code, ready to be run again and again.

    On a card the body is captured at once: it must work on buffers that stay where they are, read nothing back (a copy
    to pinned memory may be its last act) and have no shape that depends on a value.

    Args:
        body: takes and returns nothing.
        device: where its buffers are.
        memory: a CUDA graph memory pool to share with other graphs, whose intermediate results it may overwrite.
    """

    def __init__(self, body: Callable[[], None], device: torch.device, memory: Any = None) -> None:
        self._body, self._device = body, device
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            warm_up(body, device)
            self._graph = capture_graph(body, device, memory)
            torch.cuda.synchronize(device)

    @torch.inference_mode()
    def __call__(self) -> None:
        """Run the body and wait until it is done."""
        if self._graph is None:
            self._body()
        else:
            self._graph.replay()
            torch.cuda.current_stream(self._device).synchronize()


def capture_graph(body: Callable[[], object], device: torch.device, memory: Any = None) -> torch.cuda.CUDAGraph:
    """What a body does on a card, recorded as a CUDA graph; run it before, on a stream of its own (``warm_up``).

    Captures of several threads come one after the other, and Python's cycle collector rests meanwhile: a graph that it freed
    inside of a capture would end the process.

    Args:
        body: as ``Replay`` wants it.
        memory: as in ``Replay``.
    """
    with torch.inference_mode(), torch.cuda.device(device), _ONE_CAPTURE, _no_collection():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=memory, capture_error_mode="thread_local"):
            body()
    return graph


@torch.inference_mode()
def warm_up(body: Callable[[], object], device: torch.device, runs: int = WARM_UP_RUNS) -> None:
    """Run a body on a stream of its own: what it sets up at its first run must not happen inside of a capture."""
    current, stream = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for _ in range(runs):
            body()
    current.wait_stream(stream)


@contextmanager
def _no_collection() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def host_buffer(like: torch.Tensor) -> torch.Tensor:
    """A buffer on the host for results of a tensor's shape and dtype, pinned where the tensor is on a card."""
    return torch.zeros(like.shape, dtype=like.dtype, pin_memory=like.device.type == "cuda")


NODE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


COMPILED_BUCKETS = (1, 16, 64, 256)
"""Fewer shapes where each is compiled first, which takes half a minute."""


def node_bucket(nodes: int, compiled: bool = False) -> int:
    """The smallest bucket that holds a tree of this many nodes."""
    return next(b for b in (COMPILED_BUCKETS if compiled else NODE_BUCKETS) if b >= nodes)

"""Capture and replay of tensor code that runs repeatedly on fixed buffers: a CUDA graph on a GPU, a plain call on the CPU."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch

WARM_UP_RUNS = 2
_CAPTURE_LOCK = threading.Lock()


class Replay:
    """Tensor code that can be run repeatedly.

    On a GPU the body is captured as a CUDA graph at construction. It must use fixed buffers, must not synchronize with the host
    (a copy to pinned memory may come last) and must have no shape that depends on a value.

    Args:
        body: function without arguments and result. A method is referenced weakly: its object holds the ``Replay``, and both are
            freed at once.
        device: device of its buffers.
        memory: CUDA graph memory pool shared with other graphs; the graphs may overwrite each other's intermediate results.
    """

    def __init__(self, body: Callable[[], None], device: torch.device, memory: Any = None) -> None:
        self._body = weakref.WeakMethod(body) if isinstance(body, MethodType) else lambda: body
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            warm_up(body, device)
            self._graph = capture_graph(body, device, memory)
            self()  # the first launch of a graph is slower than later ones

    @torch.inference_mode()
    def __call__(self) -> None:
        """Run the body and wait until it has finished."""
        if self._graph is None:
            body = self._body()
            assert body is not None, "the owner of the body was freed"
            body()
        else:
            self._graph.replay()
            torch.cuda.current_stream(self._device).synchronize()


def capture_graph(body: Callable[[], object], device: torch.device, memory: Any = None) -> torch.cuda.CUDAGraph:
    """Capture a body as a CUDA graph; call ``warm_up`` first.

    Only one thread captures at a time. Python's cyclic garbage collector is off during capture, because freeing another
    graph then would abort the process.

    Args:
        body: see ``Replay``.
        device: a CUDA device.
        memory: see ``Replay``.
    """
    with torch.inference_mode(), torch.cuda.device(device), _CAPTURE_LOCK, _garbage_collection_off():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=memory, capture_error_mode="thread_local"):
            body()
    return graph


@torch.inference_mode()
def warm_up(body: Callable[[], object], device: torch.device, runs: int = WARM_UP_RUNS) -> None:
    """Run a body on a side stream, so that its first-run initialization does not happen during capture."""
    current, stream = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for _ in range(runs):
            body()
    current.wait_stream(stream)


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def host_buffer(like: torch.Tensor) -> torch.Tensor:
    """A host buffer with the shape and dtype of ``like``; pinned if ``like`` is on a GPU."""
    return torch.zeros(like.shape, dtype=like.dtype, pin_memory=like.device.type == "cuda")


class InputBuffer:
    """Inputs of a graph in one pinned host buffer with a copy on the device, so that one transfer is enough.

    Args:
        device: device of the graph.
        fields: shape and dtype of each input; those with elements of eight bytes come first, so that all are aligned.

    Attributes:
        host: the inputs as arrays to write.
        device: the inputs as tensors; ``send`` copies the arrays to them.
    """

    def __init__(self, device: torch.device, *fields: tuple[tuple[int, ...], torch.dtype]) -> None:
        sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in fields]

        def views(buffer: torch.Tensor) -> list[torch.Tensor]:
            return [part.view(dtype).view(shape) for part, (shape, dtype) in zip(buffer.split(sizes), fields)]

        self._device_bytes = torch.zeros(sum(sizes), dtype=torch.uint8, device=device)
        self._host_bytes = host_buffer(self._device_bytes)
        self.host = [view.numpy() for view in views(self._host_bytes)]
        self.device = views(self._device_bytes)

    def send(self) -> None:
        """Copy the inputs to the device."""
        self._device_bytes.copy_(self._host_bytes, non_blocking=True)


NODE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Tree sizes, in nodes, for which steps are captured; a smaller tree is padded to the next size."""


def node_bucket(nodes: int) -> int:
    """The smallest bucket size of at least ``nodes``."""
    return next(b for b in NODE_BUCKETS if b >= nodes)

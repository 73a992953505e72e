"""Tensor code that is run over and over on the same buffers: one CUDA graph on a card, as it is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

WARM_UP_RUNS = 2


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
        self._graph = self._captured(memory) if device.type == "cuda" else None

    @torch.inference_mode()
    def __call__(self) -> None:
        """Run the body and wait until it is done."""
        if self._graph is None:
            self._body()
        else:
            self._graph.replay()
            torch.cuda.current_stream(self._device).synchronize()

    @torch.inference_mode()
    def _captured(self, memory: Any) -> torch.cuda.CUDAGraph:
        with torch.cuda.device(self._device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP_RUNS):
                    self._body()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=memory):
                self._body()
            torch.cuda.synchronize()
        return graph


def host_buffer(like: torch.Tensor) -> torch.Tensor:
    """A buffer on the host for results of a tensor's shape and dtype, pinned where the tensor is on a card."""
    return torch.zeros(like.shape, dtype=like.dtype, pin_memory=like.device.type == "cuda")

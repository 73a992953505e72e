"""Modules of Triton kernels, which can be imported only if Triton is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch


def load_kernels(module: str) -> Any:
    """A module of Triton kernels by its full name; None without Triton."""
    try:
        return import_module(module)
    except ImportError:
        return None


def kernels_for(tensor: torch.Tensor, module: str) -> Any:
    """As ``load_kernels``, but None for a tensor that is not on a GPU."""
    return load_kernels(module) if tensor.is_cuda else None

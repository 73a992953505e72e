"""Prepacked linear layers for few tokens on a CPU: the weights are reordered once into oneDNN's layout.

Verifying a tree multiplies a few rows by every weight of the model. PyTorch's stock linear layer reorders the weights in
every forward pass, which takes longer than the multiplication. With prepacked weights, a forward pass over 1, 8 and 64
tokens takes 1/2, 1/3 and 2/5 of the time on two AVX2 cores, in the same float32 arithmetic. From two rows on, oneDNN sums each
row in an order that does not depend on their number; a single row is computed as two. So the logits of a tree equal those of
plain decoding bit for bit.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from torch.nn import functional

TYPICAL_ROWS = 64
"""Number of rows that the layout is optimised for; other numbers work too."""
TOLERANCE = 1e-4
"""Allowed difference from the stock layer, relative to its largest output."""


def prepack_linears(model: nn.Module) -> int:
    """Prepack the weights of the model's float32 linear layers on the CPU.

    Nothing changes if oneDNN is not available, if less than twice the memory of the weights is free, or if the first layer does
    not reproduce its stock result. The modules also keep the stock weights, for training and saving.

    Returns:
        The number of prepacked layers.
    """
    layers = [
        m for m in model.modules() if type(m) is nn.Linear and m.weight.dtype == torch.float32 and m.weight.device.type == "cpu"
    ]
    if (
        not layers
        or not torch.backends.mkldnn.is_available()
        or free_bytes(torch.device("cpu")) < 2 * sum(m.weight.nbytes for m in layers)
    ):
        return 0
    try:
        if not _is_correct(layers[0]):
            return 0
        for layer in layers:
            layer.forward = _prepacked_forward(layer)  # type: ignore[method-assign]
    except (RuntimeError, NotImplementedError, AttributeError):  # a build of PyTorch without this operator
        restore_linears(model)
        return 0
    return len(layers)


def is_prepacked(model: nn.Module) -> bool:
    """Whether any layer has prepacked weights."""
    return any(type(layer) is nn.Linear and "forward" in vars(layer) for layer in model.modules())


def restore_linears(model: nn.Module) -> None:
    """Undo ``prepack_linears`` and free the prepacked weights."""
    for layer in model.modules():
        if type(layer) is nn.Linear:
            layer.__dict__.pop("forward", None)


def _prepacked_forward(layer: nn.Linear) -> Any:
    packed, bias = _prepack(layer.weight.detach()), layer.bias
    linear_pointwise = torch.ops.mkldnn._linear_pointwise

    def forward(rows: torch.Tensor) -> torch.Tensor:  # [..., in] -> [..., out]
        if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
            return functional.linear(rows, layer.weight, bias)
        if rows.shape[-2] == 1:  # oneDNN sums a single row in another order than several rows
            return linear_pointwise(rows.expand(*rows.shape[:-2], 2, -1).contiguous(), packed, bias, "none", [], "")[..., :1, :]
        return linear_pointwise(rows, packed, bias, "none", [], "")

    return forward


def _prepack(weight: torch.Tensor) -> Any:
    """``weight`` ``[out, in]`` in oneDNN's blocked layout; older PyTorch versions take an MKLDNN tensor."""
    with torch.no_grad():
        try:
            return torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS)
        except (RuntimeError, NotImplementedError):
            return torch.ops.mkldnn._reorder_linear_weight(weight.to_mkldnn(), TYPICAL_ROWS)


def _is_correct(layer: nn.Linear) -> bool:
    """Whether the prepacked layer gives the stock result for three random rows."""
    with torch.no_grad():
        rows = torch.randn(3, layer.in_features, generator=torch.Generator().manual_seed(0))
        expected = functional.linear(rows, layer.weight, layer.bias)
        found = _prepacked_forward(layer)(rows[None])[0]
        return bool(torch.allclose(found, expected, atol=TOLERANCE * float(expected.abs().max() + 1e-6), rtol=TOLERANCE))


def free_bytes(device: torch.device) -> int:
    """Free memory of a device in bytes (CPU: what is available without swapping); 0 if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0

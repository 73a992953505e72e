"""Fused projections: query, key and value as one matrix product; gate and up as another.

A step with few tokens is limited by the number of kernels and by memory bandwidth. One wide matrix product is better on
both counts than three narrow ones. The modules of the model stay in place and their weights become views of the fused
weight. The product is computed once and shared by the layers of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class FusedProjection:
    """The fused weight of a group of layers and its last output.

    Attributes:
        weight: ``[sum(sizes), in_features]``; ``bias``: ``[sum(sizes)]``, or None.
        sizes: output features of each layer.
    """

    def __init__(self, members: Sequence[nn.Linear]) -> None:
        self.weight = torch.cat([m.weight.detach() for m in members])
        self.bias = torch.cat([m.bias.detach() for m in members]) if members[0].bias is not None else None
        self.sizes = [m.out_features for m in members]
        self._input: torch.Tensor | None = None
        self._outputs: tuple[torch.Tensor, ...] = ()
        self._reads = 0

    def output(self, index: int, input: torch.Tensor) -> torch.Tensor:
        """The output of layer ``index``, ``[..., sizes[index]]``, for ``input``, ``[..., in_features]``."""
        if self._input is not input:
            self._input, self._reads = input, 0
            self._outputs = F.linear(input, self.weight, self.bias).split(self.sizes, dim=-1)
        output = self._outputs[index]
        self._reads += 1
        if self._reads == len(self.sizes):
            self._input, self._outputs = None, ()
        return output


class FusedLinear(nn.Linear):
    """A linear layer that is computed together with the other layers of its group."""

    def __init__(self, old: nn.Linear, fused: FusedProjection, index: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = old.in_features, old.out_features
        start = sum(fused.sizes[:index])
        rows = slice(start, start + old.out_features)
        self.weight = nn.Parameter(fused.weight[rows], requires_grad=False)
        self.bias = nn.Parameter(fused.bias[rows], requires_grad=False) if fused.bias is not None else None
        self.fused, self.index = fused, index

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        fused_weight = self.fused.weight
        if self.weight.device != fused_weight.device or self.weight.dtype != fused_weight.dtype:  # a copy, moved or cast
            return F.linear(input, self.weight, self.bias)
        return self.fused.output(self.index, input)


@torch.no_grad()
def fuse_projections(model: nn.Module) -> int:
    """Fuse every group of ``GROUPS`` in the model, in place; returns the number of fused groups."""
    count = 0
    for module in list(model.modules()):
        for names in GROUPS:
            members: list[Any] = [getattr(module, name, None) for name in names]
            if _can_be_fused(members):
                fused = FusedProjection(members)
                for index, (name, member) in enumerate(zip(names, members)):
                    setattr(module, name, FusedLinear(member, fused, index))
                count += 1
    return count


@torch.no_grad()
def separate_projections(model: nn.Module) -> None:
    """Undo ``fuse_projections`` in place. Every layer gets a copy of its weights, so the model can be trained."""
    for module in list(model.modules()):
        for name, member in list(module.named_children()):
            if type(member) is FusedLinear:
                linear = nn.Linear(member.in_features, member.out_features, bias=member.bias is not None, device="meta")
                linear.weight = nn.Parameter(member.weight.detach().clone())
                if member.bias is not None:
                    linear.bias = nn.Parameter(member.bias.detach().clone())
                setattr(module, name, linear)


def _can_be_fused(members: Sequence[Any]) -> bool:
    """Whether these are plain linear layers of one input size, dtype and device."""
    if not all(type(member) is nn.Linear for member in members):
        return False
    kinds = {(m.in_features, m.weight.dtype, m.weight.device, m.bias is None) for m in members}
    return len(kinds) == 1

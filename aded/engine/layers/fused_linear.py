"""Projections of one input as one product: query, key and value; gate and up.

A step of few tokens is bound by the number of its kernels and by how well each reads its weights; one wide product does
both better than three. The modules stay where they are and keep their weights (as views of the joined ones), so the
model is still stock: whoever is called first computes for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class Joint:
    """What the members of a group share.

    Attributes:
        weight: ``[sum of outputs, inputs]``; ``bias``: ``[sum of outputs]``, or None.
        sizes: outputs of each member.
    """

    def __init__(self, members: Sequence[nn.Linear]) -> None:
        self.weight = torch.cat([m.weight.detach() for m in members])
        self.bias = torch.cat([m.bias.detach() for m in members]) if members[0].bias is not None else None
        self.sizes = [m.out_features for m in members]
        self._input: torch.Tensor | None = None
        self._outputs: tuple[torch.Tensor, ...] = ()
        self._taken = 0

    def output(self, place: int, given: torch.Tensor) -> torch.Tensor:
        """What the member at ``place`` makes of ``given``, ``[..., inputs]``; the product is done once for all of them."""
        if self._input is not given:
            self._input, self._taken = given, 0
            self._outputs = F.linear(given, self.weight, self.bias).split(self.sizes, dim=-1)
        output = self._outputs[place]
        self._taken += 1
        if self._taken == len(self.sizes):
            self._input, self._outputs = None, ()
        return output


class JoinedLinear(nn.Linear):
    """A linear layer whose product is done together with others of the same input."""

    def __init__(self, old: nn.Linear, joint: Joint, place: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = old.in_features, old.out_features
        start = sum(joint.sizes[:place])
        rows = slice(start, start + old.out_features)
        self.weight = nn.Parameter(joint.weight[rows], requires_grad=False)
        self.bias = nn.Parameter(joint.bias[rows], requires_grad=False) if joint.bias is not None else None
        self.joint, self.place = joint, place

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        joined = self.joint.weight
        if self.weight.device != joined.device or self.weight.dtype != joined.dtype:  # a copy that was moved elsewhere
            return F.linear(input, self.weight, self.bias)
        return self.joint.output(self.place, input)


@torch.no_grad()
def join_projections(model: nn.Module) -> int:
    """Join the groups of ``GROUPS`` wherever a module has one; returns how many there were."""
    joined = 0
    for module in list(model.modules()):
        for names in GROUPS:
            members: list[Any] = [getattr(module, name, None) for name in names]
            if _alike(members):
                joint = Joint(members)
                for place, (name, member) in enumerate(zip(names, members)):
                    setattr(module, name, JoinedLinear(member, joint, place))
                joined += 1
    return joined


@torch.no_grad()
def separate_projections(model: nn.Module) -> None:
    """Undo ``join_projections``, with weights of each layer's own: for copies that are to be trained."""
    for module in list(model.modules()):
        for name, member in list(module.named_children()):
            if type(member) is JoinedLinear:
                alone = nn.Linear(member.in_features, member.out_features, bias=member.bias is not None, device="meta")
                alone.weight = nn.Parameter(member.weight.detach().clone())
                if member.bias is not None:
                    alone.bias = nn.Parameter(member.bias.detach().clone())
                setattr(module, name, alone)


def _alike(members: Sequence[Any]) -> bool:
    """Whether these are plain linear layers that can share a product."""
    if not all(type(member) is nn.Linear for member in members):
        return False
    kinds = {(m.in_features, m.weight.dtype, m.weight.device, m.bias is None) for m in members}
    return len(kinds) == 1

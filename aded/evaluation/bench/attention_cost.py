"""The time of a verification step with each kind of tree attention, by number of nodes and of committed tokens.

On a randomly initialised model of a given shape, as in `aded.evaluation.bench.step_cost`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.evaluation.bench import results, step_cost

if TYPE_CHECKING:
    import torch

    from aded.engine.target_model import TargetModel

NODES = (1, 16, 64)
CONTEXTS = (512, 4096, 8192)
"""Numbers of tokens that attention sees: committed ones and tree."""
SECONDS = 5.0
"""Time to spend on one kind of attention after one context."""


def run(options: argparse.Namespace, kinds: Sequence[str], progress: Any) -> dict[str, Any]:
    """Time steps and return the results (see ``aded.evaluation.bench.results``).

    Raises:
        AdedError: as ``step_cost.run``; or the model does not support a kind of attention on this device.
    """
    rows, measured_on, target = [], None, None
    reference: dict[int, torch.Tensor] = {}
    for kind in kinds:
        target = step_cost.build(options.shape, options.layers, options.device, options.dtype, progress, kind)
        if target.attention != kind:
            raise AdedError(f"{target.label} does not run with --attention {kind} on {target.device}; leave it out, or use a GPU")
        measured_on = measured_on or results.background(target)
        for context in CONTEXTS:
            progress(f"timing {kind} attention after {context} tokens", None)
            committed = context - max(NODES)
            logits = _logits(target, committed)
            difference = _difference(logits, reference.setdefault(context, logits))
            taken = step_cost.time_steps(target, NODES, committed, SECONDS)
            rows += [_row(kind, context, nodes, taken[nodes], difference) for nodes in NODES]
        if kind != kinds[-1]:
            target.close()
    assert target is not None and measured_on is not None, "there is at least one kind"
    settings = {"kind": "attention", "shape": options.shape, "layers": options.layers, "attention": list(kinds)}
    return results.assemble("attention", target, settings, rows, measured_on, note=step_cost.NOTE)


def _row(kind: str, context: int, nodes: int, taken: Sequence[float], difference: float) -> dict[str, Any]:
    low, middle, high = (1e3 * float(value) for value in np.percentile(taken, [25, 50, 75]))
    row = {"attention": kind, "context": context, "nodes": nodes, "runs": len(taken), "step_ms": middle}
    return {**row, "quartiles_ms": [low, high], "difference": difference}


def _logits(target: TargetModel, committed: int) -> torch.Tensor:
    """The logits of a tree of ``max(NODES)`` nodes after ``committed`` tokens, float32 on the CPU."""
    from aded.sampling.logits_pipeline import Rule
    from aded.sampling.settings import SamplingSettings

    session, rule = step_cost.prefilled(target, committed, max(NODES)), Rule(SamplingSettings())
    tree: DraftTree = step_cost.binary_tree(max(NODES), target.vocab_size)
    session.prepare(tree, rule)
    logits = session.verify(tree, [0], rule)[1].logits.float().cpu()
    session.close()
    return logits


def _difference(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """Root-mean-square difference, in standard deviations of the logits."""
    return float((logits - expected).square().mean().sqrt() / expected.std())

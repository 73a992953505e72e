"""The time of a decoding step by its number of draft nodes, on a randomly initialised model of a given shape.

This measures cost, not acceptance: a model with random weights generates no meaningful text. The floor is the time to read the
weights once from the device's memory, which every step must do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.evaluation.bench import results

if TYPE_CHECKING:
    import torch

    from aded.engine.session import TargetSession
    from aded.engine.target_model import TargetModel

NODES = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXT = 512
ROUNDS, SECONDS = 50, 30.0
"""Maximum rounds over all sizes, and their time limit (but there are at least three)."""
COPY_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
DATASHEET = {"H200": 4.8e12, "H100 80GB HBM3": 3.35e12, "H100 NVL": 3.9e12, "H100 PCIe": 2.0e12}
"""Memory bandwidth in bytes per second, by a part of the GPU's name (NVIDIA's data sheets)."""
NOTE = "random weights: this measures the cost of steps and says nothing about the acceptance rate"


@dataclass(frozen=True)
class Shape:
    """Dimensions of a Llama model; ``tied``: input and output embeddings are one matrix."""

    vocab: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    tied: bool


SHAPES = {
    "llama-7b": Shape(32000, 4096, 11008, 32, 32, 32, False),
    "llama-1b": Shape(128256, 2048, 8192, 16, 32, 8, True),
    "smollm2-135m": Shape(49152, 576, 1536, 30, 9, 3, True),
}
TEST_SHAPES = {"tiny": Shape(97, 32, 64, 2, 4, 2, True)}


def run(options: argparse.Namespace, progress: Any) -> dict[str, Any]:
    """Build the model, time its steps and return the results (see ``aded.evaluation.bench.results``).

    Raises:
        AdedError: the shape is unknown, or does not fit the device's memory.
    """
    import torch

    try:
        return _measure(options, progress)
    except torch.OutOfMemoryError:
        raise AdedError(f"{options.shape} does not fit the device's memory; give --layers N or a smaller --shape") from None


def _measure(options: argparse.Namespace, progress: Any) -> dict[str, Any]:
    target = build(options.shape, options.layers, options.device, options.dtype, progress, options.attention)
    if target.mode != "tree":
        raise AdedError(f"{target.label} does not support tree attention in {target.dtype}; choose another --dtype")
    progress("timing steps", None)
    times = time_steps(target, NODES, CONTEXT, SECONDS)
    progress("timing a large copy", None)
    measured = copy_bandwidth(target.device)
    bytes_read, bytes_held = weight_bytes(target.model)
    datasheet = next((rate for name, rate in DATASHEET.items() if name in target.device_name), None)
    floors = {"measured": bytes_read / measured, "datasheet": bytes_read / datasheet if datasheet else None}
    settings = {
        "kind": "shape",
        "shape": options.shape,
        "layers": options.layers,
        "context": CONTEXT,
        "captured": target.pool is not None,
    }
    return results.assemble(
        "shape",
        target,
        settings,
        shape_rows(times, floors),
        results.background(target),
        note=NOTE,
        weights={"bytes_held": bytes_held, "bytes_read_a_step": bytes_read},
        bandwidth={"copy_measured": measured, "datasheet": datasheet},
        floor_ms={name: 1e3 * s if s else None for name, s in floors.items()},
    )


def build(name: str, layers: int | None, device: str, dtype: str, progress: Any, attention: str = "triton") -> TargetModel:
    """A target model of a shape, with random weights initialised on the device.

    Raises:
        AdedError: the shape is unknown, the number of layers is out of range, or the weights do not fit the memory.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from aded.engine.layers.prepacked_linear import free_bytes
    from aded.engine.loading.loader import choose_attention, choose_device, choose_dtype
    from aded.engine.target_model import TargetModel

    shape = {**SHAPES, **TEST_SHAPES}.get(name)
    if shape is None:
        raise AdedError(f"unknown shape '{name}'; known are {', '.join(SHAPES)}")
    if layers is not None and not 1 <= layers <= shape.layers:
        raise AdedError(f"layers is {layers}; give 1 to {shape.layers}, the layers of {name}")
    where = choose_device(device)
    kind = choose_attention(attention, where)
    config = LlamaConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=layers or shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=16384,
    )
    size, free = choose_dtype(dtype, where).itemsize * _parameters(config), free_bytes(where)
    if size > free:
        raise AdedError(
            f"{name} takes {size / 1e9:.1f} GB and {where} has {free / 1e9:.1f} GB free; give --layers N or a smaller --shape"
        )
    progress("initialising random weights", None)
    torch.manual_seed(0)
    with torch.device(where):
        model = LlamaForCausalLM._from_config(config, dtype=choose_dtype(dtype, where), attn_implementation="sdpa")
    progress("checking tree attention", None)
    label = f"{name}, random weights" if layers is None else f"{name} with {layers} layers, random weights"
    return TargetModel(model, None, name, label, attention=kind)


def _parameters(config: Any) -> int:
    heads = config.hidden_size * (1 + config.num_key_value_heads / config.num_attention_heads) * 2
    layer = config.hidden_size * (heads + 3 * config.intermediate_size)
    embeddings = config.vocab_size * config.hidden_size * (1 if config.tie_word_embeddings else 2)
    return int(config.num_hidden_layers * layer + embeddings)


def prefilled(target: TargetModel, committed: int, nodes: int) -> TargetSession:
    """A session after ``committed`` tokens, with capacity for trees of ``nodes`` nodes."""
    session = target.session(committed + 2 * nodes)
    session.prefill([3 + i % (target.vocab_size - 3) for i in range(committed)])
    return session


def time_steps(target: TargetModel, sizes: Sequence[int], committed: int, seconds: float) -> dict[int, list[float]]:
    """Step times in seconds by number of nodes, in rounds over all sizes, so that clock drift affects all sizes equally.

    Args:
        target: the model.
        sizes: numbers of nodes.
        committed: number of tokens before the tree.
        seconds: time limit, after which no new round starts.
    """
    from aded.sampling.logits_pipeline import Rule
    from aded.sampling.settings import SamplingSettings

    rule = Rule(SamplingSettings())
    session = prefilled(target, committed, max(sizes))
    trees = {n: binary_tree(n, target.vocab_size) for n in sizes}
    taken: dict[int, list[float]] = {n: [] for n in sizes}
    for tree in trees.values():  # warm-up, and graph capture on a GPU
        session.prepare(tree, rule)
        session.verify(tree, [0], rule)
    deadline = time.perf_counter() + seconds
    for completed in range(ROUNDS):
        if completed >= 3 and time.perf_counter() > deadline:
            break
        for n, tree in trees.items():
            target.synchronize()
            started = time.perf_counter()
            session.verify(tree, [0], rule)
            target.synchronize()
            taken[n].append(time.perf_counter() - started)
    session.close()
    return taken


def shape_rows(times: dict[int, list[float]], floors: dict[str, float | None]) -> list[dict[str, Any]]:
    """One row per size: median and quartiles in ms, and the median relative to one node and to the floors (seconds)."""
    single = float(np.median(times[min(times)]))
    rows = []
    for nodes, taken in times.items():
        low, middle, high = np.percentile(taken, [25, 50, 75])
        row = {"nodes": nodes, "runs": len(taken), "step_ms": 1e3 * middle, "quartiles_ms": [1e3 * low, 1e3 * high]}
        row["over_one_node"] = middle / single
        for name, floor in floors.items():
            row[f"over_{name}_floor"] = middle / floor if floor else None
        rows.append({key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()})
    return rows


def copy_bandwidth(device: torch.device, runs: int = 15) -> float:
    """Bytes per second, read and written together, of a large copy: the median of ``runs`` after two warm-up runs."""
    import torch

    size = COPY_BYTES[device.type]
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    taken = []
    for _ in range(runs + 2):
        _synchronize(device)
        started = time.perf_counter()
        target.copy_(source)
        _synchronize(device)
        taken.append(time.perf_counter() - started)
    return 2 * size / float(np.median(taken[2:]))


def weight_bytes(model: Any) -> tuple[int, int]:
    """(bytes read by every step, bytes held): of untied input embeddings, a step reads only single rows."""
    held = sum(p.numel() * p.element_size() for p in model.parameters())
    embeddings, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    untied = embeddings.data_ptr() != output.data_ptr()
    return held - (embeddings.numel() * embeddings.element_size() if untied else 0), held


def binary_tree(nodes: int, vocab: int) -> DraftTree:
    return DraftTree(np.arange(nodes) % vocab, np.array([-1] + [(i - 1) // 2 for i in range(1, nodes)]))


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)

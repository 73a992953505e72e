"""Command-line options that select the model and its device, and loading that model."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from typing import Any


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the model, its device and its dtype."""
    parser.add_argument(
        "--model", default="default", metavar="SPEC", help="default (SmolLM2-135M-Instruct), a hub id, a folder or a .gguf file"
    )
    add_device_options(parser)
    parser.add_argument("--device-map", choices=("auto",), help="distribute the model's layers over all GPUs")
    parser.add_argument("--tp", action="store_true", help="tensor parallelism: shard every layer over the processes of torchrun")
    parser.add_argument(
        "--attention",
        default="triton",
        help="tree attention on a GPU: triton (default), flex or sdpa; `bench --shape` compares several with commas",
    )


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the model's device and its dtype."""
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default: auto)")


MODEL_OPTIONS = ("model", "device", "device_map", "tp", "dtype", "attention")
"""Names of the options that `add_model_options` adds."""


def load_model(options: argparse.Namespace, progress: Any, drafts: bool = True) -> Any:
    """Load the model selected by the options. With tensor parallelism, only the first process keeps its output.

    Args:
        drafts: whether drafts will be made, for which ADED's search is compiled meanwhile.
    """
    from aded.drafters import compile_ahead
    from aded.engine import distributed
    from aded.engine.target_model import TargetModel

    if options.tp and not distributed.is_leader():
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    with compile_ahead.meanwhile(progress) if drafts else nullcontext():
        placement = options.device_map, options.tp, options.attention
        return TargetModel.load(options.model, options.device, options.dtype, progress, *placement)

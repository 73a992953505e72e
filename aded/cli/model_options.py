"""The options that say which model runs where, and the model that they ask for."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The options that say which model runs where."""
    parser.add_argument(
        "--model", default="default", metavar="SPEC", help="default (SmolLM2-135M-Instruct), a hub id, a folder or a .gguf file"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--device-map", choices=("auto",), help="place the model's layers over all CUDA cards")
    parser.add_argument("--tp", action="store_true", help="shard every layer over the processes of torchrun (tensor parallelism)")
    parser.add_argument(
        "--compile", action="store_true", help="on CUDA: compile steps before capturing them (slow start, fast steps)"
    )
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default: auto)")


MODEL_OPTIONS = ("model", "device", "device_map", "tp", "compile", "dtype")
"""Those of `add_model_options`."""


def load_model(options: argparse.Namespace, progress: Any) -> Any:
    """The model that ``add_model_options`` describes; of several processes that share it, all but the first fall silent."""
    from aded.engine import distributed
    from aded.engine.target_model import TargetModel

    if options.tp and not distributed.is_leader():
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    return TargetModel.load(
        options.model, options.device, options.dtype, progress, options.compile, options.device_map, options.tp
    )

"""One model on several GPUs: layers placed by accelerate, or tensor parallelism with Transformers and torchrun.

Under tensor parallelism, every process runs the same decoding loop. The first process computes the draft and the verdict
and broadcasts them, so differences in time or rounding cannot make the processes diverge.
"""

from __future__ import annotations

import atexit
import os
from typing import Any, TypeVar

import torch

from aded.core.errors import AdedError

T = TypeVar("T")


def tensor_parallel_arguments() -> dict[str, Any]:
    """Arguments of ``from_pretrained`` that shard a model over the processes started by torchrun.

    Raises:
        AdedError: the program was not started by torchrun.
    """
    if "LOCAL_RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise AdedError("--tp needs one process per GPU; start with `torchrun --nproc-per-node N -m aded ...`")
    atexit.register(_destroy_process_group)
    try:
        from transformers.distributed import DistributedConfig

        return {"distributed_config": DistributedConfig(tp_plan="auto", tp_size=int(os.environ["WORLD_SIZE"]))}
    except (ImportError, TypeError):
        return {"tp_plan": "auto"}


def _destroy_process_group() -> None:
    """Stop the threads of the process group before the interpreter exits."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def is_leader() -> bool:
    """Whether this is the only process or the one with rank 0."""
    return int(os.environ.get("RANK", "0")) == 0


def broadcast(value: T) -> T:
    """Returns the value of rank 0 in every process."""
    values: list[Any] = [value]
    device = torch.device("cuda", torch.cuda.current_device()) if torch.distributed.get_backend() == "nccl" else None
    torch.distributed.broadcast_object_list(values, src=0, device=device)
    return values[0]

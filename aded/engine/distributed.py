"""One model over several cards: placed layer by layer (accelerate), or every layer sharded (Transformers' plan, torchrun).

Under tensor parallelism every process runs the same loop. What they must agree on, the draft and the verdict, is made by the
first process and sent to the others, so that neither clocks nor rounding can part them.
"""

from __future__ import annotations

import atexit
import os
from typing import Any, TypeVar

import torch

from aded.core.errors import AdedError

T = TypeVar("T")


def tensor_parallel_arguments() -> dict[str, Any]:
    """What ``from_pretrained`` needs to shard a model over the processes that torchrun started.

    Raises:
        AdedError: the program was not started by torchrun.
    """
    if "LOCAL_RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise AdedError("--tp needs one process a card; start with `torchrun --nproc-per-node N -m aded ...`")
    atexit.register(_leave)
    try:
        from transformers.distributed import DistributedConfig

        return {"distributed_config": DistributedConfig(tp_plan="auto", tp_size=int(os.environ["WORLD_SIZE"]))}
    except (ImportError, TypeError):
        return {"tp_plan": "auto"}


def _leave() -> None:
    """End the process group's threads before the program does."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def is_leader() -> bool:
    """Whether this process is the one that speaks: the only one, or the first of several."""
    return int(os.environ.get("RANK", "0")) == 0


def agree(value: T) -> T:
    """The first process's value, in every process."""
    shared: list[Any] = [value]
    device = torch.device("cuda", torch.cuda.current_device()) if torch.distributed.get_backend() == "nccl" else None
    torch.distributed.broadcast_object_list(shared, src=0, device=device)
    return shared[0]

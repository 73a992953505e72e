"""The training loop: AdamW, cosine schedule with warm-up, clipped gradients, checkpoints that resume to the same result."""

from __future__ import annotations

import io
import math
import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from aded.core.errors import AdedError
from aded.core.trace import write_atomically
from aded.engine.weights import Progress
from aded.train.data import Batch, Rows
from aded.train.objective import Objective

CHECKPOINT = "checkpoint.pt"
BETAS = (0.9, 0.95)
LARGEST_GRADIENT = 1.0
"""Norm that gradients are clipped to."""
WARM_UP = 0.03
"""Share of the run in which the learning rate rises."""
LOG_EVERY = 10
DIVERGED = 2.0
"""A loss so many times that of the start, and of a uniform guess, ends the run."""
WORSE = 1.01
"""A loss on held-out text so many times that before training is no success; rounding alone changes it by less."""


@dataclass(frozen=True)
class Schedule:
    """How long, how fast.

    Attributes:
        steps: optimiser steps; batch: rows a step.
        rate: highest learning rate.
        save_every: steps between checkpoints.
        seconds: stop the schedule early so that the run takes no longer; None for no limit. (Such a run depends on the clock.)
    """

    steps: int
    batch: int
    rate: float
    save_every: int = 100
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "save_every"):
            if getattr(self, name) < 1:
                raise AdedError(f"{name.replace('_', '-')} is {getattr(self, name)}; give 1 or more")
        if not 0 < self.rate < 1:
            raise AdedError(f"the learning rate is {self.rate}; give a number between 0 and 1, such as 1e-3")

    def done(self, step: int, seconds: float) -> float:
        """How much of the run lies behind before this step, 0 to 1."""
        return min(1.0, max(step / self.steps, seconds / self.seconds if self.seconds else 0.0))


def learning_rate(highest: float, done: float) -> float:
    """The rate when ``done`` (0 to 1) of a run lies behind: rising in a line, then falling as a cosine to zero."""
    if done < WARM_UP:
        return highest * (done / WARM_UP * 0.99 + 0.01)
    return highest * 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


@dataclass
class Run:
    """What a training run has come to.

    Attributes:
        step: optimiser steps taken; seconds: that they took.
        losses: of every tenth step, and of the last.
    """

    step: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)


def train(objective: Objective, rows: Rows, schedule: Schedule, folder: Path, identity: str, progress: Progress) -> Run:
    """Train from the newest checkpoint in ``folder``, or from the start, to the end.

    Args:
        identity: says what is trained on what and how; a checkpoint of another identity is refused.

    Raises:
        AdedError: the checkpoint is damaged or of another run, or cannot be written; or the loss diverged.
    """
    optimizer = torch.optim.AdamW(objective.trained.parameters(), lr=schedule.rate, betas=BETAS, weight_decay=0.0)
    run = _resume(objective, optimizer, folder, identity)
    device = next(objective.trained.parameters()).device
    started = time.perf_counter() - run.seconds
    first, since = run.step, time.perf_counter()
    while (done := schedule.done(run.step, run.seconds)) < 1.0:
        loss = _step(objective, optimizer, rows.batch(run.step, schedule.batch).to(device), learning_rate(schedule.rate, done))
        logged = run.step % LOG_EVERY == 0
        run.step += 1
        run.seconds = time.perf_counter() - started
        if logged or schedule.done(run.step, run.seconds) == 1.0:
            run.losses.append(float(loss))  # waits for the device, hence not at every step
            _refuse_divergence(run, objective.uniform, folder)
        speed = (run.step - first) * schedule.batch * rows.training.ids.shape[1] / max(time.perf_counter() - since, 1e-6)
        progress(_message(run, schedule, speed), schedule.done(run.step, run.seconds))
        if run.step % schedule.save_every == 0:
            _save(run, objective, optimizer, folder, identity)
    return run


def forget(folder: Path) -> None:
    """Remove the checkpoint of a run that is finished."""
    (folder / CHECKPOINT).unlink(missing_ok=True)


def refuse_worse(before: float, after: float, folder: Path) -> None:
    """End a run that learned nothing: its loss on held-out text is higher than before training, or is no number."""
    if not after <= WORSE * before:
        forget(folder)
        raise AdedError(
            f"nothing was learned: the loss on held-out text is {after:.4g}, and was {before:.4g} before training; "
            "give a lower --learning-rate, or more --tokens"
        )


def _step(objective: Objective, optimizer: torch.optim.Optimizer, batch: Batch, rate: float) -> torch.Tensor:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss = objective.backward(batch)
    torch.nn.utils.clip_grad_norm_(objective.trained.parameters(), LARGEST_GRADIENT)
    optimizer.step()
    return loss


def _refuse_divergence(run: Run, uniform: float, folder: Path) -> None:
    """End a run whose loss is no number, or far above both the start's and a uniform guess's; its checkpoint is of no use."""
    loss, most = run.losses[-1], DIVERGED * max(run.losses[0], uniform)
    if not loss <= most:
        forget(folder)
        raise AdedError(
            f"training diverged: the loss is {loss:.4g} after {run.step} steps, and was {run.losses[0]:.4g} at the start; "
            "give a lower --learning-rate"
        )


def _message(run: Run, schedule: Schedule, speed: float) -> str:
    left = run.seconds / max(schedule.done(run.step, run.seconds), 1e-6) - run.seconds
    return (
        f"training: step {run.step} of {schedule.steps}, loss {run.losses[-1] if run.losses else math.nan:.3f}, "
        f"{speed:,.0f} tokens/s, {int(left) // 60}:{int(left) % 60:02d} left"
    )


def _save(run: Run, objective: Objective, optimizer: torch.optim.Optimizer, folder: Path, identity: str) -> None:
    body = {"identity": identity, "step": run.step, "seconds": run.seconds, "losses": run.losses}
    buffer = io.BytesIO()
    torch.save({**body, "trained": objective.trained.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    write_atomically(folder / CHECKPOINT, buffer.getvalue())


def _resume(objective: Objective, optimizer: torch.optim.Optimizer, folder: Path, identity: str) -> Run:
    path = folder / CHECKPOINT
    if not path.exists():
        return Run()
    try:
        body = torch.load(path, map_location="cpu", weights_only=True)
        if body["identity"] != identity:
            raise AdedError(f"{path} is of a run with other settings; delete it, or give another --out")
        run = Run(int(body["step"]), float(body["seconds"]), [float(loss) for loss in body["losses"]])
        if run.step < 1 or not math.isfinite(run.seconds) or run.seconds < 0:
            raise ValueError("it counts steps or seconds that no run has taken")
        objective.trained.load_state_dict(body["trained"])
        optimizer.load_state_dict(body["optimizer"])
        return run
    except AdedError:
        raise
    except (RuntimeError, ValueError, KeyError, TypeError, EOFError, OSError, pickle.UnpicklingError):
        raise AdedError(f"{path} is damaged; delete it to train from the start") from None

"""The training loop: AdamW, cosine schedule with warm-up, gradient clipping, and checkpoints for deterministic resumption."""

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
from aded.engine.loading.weights import Progress
from aded.train.dataset import Batch, Rows
from aded.train.objective import Objective

CHECKPOINT = "checkpoint.pt"
BETAS = (0.9, 0.95)
MAX_GRADIENT_NORM = 1.0
WARM_UP = 0.03
"""Fraction of the run over which the learning rate rises."""
LOG_EVERY = 10
"""Steps between recorded losses."""
DIVERGENCE_FACTOR = 2.0
"""Training stops if the loss exceeds both the initial loss and a uniform guess's loss by this factor."""
EVALUATIONS = 10
"""Number of evaluations on held-out text during a run, evenly spread; the last one is after it."""
EVALUATED_ROWS = 16
"""Rows of held-out text in such an evaluation."""
MAX_LOSS_RATIO = 1.01
"""Largest accepted ratio of held-out loss after and before training; rounding alone changes it by less."""


@dataclass(frozen=True)
class Schedule:
    """Length and learning rate of a run.

    Attributes:
        steps: optimiser steps.
        batch: rows per step.
        rate: peak learning rate.
        save_every: steps between checkpoints.
        seconds: time limit, within which the schedule completes; None for no limit. With a limit, the result depends on the
            speed of the machine.

    Raises:
        AdedError: a value is out of range.
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
        """The fraction of the run completed before this step, 0 to 1."""
        return min(1.0, max(step / self.steps, seconds / self.seconds if self.seconds else 0.0))


def learning_rate(peak: float, done: float) -> float:
    """The learning rate after the fraction ``done`` (0 to 1) of a run: linear warm-up, then cosine decay to zero."""
    if done < WARM_UP:
        return peak * (done / WARM_UP * 0.99 + 0.01)
    return peak * 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


@dataclass
class Run:
    """The state of a training run.

    Attributes:
        step: optimiser steps taken.
        seconds: their duration.
        losses: the loss of every tenth step and of the last one.
        curve: step, training loss and simulated acceptance length on held-out text (see ``objective.acceptance_length``), at
            the start and at ``EVALUATIONS`` times after it.
    """

    step: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    curve: list[tuple[int, float, float]] = field(default_factory=list)


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
    first_step, resumed = run.step, time.perf_counter()
    held_out = rows.evaluation_batches()[:EVALUATED_ROWS]
    while (done := schedule.done(run.step, run.seconds)) < 1.0:
        loss = _step(objective, optimizer, rows.batch(run.step, schedule.batch).to(device), learning_rate(schedule.rate, done))
        logged = run.step % LOG_EVERY == 0
        run.step += 1
        run.seconds = time.perf_counter() - started
        if logged or schedule.done(run.step, run.seconds) == 1.0:
            run.losses.append(float(loss))  # synchronises with the device, so not at every step
            _check_divergence(run, objective.uniform, folder)
        if len(run.curve) <= int(EVALUATIONS * schedule.done(run.step, run.seconds)):
            run.curve.append((run.step, float(loss), objective.evaluate(held_out)["acceptance_length"]))
        tokens = (run.step - first_step) * schedule.batch * rows.training.ids.shape[1]
        speed = tokens / max(time.perf_counter() - resumed, 1e-6)
        progress(_message(run, schedule, speed), schedule.done(run.step, run.seconds))
        if run.step % schedule.save_every == 0:
            _save(run, objective, optimizer, folder, identity)
    return run


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a finished run."""
    (folder / CHECKPOINT).unlink(missing_ok=True)


def check_improved(before: float, after: float, folder: Path) -> None:
    """Check that training did not raise the loss on held-out text; otherwise remove the checkpoint.

    Raises:
        AdedError: the loss is higher than before training, or not finite.
    """
    if not after <= MAX_LOSS_RATIO * before:
        remove_checkpoint(folder)
        raise AdedError(
            f"nothing was learned: the loss on held-out text is {after:.4g}, and was {before:.4g} before training; "
            "give a lower --learning-rate, or more --tokens"
        )


def _step(objective: Objective, optimizer: torch.optim.Optimizer, batch: Batch, rate: float) -> torch.Tensor:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss = objective.backward(batch)
    torch.nn.utils.clip_grad_norm_(objective.trained.parameters(), MAX_GRADIENT_NORM)
    optimizer.step()
    return loss


def _check_divergence(run: Run, uniform: float, folder: Path) -> None:
    """Stop a run whose loss is NaN or far above both the initial and a uniform guess's loss, and remove its checkpoint."""
    loss, limit = run.losses[-1], DIVERGENCE_FACTOR * max(run.losses[0], uniform)
    if not loss <= limit:
        remove_checkpoint(folder)
        raise AdedError(
            f"training diverged: the loss is {loss:.4g} after {run.step} steps, and was {run.losses[0]:.4g} at the start; "
            "give a lower --learning-rate"
        )


def _message(run: Run, schedule: Schedule, speed: float) -> str:
    left = run.seconds / max(schedule.done(run.step, run.seconds), 1e-6) - run.seconds
    return (
        f"training: step {run.step} of {schedule.steps}, loss {run.losses[-1] if run.losses else math.nan:.3f}, "
        f"acceptance length {run.curve[-1][2] if run.curve else math.nan:.2f}, "
        f"{speed:,.0f} tokens/s, {int(left) // 60}:{int(left) % 60:02d} left"
    )


def _save(run: Run, objective: Objective, optimizer: torch.optim.Optimizer, folder: Path, identity: str) -> None:
    body = {"identity": identity, "step": run.step, "seconds": run.seconds, "losses": run.losses}
    body["curve"] = run.curve
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
        run.curve = [(int(step), float(loss), float(length)) for step, loss, length in body["curve"]]
        if run.step < 1 or not math.isfinite(run.seconds) or run.seconds < 0:
            raise ValueError("steps or seconds out of range")
        objective.trained.load_state_dict(body["trained"])
        optimizer.load_state_dict(body["optimizer"])
        return run
    except AdedError:
        raise
    except (RuntimeError, ValueError, KeyError, TypeError, EOFError, OSError, pickle.UnpicklingError):
        raise AdedError(f"{path} is damaged; delete it to train from the start") from None

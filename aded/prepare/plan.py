"""The plan of a run: which artifacts are made, from how much text, in how much time, and how much disk space that takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError
from aded.core.paths import model_folder
from aded.prepare.parts import PARTS, TRAINED, existing, methods_of

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

WRITING_SHARE = 0.25
"""Fraction of the time for writing the text if artifacts are trained, which divide the rest equally."""
BUDGET = (0.1, 100_000.0)
"""Smallest and largest time of a run, in minutes."""
MIN_TEXT_TOKENS = 10_000
"""Minimum length of the text, however short the time is."""
DRAFT_VOCABULARY = 6144
"""Number of tokens that a one-layer head can draft, for the estimate of its size."""


@dataclass(frozen=True)
class Sizes:
    """How much is written and trained.

    Attributes:
        minutes: time for writing and training; None: no limit.
        text_tokens: number of tokens that the model writes.
        tokens: number of tokens that each artifact is trained on.
        length, batch: tokens per row and rows per step of the training.
        save_every: steps between two checkpoints.
    """

    minutes: float | None
    text_tokens: int
    tokens: int
    length: int
    batch: int
    save_every: int


SIZES = {
    "cuda": Sizes(20, 4_000_000, 20_000_000, 512, 16, 100),
    "cpu": Sizes(30, 40_000, 400_000, 256, 4, 20),
}
"""The default sizes, by type of device. On a CPU the heads learn little; they show what the methods do."""


def sizes_for(device: str, minutes: float | None) -> Sizes:
    """The sizes for a type of device; with a given time, numbers of tokens are in proportion to it.

    Raises:
        AdedError: the time is out of range.
    """
    sizes = SIZES.get(device, SIZES["cuda"])
    if minutes is None:
        return sizes
    check_budget(minutes)
    factor = minutes / (sizes.minutes or minutes)
    text = max(MIN_TEXT_TOKENS, round(factor * sizes.text_tokens))
    return replace(sizes, minutes=minutes, text_tokens=text, tokens=max(text, round(factor * sizes.tokens)))


def check_budget(minutes: float | None) -> None:
    """Raise ``AdedError`` if the time of a run is out of range; None passes."""
    if minutes is not None and not BUDGET[0] <= minutes <= BUDGET[1]:
        raise AdedError(f"--budget-minutes is {minutes:g}; give a number from {BUDGET[0]:g} to {BUDGET[1]:,.0f}")


@dataclass(frozen=True)
class Plan:
    """What a run makes.

    Attributes:
        folder: the folder of the model's artifacts.
        parts: the artifacts to make, in order; ``later``: those that are missing too, but were not requested.
        files: the artifacts that exist, and their files.
        left_out: the requested artifacts that the model cannot have, and why.
        minutes: time limits in minutes of ``text`` and of each trained artifact.
        bytes: estimated disk space during the run.
    """

    folder: Path
    sizes: Sizes
    parts: tuple[str, ...]
    later: tuple[str, ...]
    files: Mapping[str, Path]
    left_out: Mapping[str, str]
    minutes: Mapping[str, float]
    bytes: int


def make_plan(
    target: TargetModel,
    parts: Sequence[str],
    sizes: Sizes,
    check: Callable[[str], None],
    started: Mapping[str, float],
    begun: Container[str] = (),
) -> Plan:
    """The plan for the requested artifacts.

    Args:
        parts: the requested artifacts.
        check: raises ``AdedError`` if the model cannot have a trained artifact.
        started: time limits of an interrupted run with the same budget, which are kept.
        begun: artifacts that this run began; even if their files exist, they have not been evaluated yet.

    Raises:
        AdedError: a file of an artifact is damaged.
    """
    files = {part: file for part in PARTS if (file := existing(part, target)) is not None and part not in begun}
    impossible: dict[str, str] = {}
    for part in TRAINED:
        try:
            check(part)
        except AdedError as error:
            impossible[part] = str(error)
    made = tuple(part for part in parts if part not in files and part not in impossible)
    left_out = {part: impossible[part] for part in parts if part not in files and part in impossible}
    later = tuple(part for part in PARTS if not {part} & {*files, *impossible, *made})
    minutes = {**_division(made, sizes.minutes), **{name: value for name, value in started.items() if name in (*made, "text")}}
    folder = model_folder(target.label, target.fingerprint)
    return Plan(folder, sizes, made, later, files, left_out, minutes, _bytes(target, made, sizes))


def _division(parts: Sequence[str], minutes: float | None) -> dict[str, float]:
    """The time limits in minutes of ``text`` and of each trained artifact."""
    if minutes is None:
        return {}
    trained = [part for part in parts if part in TRAINED]
    writing = minutes * WRITING_SHARE if trained else minutes
    return {"text": writing, **{part: (minutes - writing) / len(trained) for part in trained}}


def check_space(plan: Plan) -> None:
    """Raise ``AdedError`` if the disk has less free space than the plan needs."""
    folder = plan.folder
    while not folder.exists():
        folder = folder.parent
    if (free := shutil.disk_usage(folder).free) < plan.bytes:
        raise AdedError(
            f"this needs about {plan.bytes / 1e6:,.0f} MB in {plan.folder}, where {free / 1e6:,.0f} MB are free; free space, "
            "give fewer --parts or a smaller --budget-minutes, or set ADED_CACHE to another folder"
        )


def _bytes(target: TargetModel, parts: Sequence[str], sizes: Sizes) -> int:
    """Estimated disk space in bytes: the text and its intermediate files, the artifacts, the largest training checkpoint."""
    if not parts:
        return 0
    config: Any = target.config.get_text_config()
    hidden = int(config.hidden_size)
    layer = 4 * hidden**2 + 3 * hidden * int(getattr(config, "intermediate_size", None) or 4 * hidden)
    head = layer + 3 * hidden**2 + hidden * min(DRAFT_VOCABULARY, target.vocab_size)
    parameters = {"medusa": 8 * hidden**2, "draft": 2 * layer, "eagle": head, "mtp": head, "glide": head}
    trained = [parameters[part] for part in parts if part in TRAINED]
    per_token = 16 + 20 * ("matrix" in parts) + 8 * ("datastore" in parts)
    return per_token * sizes.text_tokens + 2 * sum(trained) + 12 * max(trained, default=0)


def plan_lines(plan: Plan, target: TargetModel, parts: Sequence[str]) -> list[str]:
    """The plan as lines of text."""
    where = f"{target.device_name}, {str(target.dtype).removeprefix('torch.')}"
    lines = [f"Plan for {target.label} on {where}:"]
    rows = [("text", _how_written(plan))] if plan.parts else []
    rows += [(part, f"{_state(plan, part)}  (for {', '.join(methods_of(part))})") for part in parts]
    lines += [f"  {name:<9}  {how}" for name, how in rows]
    if not plan.parts:
        return lines
    if plan.sizes.minutes is not None:
        share = f"{WRITING_SHARE:.0%} of it for writing, the rest equally for the trained parts"
        divided = share if any(part in TRAINED for part in plan.parts) else "all of it for writing"
        lines.append(f"time: about {plan.sizes.minutes:g} minutes ({divided}), and loading, counting and evaluation")
    return [*lines, f"disk: up to about {_megabytes(plan.bytes)} in {plan.folder}"]


def _how_written(plan: Plan) -> str:
    limit = f", for at most {_minutes(plan.minutes['text'])}" if "text" in plan.minutes else ""
    return f"the model writes {plan.sizes.text_tokens:,} tokens of questions and answers once{limit}"


def _state(plan: Plan, part: str) -> str:
    if part in plan.files:
        return f"exists: {plan.files[part]}"
    if part in plan.left_out:
        return f"left out: {plan.left_out[part]}"
    if part == "matrix":
        return "count the tri-grams of the text, seconds"
    if part == "datastore":
        return "sort the suffixes of the answers, seconds"
    limit = f", for at most {_minutes(plan.minutes[part])}" if part in plan.minutes else ""
    return f"train on {plan.sizes.tokens:,} tokens{limit}"


def _minutes(minutes: float) -> str:
    return f"{minutes:.1f} minutes" if minutes >= 1 else f"{60 * minutes:.0f} seconds"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else "1 MB"

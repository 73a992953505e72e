"""What the benchmark compares: methods and peers, each a function from a prompt to measured figures."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError
from aded.drafters.base import Drafter
from aded.drafters.registry import Method, find_method
from aded.evaluation.positions import PositionCounts

if TYPE_CHECKING:
    from aded.core.trace import Step
    from aded.decoding.decoder import GenerationSettings
    from aded.engine.target_model import TargetModel


Figures = dict[str, Any]
"""Measured figures: the fields of a ``Cell`` except question, category, method and repeat."""


@dataclass(frozen=True)
class Task:
    """An input: the token ids of a question's prompt, or of a recorded prompt and its output."""

    id: str
    category: str
    prompt: Sequence[int] = field(repr=False)
    output: Sequence[int] = field(default=(), repr=False)


@dataclass(frozen=True)
class System:
    """A method or peer in the comparison.

    Attributes:
        name: as on the command line.
        label: as displayed.
        lossless: whether its output has the distribution of plain decoding's.
        coupled: whether it uses plain decoding's random numbers, so that sampled outputs can be compared token by token.
        run: maps (task, settings) to figures.
        drafter: makes its drafter, for replay on recorded text; None for a peer without one.
        forget: deletes what was learned from the tasks so far, where the method keeps it from one to the next.
    """

    name: str
    label: str
    lossless: bool
    coupled: bool
    run: Callable[[Task, Any], Figures] = field(repr=False)
    drafter: Callable[[], Drafter] | None = field(default=None, repr=False)
    forget: Callable[[], None] = field(default=lambda: None, repr=False)


def method_system(spec: str, target: Any, seed: int = 0) -> System:
    """A method of the registry; ``name:option=value:option=value`` sets its options.

    Args:
        spec: as on the command line.
        target: a ``TargetModel``; for recorded text, an object with its ``fingerprint`` and ``vocab_size``.
        seed: seed of the drafter, the same for all questions.

    Raises:
        AdedError: an unknown method or option.
    """
    method, options = method_of(spec)
    try:
        method.make(target, options, 0)  # check the options against the target before a long run
    except AdedError as error:
        raise AdedError(_in_bench_syntax(str(error), method)) from None
    label = label_of(method, options)

    def make() -> Drafter:
        return method.make(target, options, seed)

    kept: list[Drafter] = []  # the drafter of the last task, if it keeps what it learned

    def run(task: Task, settings: GenerationSettings) -> Figures:
        drafter = kept[0] if kept else make()
        if method.keeps(options) and not kept:
            kept.append(drafter)
        return decode(target, drafter, task, settings)

    return System(spec, label, method.lossless, True, run, make, kept.clear)


def label_of(method: Method, options: Mapping[str, Any]) -> str:
    """The label of a method with options: ``Label (option value, option value)``, but ``block verification``."""
    texts = [f"{value} {name}" if name == "verification" else f"{name} {value}" for name, value in options.items()]
    return f"{method.label} ({', '.join(texts)})" if texts else method.label


def method_of(spec: str) -> tuple[Method, dict[str, Any]]:
    """The method and the options of ``name:option=value:option=value``.

    Raises:
        AdedError: an unknown method or option, or a value that is invalid for every target.
    """
    name, *assignments = spec.split(":")
    method, options = find_method(name), dict(map(_option, assignments))
    try:
        method.check(options)
    except AdedError as error:
        raise AdedError(_in_bench_syntax(str(error), method)) from None
    return method, options


def drafter_system(name: str, label: str, target: Any, make: Callable[[], Drafter]) -> System:
    """A custom drafter, run by the same decoding loop as the methods."""
    return System(name, label, True, True, lambda task, s: decode(target, make(), task, s), make)


def decode(target: TargetModel, drafter: Drafter, task: Task, settings: GenerationSettings) -> Figures:
    """Decode a task's prompt with the project's decoding loop; returns times and counts, without a trace."""
    from aded.decoding.decoder import Decoder

    watch = MemoryWatch(target)
    decoder = Decoder(target, drafter, settings, record=False)
    steps = list(decoder.stream(task.prompt))
    ids = [token for step in steps for token in step.emitted]
    prefill = round(1e3 * decoder.prefill_seconds, 3)
    return {**_figures(steps), "token_ids": ids, "prefill_ms": prefill, "memory_mb": watch.megabytes()}


def _figures(steps: Sequence[Step]) -> Figures:
    phases = ("draft", "verify", "commit", "update")
    body: Figures = {f"{phase}_ms": [_ms(getattr(step.seconds, phase)) for step in steps] for phase in phases}
    positions = PositionCounts()
    for step in steps:
        positions.add(step.tree.parents, step.path[: len(step.emitted)])
    return body | {
        "tokens": sum(len(step.emitted) for step in steps),
        "steps": len(steps),
        "accepted": sum(step.accepted for step in steps),
        "seconds": sum(step.seconds.total for step in steps),
        "step_ms": [_ms(step.seconds.total) for step in steps],
        "budget_nodes": [step.budget.nodes for step in steps],
        "tree_nodes": [len(step.tree.tokens) for step in steps],
        "reached_at": positions.reached,
        "accepted_at": positions.accepted,
    }


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 4)


def _in_bench_syntax(message: str, method: Method) -> str:
    """The message with options of the method in the benchmark's syntax, ``METHOD:OPTION=VALUE``."""

    def typed(found: re.Match[str]) -> str:
        name, file = found[1].replace("-", "_"), found[2]
        return f"{method.name}:{name}{'=FILE' if file else ''}" if name in method.options else found[0]

    return re.sub(r"--([a-z-]+)( FILE)?", typed, message)


def _option(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise AdedError(f"'{text}' is not a method option; write METHOD:OPTION=VALUE, for example aded:preset=paper")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            pass
    return name, {"true": True, "false": False}.get(value, value)


class MemoryWatch:
    """Memory use of a run in megabytes: the peak of a GPU's memory, or the process's resident memory on a CPU."""

    def __init__(self, target: Any) -> None:
        self._device = target.device
        if self._device.type == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(self._device)

    def megabytes(self) -> float:
        """Memory use since the object was created."""
        if self._device.type == "cuda":
            import torch

            return round(torch.cuda.max_memory_allocated(self._device) / 1e6, 1)
        return round(resident_bytes() / 1e6, 1)


def resident_bytes() -> int:
    """Resident memory of this process; its peak if the system does not report the current value."""
    import resource

    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

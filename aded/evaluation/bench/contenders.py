"""What is measured: a method or a peer, as something that runs one prompt and hands back its figures."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError
from aded.drafters.base import Drafter
from aded.drafters.registry import Method, find_method

if TYPE_CHECKING:
    from aded.core.trace import Step
    from aded.decoding.decoder import GenerationSettings
    from aded.engine.target_model import TargetModel


Figures = dict[str, Any]
"""One run's figures: the fields of a ``Cell`` that do not say which run it was."""


@dataclass(frozen=True)
class Task:
    """What a contender runs on: a question's prompt as token ids, or a recorded decode."""

    id: str
    category: str
    prompt: Sequence[int] = field(repr=False)
    output: Sequence[int] = field(default=(), repr=False)


@dataclass(frozen=True)
class Contender:
    """A row of the comparison.

    Attributes:
        name: as asked for; ``label``: as shown.
        lossless: whether its output is meant to be plain decoding's.
        coupled: whether it also draws with the same random numbers, so that sampled outputs can be compared token by token.
        run: (task, settings) to figures.
        drafter: makes a drafter, where the contender is one; recorded text is replayed with it.
    """

    name: str
    label: str
    lossless: bool
    coupled: bool
    run: Callable[[Task, Any], Figures] = field(repr=False)
    drafter: Callable[[], Drafter] | None = field(default=None, repr=False)


def method_contender(spec: str, target: Any, seed: int = 0) -> Contender:
    """A method of the registry; ``name:option=value:option=value`` sets its options.

    Args:
        spec: what was typed.
        target: a ``TargetModel``, or for recorded text whatever has its ``fingerprint`` and ``vocab_size``.
        seed: of the method itself, the same for all questions, as where one user asks them.

    Raises:
        AdedError: an unknown method or option.
    """
    method, options = method_of(spec)
    try:
        method.make(target, options, 0)  # what does not fit the target is found before a long run
    except AdedError as error:
        raise AdedError(_as_typed(str(error), method)) from None
    label = f"{method.label} ({', '.join(f'{k} {v}' for k, v in options.items())})" if options else method.label

    def make() -> Drafter:
        return method.make(target, options, seed)

    return Contender(spec, label, method.lossless, True, lambda task, s: decode(target, make(), task, s), make)


def method_of(spec: str) -> tuple[Method, dict[str, Any]]:
    """The method and the options of ``name:option=value:option=value``.

    Raises:
        AdedError: an unknown method or option, or a value that no target could take.
    """
    name, *pairs = spec.split(":")
    method, options = find_method(name), dict(map(_option, pairs))
    try:
        method.check(options)
    except AdedError as error:
        raise AdedError(_as_typed(str(error), method)) from None
    return method, options


def drafter_contender(name: str, label: str, target: Any, make: Callable[[], Drafter]) -> Contender:
    """A drafter from outside the registry, in the same loop."""
    return Contender(name, label, True, True, lambda task, s: decode(target, make(), task, s), make)


def decode(target: TargetModel, drafter: Drafter, task: Task, settings: GenerationSettings) -> Figures:
    """Decode a task's prompt in the project's own loop, nothing recorded but times."""
    from aded.decoding.decoder import Decoder

    watch = MemoryWatch(target)
    decoder = Decoder(target, drafter, settings, record=False)
    steps = list(decoder.stream(task.prompt))
    ids = [token for step in steps for token in step.emitted]
    prefill = round(1e3 * decoder.prefill_seconds, 3)
    return {**_figures(steps), "token_ids": ids, "prefill_ms": prefill, "memory_mb": watch.megabytes()}


def _figures(steps: Sequence[Step]) -> Figures:
    parts = ("draft", "verify", "commit", "update")
    body: Figures = {f"{part}_ms": [_ms(getattr(step.seconds, part)) for step in steps] for part in parts}
    return body | {
        "tokens": sum(len(step.emitted) for step in steps),
        "steps": len(steps),
        "accepted": sum(step.accepted for step in steps),
        "seconds": sum(step.seconds.total for step in steps),
        "step_ms": [_ms(step.seconds.total) for step in steps],
        "budget_nodes": [step.budget.nodes for step in steps],
        "tree_nodes": [len(step.tree.tokens) for step in steps],
    }


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 4)


def _as_typed(message: str, method: Method) -> str:
    """A message with the method's options in the form that the benchmark takes them, ``METHOD:OPTION=VALUE``."""

    def typed(found: re.Match[str]) -> str:
        name, file = found[1].replace("-", "_"), found[2]
        return f"{method.name}:{name}{'=FILE' if file else ''}" if name in method.options else found[0]

    return re.sub(r"--([a-z-]+)( FILE)?", typed, message)


def _option(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise AdedError(f"'{text}' is no option of a method; write METHOD:OPTION=VALUE, for example aded:preset=paper")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            pass
    return name, {"true": True, "false": False}.get(value, value)


class MemoryWatch:
    """Megabytes that a run needed: the peak on a card, the process's resident memory elsewhere."""

    def __init__(self, target: Any) -> None:
        self._device = target.device
        if self._device.type == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(self._device)

    def megabytes(self) -> float:
        """The figure so far."""
        if self._device.type == "cuda":
            import torch

            return round(torch.cuda.max_memory_allocated(self._device) / 1e6, 1)
        return round(resident_bytes() / 1e6, 1)


def resident_bytes() -> int:
    """Memory that this process holds now; its peak where the system does not tell."""
    import resource

    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

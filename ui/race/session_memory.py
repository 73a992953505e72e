"""What methods keep from race to race: with what a run starts, and what a race adds or deletes, and why.

Nothing changes before a race has ended: a race that fails adds and deletes nothing. What the visitor deletes during a race stays
deleted. Runs of an ablation keep nothing, so they neither use nor replace what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aded.drafters.registry import METHODS, RunSpec
from ui.race.form import Form
from ui.serving.sessions import Memory
from ui.words import Message, word


@dataclass(frozen=True)
class LearningRun:
    """A run that keeps what it learns.

    Attributes:
        memory: what its method keeps; ``settings``: the settings on which the state depends that it learns now.
        drafter: a new one, which starts with what was learned from ``prompts`` prompts.
    """

    method: str
    memory: Memory
    settings: Mapping[str, Any]
    drafter: Any
    prompts: int


def resume(memories: dict[str, Memory], runs: Sequence[RunSpec], make: Callable[[RunSpec, Any], Any]) -> list[LearningRun | None]:
    """The state with which each run starts; None for a run that keeps nothing.

    Args:
        make: makes a new drafter from a run and a drafter to learn from, or None.
    """
    keep = [bool(run.options.get("keep")) for run in runs]
    return [_resumed(memories.setdefault(one.method, Memory()), one, make) if on else None for one, on in zip(runs, keep)]


def _resumed(memory: Memory, run: RunSpec, make: Callable[[RunSpec, Any], Any]) -> LearningRun:
    settings = METHODS[run.method].state_settings(run.options)
    known = memory.drafter if memory.settings == settings else None
    return LearningRun(run.method, memory, settings, make(run, known), memory.prompts if known is not None else 0)


def keep_learned(memories: dict[str, Memory], learned: Sequence[LearningRun], form: Form) -> list[Message]:
    """Keep what was learned in a race that has ended, and delete what is not to be kept any more.

    Args:
        learned: the runs that learned from the prompt.

    Returns:
        A message for each learned state that is deleted.
    """
    kept = list(memories.items())  # the visitor may delete them meanwhile
    valid = [one for one in learned if memories.get(one.method) is one.memory]
    deleted = [_replaced(one) for one in valid] + [_dropped(method, memory, form) for method, memory in kept]
    for one in valid:
        one.memory.drafter, one.memory.prompts, one.memory.settings = one.drafter, one.prompts + 1, one.settings
    for method in [name for name, memory in kept if memory.drafter is None or not _keeps(form, name)]:
        memories.pop(method, None)
    return [message for message in deleted if message]


def learned_prompts(memories: Mapping[str, Memory]) -> dict[str, int]:
    """Number of prompts from which each method has learned what it keeps."""
    return {method: memory.prompts for method, memory in list(memories.items()) if memory.drafter is not None}


def _keeps(form: Form, method: str) -> bool:
    return bool(form.method_options(method).get("keep"))


def _replaced(one: LearningRun) -> Message | None:
    """A state that cannot be used with the settings of this run."""
    memory = one.memory
    if memory.drafter is None or memory.settings == one.settings:
        return None
    names = [name for name in {**memory.settings, **one.settings} if memory.settings.get(name) != one.settings.get(name)]
    return forgotten("set", one.method, memory, names[0])


def _dropped(method: str, memory: Memory, form: Form) -> Message | None:
    """A state that was freed for memory, or is not to be kept any more."""
    if not memory.prompts:
        return None
    if memory.drafter is None:
        return forgotten("memory", method, memory)
    return None if _keeps(form, method) else forgotten("off", method, memory, "keep")


def forgotten(why: str, method: str, memory: Memory, setting: str = "") -> Message:
    """That a state was deleted: ``set`` and ``off`` for another value of a setting, ``memory`` for memory."""
    values = {"name": word(f"article.{method}", METHODS[method].label), "count": memory.prompts}
    return f"notice.forgot.{why}", values | ({"label": word(f"control.{setting}", setting)} if setting else {})

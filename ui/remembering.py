"""What methods keep from race to race: what a lane begins with, and what a race leaves behind or makes forgotten, and why.

Nothing is changed before a race has ended: one that fails teaches nothing, and nothing is forgotten over it. What the visitor
forgets while a race is on stays forgotten. Lanes of an ablation keep nothing, so they neither use nor replace what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aded.drafters.registry import METHODS
from ui.form import Entrant, Form
from ui.serving.sessions import Memory
from ui.words import Saying, word


@dataclass(frozen=True)
class Recalled:
    """What a lane that remembers runs with.

    Attributes:
        memory: what its method keeps; ``state_settings``: the settings that what it learns from now on rests on.
        drafter: a new one, which knows what ``prompts`` prompts have taught.
    """

    method: str
    memory: Memory
    state_settings: Mapping[str, Any]
    drafter: Any
    prompts: int


def recall(
    memories: dict[str, Memory], entrants: Sequence[Entrant], make: Callable[[Entrant, Any], Any]
) -> list[Recalled | None]:
    """What each lane begins with; None for one that keeps nothing.

    Args:
        make: an entrant, and a drafter to learn from or None, to a new drafter.
    """
    keep = [bool(entrant.options.get("keep")) for entrant in entrants]
    return [_recalled(memories.setdefault(one.method, Memory()), one, make) if on else None for one, on in zip(entrants, keep)]


def _recalled(memory: Memory, entrant: Entrant, make: Callable[[Entrant, Any], Any]) -> Recalled:
    state_settings = METHODS[entrant.method].state_settings(entrant.options)
    known = memory.drafter if memory.state_settings == state_settings else None
    return Recalled(entrant.method, memory, state_settings, make(entrant, known), memory.prompts if known is not None else 0)


def settle(memories: dict[str, Memory], taught: Sequence[Recalled], form: Form) -> list[Saying]:
    """Keep what a race that has ended taught, and forget what is not to be kept any more.

    Args:
        taught: of the lanes that have learned from the prompt.

    Returns:
        A sentence for each thing that was learned and is forgotten.
    """
    standing = [one for one in taught if memories.get(one.method) is one.memory]
    lost = [_replaced(one) for one in standing] + [_dropped(method, memory, form) for method, memory in memories.items()]
    for one in standing:
        one.memory.drafter, one.memory.prompts, one.memory.state_settings = one.drafter, one.prompts + 1, one.state_settings
    for method in [name for name, memory in memories.items() if memory.drafter is None or not _keeps(form, name)]:
        del memories[method]
    forgotten: list[Saying] = [("notice.forgotten", {})] if len(standing) < len(taught) else []  # while the race was on
    return [*forgotten, *(saying for saying in lost if saying)]


def kept(memories: Mapping[str, Memory]) -> dict[str, int]:
    """How many prompts have taught each method what it keeps."""
    return {method: memory.prompts for method, memory in memories.items() if memory.drafter is not None}


def _keeps(form: Form, method: str) -> bool:
    return bool(form.method_options(method).get("keep"))


def _replaced(one: Recalled) -> Saying | None:
    """What cannot be used as the lane is set now."""
    memory = one.memory
    if memory.drafter is None or memory.state_settings == one.state_settings:
        return None
    names = [
        name
        for name in {**memory.state_settings, **one.state_settings}
        if memory.state_settings.get(name) != one.state_settings.get(name)
    ]
    return _forgotten("set", one.method, memory, names[0])


def _dropped(method: str, memory: Memory, form: Form) -> Saying | None:
    """What was given up to make room, or is not to be kept."""
    if not memory.prompts:
        return None
    if memory.drafter is None:
        return _forgotten("room", method, memory)
    return None if _keeps(form, method) else _forgotten("off", method, memory, "keep")


def _forgotten(why: str, method: str, memory: Memory, setting: str = "") -> Saying:
    values = {"name": word(f"article.{method}", METHODS[method].label), "count": memory.prompts}
    return f"notice.forgot.{why}", values | ({"label": word(f"control.{setting}", setting)} if setting else {})

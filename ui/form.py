"""What the visitor asked for, and the lanes that come of it. Knows the registry of methods, and no Gradio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aded.core.errors import AdedError
from ui.numbers import FIELDS

SWITCHES = {"on": True, "off": False}
"""Words of a setting that is on or off, where the empty word stands for the preset's value."""

ABLATIONS = ("search", "c1", "c2", "simulations", "depth", "feedback", "corpus")
"""Settings of ADED that an ablation varies, one at a time."""


@dataclass(frozen=True)
class Entrant:
    """A lane that shall be.

    Attributes:
        method: its name in the registry.
        options: the method's own settings; what is not in it is as the method has it.
        label: what tells it apart from another lane of the method; empty stands for the method's own label.
    """

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""


@dataclass(frozen=True)
class Form:
    """What the visitor asked for.

    Attributes:
        budget: most nodes of a draft, or ``auto``; ``numbers``: others of ``GenerationSettings``.
        options: of each method; an empty one stands for its default.
        ablation: a setting of ADED: its values race against plain decoding, in the place of ``methods``.
        link: the settings as a link names them; None where the form is none of the page's.
    """

    prompt: str
    methods: Sequence[str]
    budget: int | str = "auto"
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ablation: str | None = None
    link: Mapping[str, str] | None = None

    def settings(self) -> dict[str, Any]:
        """Arguments of ``GenerationSettings``.

        Raises:
            AdedError: a field is empty or not a number.
        """
        values = {name: _number(name, value, whole=FIELDS[name].whole) for name, value in self.numbers.items()}
        return {**values, "budget": _budget(self.budget)}

    def entrants(self) -> list[Entrant]:
        """The lanes, in their order."""
        if self.ablation is None:
            return [Entrant(method, self.method_options(method)) for method in self.methods]
        return [Entrant("plain"), *_variants(self.ablation, self.method_options("aded"))]

    def method_options(self, method: str) -> dict[str, Any]:
        """The options that were set for a method."""
        given = {name: value for name, value in self.options.get(method, {}).items() if value not in (None, "")}
        return {name: SWITCHES.get(value, value) if isinstance(value, str) else value for name, value in given.items()}


def _variants(axis: str, options: Mapping[str, Any]) -> list[Entrant]:
    """ADED once for each value of a setting, all else as it is set; no lane remembers, so that all begin alike."""
    from aded.evaluation.ablation import SWEEPS

    switches = {word: {axis: value} for word, value in SWITCHES.items()}
    values = switches if axis == "feedback" else {str(value): {axis: value} for value in SWEEPS[axis]}
    common = {name: value for name, value in options.items() if name != "keep"}
    return [Entrant("aded", {**common, **change}, f"ADED, {axis} {word}") for word, change in values.items()]


def _number(name: str, value: float | None, whole: bool) -> float | int:
    words = name.replace("_", " ")
    if value is None or not math.isfinite(value):
        raise AdedError(f"{words} is empty or not finite; give a number")
    if whole and value != int(value):
        raise AdedError(f"{words} is {value}; give a whole number")
    return int(value) if whole else float(value)


def _budget(asked: int | str) -> int | str:
    word = str(asked).strip().lower()
    if word in ("", "auto"):
        return "auto"
    try:
        return int(word)
    except ValueError:
        raise AdedError(f"draft budget is '{asked}'; give 'auto' or a number of nodes") from None

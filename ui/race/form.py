"""What a visitor asks for, and the runs of the race. Uses the registry of methods; independent of Gradio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aded.core.chat import Chat
from aded.core.errors import AdedError
from aded.drafters.registry import RunSpec
from ui.numbers import FIELDS

SWITCHES = {"on": True, "off": False}
"""Values of a setting that is on or off; the empty string is the preset's value."""
SWITCHED = ("higher_orders", "feedback", "coupling")
"""Settings of ADED that are on or off and whose default is the preset's value."""

ABLATIONS = ("search", "c1", "c2", "simulations", "depth", *SWITCHED, "corpus")
"""Settings of ADED that an ablation can vary, one at a time."""


@dataclass(frozen=True)
class Form:
    """What a visitor asks for.

    Attributes:
        budget: maximum number of nodes per draft, or ``auto``; ``numbers``: other fields of ``GenerationSettings``.
        options: settings per method; an empty value is the default.
        ablation: a setting of ADED whose values race against plain decoding, instead of ``methods``.
        stop, raw: see ``GenerationSettings``.
        link: the settings as in a link; None if the form is not from the page.
    """

    prompt: str | Chat
    methods: Sequence[str]
    budget: int | str = "auto"
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ablation: str | None = None
    link: Mapping[str, str] | None = None
    stop: tuple[str, ...] = ()
    raw: bool = False

    @property
    def text(self) -> str:
        """The prompt as one text."""
        return self.prompt.text if isinstance(self.prompt, Chat) else self.prompt

    def settings(self) -> dict[str, Any]:
        """Arguments of ``GenerationSettings``.

        Raises:
            AdedError: a number is missing or not valid.
        """
        values = {name: _number(name, value, integer=FIELDS[name].integer) for name, value in self.numbers.items()}
        return {**values, "budget": _budget(self.budget), "stop": self.stop, "raw": self.raw}

    def runs(self) -> list[RunSpec]:
        """The runs of the race, in order."""
        if self.ablation is None:
            return [RunSpec(method, self.method_options(method)) for method in self.methods]
        return [RunSpec("plain"), *_variants(self.ablation, self.method_options("aded"))]

    def method_options(self, method: str) -> dict[str, Any]:
        """The options that were set for a method."""
        given = {name: value for name, value in self.options.get(method, {}).items() if value not in (None, "")}
        return {name: SWITCHES.get(value, value) if isinstance(value, str) else value for name, value in given.items()}


def _variants(axis: str, options: Mapping[str, Any]) -> list[RunSpec]:
    """ADED once for each value of a setting; no run keeps what it learns, so all start equal."""
    from aded.evaluation.ablation import SWEEPS

    switches = {word: {axis: value} for word, value in SWITCHES.items()}
    values = switches if axis in SWITCHED else {str(value): {axis: value} for value in SWEEPS[axis]}
    common = {name: value for name, value in options.items() if name != "keep"}
    return [RunSpec("aded", {**common, **change}, f"ADED, {axis} {word}") for word, change in values.items()]


def _number(name: str, value: float | None, integer: bool) -> float | int:
    words = name.replace("_", " ")
    if value is None or not math.isfinite(value):
        raise AdedError(f"{words} is empty or not finite; give a number")
    if integer and value != int(value):
        raise AdedError(f"{words} is {value}; give a whole number")
    return int(value) if integer else float(value)


def _budget(asked: int | str) -> int | str:
    word = str(asked).strip().lower()
    if word in ("", "auto"):
        return "auto"
    try:
        return int(word)
    except ValueError:
        raise AdedError(f"draft budget is '{asked}'; give 'auto' or a number of nodes") from None

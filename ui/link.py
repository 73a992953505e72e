"""Links into the page: which settings one may hold, and the widgets' values that it asks for. All of it is a stranger's text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from aded.methods import METHODS
from ui import picker
from ui.theme import ASSETS

LONGEST = 20_000
"""Characters of a value that are read at most."""

BOUNDS: dict[str, tuple[float, float]] = {
    "max_new_tokens": (1, 100_000),
    "temperature": (0, 2),
    "top_p": (0.05, 1),
    "top_k": (0, 1_000_000),
    "seed": (0, 2**63 - 1),
}
"""Least and greatest value of each numeric widget."""


def examples() -> dict[str, str]:
    """Name to prompt."""
    return {row["name"]: row["prompt"] for row in json.loads((ASSETS / "prompts" / "examples.json").read_text("utf-8"))}


def example_of(prompt: str) -> str | None:
    """The example whose prompt it is."""
    return next((name for name, text in examples().items() if text == prompt), None)


def encode(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a link: those that are not as they were at first, as text."""
    values, defaults = _named(values), _named(defaults)
    changed = {name: value for name, value in values.items() if value is not None and value != defaults[name]}
    link = {name: _number_text(value) if isinstance(value, (int, float)) else str(value) for name, value in changed.items()}
    if example := example_of(link.get("prompt", "")):
        link = {**{k: v for k, v in link.items() if k != "prompt"}, "example": example}
    return link


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the picker's as the names of its methods."""
    return {**values, "methods": ",".join(picker.chosen(values["methods"]))}


def decode(link: object, defaults: Mapping[str, Any], choices: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """A value for every setting: the link's where it is one, else the default.

    Args:
        link: what a browser sent: name to text, if it is honest.
        choices: the words that a setting may have, for those that are chosen from a list.
    """
    texts = {k: v[:LONGEST] for k, v in link.items() if isinstance(v, str)} if isinstance(link, Mapping) else {}
    if (prompt := examples().get(texts.get("example", ""))) is not None:
        texts["prompt"] = prompt
    return {name: _value(name, texts[name], default, choices) if name in texts else default for name, default in defaults.items()}


def _value(name: str, text: str, default: Any, choices: Mapping[str, tuple[str, ...]]) -> Any:
    if name == "methods":
        names = text.split(",")
        return picker.encode([method for method in METHODS if method in names][: picker.MOST])
    if name in BOUNDS:
        return _number(text, default, *BOUNDS[name])
    if name in choices:
        return text if text in choices[name] else default
    if isinstance(default, bool):
        return text == "1"
    return text


def _number(text: str, default: float, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        return default
    if not math.isfinite(value):
        return default
    value = min(max(value, least), most)
    return int(value) if value == int(value) else value


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)

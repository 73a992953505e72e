"""Links into the page: which settings one may hold, the widgets' values that it asks for, and what of it cannot be had.

All of it is a stranger's text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aded.core.paths import ASSETS
from aded.drafters.registry import METHODS
from ui import picker
from ui.numbers import FIELDS, Field, parse
from ui.words import Refused, Saying, cut, word

LONGEST = 20_000
"""Characters of a value that are read at most."""
VIEW = ("race", "run", "file", "lane", "step", "node", "pair", "theme", "lang", "hide")
"""Names that are the browser's to read."""


@dataclass
class Opened:
    """What a link asks of the controls.

    Attributes:
        values: one for every setting: the link's where it can be had, else the default.
        refused: a sentence for each value that cannot.
    """

    values: dict[str, Any]
    refused: list[Saying] = field(default_factory=list)


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
    link = {name: str(int(value)) if isinstance(value, bool) else str(value) for name, value in changed.items()}
    if example := example_of(link.get("prompt", "")):
        link = {**{k: v for k, v in link.items() if k != "prompt"}, "example": example}
    return link


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the picker's as the names of its methods."""
    return {**values, "methods": ",".join(picker.chosen(values["methods"]))}


def decode(
    link: object,
    defaults: Mapping[str, Any],
    choices: Mapping[str, Sequence[str]],
    foreign: Collection[str] = (),
    fields: Mapping[str, Field] = FIELDS,
) -> Opened:
    """What a link asks for.

    Args:
        link: what a browser sent: name to text, if it is honest.
        choices: the words that a setting may have, for those that are chosen from a list.
        foreign: names that may be somebody else's, as those behind the address's question mark.
        fields: what each number may be.
    """
    texts = {k: v for k, v in link.items() if isinstance(k, str) and isinstance(v, str)} if isinstance(link, Mapping) else {}
    opened = Opened(dict(defaults))
    kept: list[Saying] = []
    for name in ("example", *(known for known in defaults if known in texts)):
        try:
            opened.values |= _read(name, texts.get(name, ""), defaults, choices, fields, opened.refused)
        except Refused as refusal:
            opened.refused += refusal.sayings
            kept = [("link.kept", {})]
    opened.refused += kept
    known = {"example", *defaults, *VIEW, *foreign}
    opened.refused += [("link.name", {"value": cut(name)}) for name in texts if name not in known and not name.startswith("__")]
    return opened


def _read(
    name: str,
    text: str,
    defaults: Mapping[str, Any],
    choices: Mapping[str, Sequence[str]],
    fields: Mapping[str, Field],
    refused: list[Saying],
) -> dict[str, Any]:
    """The values that one entry of a link sets; what of it can be had goes in, and what cannot is added to ``refused``.

    Raises:
        Refused: nothing of it can be had.
    """
    if name == "example":
        return _example(text)
    if name == "methods":
        return _methods(text, refused)
    if name in fields:
        parse(name, text, fields)
        return {name: text}
    if name in choices or isinstance(defaults[name], bool):
        return {name: _choice(name, text, choices.get(name))}
    if len(text) > LONGEST:
        refused.append(("link.cut", {"label": word(f"control.{name}"), "most": LONGEST}))
    return {name: text[:LONGEST]}


def _example(name: str) -> dict[str, Any]:
    prompt = examples().get(name)
    if name and prompt is None:
        raise Refused("link.example", value=cut(name), list=word("control.examples"))
    return {} if prompt is None else {"prompt": prompt}


def _choice(name: str, text: str, words: Sequence[str] | None) -> str | bool:
    """One of the words, or, where there are none, whether a box is ticked."""
    if text not in (words or ("0", "1")):
        raise Refused("link.choice", label=word(f"control.{name}"), value=cut(text))
    return text if words else text == "1"


def _methods(text: str, refused: list[Saying]) -> dict[str, Any]:
    names = list(dict.fromkeys(text[:LONGEST].split(",")))
    known = [method for method in METHODS if method in names]
    refused += [("link.method", {"value": cut(name), "list": word("picker.title")}) for name in names if name not in METHODS]
    for name in known[picker.MOST :]:
        refused.append(("link.most", {"most": picker.MOST, "value": word(f"article.{name}", METHODS[name].label)}))
    return {"methods": picker.encode(known[: picker.MOST])} if known else {}

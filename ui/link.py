"""Links to the page: from settings to the parameters of a link and back, with messages about invalid parameters.

All content of a link is untrusted text.
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
from ui.words import Message, Refused, cut, word

LONGEST = 20_000
"""Maximum number of characters of a value; a longer prompt is cut."""
TOOL = ("tool", "alpha", "gamma", "c", "v", "rows")
PAGE = ("theme", "lang", "hide", "lesson", "part", *TOOL)
VIEW = ("race", "run", "file", "turn", "method", "step", "node", "bigram", "tab", *PAGE)
"""Names that only the browser uses."""


@dataclass
class LinkValues:
    """The settings of a link.

    Attributes:
        values: the value of each setting: that of the link if it is valid, else the default.
        refused: a message for each invalid parameter or part of one.
    """

    values: dict[str, Any]
    refused: list[Message] = field(default_factory=list)


def examples() -> dict[str, str]:
    """Example prompts by name."""
    return {row["name"]: row["prompt"] for row in json.loads((ASSETS / "prompts" / "examples.json").read_text("utf-8"))}


def example_of(prompt: str) -> str | None:
    """The name of the example with this prompt, or None."""
    return next((name for name, text in examples().items() if text == prompt), None)


def encode(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of a link: the settings that differ from the defaults, as text; the prompt of an example as its name."""
    values, defaults = _named(values), _named(defaults)
    changed = {name: value for name, value in values.items() if value is not None and value != defaults[name]}
    link = {name: str(int(value)) if isinstance(value, bool) else str(value) for name, value in changed.items()}
    if example := example_of(link.get("prompt", "")):
        link = {**{k: v for k, v in link.items() if k != "prompt"}, "example": example}
    return link


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the value of the method picker replaced by the names of the methods."""
    return {**values, "methods": ",".join(picker.chosen(values["methods"]))}


def decode(
    link: object,
    defaults: Mapping[str, Any],
    choices: Mapping[str, Sequence[str]],
    foreign: Collection[str] = (),
    fields: Mapping[str, Field] = FIELDS,
) -> LinkValues:
    """Parse the settings of a link.

    Args:
        link: untrusted value from a browser; normally a dict from name to text.
        defaults: the default of each setting.
        choices: the allowed values of settings that are selected from a list.
        foreign: unknown names that are not reported, such as parameters after the question mark, which another site may add.
        fields: the ranges of numeric settings.
    """
    texts = {k: v for k, v in link.items() if isinstance(k, str) and isinstance(v, str)} if isinstance(link, Mapping) else {}
    found = LinkValues(dict(defaults))
    kept: list[Message] = []
    for name in ("example", *(setting for setting in defaults if setting in texts)):
        try:
            found.values |= _read(name, texts.get(name, ""), defaults, choices, fields, found.refused)
        except Refused as refusal:
            found.refused += refusal.messages
            kept = [("link.kept", {})]
    found.refused += kept
    expected = {"example", *defaults, *VIEW, *foreign}
    found.refused += [("link.name", {"value": cut(name)}) for name in texts if name not in expected and not name.startswith("__")]
    return found


def _read(
    name: str,
    text: str,
    defaults: Mapping[str, Any],
    choices: Mapping[str, Sequence[str]],
    fields: Mapping[str, Field],
    refused: list[Message],
) -> dict[str, Any]:
    """The settings that one parameter of a link sets; messages about invalid parts are added to ``refused``.

    Raises:
        Refused: the parameter is invalid as a whole.
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
        refused.append(("link.cut", {"label": word(f"control.{name}"), "maximum": LONGEST}))
    return {name: text[:LONGEST]}


def _example(name: str) -> dict[str, Any]:
    prompt = examples().get(name)
    if name and prompt is None:
        raise Refused("link.example", value=cut(name), list=word("control.examples"))
    return {} if prompt is None else {"prompt": prompt}


def _choice(name: str, text: str, words: Sequence[str] | None) -> str | bool:
    """One of ``words``; without ``words`` the state of a checkbox, from "0" or "1"."""
    if text not in (words or ("0", "1")):
        raise Refused("link.choice", label=word(f"control.{name}"), value=cut(text))
    return text if words else text == "1"


def _methods(text: str, refused: list[Message]) -> dict[str, Any]:
    names = list(dict.fromkeys(text[:LONGEST].split(",")))
    valid = [method for method in METHODS if method in names]
    refused += [("link.method", {"value": cut(name), "list": word("picker.title")}) for name in names if name not in METHODS]
    for name in valid[picker.MAX_METHODS :]:
        refused.append(("link.most", {"maximum": picker.MAX_METHODS, "value": word(f"article.{name}", METHODS[name].label)}))
    return {"methods": picker.encode(valid[: picker.MAX_METHODS])} if valid else {}

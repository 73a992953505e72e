"""The page's own words: one table a language (``assets/i18n``). The browser shows them; here they label Gradio's widgets."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from aded.core.errors import AdedError
from aded.core.paths import ASSETS

FOLDER = ASSETS / "i18n"
FALLBACK = "en"
SHOWN = 60
"""Characters of a stranger's text that are said again."""

FOLDERS = re.compile(r"(?<![^\s'\"(\[=:,])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])*(?=[^\s/\\'\"])")
"""What stands before the last name of a path that begins at a root, at home, or where the server was started."""

Saying = tuple[str, dict[str, Any]]
"""A key and its values: a sentence that is not in any language yet."""


@cache
def tables() -> dict[str, dict[str, Any]]:
    """Language code to its table, the fallback first; a language is there because its file is."""
    files = sorted(FOLDER.glob("*.json"), key=lambda file: (file.stem != FALLBACK, file.stem))
    return {file.stem: json.loads(file.read_text("utf-8")) for file in files}


def say(key: str, language: str = FALLBACK, **values: Any) -> str:
    """The words of a key, ``{names}`` replaced by values; an unknown language speaks the fallback."""
    found = tables().get(language, {}).get(key) or tables()[FALLBACK][key]
    if isinstance(found, dict):
        count = values.get("count")
        found = found.get(str(count)) or (found.get("one") if count == 1 else None) or found["other"]
    return re.sub(r"\{(\w+)\}", lambda name: _said(values.get(name[1], name[0]), language), found)


def word(key: str, otherwise: str | None = None) -> dict[str, str]:
    """A value of a sentence that is itself said in the visitor's language: the words of a key.

    Args:
        otherwise: what is said where nobody has words for the key.
    """
    return {"say": key} if otherwise is None else {"say": key, "otherwise": otherwise}


def _said(value: Any, language: str) -> str:
    if not isinstance(value, dict):
        return str(value)
    return say_or(value["say"], str(value.get("otherwise", value["say"])), language)


def say_or(key: str, otherwise: str, language: str = FALLBACK) -> str:
    """The words of a key, or ``otherwise`` where no language has any."""
    return say(key, language) if key in tables()[FALLBACK] else otherwise


def cut(text: str, most: int = SHOWN) -> str:
    """A stranger's text, no longer than can be said again: so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def without_folders(text: str) -> str:
    """A text that visitors are told, in which files and folders of this machine are named by their last names."""
    return FOLDERS.sub("", text)


class Refused(AdedError):
    """What the page itself refuses, so that it can be said in the visitor's language."""

    def __init__(self, key: str, and_then: Sequence[Saying] = (), **values: Any) -> None:
        self.sayings: list[Saying] = [(key, values), *and_then]
        super().__init__(" ".join(say(k, **v) for k, v in self.sayings))

"""The texts of the page: one table per language. The browser shows them; here they label Gradio's widgets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from aded.core.errors import AdedError
from ui.browser import sources

FALLBACK = "en"
MAX_QUOTED = 60
"""Maximum number of characters of untrusted text that are quoted in a message."""

FOLDERS = re.compile(r"(?<![^\s'\"(\[=:,])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])*(?=[^\s/\\'\"])")
"""Everything before the last name of a path that starts at the root, at home or at the current folder."""

Message = tuple[str, dict[str, Any]]
"""A key and its values: a message before translation."""


@cache
def tables() -> dict[str, dict[str, Any]]:
    """Language code to table, English first."""
    return dict(sorted(sources.words().items(), key=lambda found: (found[0] != FALLBACK, found[0])))


@cache
def late_tables() -> dict[str, dict[str, Any]]:
    """The texts that the page loads later (``ui.browser.lesson_files``), by language."""
    return sources.late_words()


def say(key: str, language: str = FALLBACK, **values: Any) -> str:
    """The text of a key, with ``{names}`` replaced by values; English if the language is unknown."""
    found = next(table[key] for table in _tables_for(language) if key in table)
    if isinstance(found, dict):
        count = values.get("count")
        found = found.get(str(count)) or (found.get("one") if count == 1 else None) or found["other"]
    return re.sub(r"\{(\w+)\}", lambda name: _as_text(values.get(name[1], name[0]), language), found)


def _tables_for(language: str) -> list[dict[str, Any]]:
    """The tables in which a text is looked up: those of the language, then the English ones."""
    return [every[code] for code in (language, FALLBACK) for every in (tables(), late_tables()) if code in every]


def word(key: str, otherwise: str | None = None) -> dict[str, str]:
    """A value of a message that is itself translated: the text of a key.

    Args:
        otherwise: the text if the key does not exist.
    """
    return {"say": key} if otherwise is None else {"say": key, "otherwise": otherwise}


def _as_text(value: Any, language: str) -> str:
    if not isinstance(value, dict):
        return str(value)
    return say_or(value["say"], str(value.get("otherwise", value["say"])), language)


def say_or(key: str, otherwise: str, language: str = FALLBACK) -> str:
    """The text of a key, or ``otherwise`` if the key does not exist."""
    return say(key, language) if key in tables()[FALLBACK] else otherwise


def cut(text: str, most: int = MAX_QUOTED) -> str:
    """Untrusted text, cut to ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def without_folders(text: str) -> str:
    """A message for visitors, in which files and folders of this machine are replaced by their last names."""
    return FOLDERS.sub("", text)


class Refused(AdedError):
    """A refusal with a message that can be translated."""

    def __init__(self, key: str, and_then: Sequence[Message] = (), **values: Any) -> None:
        self.messages: list[Message] = [(key, values), *and_then]
        super().__init__(" ".join(say(k, **v) for k, v in self.messages))

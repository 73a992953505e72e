"""The lessons of the page: their files, and the script that the page loads when a lesson or a tool is opened or a race runs.

The script contains the modules of the folders ``ui.browser.sources.LATE``, their styles and texts, and the list of all lessons.
It is not loaded with the page, so that the first visit is fast.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aded.lessons import checks, format
from ui.browser import sources
from ui.browser.trace_format import without_titles


@cache
def lessons() -> dict[str, Path]:
    """The files of the bundled lessons by name, in the order of the list."""
    return {path.stem: path for path in checks.bundled()}


def playable(titles: Container[str]) -> dict[str, Path]:
    """The bundled lessons that can be played if only the recorded races with these titles are available."""

    def races(path: Path) -> Iterator[str]:
        shown = (part.get("show") or {} for part in json.loads(path.read_text("utf-8"))["parts"])
        return (show["race"] for show in shown if "race" in show)

    return {name: path for name, path in lessons().items() if all(title in titles for title in races(path))}


def text_of(path: Path) -> str:
    """A lesson as compact JSON, without comments."""
    body = format.without_comments(json.loads(path.read_text("utf-8")))
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def hidden_races() -> list[Path]:
    """Recorded races that only lessons show."""
    return sorted((checks.FOLDER / "runs").glob("*.json"))


def lesson_format() -> dict[str, Any]:
    """The format of lessons, its limits and JSON Schema, as a JSON value for ``assets/page/lessons/format.js``."""
    return {**format.limits(), "schema": without_titles(format.schema())}


def script(addresses: Mapping[str, str], results: str) -> str:
    """The script of lessons, tools and turns.

    Args:
        addresses: addresses of the lessons by name.
        results: address of the benchmark results.
    """
    known = {
        "format": lesson_format(),
        "lessons": [_entry(name, address) for name, address in addresses.items()],
        "results": results,
        "words": sources.late_words(),
        "styles": sources.late_styles(),
    }
    begin = json.dumps(known, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = [sources.bundled(name, text) for name, text in sources.modules().items() if sources.is_late(name)]
    return "\n".join(["((modules) => {", *parts, f'modules["page/lessons/start"].begin({begin});', "})(AdedExplorer.modules);"])


def _entry(name: str, address: str) -> dict[str, Any]:
    body = json.loads(text_of(lessons()[name]))
    return {
        "name": name,
        **{key: body[key] for key in ("title", "about", "minutes")},
        "parts": len(body["parts"]),
        "file": address,
    }

"""The files that the page loads: style sheet, script, languages, chart library, recorded races.

The address of a file changes with its content, so browsers can cache it indefinitely. A race is read at its first request.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aded.core import trace
from aded.core.paths import ASSETS
from aded.drafters.registry import METHODS
from aded.evaluation import colours
from aded.lessons.checks import title_of
from ui import words
from ui.browser import layout, lesson_files, sources, wire
from ui.browser.trace_format import trace_format

FOLDER = "files"
"""First part of all addresses."""
PLOTLY = ASSETS / "vendor" / "plotly-basic-4.1.1.min.js"
"""The part of plotly.js with line, bar and pie charts, unchanged, from the npm package plotly.js-basic-dist-min."""
RESULTS = ASSETS / "results.json"
"""Benchmark results, packed by `ui.bench_results`."""


@dataclass(frozen=True)
class File:
    """A file of the page.

    Attributes:
        name: its name, such as ``app.js``.
        digest: 16 hexadecimal digits that change with the content.
        read: returns the content.
    """

    name: str
    digest: str
    read: Callable[[], bytes] = field(compare=False, repr=False)

    @property
    def address(self) -> str:
        """Relative to the page, so that it is valid behind any root path."""
        return f"{FOLDER}/{self.digest}/{quote(self.name)}"


@cache
def page_files() -> dict[str, File]:
    """All files by name."""
    texts = {"app.js": script(), "app.css": sources.styles(), **{f"{code}.json": language(code) for code in words.tables()}}
    texts |= {f"lesson-{name}.json": lesson_files.text_of(path) for name, path in lesson_files.lessons().items()}
    contents = {
        "plotly.js": PLOTLY.read_bytes(),
        RESULTS.name: RESULTS.read_bytes(),
        **{name: text.encode() for name, text in texts.items()},
    }
    files = [_file(name, content) for name, content in contents.items()]
    addresses = {file.name: file.address for file in files}
    lessons = {name: addresses[f"lesson-{name}.json"] for name in lesson_files.lessons()}
    files.append(_file("lessons.js", lesson_files.script(lessons, addresses[RESULTS.name]).encode()))
    return {file.name: file for file in [*files, *recorded().values()]}


def _file(name: str, content: bytes) -> File:
    return File(name, _digest(content), partial(bytes, content))


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:16]


@cache
def recorded() -> dict[str, File]:
    """The bundled recorded races by title, those that only lessons show last; they are JSON lines (see ``ui.browser.wire``)."""
    makers = [inspect.getsource(module).encode() for module in (trace, colours, layout, wire)]
    races = {}
    for path in [*sorted((ASSETS / "traces").glob("*.json")), *lesson_files.hidden_races()]:
        title, digest = title_of(path), _digest(path.read_bytes(), *makers)
        races[title] = File(f"{path.stem}.jsonl", digest, partial(_race, path, title, digest[:8]))
    return races


def _race(path: Path, title: str, key: str) -> bytes:
    return wire.to_lines(trace.load(path), colours.METHOD_COLOURS, "recorded", title, key).encode()


def script(root: Path = ASSETS) -> str:
    """All modules as one script with one global, ``AdedExplorer``: the functions of ``page/shell/start.js``.

    The script begins to load the language at once.
    """
    labels = json.dumps({name: method.label for name, method in METHODS.items()})
    format_of_races = json.dumps(trace_format(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    mounts = ", ".join(f'modules["cards/{card.name}/card"].mount' for card in sources.cards(root))
    begin = [
        'const start = modules["page/shell/start"];',
        f"start.begin({{ labels: {labels}, format: {format_of_races}, cards: [{mounts}] }});",
        "return { ...start, modules };",
    ]
    parts = [
        "const modules = {};",
        *(sources.bundled(*module) for module in sources.modules(root).items() if not sources.is_late(module[0])),
        *begin,
    ]
    return "\n".join(["window.AdedExplorer = (() => {", *parts, "})();"])


def language(code: str) -> str:
    """The table of texts of a language, as JSON."""
    return json.dumps(words.tables()[code], ensure_ascii=False, separators=(",", ":"))


def listing(
    languages: Mapping[str, str], plotly: str, races: Mapping[str, str], lessons: str | None = None, packed: bool = False
) -> str:
    """The element in which the script finds the addresses of the files that it loads.

    Args:
        languages: addresses by language code.
        plotly: address of the chart library.
        races: addresses of recorded races by title.
        lessons: address of the script of the lessons.
        packed: whether the files are scripts with compressed text (see ``ui.site``).
    """
    names = {code: table["language.name"] for code, table in words.tables().items()}
    known: dict[str, Any] = {
        "languages": [{"code": code, "name": names[code], "file": file} for code, file in languages.items()],
        "plotly": plotly,
        "races": [_listed(title, file) for title, file in races.items()],
        "lessons": lessons,
        "packed": packed,
    }
    text = json.dumps(known).replace("<", "\\u003c")
    return f'<script type="application/json" data-ax-files>{text}</script>'


def _listed(title: str, file: str) -> dict[str, Any]:
    hidden = title in {title_of(path) for path in lesson_files.hidden_races()}
    return {"title": title, "file": file} | ({"hidden": True} if hidden else {})


def head() -> tuple[str, str]:
    """Markup for the start and for the end of the page's head.

    Browsers run the script before all later ones, and after the style sheet is loaded.
    """
    files = page_files()
    languages = {code: files[f"{code}.json"].address for code in words.tables()}
    races = {title: file.address for title, file in recorded().items()}
    listed = listing(languages, files["plotly.js"].address, races, files["lessons.js"].address)
    script = f'<script defer fetchpriority="high" data-ax-script src="{files["app.js"].address}"></script>'
    return listed + script, f'<link rel="stylesheet" data-ax href="{files["app.css"].address}">'


def find(digest: str, name: str) -> File | None:
    """The file at an address."""
    file = page_files().get(name)
    return file if file and file.digest == digest else None

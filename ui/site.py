"""The page as a folder of files that plays recorded races: for a static Space, any web server, or from disk.

A page opened from disk can only load scripts, so languages, races and the chart library are scripts with compressed text.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.trace import Race, write_atomically
from aded.evaluation.colours import METHOD_COLOURS
from ui import theme, words
from ui.browser import files, lesson_files, sources
from ui.browser.files import title_of
from ui.browser.wire import check_drawable, to_lines

MARK = "aded-explorer-site"
"""Generator name in the page: a folder with such a page may be overwritten."""
PANELS = ("header", "site", "race")
PLOTLY, LESSONS, RESULTS, FOLDERS = "plotly.js", "lessons.js", "results.js", ("traces", "languages", "lessons")
SCRIPTS = ("AdedExplorer.takeFile(", "((modules) => {")
"""How the scripts of a site begin: others are not overwritten."""
POLICY = (
    "default-src 'none'; script-src 'self' file: 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src data: blob:; base-uri 'none'; form-action 'none'"
)
README = """---
title: ADED Explorer, recorded
emoji: 🌳
colorFrom: purple
colorTo: blue
sdk: static
pinned: false
license: apache-2.0
---

# ADED Explorer, recorded

Recorded races of decoding methods, step by step. Open `index.html`, from a web server or straight from the disk.
"""


def export(out: Path, traces: Sequence[Path] = ()) -> list[Path]:
    """Write the site.

    Args:
        out: a folder that does not exist, is empty, or contains an exported site, complete or not.
        traces: recorded races; all bundled ones if empty. Lessons that show others are left out.

    Returns:
        The written files.

    Raises:
        AdedError: a race cannot be read or drawn, or the folder cannot be written or contains something else.
    """
    races = read(traces or [*sorted((theme.ASSETS / "traces").glob("*.json")), *lesson_files.hidden_races()])
    _claim(out)
    names = {title: f"traces/{number:02}-{_slug(title)}.js" for number, title in enumerate(races, 1)}
    texts = {
        names[title]: script_of(names[title], to_lines(race, METHOD_COLOURS, "recorded", title)) for title, race in races.items()
    }
    languages = {code: f"languages/{code}.js" for code in words.tables()}
    texts |= {name: script_of(name, files.language(code)) for code, name in languages.items()}
    texts[PLOTLY] = script_of(PLOTLY, files.PLOTLY.read_text("utf-8"))
    playable = lesson_files.playable(races)
    lessons = {name: f"lessons/{name}.js" for name in playable}
    texts |= {lessons[name]: script_of(lessons[name], lesson_files.text_of(path)) for name, path in playable.items()}
    texts[RESULTS] = script_of(RESULTS, files.RESULTS.read_text("utf-8"))
    texts[LESSONS] = lesson_files.script(lessons, RESULTS)
    texts |= {"README.md": README, "index.html": index(names, languages)}  # the page last, when all its files exist
    for name, text in texts.items():
        write_atomically(out / name, text.encode())
    return [out / name for name in texts]


def read(traces: Sequence[Path]) -> dict[str, Race]:
    """Recorded races by title; equal titles get a number.

    Raises:
        AdedError: there are none, or one cannot be read or drawn.
    """
    races: dict[str, Race] = {}
    for file in traces:
        try:
            race = trace.load(file)
            check_drawable(race)
        except AdedError as error:
            message = str(error) if str(file) in str(error) else f"{file}: {error}"
            raise AdedError(f"{message}, or name the other races with --traces") from None
        title = title_of(file)
        races[title if title not in races else f"{title} ({len(races) + 1})"] = race
    if not races:
        raise AdedError("there are no recorded races; name some with --traces")
    return races


def script_of(name: str, text: str) -> str:
    """A script that contains a text, gzipped and in base64; equal texts make equal scripts."""
    data = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    return f"AdedExplorer.takeFile({json.dumps(name)}, {json.dumps(data)});\n"


def index(races: Mapping[str, str], languages: Mapping[str, str]) -> str:
    """The page, from the names of races by title and of languages by code."""
    panels = "\n".join(f'<div id="ax-{name}">{theme.template(name)}</div>' for name in PANELS)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{MARK}">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">
<title>ADED Explorer</title>
{files.listing(languages, PLOTLY, races, LESSONS, packed=True)}
<style data-ax>{sources.styles()}</style>
<script data-ax-script>{files.script()}</script>
</head>
<body class="ax-file">
{panels}
<script>AdedExplorer.ready().then(AdedExplorer.openSite);</script>
</body>
</html>
"""


def _claim(out: Path) -> None:
    """Create the folder, and refuse one that contains something else."""
    page = out / "index.html"
    try:
        out.mkdir(parents=True, exist_ok=True)
        site = page.is_file() and MARK in _begin(page)
        scripts = [script for folder in FOLDERS for script in (out / folder).glob("*.js")]
        for entry in [*out.iterdir(), *scripts]:
            if not _is_own(entry, site):
                name = entry.relative_to(out)
                raise AdedError(f"{out} contains other files, such as {name}; give --out a new or empty folder")
        for folder in FOLDERS:
            (out / folder).mkdir(exist_ok=True)
        for script in scripts:
            script.unlink()
    except OSError as error:
        raise AdedError(f"cannot write to {out}: {error.strerror}; give another --out") from None


def _is_own(entry: Path, site: bool) -> bool:
    """Whether an export has written this file or folder; ``site``: the page beside it is one of an export."""
    if entry.is_dir():
        return entry.name in FOLDERS
    if entry.suffix == ".js":
        return _begin(entry).startswith(SCRIPTS)
    return entry.name in ("index.html", "README.md") if site else entry.name == "README.md" and _begin(entry) == README


def _begin(file: Path) -> str:
    """The first characters of a file."""
    with file.open(encoding="utf-8", errors="replace") as text:
        return text.read(4096)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "race"

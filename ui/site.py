"""The page as a folder of files: the whole explorer playing recorded races, for a static Space, any web server, or a disk.

A page opened from a disk may load scripts and nothing else, so races and the charts' library are scripts that bring packed text.
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
from ui import theme
from ui.page import COLOURS, title_of
from ui.wire import check_drawable, whole

MARK = "aded-explorer-site"
"""Name of the page's generator: a folder that holds such a page may be written over."""
PANELS = ("header", "site", "race", "experiment")
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


def export(out: Path, files: Sequence[Path] = ()) -> list[Path]:
    """Write the site.

    Args:
        out: a folder that is not there yet, is empty, or holds an exported site, whole or cut short.
        files: recorded races; none for all bundled ones.

    Returns:
        The files that were written.

    Raises:
        AdedError: a race cannot be read or drawn, or the folder cannot be written or holds something else.
    """
    races = read(files or sorted((theme.ASSETS / "traces").glob("*.json")))
    _claim(out)
    names = {title: f"traces/{number:02}-{_slug(title)}.js" for number, title in enumerate(races, 1)}
    texts = {names[title]: packed(names[title], whole(race, COLOURS, "recorded", title)) for title, race in races.items()}
    texts["plotly.js"] = packed("plotly.js", theme.PLOTLY.read_text("utf-8"))
    texts |= {"README.md": README, "index.html": index(names)}  # the page last: what it names is there
    for name, text in texts.items():
        write_atomically(out / name, text.encode())
    return [out / name for name in texts]


def read(files: Sequence[Path]) -> dict[str, Race]:
    """Recorded races by title; titles are told apart.

    Raises:
        AdedError: there is none, or one cannot be read or drawn.
    """
    races: dict[str, Race] = {}
    for file in files:
        try:
            race = trace.load(file)
            check_drawable(race)
        except AdedError as error:
            told = str(error) if str(file) in str(error) else f"{file}: {error}"
            raise AdedError(f"{told}, or name the other races with --traces") from None
        title = title_of(file)
        races[title if title not in races else f"{title} ({len(races) + 1})"] = race
    if not races:
        raise AdedError("there are no recorded races; name some with --traces")
    return races


def packed(name: str, text: str) -> str:
    """A script that brings a text: gzipped, in base64; equal texts make equal scripts."""
    data = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    return f"AdedExplorer.site.take({json.dumps(name)}, {json.dumps(data)});\n"


def index(names: Mapping[str, str]) -> str:
    """The page; names: the races' files by title."""
    races = json.dumps([{"title": title, "file": file} for title, file in names.items()]).replace("<", "\\u003c")
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
{theme.head()}
</head>
<body class="ax-file">
{panels}
<script>window.AdedExplorer.site.openSite({races});</script>
</body>
</html>
"""


def _claim(out: Path) -> None:
    """Make the folder, and refuse one that holds something else."""
    page = out / "index.html"
    try:
        out.mkdir(parents=True, exist_ok=True)
        own = {"traces", "plotly.js", "README.md"}
        if page.exists() and MARK in page.read_text("utf-8", "replace")[:4096]:
            own.add(page.name)
        if any(entry.name not in own for entry in out.iterdir()):
            raise AdedError(f"{out} holds other files; give --out a new or empty folder")
        (out / "traces").mkdir(exist_ok=True)
        for old in (out / "traces").glob("*.js"):
            old.unlink()
    except OSError as error:
        raise AdedError(f"cannot write to {out}: {error.strerror}; give another --out") from None


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "race"

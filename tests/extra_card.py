"""A copy of the sources of the page with one more card: a folder, and its line in the order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from aded.core.paths import ASSETS

FOLDERS = ("page", "cards")
CARD = {
    "card.html": """<section class="ax-card ax-clock" data-part="clock-card">
  <h2 data-say="clock.title"></h2>
  <p data-part="clock-time"></p>
</section>
""",
    "card.css": ".ax-clock { font-style: italic; }\n",
    "card.js": """// The time of the race.

import { setText } from "../../page/core/dom.js";
import { timeOf } from "./time.js";

export function mount({ part, subscribe }) {
  subscribe("frame", ({ time }) => [time], ({ time }) => setText(part("clock-time"), timeOf(time)));
}
""",
    "time.js": "export function timeOf(seconds) {\n  return `${seconds.toFixed(3)} seconds`;\n}\n",
    "en.json": '{ "clock.title": "Clock" }\n',
    "zh.json": '{ "clock.title": "时钟" }\n',
}


def copy_sources(folder: Path) -> Path:
    for name in FOLDERS:
        shutil.copytree(ASSETS / name, folder / name)
    return folder


def add_line(assets: Path, name: str, section: str) -> None:
    """Add a card to the end of a section."""
    order = json.loads((assets / "cards" / "order.json").read_text("utf-8"))
    order[section].append(name)
    (assets / "cards" / "order.json").write_text(json.dumps(order))


def copy_with_card(folder: Path) -> Path:
    copy_sources(folder)
    (folder / "cards" / "clock").mkdir()
    for name, text in CARD.items():
        (folder / "cards" / "clock" / name).write_text(text, "utf-8")
    add_line(folder, "clock", "measure")
    return folder

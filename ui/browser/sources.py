"""The sources of the page in ``assets``: one folder per card (``cards``), and the rest of the page (``page``).

A card is a folder with the files of ``CARD_FILES`` and one line in ``cards/order.json``, under the section that it belongs to.
Templates of the page name a section where its cards are inserted: ``<!-- cards: draft -->``.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from aded.core.paths import ASSETS

CARD_FILES = ("card.html", "card.js")
"""Template and script of a card; its texts are one more file per language, such as ``en.json``. A style sheet is optional."""
CORE = "core"
"""The folder of ``page`` whose style sheets come first; its texts say which languages there are."""
LATE = ("lessons", "tools", "turns")
"""The folders of ``page`` that are loaded later (``ui.browser.lesson_files``): no other module imports from them."""
IMPORT = re.compile(r'^import ({[^}]*}) from "(\.{1,2}/[\w./-]+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.MULTILINE)
EXPORTS = re.compile(r"^export { ([\w, ]+) };\n", re.MULTILINE)
COMMENT = re.compile(r"^ *//.*\n|[ \t]+// [^\"'`\n]*$", re.MULTILINE)
"""A comment of a script; one that contains a quotation mark stays, since the mark could end a string that began before it."""
STYLE_COMMENT = re.compile(r"/\*.*?\*/\n?", re.DOTALL)
SECTION = re.compile(r"<!-- cards: (\w+) -->")


@dataclass(frozen=True)
class Card:
    """A card of the page: its name, which is that of its folder, and the section that it belongs to."""

    name: str
    section: str
    folder: Path


def cards(root: Path = ASSETS) -> list[Card]:
    """All cards in their order.

    Raises:
        ValueError: a card is incomplete, is in ``order.json`` or in a folder only, or its section is in no template.
    """
    order = json.loads((root / "cards" / "order.json").read_text("utf-8"))
    found = [Card(name, section, root / "cards" / name) for section, names in order.items() for name in names]
    names = [card.name for card in found]
    folders = sorted(path.name for path in (root / "cards").iterdir() if path.is_dir())
    if unlisted := [name for name in folders if name not in names]:
        raise ValueError(f"cards/order.json does not list the card {unlisted[0]}, which has a folder")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"cards/order.json lists the card {twice[0]} more than once")
    sections = {name for file in (root / "page").glob("*/*.html") for name in SECTION.findall(file.read_text("utf-8"))}
    if lost := [card for card in found if card.section not in sections]:
        raise ValueError(f"no template has the section {lost[0].section} of the card {lost[0].name}")
    needed = [*CARD_FILES, *(f"{code}.json" for code in _languages(root))]
    for card in found:
        if missing := [file for file in needed if not (card.folder / file).is_file()]:
            raise ValueError(f"the card {card.name} is incomplete: cards/{card.name}/{missing[0]} is missing")
        if "mount" not in EXPORT.findall((card.folder / "card.js").read_text("utf-8")):
            raise ValueError(f"the card {card.name} has no function mount: cards/{card.name}/card.js must export it")
    return found


def template(name: str, root: Path = ASSETS) -> str:
    """A static template of the page with the cards of its sections, without indentation; it never contains tokens."""
    (file,) = (root / "page").glob(f"*/{name}.html")
    known = cards(root)

    def markup(found: re.Match[str]) -> str:
        return "".join((card.folder / "card.html").read_text("utf-8") for card in known if card.section == found[1])

    return re.sub("\n +", "\n", SECTION.sub(markup, file.read_text("utf-8")))


def styles(root: Path = ASSETS) -> str:
    """All style sheets as one, without comments: those of the page, then those of the cards."""
    return _styles([*_page_folders(root), *(card.folder for card in cards(root))])


def late_styles(root: Path = ASSETS) -> str:
    """The style sheets of the folders that are loaded later."""
    return _styles([root / "page" / name for name in LATE])


def _styles(folders: list[Path]) -> str:
    sheets = [sheet for folder in folders for sheet in sorted(folder.glob("*.css"))]
    return STYLE_COMMENT.sub("", "".join(sheet.read_text("utf-8") for sheet in sheets))


def words(root: Path = ASSETS) -> dict[str, dict[str, Any]]:
    """The texts of each language: those of the page and of all cards.

    Raises:
        ValueError: a language is missing in a folder, or two folders have the same key.
    """
    return _words(root, [*_page_folders(root), *(card.folder for card in cards(root))])


def late_words(root: Path = ASSETS) -> dict[str, dict[str, Any]]:
    """The texts of the folders that are loaded later, in each language."""
    return _words(root, [root / "page" / name for name in LATE])


def _words(root: Path, folders: list[Path]) -> dict[str, dict[str, Any]]:
    languages = _languages(root)
    tables: dict[str, dict[str, Any]] = {code: {} for code in languages}
    origin: dict[tuple[str, str], Path] = {}
    for folder in folders:
        if not any(folder.glob("*.json")):
            continue
        for code in languages:
            file = folder / f"{code}.json"
            if not file.is_file():
                raise ValueError(f"{file.relative_to(root)} is missing: the texts of {folder.name} in this language")
            for key, text in json.loads(file.read_text("utf-8")).items():
                if other := origin.get((code, key)):
                    raise ValueError(f"{other.relative_to(root)} and {file.relative_to(root)} both have the text {key}")
                origin[code, key], tables[code][key] = file, text
    return tables


def modules(root: Path = ASSETS) -> dict[str, str]:
    """The modules by path, such as ``page/core/dom``, as text, each after those that it imports.

    Raises:
        ValueError: modules import each other in a circle, or import one that does not exist.
    """
    files = sorted(file for part in ("page", "cards") for file in (root / part).rglob("*.js"))
    texts = {file.relative_to(root).with_suffix("").as_posix(): file.read_text("utf-8") for file in files}
    imports = {name: list(_imported(name, text)) for name, text in texts.items()}
    for name, needed in imports.items():
        if unknown := [other for other in needed if other not in texts]:
            raise ValueError(f"{name}.js imports {unknown[0]}.js, which does not exist")
    try:
        return {name: texts[name] for name in TopologicalSorter(imports).static_order()}
    except CycleError as error:
        raise ValueError(f"modules import each other in a circle: {', '.join(error.args[1])}") from None


def is_late(name: str) -> bool:
    """Whether a module is loaded later."""
    return name.startswith(tuple(f"page/{folder}/" for folder in LATE))


def bundled(name: str, text: str) -> str:
    """A module as part of one script: it has its own scope and returns its exports; comments and indentation are left out."""
    assert "</script" not in text.lower() and "<!--" not in text, f"{name}.js would end its own script element"
    exports = [*EXPORT.findall(text), *EXPORTS.findall(text)]
    text = EXPORTS.sub("", text)
    text = IMPORT.sub(lambda found: f'const {found[1]} = modules["{_resolved(name, found[2])}"];', text)
    text = re.sub("^(export | +|\n+)", "", COMMENT.sub("", text), flags=re.MULTILINE)
    return f'modules["{name}"] = (() => {{\n{text}return {{ {", ".join(exports)} }};\n}})();'


def _imported(name: str, text: str) -> Iterator[str]:
    for _, path in IMPORT.findall(text):
        yield _resolved(name, path)


def _resolved(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _languages(root: Path) -> list[str]:
    return sorted(file.stem for file in (root / "page" / CORE).glob("*.json"))


def _page_folders(root: Path) -> list[Path]:
    folders = (path for path in (root / "page").iterdir() if path.is_dir() and path.name not in LATE)
    return sorted(folders, key=lambda path: (path.name != CORE, path.name))

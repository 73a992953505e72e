"""The sources of the page: cards found in their folders, templates, styles, modules and texts put together."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from extra_card import CARD, FOLDERS, add_line, copy_sources, copy_with_card
from waiting import HANG

from aded.core.paths import ASSETS
from ui import words
from ui.browser import files, sources


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """A copy of the sources, which a test may change."""
    return copy_sources(tmp_path)


@pytest.fixture
def with_clock(tmp_path: Path) -> Path:
    """The sources with one more card."""
    return copy_with_card(tmp_path)


def test_a_card_is_one_folder_and_one_line_of_order(with_clock: Path):
    markup, card = sources.template("race", with_clock), re.sub("\n +", "\n", CARD["card.html"])
    assert markup.index('data-part="nodes"') < markup.index(card) < markup.index('class="ax-time"')
    assert sources.styles(with_clock).count(CARD["card.css"]) == 1
    assert {code: table["clock.title"] for code, table in sources.words(with_clock).items()} == {"en": "Clock", "zh": "时钟"}
    script = files.script(with_clock)
    assert re.search(r'modules\["cards/clock/card"\] = \(\(\) => \{\n+const \{ setText \} = modules\["page/core/dom"\];', script)
    assert 'const { timeOf } = modules["cards/clock/time"];' in script
    assert (
        'modules["cards/nodes/card"].mount, modules["cards/clock/card"].mount, modules["cards/prediction/card"].mount' in script
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_with_one_more_card_runs_up_to_its_first_file(with_clock: Path, tmp_path: Path):
    """Everything but the loading of the language, for which a browser is needed."""
    script = tmp_path / "app.mjs"
    start = "globalThis.window = {}; globalThis.document = { querySelector: () => { throw new Error('files') } };\n"
    script.write_text(start + files.script(with_clock), "utf-8")
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=HANG)
    assert "Error: files" in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("file", ["card.html", "card.js", "zh.json"])
def test_the_missing_file_of_an_incomplete_card_is_named(with_clock: Path, file: str):
    (with_clock / "cards" / "clock" / file).unlink()
    with pytest.raises(ValueError, match=f"^the card clock is incomplete: cards/clock/{file} is missing$"):
        sources.cards(with_clock)


def test_a_card_needs_no_style_of_its_own(with_clock: Path):
    (with_clock / "cards" / "clock" / "card.css").unlink()
    assert "ax-clock" not in sources.styles(with_clock)
    assert "ax-clock" in sources.template("race", with_clock)


def test_a_card_without_a_line_or_without_a_folder_is_named(with_clock: Path):
    add_line(with_clock, "calendar", "measure")
    with pytest.raises(ValueError, match="^the card calendar is incomplete: cards/calendar/card.html is missing$"):
        sources.cards(with_clock)
    shutil.copy(ASSETS / "cards" / "order.json", with_clock / "cards" / "order.json")
    with pytest.raises(ValueError, match="^cards/order.json does not list the card clock, which has a folder$"):
        sources.cards(with_clock)
    add_line(with_clock, "clock", "measure")
    add_line(with_clock, "clock", "lab")
    with pytest.raises(ValueError, match="lists the card clock more than once"):
        sources.cards(with_clock)


def test_a_card_in_a_section_that_no_template_has_is_named(with_clock: Path):
    text = (with_clock / "cards" / "order.json").read_text("utf-8").replace('"measure"', '"measures"')
    (with_clock / "cards" / "order.json").write_text(text)
    with pytest.raises(ValueError, match="^no template has the section measures of the card timing$"):
        sources.cards(with_clock)


def test_a_card_whose_script_has_no_function_mount_is_named(with_clock: Path):
    (with_clock / "cards" / "clock" / "card.js").write_text("export const card = 1;\n")
    with pytest.raises(ValueError, match="cards/clock/card.js must export it"):
        sources.cards(with_clock)


def test_a_text_that_two_folders_have_is_named(with_clock: Path):
    (with_clock / "cards" / "clock" / "en.json").write_text('{ "mask.title": "Clock" }')
    with pytest.raises(ValueError, match=r"cards/mask/en\.json and cards/clock/en\.json both have the text mask\.title"):
        sources.words(with_clock)


def test_every_card_is_on_the_page_in_its_order():
    markup = "".join(sources.template("race").split())
    places = [markup.index("".join((card.folder / "card.html").read_text("utf-8").split())) for card in sources.cards()]
    assert places == sorted(places)
    assert "<!--" not in markup


def test_a_part_of_a_card_has_a_name_of_its_own():
    for name in ("race", "header"):
        parts = re.findall(r'data-part="([^"]+)"', sources.template(name))
        assert sorted(set(parts)) == sorted(parts)


def test_a_card_imports_only_from_its_folder_and_from_the_page():
    for name, text in sources.modules().items():
        own = f"{Path(name).parent}/" if name.startswith("cards/") else "page/"
        for imported in sources._imported(name, text):
            assert imported.startswith((own, "page/")), (name, imported)


def test_the_texts_of_a_card_are_used_by_that_card_alone():
    everything = {file: file.read_text("utf-8") for file in ASSETS.rglob("*") if file.suffix in (".js", ".html")}
    for card in sources.cards():
        for key in json.loads((card.folder / "en.json").read_text("utf-8")):
            users = {file for file, text in everything.items() if f'"{key}"' in text}
            assert all(file.parent == card.folder for file in users), (key, users)


def test_folders_and_modules_are_small():
    for folder in {Path(name).parent for name in sources.modules()}:
        assert len(list((ASSETS / folder).glob("*.js"))) <= 15, folder
    assert all(text.count("\n") <= 300 for text in sources.modules().values())


def test_every_style_sheet_is_in_the_page():
    styles = sources.styles() + sources.late_styles()
    sheets = [file.read_text("utf-8") for folder in FOLDERS for file in (ASSETS / folder).rglob("*.css")]
    rules = [sources.STYLE_COMMENT.sub("", sheet) for sheet in sheets]
    assert all(sheet in styles for sheet in rules)
    assert len(styles) == sum(map(len, rules))
    assert "/*" not in styles


def test_every_language_is_complete_and_english_first():
    tables = words.tables()
    assert [set(table) for table in tables.values()] == [set(tables["en"])] * len(tables)
    assert next(iter(tables)) == "en"


# Modules


def test_a_module_provides_only_its_exports():
    text = (
        'import { el } from "../core/dom.js";\n// A comment.\nconst x = 1; // More.\nconst a = " // none";\n'
        "export function y() {\n  return x;\n}\nexport { el };\n"
    )
    bundled = sources.bundled("page/shell/z", text)
    assert bundled == (
        'modules["page/shell/z"] = (() => {\nconst { el } = modules["page/core/dom"];\nconst x = 1;\nconst a = " // none";\n'
        "function y() {\nreturn x;\n}\nreturn { y, el };\n})();"
    )


def test_no_template_literal_has_more_than_one_line():
    """Indentation is left out of the page's script."""
    quotes = [line.replace('"`"', "").count("`") for text in sources.modules().values() for line in text.splitlines()]
    assert all(count % 2 == 0 for count in quotes)


def test_every_module_comes_after_those_that_it_imports():
    seen: set[str] = set()
    for name, text in sources.modules().items():
        assert set(sources._imported(name, text)) <= seen
        seen.add(name)
    assert len(seen) == sum(1 for folder in FOLDERS for _ in (ASSETS / folder).rglob("*.js"))


def test_modules_that_import_each_other_are_named(assets: Path):
    for name, imported in (("one", "two"), ("two", "three"), ("three", "two")):
        text = f'import {{ x }} from "./{imported}.js";\nexport const y = x;\n'
        (assets / "page" / "core" / f"{name}.js").write_text(text)
    with pytest.raises(ValueError, match="in a circle: (page/core/(two|three)(, )?){3}$"):
        sources.modules(assets)


def test_a_module_that_does_not_exist_is_named(assets: Path):
    (assets / "page" / "core" / "one.js").write_text('import { x } from "./none.js";\nexport const y = x;\n')
    with pytest.raises(ValueError, match=r"^page/core/one\.js imports page/core/none\.js, which does not exist$"):
        sources.modules(assets)

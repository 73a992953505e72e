"""What the page saves: every file is opened again; the saved page is opened without a network."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browsing import (
    CHARTED,
    HOSTILE,
    at_rest,
    drawn,
    open_race,
    part,
    saved,
    show_tab,
    start,
    sync_api,
    text_of,
    unfold,
    watched_page,
)
from PIL import Image, ImageChops, ImageFilter, ImageStat
from serving_fakes import Live
from ui_fakes import make_race

from aded.core import trace

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
SECTIONS = True

TOKENS = HOSTILE * 4
TABS = ("draft", "pass", "verify", "learn")
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = {
    *("runs", "race", "times", "strip", "tree", "history", "mask", "slots", "matrix", "heat", "learned", "bigrams", "sizes"),
    *("agreement", "cost", "tokens", "speed", "cache-tokens", "cache-pairs", "accepted"),
}
TABLES = (PICTURES - {"strip", "tree", "tokens", "speed", "cache-tokens", "cache-pairs"}) | {
    *("steps", "walk", "nodes", "rows", "throughput", "cache", "whatif"),
}


@pytest.fixture
def hostile(page: sync_api.Page, tmp_path: Path) -> sync_api.Page:
    """The page with a race whose tokens, prompt and labels contain markup and code."""
    race = make_race(TOKENS)
    runs = [replace(t, header=replace(t.header, prompt=HOSTILE[0], label=t.header.label + " <i>${1}</i>")) for t in race.lanes]
    open_race(page, trace.Race(runs), tmp_path)
    return page


def alone(browser: sync_api.Browser, path: Path) -> tuple[sync_api.BrowserContext, sync_api.Page, list[str]]:
    """The file in a separate browser profile without a network, and the errors in it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, accept_downloads=True)
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else wrong.append(r.url))
    page.goto(path.as_uri())
    page.wait_for_selector(".ax-run-view .ax-step", state="attached")
    page.wait_for_function(CHARTED)
    unfold(page)
    return context, page, wrong


def test_a_saved_page_plays_the_race_without_server_and_network(
    hostile: sync_api.Page, browser: sync_api.Browser, tmp_path: Path
):
    file = saved(hostile, "race.html", tmp_path)
    steps = part(hostile, "where").inner_text()
    context, page, wrong = alone(browser, file)
    for method in ("plain", "aded"):
        assert text_of(page, method) == "".join(TOKENS)
    assert part(page, "where").inner_text() == steps
    assert part(page, "prompt").inner_text() == HOSTILE[0]
    for name in ("throughput-sentence", "throughput-source", "sizes-sentence"):
        sync_api.expect(part(page, name)).to_have_text(part(hostile, name).inner_text())
    assert page.locator(".ax-measure-grid .main-svg").count() >= 3
    page.keyboard.press("Home")
    sync_api.expect(part(page, "where")).to_contain_text("step 1 of")
    part(page, "play").click()
    page.wait_for_function("() => !document.querySelector('[data-part=where]').textContent.startsWith('step 1 ')")
    assert part(page, "language").locator("option").count() == 1  # the language in which it was saved
    sync_api.expect(part(page, "language")).to_be_hidden()
    part(page, "theme").click()
    assert page.evaluate("window.PWN") is None
    assert page.locator("img, i:not(.ax i)").count() == 0
    assert wrong == []
    again = saved(page, "race.html", tmp_path)
    context.close()
    context, page, wrong = alone(browser, again)
    assert text_of(page, "aded") == "".join(TOKENS)
    assert wrong == []
    context.close()


def offered(page: sync_api.Page) -> dict[str, set[str]]:
    """What the menu can save besides the race: names by format."""
    part(page, "more").evaluate("e => { e.open = false; }")
    part(page, "save-menu").evaluate("e => { e.open = false; }")
    part(page, "save-menu").locator("summary").first.click()
    part(page, "save-menu").locator(".ax-save-more").evaluate("e => { e.open = true; }")
    part(page, "save-list").locator("[data-save]").first.wait_for()
    able = part(page, "save-list").locator("[data-save]:not([aria-disabled='true'])")
    files = able.evaluate_all("all => all.map(e => e.dataset.save)")
    assert len(files) == len(set(files))
    return {kind: {name for name, end in (file.split(".") for file in files) if end == kind} for kind in ("svg", "png", "csv")}


@pytest.mark.slow
def test_the_menu_has_the_same_entries_in_every_tab_with_reasons(page: sync_api.Page):
    seen = set()
    for tab in TABS:
        show_tab(page, tab)
        drawn(page)
        offered(page)
        entries = part(page, "save-list").locator("[data-save]")
        seen.add(tuple(entries.evaluate_all("all => all.map(e => e.dataset.save)")))
        disabled = part(page, "save-list").locator("[data-save][aria-disabled='true']")
        assert all(disabled.evaluate_all("all => all.map(e => Boolean(e.title))"))
    assert len(seen) == 1
    sync_api.expect(part(page, "save-list").locator("[data-save='tree.svg']")).to_have_attribute(
        "title", "Open the tab “1 Draft” first."
    )


def drawing_of(path: Path) -> ElementTree.Element:
    """A saved drawing; it must contain only shapes and texts with fonts."""
    drawing = ElementTree.fromstring(path.read_text("utf-8"))
    assert drawing.tag == f"{SVG}svg"
    tags = {element.tag.removeprefix(SVG) for element in drawing.iter()}
    assert "text" in tags
    assert not tags & {"script", "foreignObject", "img", "image", "b", "i", "a", "style"}
    for element in drawing.iter(f"{SVG}text"):
        assert "font-family" in element.attrib or "font-family" in element.get("style", "") or len(element), element.attrib
    return drawing


def words_of(drawing: ElementTree.Element) -> str:
    return "".join("".join(element.itertext()) for element in drawing.iter(f"{SVG}text"))


def rows_of(path: Path) -> list[dict[str, str]]:
    """A saved table; every line must have as many cells as the head."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows and all(None not in row and None not in row.values() for row in rows)
    return rows


@pytest.mark.slow
def test_every_chart_and_every_table_can_be_saved(page: sync_api.Page, tmp_path: Path):
    part(page, "heat-rows").locator("tr").first.wait_for()
    found: set[str] = set()
    tables: set[str] = set()
    for tab in TABS:
        show_tab(page, tab)
        drawn(page)
        files = offered(page)
        for name in sorted(files["csv"] - tables):
            rows_of(saved(page, f"{name}.csv", tmp_path))
        tables |= files["csv"]
        assert files["svg"] == files["png"]
        save_pictures(page, files["svg"] - found, tmp_path)
        found |= files["svg"]
    assert found == PICTURES
    assert tables == TABLES


@pytest.mark.slow
def test_the_table_of_the_logit_lens_is_saved_from_a_race_that_has_one(hostile: sync_api.Page, tmp_path: Path):
    rows = rows_of(saved(hostile, "lens.csv", tmp_path))
    assert [row["layer"] for row in rows[:3]] == ["1", "2", "4"]
    assert [row["chosen_rank"] for row in rows[:3]] == ["3", "1", "1"]
    assert rows[2]["token"] == rows[2]["chosen_token"]


def save_pictures(page: sync_api.Page, names: set[str], tmp_path: Path) -> None:
    for name in sorted(names):
        drawing = drawing_of(saved(page, f"{name}.svg", tmp_path))
        pixels = saved(page, f"{name}.png", tmp_path).read_bytes()
        assert pixels.startswith(b"\x89PNG")
        size = [int.from_bytes(pixels[at : at + 4], "big") for at in (16, 20)]
        assert size == [2 * int(drawing.attrib[side]) for side in ("width", "height")]


@pytest.mark.slow
def test_the_saved_runs_have_their_numbers_and_the_legend(page: sync_api.Page, tmp_path: Path):
    drawing = drawing_of(saved(page, "runs.svg", tmp_path))
    assert int(drawing.attrib["width"]) > 1.5 * int(drawing.attrib["height"]), "the runs are side by side, as on the page"
    words = words_of(drawing)
    for word in ("tokens/step", part(page, "runs").locator(".ax-speed").last.inner_text(), "bonus token", "correction token"):
        assert word in words
    assert words.count("?") == "".join(part(page, "runs").locator(".ax-text").all_inner_texts()).count("?")  # no help buttons
    assert "show rejected drafts" not in words


@pytest.mark.slow
def test_a_saved_page_opens_at_the_view_that_it_was_saved_with(page: sync_api.Page, browser: sync_api.Browser, tmp_path: Path):
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    page.keyboard.press("Home")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    show_tab(page, "verify")
    sync_api.expect(part(page, "where")).to_contain_text("step 7 of")
    context, own, wrong = alone(browser, saved(page, "race.html", tmp_path))
    sync_api.expect(part(own, "where")).to_contain_text("step 7 of")
    sync_api.expect(part(own, "step-title")).to_contain_text("Plain decoding, step 7")
    sync_api.expect(own.locator("#ax-panel-verify")).to_be_visible()
    assert wrong == []
    context.close()


@pytest.mark.slow
def test_what_a_run_has_not_is_not_said_to_be_in_another_tab(page: sync_api.Page):
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    part(page, "save-menu").locator("summary").first.click()
    rows = part(page, "save-list").locator(".ax-menu-row")
    for words in ("Base counts and session counts", "Row of the matrix", "Phrases", "Residual distribution"):
        for row in rows.filter(has_text=words).all():
            sync_api.expect(row).to_contain_text("Not in this step or run")


@pytest.mark.slow
def test_the_saved_mask_says_what_its_axes_and_colours_mean(page: sync_api.Page, tmp_path: Path):
    show_tab(page, "pass")
    drawn(page)
    words = words_of(drawing_of(saved(page, "mask.svg", tmp_path)))
    for word in ("Rows: queries", "columns: keys", "context", "accepted", "rejected", "not reached", "not attended to"):
        assert word in words


@pytest.mark.slow
def test_the_marks_of_bonus_and_correction_tokens_differ_in_the_saved_tree(page: sync_api.Page, tmp_path: Path):
    drawing = drawing_of(saved(page, "tree.svg", tmp_path))
    turned = [group for group in drawing.iter(f"{SVG}g") if group.get("transform", "").startswith("rotate(45 ")]
    assert [len(group.findall(f"{SVG}rect")) for group in turned] == [1]


DRAWN = {
    "heat": ".ax-heat:not(.ax-lens)",
    "slots": ".ax-slots-row",
    "times": ".ax-times",
    "strip": ".ax-strip",
    "runs": ".ax-text",
}
"""Saved pictures of elements that are no charts on the page, and the selectors of these elements."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.slow
def test_a_saved_picture_looks_like_the_element_on_the_page(browser: sync_api.Browser, address: str, tmp_path: Path, theme: str):
    with watched_page(browser, address, query=f"?__theme={theme}", sections=True) as page:
        part(page, "heat-rows").locator("tr").first.wait_for()
        show_tab(page, "pass")
        drawn(page)
        files = {name: saved(page, f"{name}.svg", tmp_path) for name in DRAWN}
        part(page, "save-menu").evaluate("e => { e.open = false; }")
        page.mouse.move(0, 0)
        at_rest(page)
        shown = {name: pixels_of(page.locator(place).first) for name, place in DRAWN.items()}
    with browser.new_context(offline=True, viewport={"width": 1600, "height": 1200}) as context:
        view = context.new_page()
        for name, file in files.items():
            view.goto(file.as_uri())
            assert contains(pixels_of(view), shown[name]), name


def pixels_of(place: sync_api.Page | sync_api.Locator) -> Image.Image:
    """A screenshot, slightly blurred: the phase of a dotted line does not matter, but a shift of a word by a pixel does."""
    return Image.open(io.BytesIO(place.screenshot())).convert("RGB").filter(ImageFilter.GaussianBlur(1))


def contains(picture: Image.Image, seen: Image.Image) -> bool:
    """Whether the picture contains the screenshot, at any of the places below its title."""
    for x, y in itertools.product(range(10, 22), range(30, 240)):
        part_of = picture.crop((x, y, x + seen.width, y + seen.height))
        if sum(ImageStat.Stat(ImageChops.difference(part_of, seen)).mean) / 3 < 2.5:
            return True
    return False


@pytest.mark.slow
def test_hostile_tokens_are_text_in_every_saved_file(hostile: sync_api.Page, tmp_path: Path):
    at_rest(hostile)
    words: dict[str, str] = {}
    for tab in TABS:
        show_tab(hostile, tab)
        drawn(hostile)
        files = offered(hostile)
        for name in sorted(files["svg"] - words.keys()):
            words[name] = words_of(drawing_of(saved(hostile, f"{name}.svg", tmp_path)))
    assert words.keys() == PICTURES - {"history"}  # these steps have no recorded simulations
    assert words["runs"].count(HOSTILE[0]) == 2 * TOKENS.count(HOSTILE[0])
    for name in ("tree", "heat", "matrix", "slots"):
        assert "U+202E" in words[name] or "<img" in words[name], name
        assert "\u202e" not in words[name]
    tables = {name: rows_of(saved(hostile, f"{name}.csv", tmp_path)) for name in sorted(files["csv"])}
    assert all(row["run"] != "" for row in tables["runs"] if "run" in row)
    for name in ("nodes", "walk", "slots", "mask"):
        assert {row["text"] for row in tables[name]} & set(TOKENS), name
    assert hostile.evaluate("window.PWN") is None


@pytest.mark.slow
def test_saved_tables_have_the_values_of_the_trace(hostile: sync_api.Page, tmp_path: Path):
    read = {
        name: rows_of(saved(hostile, f"{name}.csv", tmp_path))
        for name in ("runs", "steps", "nodes", "race", "agreement", "sizes")
    }
    race = make_race(TOKENS)
    plain, aded = race.lanes
    assert [int(row["tokens"]) for row in read["runs"]] == [len(TOKENS)] * 2
    assert len(read["steps"]) == len(read["race"]) == len(plain.steps) + len(aded.steps)
    written = "".join(row["text"] for row in read["steps"] if row["method"] == "plain")
    assert written == "".join(TOKENS)
    assert len(read["nodes"]) > 1
    parts = {"base": "base counts", "overlay": "session counts", "session": "both"}
    recorded = [(step.index + 1, parts[found.who], found.total_variation) for step in aded.steps for found in step.agreement]
    assert [(int(row["step"]), row["part"], float(row["total_variation"])) for row in read["agreement"]] == recorded
    assert [int(row["session_rows"]) for row in read["sizes"]] == [step.size.overlay_rows for step in aded.steps if step.size]


@pytest.mark.slow
def test_verdicts_are_not_saved_before_they_are_predicted(page: sync_api.Page, tmp_path: Path):
    part(page, "heat-rows").locator("tr").first.wait_for()
    part(page, "prediction-toggle").click()
    sync_api.expect(part(page, "view-root")).to_have_attribute("data-covered", "true")
    files = offered(page)
    assert not {"walk", "matrix", "heat", "rows", "agreement"} & (files["svg"] | files["csv"])
    nodes = rows_of(saved(page, "nodes.csv", tmp_path))
    assert {row["verdict"] for row in nodes} == {"root", "unverified"}
    assert all(row["target_probability"] == row["reason"] == row["slot_after"] == "" for row in nodes)
    assert {row["when"] for row in rows_of(saved(page, "slots.csv", tmp_path))} == {"before"}


@pytest.mark.slow
def test_compared_races_and_learning_are_saved_from_a_saved_page(page: sync_api.Page, browser: sync_api.Browser, tmp_path: Path):
    """Two races and two prompts in a saved page, as after a visitor has run them."""
    file = saved(page, "race.html", tmp_path)
    run = {"label": "ADED", "methodSettings": {}, "tokens": 24, "rate": 50.5, "perStep": 2.25, "ratio": 1.5}
    races = [{"id": f"{i}", "prompt": f"p{i}", "settings": {}, "runs": [{**run, "tokens": 24 + i}]} for i in range(2)]
    near = {"total_variation": 0.5, "top_1": 0.25, "top_4": 0.5, "top_12": 0.75}
    series = [{"prompt": HOSTILE[0], "label": "ADED", "perStep": 2, "base": near, "session": near} for _ in range(2)]
    kept = json.dumps({"compare": races, "series": {"rows": series, "races": []}}).replace("<", "\\u003c")
    text = re.sub(r"(<script[^>]*data-ax-kept[^>]*>)[^<]*", lambda found: found[1] + kept, file.read_text("utf-8"))
    file.write_text(text, "utf-8")
    context, view, wrong = alone(browser, file)
    part(view, "memory-rows").locator("tr").first.wait_for()
    assert offered(view)["csv"] == TABLES - {"whatif", "accepted"} | {"compare", "memory"}
    assert "memory" in offered(view)["svg"]
    (row,) = rows_of(saved(view, "compare.csv", tmp_path))
    assert [row["before_tokens"], row["now_tokens"], row["now_speedup"]] == ["24", "25", "1.5"]
    rows = rows_of(saved(view, "memory.csv", tmp_path))
    assert [(row["prompt"], row["session_top_12"]) for row in rows] == [(HOSTILE[0], "0.75")] * 2
    drawing_of(saved(view, "memory.svg", tmp_path))
    assert wrong == []
    context.close()


@pytest.mark.slow
def test_a_page_that_is_saved_during_a_race_plays_the_part_until_then(
    live_page: sync_api.Page, live: Live, browser: sync_api.Browser, tmp_path: Path
):
    page = live_page
    start(page, "Write a long story about the sea.", 400)
    part(page, "language").select_option("zh")
    sync_api.expect(page.locator("html")).to_have_attribute("lang", "zh")
    page.wait_for_function("() => document.querySelectorAll('.ax-run-view[data-method=aded] .ax-step').length >= 3")
    file = saved(page, "race.html", tmp_path)
    live.stop(page)
    context, own, wrong = alone(browser, file)
    assert "停止" in part(own, "sentence").inner_text()
    own.keyboard.press("Home")
    where = part(own, "where").inner_text()
    part(own, "play").click()
    own.wait_for_function("text => document.querySelector('[data-part=where]').textContent !== text", arg=where)
    assert own.locator("html").get_attribute("lang") == "zh"
    assert wrong == []
    context.close()

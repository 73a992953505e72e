"""Layout: nothing is cut off, no word is broken, no empty mark is left."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import at_rest, open_file, open_race, part, sync_api, watched_page
from ui_fakes import make_race

from aded.core import trace
from aded.core.trace import Race

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
SECTIONS = True

WIDTHS = (390, 1440, 2560)
BROKEN = """all => all.filter(e => {
    const range = document.createRange();
    for (const { segment, index, isWordLike } of new Intl.Segmenter("en", { granularity: "word" }).segment(e.textContent)) {
        if (!isWordLike || !(e.firstChild instanceof Text)) continue;
        range.setStart(e.firstChild, index);
        range.setEnd(e.firstChild, index + segment.length);
        if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) return true;
    }
    return false;
}).map(e => e.textContent)"""
WIDER = "all => all.filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.trim().slice(0, 40))"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.slow
def test_no_word_of_a_setting_is_broken_and_no_table_of_the_race_is_wider_than_its_box(
    browser: sync_api.Browser, address: str, width: int
):
    with watched_page(browser, address, width, sections=True) as page:
        for group in page.locator("#ax-controls button.label-wrap").all():
            group.click()
        part(page, "race-every").locator("summary").click()
        part(page, "race-rows").locator("tr").first.wait_for()
        labels = page.locator("#ax-controls .ax-number-label")
        sync_api.expect(labels.last).to_be_visible()
        assert labels.count() > 8
        assert labels.evaluate_all(BROKEN) == []
        assert page.locator("[data-part='race-every'] th").evaluate_all(BROKEN) == []
        assert page.locator("[data-part='race-every'] .ax-wide").evaluate_all(WIDER if width > 390 else "all => []") == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.slow
def test_a_step_that_ends_a_line_has_no_mark_on_the_empty_line_after_it(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(["one", "\n", "\n", "two"]), tmp_path)
    plain = page.locator(".ax-run-view[data-method='plain']")
    for index in (1, 2):
        plain.locator(".ax-step").nth(index).dispatch_event("click")
        step = plain.locator(".ax-step.ax-now")
        sync_api.expect(step).to_have_attribute("data-step", str(index))
        shown = step.evaluate("e => [...e.getClientRects()].map(box => box.width)")
        assert max(shown) > 4  # the mark of the line break
        sides = step.evaluate(
            "e => [...getComputedStyle(e).boxShadow.matchAll(/(-?[\\d.]+)px (-?[\\d.]+)px ([\\d.]+)px (-?[\\d.]+)px/g)]"
            ".flatMap(([, right, , blur, spread]) => [right, blur, spread].map(Number))"
        )
        assert sides and not any(sides)  # a box without width has no shadow at its sides


CUT = """all => all.filter(e => e.getClientRects().length && !e.closest(".ax-wide, .ax-scroll, .ax-sr")).flatMap(e => {
    const card = e.closest(".ax-card");
    const edge = card.getBoundingClientRect().right - parseFloat(getComputedStyle(card).paddingRight);
    return e.getBoundingClientRect().right > edge + 1 ? [e.className] : [];
})"""
"""Tables, and boxes that scroll, that are wider than their card."""


@pytest.mark.slow
def test_no_table_is_cut_on_a_narrow_screen(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, 390, sections=True) as page:
        page.evaluate("() => { for (const box of document.querySelectorAll('details:not(.ax-menu)')) box.open = true; }")
        for look in page.locator(".ax-run-view .ax-look").all():
            look.click()
            at_rest(page)
            tables = page.locator(".ax-card table")
            assert tables.count() > 8
            assert tables.evaluate_all(CUT) == []
            scrollers = page.locator(".ax-card :is(.ax-wide, .ax-scroll):not(.ax-menu *)")
            assert scrollers.evaluate_all(CUT.replace('".ax-wide, .ax-scroll, .ax-sr"', '".ax-sr"')) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440])
def test_a_long_prompt_is_expanded_by_keyboard_and_pointer(browser: sync_api.Browser, address: str, width: int, tmp_path: Path):
    race = make_race()
    prompt = "Explain it, at length. " * 20
    named = [replace(run, header=replace(run.header, prompt=prompt)) for run in race.lanes]
    with watched_page(browser, address, width, sections=True) as page:
        line, toggle = part(page, "prompt-line"), part(page, "prompt-toggle")
        open_race(page, make_race(), tmp_path)
        if width == 1440:
            sync_api.expect(toggle).to_be_hidden()
        open_race_again(page, Race(named), tmp_path)
        sync_api.expect(toggle).to_have_attribute("aria-expanded", "false")
        assert line.evaluate("e => e.scrollWidth > e.clientWidth")
        toggle.press("Enter")
        sync_api.expect(toggle).to_have_attribute("aria-expanded", "true")
        assert not line.evaluate("e => e.scrollWidth > e.clientWidth + 1")
        toggle.click()
        sync_api.expect(toggle).to_have_attribute("aria-expanded", "false")


def open_race_again(page: sync_api.Page, race: Race, folder: Path) -> None:
    trace.save(race, folder / "again.json")
    open_file(page, folder / "again.json")
    sync_api.expect(part(page, "race-title")).to_have_text("again.json")


@pytest.mark.slow
def test_few_steps_fill_the_strip_and_each_can_be_clicked(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(["one", " two", " three", " four", " five", " six", " seven"]), tmp_path)
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    bars = part(page, "strip").locator("> i")
    sync_api.expect(bars).to_have_count(7)
    wide = part(page, "strip").evaluate(
        "e => (e.lastElementChild.getBoundingClientRect().right - e.getBoundingClientRect().left) / e.clientWidth"
    )
    assert wide > 0.5
    for index in (1, 4, 6):
        bars.nth(index).click()
        sync_api.expect(part(page, "where")).to_have_text(f"step {index + 1} of 7")


@pytest.mark.slow
def test_every_chart_has_axis_titles_with_units(page: sync_api.Page):
    for name in ("chart", "agreement", "sizes-chart", "cost-chart", "tokens-chart", "speed-chart"):
        box = part(page, name)
        sync_api.expect(box.locator(".xtitle")).to_have_text(re.compile(r"\w"))
        sync_api.expect(box.locator(".ytitle")).to_have_text(re.compile(r"\w"))
        inside = "(e, of) => { const [a, b] = [e.querySelector(of), e].map(one => one.getBoundingClientRect());"
        inside += " return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1; }"
        assert box.evaluate(inside, ".xtitle") and box.evaluate(inside, ".ytitle"), name
    sync_api.expect(part(page, "cost-chart").locator(".ytitle")).to_contain_text("ms")


def test_the_neighbourhood_fits_its_box_and_its_labels_have_an_outline(page: sync_api.Page):
    box = part(page, "bigrams")
    sync_api.expect(box.locator(".textpoint text").first).to_be_visible()
    assert box.evaluate("e => e.scrollHeight <= e.clientHeight + 1 && e.scrollWidth <= e.clientWidth + 1")
    outlines = box.locator(".textpoint text").evaluate_all("all => all.map(e => getComputedStyle(e).paintOrder.split(' ')[0])")
    assert set(outlines) == {"stroke"}


WIDTHS_OF_MARKS = """async () => {
    await document.fonts.load("20px ax-marks", "␣");
    const pen = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(document.body);
    return ["--ax-sans", "--ax-mono"].map(name => {
        pen.font = `20px ${style.getPropertyValue(name)}`;
        return [..."␣⏎⇥"].map(mark => pen.measureText(mark).width);
    });
}"""


def test_the_mark_of_a_space_is_the_same_in_text_and_in_columns(page: sync_api.Page):
    running, columns = page.evaluate(WIDTHS_OF_MARKS)
    assert running == columns


@pytest.mark.slow
def test_an_empty_list_has_a_placeholder_in_the_language_of_the_user(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(), tmp_path)
    page.locator("#ax-prompt textarea").fill("another prompt")
    lists = {"examples": ("Choose an example", "选择一个示例")}
    for at, language in enumerate(("en", "zh")):
        part(page, "language").select_option(language)
        for name, words in lists.items():
            field = page.locator(f"#ax-{name} input")
            sync_api.expect(field).to_have_value("")
            sync_api.expect(field).to_have_attribute("placeholder", words[at])


@pytest.mark.slow
def test_checkboxes_have_the_colours_of_the_theme(browser: sync_api.Browser, address: str):
    for theme, scheme in (("dark", "dark"), ("light", "normal")):
        with watched_page(browser, address, query=f"#theme={theme}", sections=True) as page:
            schemes = page.locator(".ax-picker input").evaluate_all("all => all.map(e => getComputedStyle(e).colorScheme)")
            assert {*schemes} == {scheme}


def test_text_that_is_read_from_right_to_left_is_aligned_right(live_page: sync_api.Page, tmp_path: Path):
    page, words = live_page, ["שלום", " עולם", " טוב", "."]
    race = make_race(words)
    open_race(page, Race([replace(run, header=replace(run.header, prompt="כתוב שיר קצר")) for run in race.lanes]), tmp_path)
    page.locator("#ax-prompt textarea").fill("כתוב שיר קצר")
    for text in ("#ax-prompt textarea", ".ax-text", "[data-part='prompt-line']"):
        assert page.locator(text).first.evaluate("e => getComputedStyle(e).direction") == "rtl", text
    box, first = (page.locator(name).first.bounding_box() for name in (".ax-text", ".ax-text .ax-tok"))
    assert box is not None
    assert first is not None
    assert first["x"] + first["width"] > box["x"] + box["width"] - 30
    page.locator("#ax-prompt textarea").fill("Write a poem.")
    assert page.locator("#ax-prompt textarea").evaluate("e => getComputedStyle(e).direction") == "ltr"

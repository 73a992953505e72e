"""The matrix panels: one bigram in all of them, with the values of the trace."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from app_process import ROOT
from browsing import HOSTILE, drawn, open_race, part, saved, show_tab, sync_api, unfold, watched_page
from ui_fakes import make_race

from aded.core import trace

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
SECTIONS = True


def opened_at(page: sync_api.Page, race: trace.Race, folder: Path, index: int) -> trace.Step:
    """Open a race and go to a step of its ADED run; returns the step."""
    open_race(page, race, folder)
    show_tab(page, "learn")
    page.locator(".ax-run-view[data-method='aded'] .ax-step").nth(index).click()
    sync_api.expect(part(page, "where")).to_contain_text(f"step {index + 1} of")
    sync_api.expect(part(page, "sizes-sentence")).to_contain_text(f"{race.lanes[1].steps[index].size.overlay_rows} rows")
    return race.lanes[1].steps[index]


def repeated(race: trace.Race) -> trace.Race:
    """The same race, in which every other step changes the row of the first step again."""
    plain, aded = race.lanes
    first = aded.steps[0].rows[0]
    steps = [replace(step, rows=[*step.rows, first]) if i % 2 else step for i, step in enumerate(aded.steps)]
    return trace.Race([plain, replace(aded, steps=steps)])


def shown_bigram(page: sync_api.Page) -> str:
    """The bigram of the bars, as shown on the page."""
    return str(part(page, "matrix-key").text_content()).split("After ")[1].split(":")[0]


@pytest.mark.slow
def test_the_bigram_of_the_step_is_shown_in_all_panels(page: sync_api.Page, tmp_path: Path):
    step = opened_at(page, make_race(), tmp_path, 4)
    row = step.rows[0]
    bigram = " ".join(text.replace(" ", "␣") for text in row.key_texts)
    assert shown_bigram(page) == bigram
    sync_api.expect(part(page, "learned-key")).to_contain_text(f"After {bigram}: {round(100 * 0.43 / 0.725)} %")
    sync_api.expect(part(page, "bigrams")).to_have_attribute(
        "aria-label", re.compile(f"^Neighbourhood of {re.escape(bigram)}: . other")
    )
    numbers = part(page, "learned-rows").locator("tr").first.locator(".ax-num").all_inner_texts()
    assert numbers == ["0.050", "0.200"]


@pytest.mark.slow
def test_the_size_of_the_matrix_is_shown_as_a_sentence_and_as_a_chart(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    step = opened_at(page, race, tmp_path, 6)
    assert step.size is not None
    words = f"{step.size.overlay_rows} rows have session counts ({step.size.overlay_bytes / 1000:.1f} kB)"
    sync_api.expect(part(page, "sizes-sentence")).to_contain_text(words)
    sync_api.expect(part(page, "sizes-sentence")).to_contain_text("The 120,000 rows of base counts (9.0 MB) never change")
    drawn = part(page, "sizes-chart").evaluate("e => Array.from(e.data[0].y)")
    assert drawn == [s.size.overlay_rows for s in race.lanes[1].steps if s.size]
    part(page, "sizes-every").locator("summary").click()
    sync_api.expect(part(page, "sizes-rows").locator("tr")).to_have_count(len(race.lanes[1].steps))


@pytest.mark.slow
def test_the_heat_map_shows_the_rows_that_changed_in_most_steps_so_far(page: sync_api.Page, tmp_path: Path):
    race, index = repeated(make_race()), 7
    step = opened_at(page, race, tmp_path, index)
    counts = Counter(tuple(row.key) for s in race.lanes[1].steps[: index + 1] for row in s.rows)
    lines = part(page, "heat-rows").locator("tr")
    sync_api.expect(lines).to_have_count(min(10, len(counts)))
    assert [int(text) for text in lines.locator("td.ax-num").all_inner_texts()] == sorted(counts.values(), reverse=True)[:10]
    assert counts.most_common(1)[0][0] == tuple(race.lanes[1].steps[0].rows[0].key)
    sync_api.expect(part(page, "heat-rows").locator("tr.ax-touched")).to_have_count(len(step.rows))
    changed = sum(abs(b - a) >= 0.005 for row in step.rows for a, b in zip(row.after, row.before))
    sync_api.expect(part(page, "heat-rows").locator(".ax-changed")).to_have_count(changed)
    marks = page.locator(".ax-heat-value [role='img']").all_inner_texts()
    assert set(marks) == {"▲", "▼"}


@pytest.mark.slow
def test_a_bigram_selected_in_one_panel_is_selected_in_all_up_to_the_next_step(page: sync_api.Page, tmp_path: Path):
    opened_at(page, make_race(), tmp_path, 7)
    current = shown_bigram(page)
    other = part(page, "heat-rows").locator("tr:not(.ax-touched) .ax-bigram-button").first
    bigram = other.inner_text()
    other.press("Enter")
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {bigram}: latest state")
    sync_api.expect(part(page, "learned-key")).to_contain_text(bigram)
    sync_api.expect(part(page, "bigrams")).to_have_attribute(
        "aria-label", re.compile(f"^Neighbourhood of {re.escape(bigram)}: . other")
    )
    sync_api.expect(page.locator(".ax-heat tr.ax-picked th")).to_have_text(bigram)
    assert part(page, "matrix-picker").locator("option:checked").inner_text() == bigram
    part(page, "bigrams-every").locator("summary").click()
    buttons = part(page, "bigrams-rows").locator(".ax-bigram-button")
    sync_api.expect(buttons.first).to_be_visible()
    part(page, "matrix-picker").select_option(index=1)
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {current}: before")
    part(page, "matrix-picker").evaluate("e => e.blur()")
    page.keyboard.press("ArrowLeft")
    sync_api.expect(part(page, "where")).to_contain_text("step 7 of")
    sync_api.expect(page.locator(".ax-heat tr.ax-picked th")).not_to_have_text(current)


def wait_for_bigram(page: sync_api.Page, bigram: str | None) -> None:
    """Wait until the address has this bigram, or none."""
    page.wait_for_function("one => new URLSearchParams(location.hash.slice(1)).get('bigram') === one", arg=bigram)


@pytest.mark.slow
def test_the_bigram_of_a_selected_node_is_shown_in_all_panels_and_in_the_address(page: sync_api.Page):
    run = trace.load(ROOT / "assets" / "traces" / "01-a-maths-teacher.json").lanes[1]
    show_tab(page, "learn")
    for index in range(3, len(run.steps)):  # a step with recorded and other bigrams
        tree, recorded = run.steps[index].tree, {tuple(row.key) for s in run.steps[: index + 1] for row in s.rows}
        bigrams = {n: (tree.tokens[p], tree.tokens[n]) for n, p in enumerate(tree.parents) if n}
        with_row = next((n for n, bigram in bigrams.items() if bigram in recorded), None)
        without = next((n for n, bigram in bigrams.items() if bigram not in recorded), None)
        if with_row and without:
            break
    step = index + 1
    page.locator(".ax-run-view[data-method='aded'] .ax-step").nth(index).click()
    sync_api.expect(part(page, "where")).to_contain_text(f"step {step} of")
    sync_api.expect(part(page, "bigram-clear")).to_be_hidden()
    of_step = shown_bigram(page)
    show_tab(page, "draft")
    name = " ".join(tree.texts[n].replace(" ", "␣") for n in (tree.parents[with_row], with_row))
    page.locator(f".ax-nodes tr[data-node='{with_row}']").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {name}:")
    sync_api.expect(part(page, "learned-key")).to_contain_text(name)
    sync_api.expect(part(page, "bigrams")).to_have_attribute("aria-label", re.compile(f"^Neighbourhood of {re.escape(name)}:"))
    wait_for_bigram(page, " ".join(map(str, bigrams[with_row])))
    page.reload()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {name}:")
    unfold(page)
    sync_api.expect(page.locator(".ax-nodes tr[aria-selected='true']")).to_have_attribute("data-node", str(with_row))
    page.locator(f".ax-nodes tr[data-node='{without}']").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {of_step}:")
    wait_for_bigram(page, None)
    other = part(page, "heat-rows").locator("tr:not(.ax-picked) .ax-bigram-button").first
    chosen = other.inner_text()
    other.click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {chosen}:")
    show_tab(page, "learn")
    part(page, "bigram-clear").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {of_step}:")
    show_tab(page, "draft")
    page.locator(f".ax-nodes tr[data-node='{with_row}']").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {name}:")
    part(page, "tree").press("Escape")
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {of_step}:")
    sync_api.expect(page.locator(".ax-nodes tr[aria-selected='true']")).to_have_attribute("data-node", "0")
    wait_for_bigram(page, None)


def test_a_link_with_a_bigram_that_was_not_recorded_shows_that_of_the_step(browser: sync_api.Browser, address: str):
    run = trace.load(ROOT / "assets" / "traces" / "01-a-maths-teacher.json").lanes[1]
    link = "#race=A+maths+teacher&method=aded&step={}&node=0&tab=learn&bigram={}"
    with watched_page(browser, address, query=link.format(8, quote("1 2")), sections=True) as page:
        for step, bigram in ((8, "1 2"), (7, "<img src=x onerror=alert(1)>"), (8, "9 9 9")):
            page.evaluate("link => { location.hash = link; }", link.format(step, quote(bigram)))
            recorded = run.steps[step - 1]
            own = next(row for row in recorded.rows if row.key[-1] == recorded.tree.tokens[0])
            sync_api.expect(part(page, "where")).to_contain_text(f"step {step} of")
            sync_api.expect(part(page, "matrix-key")).to_contain_text(" ".join(text.replace(" ", "␣") for text in own.key_texts))
            sync_api.expect(part(page, "bigram-clear")).to_be_hidden()


def test_a_click_moves_a_node_of_the_neighbourhood_to_the_centre(page: sync_api.Page):
    part(page, "bigrams").scroll_into_view_if_needed()
    page.wait_for_selector(".ax-bigrams-plot .main-svg")
    before = shown_bigram(page)
    place = part(page, "bigrams").evaluate(
        """e => { const plot = e.firstElementChild, nodes = plot.data[plot.data.length - 1];
        const at = nodes.marker.symbol.findIndex((symbol, i) => symbol !== 'circle-open' && i > 0);
        const box = plot.getBoundingClientRect(); return [box.left + nodes.x[at], box.top + nodes.y[at]]; }"""
    )
    page.mouse.click(*place)
    page.wait_for_function("old => !document.querySelector('[data-part=matrix-key]').textContent.includes(old)", arg=before)


@pytest.mark.slow
def test_a_trace_of_the_first_version_says_what_it_does_not_contain(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    old = [
        replace(run, steps=[replace(s, size=None, rows=[replace(r, learned=[]) for r in s.rows]) for s in run.steps])
        for run in race.lanes
    ]
    open_race(page, trace.Race(old), tmp_path)
    sync_api.expect(part(page, "learned-key")).to_contain_text("does not contain session counts")
    sync_api.expect(part(page, "sizes")).to_be_hidden()
    sync_api.expect(part(page, "heat-rows").locator("tr").first).to_be_visible()


@pytest.mark.slow
def test_a_method_without_a_matrix_has_none_of_the_panels(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(), tmp_path)
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    for name in ("matrix-card", "learned-card", "bigrams-card", "heat-card", "agreement-card"):
        sync_api.expect(part(page, name)).to_be_hidden()


@pytest.mark.slow
def test_hostile_tokens_are_text_in_every_panel_of_the_matrix(page: sync_api.Page, tmp_path: Path):
    race = make_race([*HOSTILE, "w" * 2000] * 3)
    open_race(page, race, tmp_path)
    for name in ("bigrams-every", "sizes-every"):
        part(page, name).evaluate("e => { e.open = true; }")
    show_tab(page, "learn")
    grid, shown = page.locator(".ax-matrix-grid"), ""
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
        drawn(page)
        shown += (
            grid.evaluate("e => e.textContent")
            + str(part(page, "matrix-card").text_content())
            + (part(page, "bigrams").get_attribute("aria-label") or "")
        )
        assert grid.locator("img, b:not([data-part]), script").count() == 0
    assert page.evaluate("window.PWN") is None
    assert any("\u202e" in text for step in race.lanes[1].steps for row in step.rows for text in row.key_texts)
    assert "⟨U+202E⟩" in shown
    assert "\u202e" not in shown
    assert any(token[:6] in shown for token in HOSTILE if token.startswith(("<", "$")))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_labels_of_the_neighbourhood_do_not_overlap(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, width=width, sections=True) as page:
        page.wait_for_selector(".ax-bigrams-plot text")
        boxes = page.locator(".ax-bigrams-plot .textpoint text").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.top, r.right, r.bottom])"
        )
        assert len(boxes) > 4
        touching = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if overlap(a, b)]
        assert touching == []


CROSSED = """() => {
    const plot = document.querySelector(".ax-bigrams-plot");
    const boxes = [...plot.querySelectorAll(".textpoint text")].map(e => [e.textContent, e.getBoundingClientRect()]);
    const crossed = new Set();
    for (const line of plot.querySelectorAll(".scatterlayer path.js-line")) {
        const place = line.getScreenCTM();
        for (let at = 0; at < line.getTotalLength(); at += 2) {
            const { x, y } = line.getPointAtLength(at).matrixTransform(place);
            for (const [text, r] of boxes)
                if (x > r.left + 3 && x < r.right - 2 && y > r.top + 3 && y < r.bottom - 3) crossed.add(text);
        }
    }
    return [boxes.length, plot.querySelectorAll(".scatterlayer path.js-line").length, [...crossed]];
}"""


def test_no_edge_of_the_neighbourhood_crosses_a_label(browser: sync_api.Browser, address: str):
    """In the bundled race, the step whose bigram leads back to five others."""
    with watched_page(browser, address, query="#step=24", sections=True) as page:
        page.wait_for_selector(".ax-bigrams-plot text")
        labels, lines, crossed = page.evaluate(CROSSED)
        assert labels > 20
        assert lines > 5
        assert crossed == []


def overlap(a: list[float], b: list[float]) -> bool:
    """Whether two boxes (left, top, right, bottom) share more than a border of a pixel."""
    return min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 2


@pytest.mark.slow
def test_rows_of_the_matrix_are_saved_as_a_table(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    with saved(page, "rows.csv", tmp_path).open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    recorded = [(s.index, k, r) for s in race.lanes[1].steps for r in s.rows for k in range(len(r.tokens))]
    assert [float(row["learned"]) for row in read] == [row.learned[k] for _, k, row in recorded]
    assert [int(row["step"]) for row in read] == [index + 1 for index, _, _ in recorded]
    assert [row["text"] for row in read] == [row.texts[k] for _, k, row in recorded]

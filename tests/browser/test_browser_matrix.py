"""The matrix learns: one pair in all its panels, and what they say is what the record says."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from browsing import HOSTILE, ROOT, drawn, open_race, part, saved, sync_api, watched_page
from ui_fakes import make_race

from aded.core import trace

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


def opened_at(page: sync_api.Page, race: trace.Race, folder: Path, index: int) -> trace.Step:
    """Open a race and go to a step of its ADED lane; the step."""
    open_race(page, race, folder)
    page.locator(".ax-lane[data-method='aded'] .ax-step").nth(index).click()
    sync_api.expect(part(page, "where")).to_contain_text(f"step {index + 1} of")
    sync_api.expect(part(page, "sizes-sentence")).to_contain_text(f"{race.lanes[1].steps[index].size.overlay_rows} rows")
    return race.lanes[1].steps[index]


def repeated(race: trace.Race) -> trace.Race:
    """The same race, but every other step changes the row of its first step again."""
    plain, aded = race.lanes
    first = aded.steps[0].rows[0]
    steps = [replace(step, rows=[*step.rows, first]) if i % 2 else step for i, step in enumerate(aded.steps)]
    return trace.Race([plain, replace(aded, steps=steps)])


def shown_pair(page: sync_api.Page) -> str:
    """The pair that the bars belong to, as the page writes it."""
    return part(page, "matrix-key").inner_text().split("After ")[1].split(":")[0]


def test_the_current_pair_is_in_the_middle_of_all_panels(page: sync_api.Page, tmp_path: Path):
    step = opened_at(page, make_race(), tmp_path, 4)
    row = step.rows[0]
    pair = " ".join(text.replace(" ", "␣") for text in row.key_texts)
    assert shown_pair(page) == pair
    sync_api.expect(part(page, "apart-key")).to_contain_text(f"After {pair}: {round(100 * 0.43 / 0.725)} %")
    sync_api.expect(part(page, "pairs")).to_have_attribute(
        "aria-label", re.compile(f"^Neighbourhood of {re.escape(pair)}: . other")
    )
    numbers = part(page, "apart-rows").locator("tr").first.locator(".ax-num").all_inner_texts()
    assert numbers == ["0.050", "0.200"]


def test_the_size_of_the_matrix_is_told_and_drawn_over_the_run(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    step = opened_at(page, race, tmp_path, 6)
    assert step.size is not None
    words = f"the overlay holds {step.size.overlay_rows} rows in {step.size.overlay_bytes / 1000:.1f} kB"
    sync_api.expect(part(page, "sizes-sentence")).to_contain_text(words)
    sync_api.expect(part(page, "sizes-sentence")).to_contain_text("The base's 120,000 rows in 9.0 MB never change")
    drawn = part(page, "sizes-chart").evaluate("e => Array.from(e.data[0].y)")
    assert drawn == [s.size.overlay_rows for s in race.lanes[1].steps if s.size]
    part(page, "sizes-every").locator("summary").click()
    sync_api.expect(part(page, "sizes-rows").locator("tr")).to_have_count(len(race.lanes[1].steps))


def test_the_busiest_rows_are_those_that_changed_in_most_steps_so_far(page: sync_api.Page, tmp_path: Path):
    race, index = repeated(make_race()), 7
    step = opened_at(page, race, tmp_path, index)
    counts = Counter(tuple(row.key) for s in race.lanes[1].steps[: index + 1] for row in s.rows)
    lines = part(page, "heat-rows").locator("tr")
    sync_api.expect(lines).to_have_count(min(10, len(counts)))
    assert [int(text) for text in lines.locator("td.ax-num").all_inner_texts()] == sorted(counts.values(), reverse=True)[:10]
    assert counts.most_common(1)[0][0] == tuple(race.lanes[1].steps[0].rows[0].key)
    sync_api.expect(part(page, "heat-rows").locator("tr.ax-touched")).to_have_count(len(step.rows))
    changed = sum(abs(b - a) >= 0.005 for row in step.rows for a, b in zip(row.after, row.before))
    sync_api.expect(page.locator(".ax-heat-cell.ax-changed")).to_have_count(changed)
    marks = page.locator(".ax-heat-value [role='img']").all_inner_texts()
    assert set(marks) == {"▲", "▼"}


def test_a_pair_chosen_in_one_panel_is_chosen_in_all_until_another_step_comes(page: sync_api.Page, tmp_path: Path):
    opened_at(page, make_race(), tmp_path, 7)
    current = shown_pair(page)
    other = part(page, "heat-rows").locator("tr:not(.ax-touched) .ax-pair-button").first
    pair = other.inner_text()
    other.press("Enter")
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {pair}: as it stood last")
    sync_api.expect(part(page, "apart-key")).to_contain_text(pair)
    sync_api.expect(part(page, "pairs")).to_have_attribute(
        "aria-label", re.compile(f"^Neighbourhood of {re.escape(pair)}: . other")
    )
    sync_api.expect(page.locator(".ax-heat tr.ax-picked th")).to_have_text(pair)
    assert part(page, "matrix-picker").locator("option:checked").inner_text() == pair
    part(page, "pairs-every").locator("summary").click()
    buttons = part(page, "pairs-rows").locator(".ax-pair-button")
    sync_api.expect(buttons.first).to_be_visible()
    part(page, "matrix-picker").select_option(index=1)
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {current}: before")
    part(page, "matrix-picker").evaluate("e => e.blur()")
    page.keyboard.press("ArrowLeft")
    sync_api.expect(part(page, "where")).to_contain_text("step 7 of")
    sync_api.expect(page.locator(".ax-heat tr.ax-picked th")).not_to_have_text(current)


def linked_pair(page: sync_api.Page, pair: str | None) -> None:
    """Wait until the address names this pair, or none."""
    page.wait_for_function("pair => new URLSearchParams(location.hash.slice(1)).get('pair') === pair", arg=pair)


def test_a_node_brings_its_pair_into_all_panels_and_the_address_and_clearing_goes_back(page: sync_api.Page):
    step, index = 8, 7
    lane = trace.load(ROOT / "assets" / "traces" / "01-a-maths-teacher.json").lanes[1]
    tree, known = lane.steps[index].tree, {tuple(row.key) for s in lane.steps[: index + 1] for row in s.rows}
    pairs = {n: (tree.tokens[p], tree.tokens[n]) for n, p in enumerate(tree.parents) if n}
    with_row = next(n for n, pair in pairs.items() if pair in known)
    without = next(n for n, pair in pairs.items() if pair not in known)
    page.locator(".ax-lane[data-method='aded'] .ax-step").nth(index).click()
    sync_api.expect(part(page, "where")).to_contain_text(f"step {step} of")
    sync_api.expect(part(page, "pair-clear")).to_be_hidden()
    own = shown_pair(page)
    name = " ".join(tree.texts[n].replace(" ", "␣") for n in (tree.parents[with_row], with_row))
    page.locator(f".ax-nodes tr[data-node='{with_row}']").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {name}:")
    sync_api.expect(part(page, "apart-key")).to_contain_text(name)
    sync_api.expect(part(page, "pairs")).to_have_attribute("aria-label", re.compile(f"^Neighbourhood of {re.escape(name)}:"))
    linked_pair(page, " ".join(map(str, pairs[with_row])))
    page.reload()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {name}:")
    sync_api.expect(page.locator(".ax-nodes tr[aria-selected='true']")).to_have_attribute("data-node", str(with_row))
    page.locator(f".ax-nodes tr[data-node='{without}']").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {own}:")
    linked_pair(page, None)
    other = part(page, "heat-rows").locator("tr:not(.ax-picked) .ax-pair-button").first
    chosen = other.inner_text()
    other.click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {chosen}:")
    part(page, "pair-clear").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {own}:")
    page.locator(f".ax-nodes tr[data-node='{with_row}']").click()
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {name}:")
    part(page, "tree").press("Escape")
    sync_api.expect(part(page, "matrix-key")).to_contain_text(f"After {own}:")
    sync_api.expect(page.locator(".ax-nodes tr[aria-selected='true']")).to_have_attribute("data-node", "0")
    linked_pair(page, None)


@pytest.mark.parametrize("pair", ["1 2", "<img src=x onerror=alert(1)>", "9 9 9"])
def test_a_link_with_a_pair_that_is_not_on_record_shows_the_steps_own(browser: sync_api.Browser, address: str, pair: str):
    link = f"#race=A+maths+teacher&lane=aded&step=8&node=0&pair={quote(pair)}"
    with watched_page(browser, address, query=link) as page:
        sync_api.expect(part(page, "where")).to_contain_text("step 8 of")
        sync_api.expect(part(page, "matrix-key")).to_contain_text("␣the ␣likelihood")
        sync_api.expect(part(page, "pair-clear")).to_be_hidden()


def test_a_node_of_the_neighbourhood_comes_into_the_middle_by_a_click(page: sync_api.Page):
    part(page, "pairs").scroll_into_view_if_needed()
    page.wait_for_selector(".ax-pairs-plot .main-svg")
    before = shown_pair(page)
    place = part(page, "pairs").evaluate(
        """e => { const plot = e.firstElementChild, nodes = plot.data[plot.data.length - 1];
        const at = nodes.marker.symbol.findIndex((symbol, i) => symbol !== 'circle-open' && i > 0);
        const box = plot.getBoundingClientRect(); return [box.left + nodes.x[at], box.top + nodes.y[at]]; }"""
    )
    page.mouse.click(*place)
    page.wait_for_function("old => !document.querySelector('[data-part=matrix-key]').textContent.includes(old)", arg=before)


def test_a_record_of_the_first_version_says_what_it_does_not_hold(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    old = [
        replace(lane, steps=[replace(s, size=None, rows=[replace(r, learned=[]) for r in s.rows]) for s in lane.steps])
        for lane in race.lanes
    ]
    open_race(page, trace.Race(old), tmp_path)
    sync_api.expect(part(page, "apart-key")).to_contain_text("does not hold which part was learned")
    sync_api.expect(part(page, "sizes")).to_be_hidden()
    sync_api.expect(part(page, "heat-rows").locator("tr").first).to_be_visible()


def test_a_method_without_a_matrix_has_none_of_the_panels(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(), tmp_path)
    page.locator(".ax-lane[data-method='plain'] .ax-look").click()
    for name in ("matrix-card", "apart-card", "pairs-card", "heat-card", "agreement-card"):
        sync_api.expect(part(page, name)).to_be_hidden()


def test_hostile_tokens_are_text_in_every_panel_of_the_matrix(page: sync_api.Page, tmp_path: Path):
    race = make_race([*HOSTILE, "w" * 2000] * 3)
    open_race(page, race, tmp_path)
    for name in ("pairs-every", "sizes-every"):
        part(page, name).evaluate("e => { e.open = true; }")
    grid, said = page.locator(".ax-matrix-grid"), ""
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
        drawn(page)
        said += grid.evaluate("e => e.textContent") + (part(page, "pairs").get_attribute("aria-label") or "")
        assert grid.locator("img, b:not([data-part]), script").count() == 0
    assert page.evaluate("window.PWN") is None
    assert any("\u202e" in text for step in race.lanes[1].steps for row in step.rows for text in row.key_texts)
    assert "⟨U+202E⟩" in said
    assert "\u202e" not in said
    assert any(token[:6] in said for token in HOSTILE if token.startswith(("<", "$")))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_labels_of_the_neighbourhood_lie_side_by_side(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, width=width) as page:
        page.wait_for_selector(".ax-pairs-plot text")
        boxes = page.locator(".ax-pairs-plot .textpoint text").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.top, r.right, r.bottom])"
        )
        assert len(boxes) > 4
        touching = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if overlap(a, b)]
        assert touching == []


STRUCK = """() => {
    const plot = document.querySelector(".ax-pairs-plot");
    const boxes = [...plot.querySelectorAll(".textpoint text")].map(e => [e.textContent, e.getBoundingClientRect()]);
    const struck = new Set();
    for (const line of plot.querySelectorAll(".scatterlayer path.js-line")) {
        const place = line.getScreenCTM();
        for (let at = 0; at < line.getTotalLength(); at += 2) {
            const { x, y } = line.getPointAtLength(at).matrixTransform(place);
            for (const [text, r] of boxes)
                if (x > r.left + 3 && x < r.right - 2 && y > r.top + 3 && y < r.bottom - 3) struck.add(text);
        }
    }
    return [boxes.length, plot.querySelectorAll(".scatterlayer path.js-line").length, [...struck]];
}"""


def test_no_edge_of_the_neighbourhood_strikes_a_label_through(browser: sync_api.Browser, address: str):
    """The bundled race and the step whose newest pair leads back to five others."""
    with watched_page(browser, address, query="#step=24") as page:
        page.wait_for_selector(".ax-pairs-plot text")
        labels, lines, struck = page.evaluate(STRUCK)
        assert labels > 20
        assert lines > 5
        assert struck == []


def overlap(a: list[float], b: list[float]) -> bool:
    """Whether two boxes (left, top, right, bottom) share more than a pixel's rim."""
    return min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 2


def test_rows_of_the_matrix_are_saved_as_a_table(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    with saved(page, "rows.csv", tmp_path).open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    told = [(s.index, k, r) for s in race.lanes[1].steps for r in s.rows for k in range(len(r.tokens))]
    assert [float(row["learned"]) for row in read] == [row.learned[k] for _, k, row in told]
    assert [int(row["step"]) for row in read] == [index + 1 for index, _, _ in told]
    assert [row["text"] for row in read] == [row.texts[k] for _, k, row in told]

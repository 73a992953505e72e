"""Nothing is cut, covered or moved: while presenting, in low windows, on phones and in frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browsing import CHARTED, choose_race, drawn, notice, open_file, part, show_tab, sync_api, watched_page

from aded.core.paths import ASSETS

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

Box = dict[str, float]
HIDDEN_TOKENS = """() => [...document.querySelectorAll(".ax-text")].flatMap(box => {
    const outer = box.getBoundingClientRect();
    const tokens = [...box.querySelectorAll(".ax-now:not(.ax-later) > .ax-tok")];
    const rects = tokens.map(token => [...token.getClientRects()].filter(({ width }) => width >= 1));
    const hidden = rects.map(all => all.some(({ top, bottom }) => top < outer.top - 2 || bottom > outer.bottom + 2));
    const fits = rects.flat().reduce((sum, { width }) => sum + width, 0) < 0.95 * outer.width;
    return tokens.filter((_, i) => hidden[i] && (fits || i === 0)).map(token => token.textContent);
})"""
"""Tokens of the step that are not in view: the first one, or any one of a step that fits into a line."""
SHOWN_WORDS = """all => all.map(box => {
    const { top, bottom } = box.getBoundingClientRect();
    const shown = [...box.querySelectorAll(".ax-step:not(.ax-later) > .ax-tok")].flatMap(e => [...e.getClientRects()]);
    return shown.some(rect => rect.width >= 1 && rect.top > top - 5 && rect.bottom < bottom + 5);
})"""
"""Whether any token that is not hidden is in view, for each text."""
CUT = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1).map(e => e.textContent)"


def open_title(page: sync_api.Page, title: str, width: int = 1280, height: int = 720) -> None:
    page.set_viewport_size({"width": width, "height": height})
    choose_race(page, title)
    sync_api.expect(part(page, "race-title")).to_have_text(title)
    page.wait_for_function(CHARTED)


def box_of(place: sync_api.Locator) -> Box:
    box = place.bounding_box()
    assert box
    return {"left": box["x"], "right": box["x"] + box["width"], "top": box["y"], "bottom": box["y"] + box["height"]}


def overlap(one: Box, other: Box) -> bool:
    apart = one["right"] <= other["left"] or other["right"] <= one["left"]
    return not (apart or one["bottom"] <= other["top"] + 0.5 or other["bottom"] <= one["top"] + 0.5)


def select_run(page: sync_api.Page, method: str) -> None:
    page.locator(f".ax-run-view[data-method='{method}'] .ax-look").first.click()
    drawn(page)


def test_the_tokens_of_the_step_are_in_view_in_a_text_of_one_line(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, "Block verification")
        show_tab(page, "verify")
        select_run(page, "speculative")
        for _ in range(6):
            assert page.evaluate(HIDDEN_TOKENS) == []
            part(page, "previous").click()
            drawn(page)
        part(page, "present").click()
        show_tab(page, "draft")
        drawn(page)
        for _ in range(16):
            assert page.evaluate(HIDDEN_TOKENS) == []
            part(page, "previous").click()
            drawn(page)


@pytest.mark.parametrize("title", ["ADED sampled", "Block verification"])
def test_sentences_of_the_verdict_that_do_not_fit_are_behind_a_button(browser: sync_api.Browser, address: str, title: str):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, title)
        verdict, more, rest = part(page, "verdict"), part(page, "verdict-more"), part(page, "detail").locator("> span")
        for _ in range(2):
            drawn(page)
            assert verdict.locator("strong").inner_text().endswith(".")
            assert verdict.evaluate_all(CUT) == []
            assert rest.last.is_hidden()
            lines = verdict.evaluate("e => Math.round(e.clientHeight / parseFloat(getComputedStyle(e).lineHeight))")
            assert lines <= 2
            more.click()
            sync_api.expect(more).to_have_attribute("aria-expanded", "true")
            drawn(page)
            assert verdict.evaluate_all(CUT) == []
            assert all(sentence.is_visible() for sentence in rest.all())
            more.click()
            part(page, "present").click()
        page.set_viewport_size({"width": 1600, "height": 1000})
        drawn(page)
        sync_api.expect(more).to_be_hidden()
        assert all(sentence.is_visible() for sentence in rest.all())


def test_while_presenting_names_of_runs_and_words_beside_the_tabs_are_whole(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, "A maths teacher")
        part(page, "present").click()
        for title in ("ADED sampled", "Speculative sampling", "Block verification", "Which layer knows"):
            choose = page.locator(f".ax-chips [data-race='{title}']")
            choose.evaluate("e => e.click()")
            sync_api.expect(part(page, "race-title")).to_have_text(title)
            for look in page.locator(".ax-look").all():
                look.click()
                drawn(page)
                assert page.locator(".ax-look, .ax-search-note:not(:empty)").evaluate_all(CUT) == []
                if part(page, "search-note").is_visible():
                    assert not overlap(box_of(part(page, "search-note")), box_of(part(page, "step-title")))


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_of_what_was_learned_is_as_wide_as_its_box(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, "A maths teacher", width, 844 if width == 390 else 720)
        if width > 860:
            part(page, "present").click()
        show_tab(page, "learn")
        for _ in range(12):
            drawn(page)
            assert part(page, "learned-table").evaluate("e => e.scrollWidth <= e.clientWidth + 1")
            part(page, "previous").click()


def test_while_presenting_a_message_about_the_race_covers_nothing(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, "A maths teacher")
        part(page, "present").click()
        drawn(page)
        dock = box_of(part(page, "dock"))
        runs = box_of(part(page, "runs"))
        says = "[['notice.text', { text: '3 runs in progress… Other races can be opened after they have ended.' }]]"
        page.evaluate(f"AdedExplorer.emit('notice', {{ kind: 'busy', messages: {says}, fraction: null }})")
        sync_api.expect(notice(page)).to_contain_text("3 runs in progress")
        drawn(page)
        content = [part(page, "stage"), part(page, "runs"), page.locator(".ax-time > *").first, part(page, "strip")]
        message = box_of(page.locator("#ax-notice .ax-notice"))
        assert not any(overlap(message, box_of(below)) for below in content)
        assert abs(box_of(part(page, "dock"))["bottom"] - dock["bottom"]) < 1
        assert box_of(part(page, "runs")) == runs
        page.evaluate("AdedExplorer.emit('linkErrors', [['link.gone', {}], ['link.missing', { value: 'A' }]])")
        sync_api.expect(part(page, "note-text")).to_contain_text("no longer available")
        drawn(page)
        link, message = box_of(part(page, "note")), box_of(page.locator("#ax-notice .ax-notice"))
        assert not any(overlap(one, box_of(below)) for one in (link, message) for below in content)
        assert not overlap(link, message)


WRAPPED = "all => all.filter(e => e.offsetHeight > 1.5 * parseFloat(getComputedStyle(e).lineHeight)).map(e => e.textContent)"
"""Texts that take more than one line."""


def test_while_presenting_all_of_six_runs_are_in_view_and_the_tree_has_the_height(
    browser: sync_api.Browser, address: str, tmp_path: Path
):
    """The table of the beam search is below the fold; outside of the presentation no name of a fact of a node takes two lines."""
    race = json.loads(next((ASSETS / "traces").glob("*which-layer-knows.json")).read_text("utf-8"))
    race["lanes"] += race["lanes"]
    (tmp_path / "six.json").write_text(json.dumps(race))
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        open_file(page, tmp_path / "six.json")
        sync_api.expect(page.locator(".ax-run-view")).to_have_count(6)
        select_run(page, "eagle")
        assert page.locator(".ax-facts dt").evaluate_all(WRAPPED) == []
        part(page, "present").click()
        drawn(page)
        above, below = box_of(part(page, "verdict"))["bottom"], box_of(part(page, "stage"))["top"]
        rows = [box_of(row) for row in page.locator(".ax-run-view").all()]
        assert all(above <= row["top"] and row["bottom"] <= below for row in rows)
        panel = box_of(page.locator("#ax-panel-draft"))
        assert box_of(part(page, "levels-card"))["top"] >= panel["bottom"]
        assert abs(box_of(part(page, "tree-card"))["bottom"] - panel["bottom"]) < 1
        part(page, "levels-card").locator("summary").click()
        sync_api.expect(part(page, "levels-rows")).to_be_in_viewport()


def test_while_presenting_a_prediction_takes_two_rows_and_the_tree_is_readable(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.goto(f"{address}#race=A+maths+teacher&method=aded&step=17")
        open_title(page, "A maths teacher")
        part(page, "present").click()
        part(page, "prediction-toggle").click()
        drawn(page)
        rows = [box_of(part(page, f"prediction-{name}")) for name in ("question", "choices", "next")]
        assert rows[0]["bottom"] <= rows[1]["top"]
        assert overlap({**rows[1], "right": rows[2]["right"]}, rows[2]), "the choices and the next step are in one row"
        labels = page.locator(".ax-tree .textpoint text")
        assert min(labels.evaluate_all("all => all.map(e => parseFloat(getComputedStyle(e).fontSize))")) >= 16
        assert labels.filter(has_text="P 0.").count() > 10


def test_while_presenting_the_prompt_is_in_view_and_other_races_can_be_opened(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, "A maths teacher")
        sync_api.expect(part(page, "race-next")).to_be_hidden()
        part(page, "present").click()
        for button, title in (("race-next", "Counting"), ("race-back", "A maths teacher"), ("race-back", "Which layer knows")):
            part(page, button).click()
            sync_api.expect(part(page, "race-title")).to_have_text(title)
            sync_api.expect(part(page, "play")).to_be_focused()
        sync_api.expect(part(page, "prompt")).to_contain_text("capital of France")
        drawn(page)
        buttons, prompt = box_of(page.locator(".ax-header-buttons")), box_of(part(page, "prompt-line"))
        assert prompt["right"] <= buttons["left"]
        assert buttons["bottom"] <= box_of(part(page, "sentence"))["top"] + 3


def test_while_presenting_the_answer_to_a_prediction_moves_nothing(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, "A maths teacher")
        select_run(page, "medusa")
        part(page, "present").click()
        show_tab(page, "pass")
        part(page, "prediction-toggle").click()
        for _ in range(4):
            drawn(page)
            before = box_of(part(page, "dock"))
            texts = page.locator(".ax-text").evaluate_all(SHOWN_WORDS)
            assert all(texts), "the text before the step stays in view"
            note = box_of(part(page, "slots-card").locator(".ax-hidden-note"))
            assert note["bottom"] <= box_of(page.locator("#ax-panel-pass"))["bottom"]
            part(page, "prediction-choices").locator("button").first.click()
            drawn(page)
            assert part(page, "prediction-answer").inner_text()
            assert box_of(part(page, "dock")) == before
            part(page, "prediction-next").click()


def test_the_menu_of_files_is_closed_when_a_file_is_opened_or_refused(browser: sync_api.Browser, address: str, tmp_path: Path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    with watched_page(browser, address, controls=False) as page:
        for file in (next((ASSETS / "traces").glob("*speculative-sampling.json")), other):
            part(page, "save-menu").locator("summary").first.click()
            sync_api.expect(part(page, "open")).to_be_visible()
            open_file(page, file)
            sync_api.expect(part(page, "open")).to_be_hidden()
        sync_api.expect(part(page, "race-title")).to_have_text("06-speculative-sampling.json")
        sync_api.expect(part(page, "open-error")).to_contain_text("“other.json”")


def test_on_a_phone_the_card_of_a_node_and_a_menu_are_not_open_together(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, 390, controls=False) as page:
        open_title(page, "A maths teacher", 390, 844)
        point = page.locator(".ax-plot .points path").nth(2).bounding_box()
        assert point
        page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
        card = part(page, "node-card")
        sync_api.expect(card).to_be_visible()
        drawn(page)
        assert box_of(card)["bottom"] <= box_of(part(page, "dock"))["top"] + 1
        page.evaluate("scrollTo(0, 0)")
        part(page, "save-menu").locator("summary").first.click()
        sync_api.expect(part(page, "open")).to_be_visible()
        sync_api.expect(card).to_be_hidden()


def test_on_a_phone_the_buttons_of_the_what_if_cover_no_words(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, 390, controls=False) as page:
        open_title(page, "A maths teacher", 390, 844)
        show_tab(page, "verify")
        drawn(page)
        words = [part(page, "whatif").locator("h3"), part(page, "whatif-intro"), part(page, "whatif-choice")]
        for button in (part(page, "whatif-draw"), part(page, "whatif-reset")):
            assert not any(overlap(box_of(button), box_of(word)) for word in words)


def test_the_logit_lens_is_in_view_in_the_race_that_is_about_it(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        open_title(page, "Which layer knows")
        show_tab(page, "pass")
        drawn(page)
        panel, rows = box_of(page.locator("#ax-panel-pass")), part(page, "lens-rows").locator("tr")
        in_view = "(e, bottom) => e.getBoundingClientRect().bottom <= bottom + 1"
        assert sum(bool(row.evaluate(in_view, panel["bottom"])) for row in rows.all()) >= 4
        rows.last.evaluate("e => e.scrollIntoView({ block: 'nearest' })")
        drawn(page)
        assert page.evaluate("scrollY") == 0
        head, last = box_of(part(page, "lens-head").locator("th").first), box_of(rows.last)
        assert panel["top"] <= head["top"]
        assert head["bottom"] <= last["top"]
        assert last["bottom"] <= panel["bottom"] + 1
        choose_race(page, "Counting")
        sync_api.expect(part(page, "race-title")).to_have_text("Counting")
        assert not part(page, "lens-card").evaluate("e => e.open")


@pytest.mark.parametrize(("width", "height"), [(960, 480), (700, 480)])
def test_the_link_of_a_frame_covers_nothing(browser: sync_api.Browser, address: str, width: int, height: int):
    view = "embed#race=Speculative+sampling&method=speculative&step=3&tab=verify"
    with watched_page(browser, address, width, query=view, controls=False) as page:
        page.set_viewport_size({"width": width, "height": height})
        sync_api.expect(page.locator("#ax-panel-verify")).to_be_visible()
        drawn(page)
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        drawn(page)
        assert box_of(part(page, "stage"))["bottom"] <= box_of(page.locator(".ax-embed-link"))["top"] + 1


RING = """e => {
    const { outlineOffset, outlineWidth } = getComputedStyle(e), { left, right, top, bottom } = e.getBoundingClientRect();
    const more = parseFloat(outlineOffset) + parseFloat(outlineWidth);
    return { left: left - more, right: right + more, top: top - more, bottom: bottom + more };
}"""


def test_the_focus_ring_of_a_slider_touches_no_field_and_no_message(browser: sync_api.Browser, address: str):
    with watched_page(browser, address) as page:
        field = page.locator("#ax-temperature")
        typed, slider, error = (field.locator(f"[data-part='{name}']") for name in ("typed", "range", "error"))
        typed.fill("-1")
        typed.press("Tab")
        sync_api.expect(error).to_be_visible()
        sync_api.expect(slider).to_be_focused()
        ring = slider.evaluate(RING)
        assert slider.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
        assert not any(overlap(ring, box_of(other)) for other in (typed, error))


@pytest.mark.parametrize("width", [1440, 390])
def test_that_a_link_is_copied_is_said_where_nothing_is(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, width, controls=False) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        others = [*page.locator(".ax-header-buttons > :visible, .ax-header h1, #ax-run").all(), part(page, "chips-box")]
        fixed = [*page.locator(".ax-header-buttons > :visible, #ax-run, .ax-line").all()]
        before = [box_of(one) for one in fixed]
        page.evaluate(
            "() => { const later = setTimeout; window.setTimeout = (call, time) => (time === 4000 ? 0 : later(call, time)); }"
        )  # it stays
        part(page, "copy").click()
        copied = part(page, "copied")
        sync_api.expect(copied).to_have_text("Link copied.")
        drawn(page)
        assert not any(overlap(box_of(copied), box_of(one)) for one in [*others, page.locator(".ax-line")])
        assert [box_of(one) for one in fixed] == before

"""The page in a real browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from browsing import (
    HOSTILE,
    at_rest,
    drawn,
    notice,
    open_file,
    open_race,
    part,
    saved,
    start,
    sync_api,
    text_of,
    tick,
    tokens_of,
    unfold,
    watched_page,
)
from serving_fakes import Live
from ui_fakes import make_race, make_trace, rounded_times

from aded.core import trace

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


def test_a_recorded_race_is_shown_before_a_model_is_loaded(page: sync_api.Page):
    assert page.locator(".ax-run-view").count() >= 2
    assert part(page, "source").inner_text() == "recorded"
    assert "plain decoding" in part(page, "sentence").inner_text()
    assert page.locator(".ax-nodes tbody tr").count() > 1


def test_the_page_shows_the_tokens_and_origins_of_the_trace(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    for run in race.lanes:
        method = run.header.method
        for origin in ("draft", "target"):
            recorded = [t for s in run.steps for t, o in zip(s.texts, s.origins) if o == origin]
            assert tokens_of(page, method, origin) == recorded
        assert text_of(page, method) == run.text


def test_steps_are_selected_by_keyboard_and_pointer(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    steps = race.lanes[1].steps
    where, strip = part(page, "where"), part(page, "strip")
    page.keyboard.press("Home")
    sync_api.expect(where).to_have_text(f"step 1 of {len(steps)}")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    sync_api.expect(where).to_have_text(f"step 3 of {len(steps)}")
    page.keyboard.press("ArrowLeft")
    sync_api.expect(where).to_have_text(f"step 2 of {len(steps)}")
    shown = page.locator(".ax-run-view[data-method='aded'] .ax-now .ax-tok").evaluate_all("all => all.map(e => e.textContent)")
    assert shown == steps[1].texts
    assert page.locator(".ax-walk tbody tr").count() == len(steps[1].choices)
    box = strip.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    sync_api.expect(where).to_have_text(f"step {len(steps)} of {len(steps)}")
    assert strip.get_attribute("aria-valuenow") == str(len(steps))


def test_shortcuts_are_off_while_the_user_types_in_a_field(page: sync_api.Page):
    before = part(page, "where").inner_text()
    page.locator("#ax-prompt textarea").click()
    page.keyboard.press("Home")
    page.keyboard.type(" a b")
    page.keyboard.press("ArrowLeft")
    assert part(page, "where").inner_text() == before
    assert part(page, "play").get_attribute("aria-label") == "Play"


def test_a_race_plays_forwards_and_backwards(page: sync_api.Page):
    part(page, "speed").select_option("5")
    page.keyboard.press("Home")
    sync_api.expect(part(page, "where")).to_contain_text("step 1 of")
    first = part(page, "where").inner_text()
    part(page, "play").click()
    page.wait_for_function("before => document.querySelector('[data-part=where]').textContent !== before", arg=first)
    page.wait_for_function("() => document.querySelector('[data-part=play]').getAttribute('aria-label') === 'Play'")
    part(page, "back").click()
    page.wait_for_function("() => document.querySelector('[data-part=clock]').textContent.startsWith('0.00 s')")
    sync_api.expect(part(page, "where")).to_have_text(first)


def test_a_node_selected_in_the_table_is_shown_in_the_card_and_the_other_way_round(page: sync_api.Page, tmp_path: Path):
    unfold(page)
    open_race(page, make_race(), tmp_path)
    row = page.locator(".ax-nodes tbody tr[data-node='2']")
    row.click()
    sync_api.expect(row).to_have_attribute("aria-selected", "true")
    token = row.locator("code").inner_text()
    sync_api.expect(page.locator(".ax-node-head code")).to_have_text(token)
    page.mouse.move(0, 0)
    part(page, "tree").focus()
    page.keyboard.press("ArrowLeft")
    parent = page.locator(".ax-nodes tbody tr[aria-selected='true']")
    sync_api.expect(parent).to_have_attribute("data-node", "1")


def test_tokens_are_shown_as_text_whatever_they_contain(page: sync_api.Page, tmp_path: Path):
    race = make_race(HOSTILE * 4)
    named = [
        replace(run, header=replace(run.header, prompt=HOSTILE[0], label=run.header.label + " <i>${1}</i>")) for run in race.lanes
    ]
    open_race(page, trace.Race(named), tmp_path)
    for run in race.lanes:
        assert text_of(page, run.header.method) == "".join(HOSTILE * 4)
    assert part(page, "prompt").inner_text() == HOSTILE[0]
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
        drawn(page)
    assert page.evaluate("window.PWN") is None
    assert page.locator(".ax img, .ax b:not(.ax-strip b):not([data-part])").count() == 0
    labels = page.locator(".ax-plot text").evaluate_all("all => all.map(e => e.textContent).join(' ')")
    assert "bold" not in labels or "<b>" in labels


def test_a_run_without_steps_leaves_nothing_of_another_step(page: sync_api.Page, tmp_path: Path):
    plain, aded = make_race().lanes
    open_race(page, trace.Race([plain, replace(aded, steps=[], token_ids=[], text="")]), tmp_path)
    title = part(page, "step-title")
    sync_api.expect(title).to_contain_text("Plain decoding")
    page.locator(".ax-run-view[data-method='aded'] .ax-look").click()
    sync_api.expect(title).to_be_hidden()
    page.wait_for_function("() => location.hash.includes('method=aded') && !location.hash.includes('step=')")
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    sync_api.expect(title).to_be_visible()


def test_a_damaged_file_is_reported_and_the_view_stays(page: sync_api.Page, tmp_path: Path):
    before = text_of(page, "plain")
    path = tmp_path / "damaged.json"
    path.write_text('{"format": "aded-race", "version": 1, "lanes": [{}]}')
    open_file(page, path)
    sync_api.expect(part(page, "open-error")).to_contain_text("“damaged.json” is damaged")
    sync_api.expect(part(page, "open-error")).to_contain_text("race.lanes[0].header")
    assert text_of(page, "plain") == before


@pytest.mark.slow
def test_a_file_that_is_opened_during_a_race_waits_for_its_end(live_page: sync_api.Page, live: Live, tmp_path: Path):
    trace.save(make_race(["a", " b"]), tmp_path / "saved.json")
    start(live_page, "hello", 32)
    open_file(live_page, tmp_path / "saved.json")
    sync_api.expect(part(live_page, "open-error")).to_contain_text("A race is running.")
    sync_api.expect(part(live_page, "source")).to_have_text("live race")
    live.stop(live_page)
    sync_api.expect(notice(live_page)).to_contain_text("Stopped")
    open_file(live_page, tmp_path / "saved.json")
    sync_api.expect(part(live_page, "source")).to_have_text("from a file")
    sync_api.expect(part(live_page, "open-error")).to_be_hidden()
    sync_api.expect(notice(live_page)).to_be_hidden()


def test_a_saved_race_equals_the_opened_one(page: sync_api.Page, tmp_path: Path):
    race = make_race(["a", " b", "\u2028", "</script>", " c"])
    open_race(page, race, tmp_path)
    path = saved(page, "race.json", tmp_path)
    assert trace.load(path) == rounded_times(race)


def test_light_and_dark_are_switched_and_the_charts_follow(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, query="?__theme=dark", sections=True) as page:
        line = page.locator(".ax-chart .scatterlayer .js-line").first
        page.wait_for_function("() => document.querySelector('.ax-chart .scatterlayer .js-line')")
        dark = line.get_attribute("style")
        assert page.locator("body.dark").count() == 1
        part(page, "theme").click()
        page.wait_for_function(
            "old => document.querySelector('.ax-chart .scatterlayer .js-line').getAttribute('style') !== old", arg=dark
        )
        assert page.locator("body.dark").count() == 0


@pytest.mark.parametrize("width", [390, *(pytest.param(width, marks=pytest.mark.slow) for width in (768, 1440))])
def test_the_page_never_scrolls_sideways(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_empty_prompt_is_reported_and_nothing_is_lost(page: sync_api.Page):
    before = text_of(page, "plain")
    page.locator("#ax-prompt textarea").fill("  ")
    page.locator("#ax-run").click()
    sync_api.expect(notice(page)).to_contain_text("prompt is empty")
    assert text_of(page, "plain") == before
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    page.locator("#ax-prompt textarea").fill("x" * 19_000)
    sync_api.expect(notice(page)).to_be_hidden()
    sync_api.expect(part(page, "prompt-length")).to_have_text("19,000 of 20,000 characters")
    page.locator("#ax-prompt textarea").fill("x" * 20_001)
    sync_api.expect(part(page, "prompt-length")).to_contain_text("the maximum is 20,000; shorten it.")
    page.locator("#ax-prompt textarea").fill("Why?")
    sync_api.expect(part(page, "prompt-length")).to_be_hidden()


def test_two_to_six_methods_race(page: sync_api.Page):
    tick(page, "aded")
    page.locator("#ax-run").click()
    sync_api.expect(notice(page)).to_contain_text("select two to six")
    names = page.locator(".ax-picker [data-part='list'] input").evaluate_all("all => all.map(e => e.value)")
    tick(page, *names[:6])
    sync_api.expect(notice(page)).to_be_hidden()
    sync_api.expect(part(page, "count")).to_contain_text("the maximum")
    assert page.locator(f".ax-picker input[value='{names[6]}']").is_disabled()
    assert page.locator(".ax-picker .ax-lossy").count() == 1


def six_runs() -> trace.Race:
    names = ("plain", "aded", "prompt-lookup", "rest", "suffix", "medusa-typical")
    runs = [make_trace(name) for name in names]
    return trace.Race([replace(t, header=replace(t.header, lossless=t.header.method != "medusa-typical")) for t in runs])


@pytest.mark.slow
def test_six_runs_keep_their_height_at_every_time(page: sync_api.Page, tmp_path: Path):
    open_race(page, six_runs(), tmp_path)
    assert page.locator(".ax-run-view").count() == page.locator(".ax-times li").count() == 6
    assert page.locator(".ax-run-view .ax-lossy").count() == 1
    height = "() => document.querySelector('.ax-race').offsetHeight"
    full = page.evaluate(height)
    page.keyboard.press("Home")
    drawn(page)
    assert page.evaluate(height) == full


@pytest.mark.slow
def test_a_part_of_the_time_is_selected_by_dragging_or_by_buttons(page: sync_api.Page, tmp_path: Path):
    unfold(page)
    race = make_race()
    open_race(page, race, tmp_path)
    end = max(sum(step.seconds.total for step in run.steps) for run in race.lanes)
    chart, less, more = part(page, "chart"), part(page, "zoom-in"), part(page, "zoom-out")

    def expect_span(low: float, high: float) -> None:
        near = """wanted => document.querySelector('.ax-chart').layout.xaxis.range.every(
            (x, i) => Math.abs(x - wanted[i]) < wanted[1] / 20)"""
        page.wait_for_function(near, arg=[low, high])

    expect_span(0, 1.02 * end)
    chart.scroll_into_view_if_needed()
    area = page.locator(".ax-chart .nsewdrag").bounding_box()
    assert area is not None
    left, width, y = area["x"], area["width"] / 1.02, area["y"] + area["height"] / 2
    page.mouse.move(left + width / 4, y)
    page.mouse.down()
    page.mouse.move(left + width / 2, y, steps=4)
    page.mouse.up()
    expect_span(end / 4, end / 2)
    sync_api.expect(more).to_have_attribute("aria-disabled", "false")
    page.mouse.dblclick(left + width / 2, y)
    expect_span(0, 1.02 * end)
    less.press("Enter")
    expect_span(end / 4, 3 * end / 4)
    less.press("Enter")
    expect_span(3 * end / 8, 5 * end / 8)
    more.press("Enter")
    more.press("Enter")
    expect_span(0, 1.02 * end)
    sync_api.expect(more).to_have_attribute("aria-disabled", "true")


@pytest.mark.slow
def test_the_steps_shown_are_those_of_the_selected_run(page: sync_api.Page, tmp_path: Path):
    unfold(page)
    race = six_runs()
    open_race(page, race, tmp_path)
    run = race.lanes[4]
    page.locator(".ax-run-view[data-method='suffix'] .ax-look").click()
    sync_api.expect(part(page, "where")).to_contain_text(f"of {len(run.steps)}")
    sync_api.expect(part(page, "step-title")).to_contain_text("suffix, step")
    sync_api.expect(part(page, "search-note")).to_have_text(
        "No search: continuations of the longest matching suffixes, in text and corpus."
    )
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    sync_api.expect(part(page, "step-title")).to_contain_text("Plain decoding")
    sync_api.expect(part(page, "agreement-card")).to_be_hidden()
    sync_api.expect(part(page, "matrix-card")).to_be_hidden()


@pytest.mark.slow
def test_the_agreement_of_the_step_is_shown_as_a_chart_and_in_numbers(page: sync_api.Page, tmp_path: Path):
    unfold(page)
    race = make_race()
    open_race(page, race, tmp_path)
    steps = race.lanes[1].steps
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    for measure in ("total_variation", "top_4"):
        part(page, "agreement-measure").select_option(measure)
        for place, found in enumerate(steps[1].agreement):
            cell = part(page, "agreement-now").locator("tr").nth(place).locator("td").first
            sync_api.expect(cell).to_have_text(f"{getattr(found, measure):.3f}")
    assert part(page, "agreement").locator(".js-line").count() == 3
    part(page, "agreement-every").locator("summary").click()
    sync_api.expect(part(page, "agreement-steps").locator("tr")).to_have_count(len(steps))


def test_the_search_is_replayed_phase_by_phase_forwards_and_backwards(page: sync_api.Page):
    text, now = part(page, "search-text"), page.locator(".ax-phase-now")
    part(page, "search").evaluate("e => { e.value = '12'; e.dispatchEvent(new Event('input')); }")
    sync_api.expect(text).to_contain_text("Simulation 3 of")
    sync_api.expect(now).to_have_text("backpropagation")
    visits = page.locator(".ax-nodes tbody tr[data-node='0'] td:nth-child(5)")
    sync_api.expect(visits).to_have_text("3")
    part(page, "search-forward").click()
    sync_api.expect(now).to_have_text("selection")
    part(page, "search-back").click()
    part(page, "search-back").click()
    sync_api.expect(now).to_have_text("reward")
    sync_api.expect(visits).to_have_text("2")
    part(page, "search-play").click()
    page.wait_for_function("() => /Simulation [5-9]/.test(document.querySelector('[data-part=search-text]').textContent)")
    part(page, "search-play").click()
    paused = text.inner_text()
    at_rest(page)
    assert text.inner_text() == paused
    part(page, "search").evaluate("e => { e.value = e.max; e.dispatchEvent(new Event('input')); }")
    sync_api.expect(now).to_have_count(0)
    part(page, "search-play").click()
    sync_api.expect(text).to_contain_text("Simulation 2 of")


@pytest.mark.slow
@pytest.mark.model
def test_a_prompt_runs_on_the_real_model_and_all_runs_write_the_same(page: sync_api.Page):
    tick(page, "plain", "aded", "token-recycling")
    start(page, "List the days of the week.", 20)
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    assert text_of(page, "plain") == text_of(page, "aded") == text_of(page, "token-recycling") != ""
    assert "identical" in part(page, "detail").inner_text()
    written = page.locator(".ax-run-view[data-method='aded'] .ax-tok").count()
    drafted = len(tokens_of(page, "aded", "draft"))
    steps = page.locator(".ax-run-view[data-method='aded'] .ax-step").count()
    assert written == drafted + len(tokens_of(page, "aded", "target"))
    assert len(tokens_of(page, "aded", "target")) <= steps
    page.keyboard.press("Home")
    part(page, "search").evaluate("e => { e.value = '12'; e.dispatchEvent(new Event('input')); }")
    sync_api.expect(part(page, "search-text")).to_contain_text("Simulation 3 of")
    sync_api.expect(page.locator(".ax-why")).to_contain_text("not verified yet")
    page.keyboard.press("ArrowRight")
    sync_api.expect(part(page, "search-text")).to_contain_text("the result of the verification")


@pytest.mark.model
@pytest.mark.slow
def test_a_closed_tab_frees_the_model_for_the_next_visitor(browser: sync_api.Browser, address: str):
    with watched_page(browser, address) as page:
        start(page, "Write a long story about the sea.", 400)
    with watched_page(browser, address) as page:
        start(page, "Count to ten.", 4)
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()


def test_a_race_stops_early_and_another_visitor_sees_nothing_of_it(browser: sync_api.Browser, live: Live):
    with watched_page(browser, live.address) as page, watched_page(browser, live.address) as other:
        before = text_of(other, "plain")
        start(page, "Write a long story about the sea.", 400)
        page.wait_for_function("() => document.querySelectorAll('.ax-run-view[data-method=aded] .ax-step').length >= 3")
        page.locator("#ax-stop").click()
        live.engine.gate.set()
        sync_api.expect(part(page, "sentence")).to_contain_text("Stopped early")
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        assert page.locator(".ax-run-view[data-method='aded'] .ax-step").count() < 200
        page.keyboard.press("Home")
        sync_api.expect(part(page, "where")).to_contain_text("step 1 of")
        assert text_of(other, "plain") == before
        assert notice(other).inner_text() == ""


@pytest.mark.slow
@pytest.mark.model
def test_during_a_race_no_other_one_can_be_opened_and_the_chips_name_what_is_shown(page: sync_api.Page):
    chip, examples = page.locator(".ax-chips [data-race='A maths teacher']"), page.locator("#ax-examples input")
    sync_api.expect(chip).to_have_attribute("aria-pressed", "true")
    start(page, "Write a long story about the sea.", 400)
    sync_api.expect(examples).to_have_value("")
    sync_api.expect(chip).to_have_attribute("aria-disabled", "true")
    sync_api.expect(chip).to_have_attribute("aria-pressed", "false")
    sync_api.expect(notice(page)).to_contain_text("Other races can be opened after they have ended")
    page.locator("#ax-stop").click()
    sync_api.expect(part(page, "sentence")).to_contain_text("Stopped early")
    sync_api.expect(chip).to_have_attribute("aria-disabled", "false")
    chip.click()
    sync_api.expect(part(page, "source")).to_have_text("recorded")
    sync_api.expect(chip).to_have_attribute("aria-pressed", "true")


def test_a_list_that_was_closed_by_escape_opens_again_by_a_click(page: sync_api.Page):
    examples, options = page.locator("#ax-examples input"), page.locator("li[role='option']")
    for _ in range(2):
        examples.click()
        sync_api.expect(options.first).to_be_visible()
        page.keyboard.press("Escape")
        sync_api.expect(options).to_have_count(0)

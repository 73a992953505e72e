"""Learning on the page: the tour, predictions, terms with explanations, languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browsing import choose_race, drawn, open_race, part, show_tab, start, sync_api, watched_page
from serving_fakes import Live
from ui_fakes import make_race

from aded.core.trace import Race
from aded.drafters.registry import METHODS

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
SECTIONS = True

CHINESE = re.compile("[\u4e00-\u9fff]")


def stop(page: sync_api.Page) -> str:
    return page.locator(".ax-tour h2").inner_text()


@pytest.mark.slow
def test_the_tour_waits_for_its_tasks_can_be_left_and_continued(page: sync_api.Page):
    following, task = part(page, "tour-next"), page.locator(".ax-task")
    part(page, "tour").click()
    for _ in range(3):
        following.click()
    sync_api.expect(page.locator(".ax-time.ax-toured")).to_be_visible()
    sync_api.expect(following).to_have_text("Skip this")
    part(page, "previous").click()
    sync_api.expect(task).to_have_attribute("data-done", "true")
    sync_api.expect(following).to_have_text("Next")
    following.click()
    part(page, "play").click()
    sync_api.expect(task).to_have_attribute("data-done", "true")
    left = stop(page)
    page.locator(".ax-tour").press("Escape")
    sync_api.expect(page.locator(".ax-tour")).to_be_hidden()
    assert page.locator(".ax-toured").count() == 0
    page.reload()
    page.wait_for_selector(".ax-plot .main-svg")
    part(page, "tour").click()
    assert stop(page) == left
    part(page, "tour-again").click()
    sync_api.expect(page.locator(".ax-tour .ax-dim")).to_have_text("1 of 12")


def test_the_tour_shows_all_its_steps(page: sync_api.Page):
    part(page, "tour").click()
    seen = [stop(page)]
    while part(page, "tour-next").inner_text() != "Finish":
        part(page, "tour-next").click()
        seen.append(stop(page))
        sync_api.expect(page.locator(".ax-toured")).to_have_count(1)
    part(page, "tour-next").click()
    assert len(set(seen)) == 12
    sync_api.expect(page.locator(".ax-tour")).to_be_hidden()


@pytest.mark.slow
def test_the_tour_changes_to_a_run_that_has_what_a_step_shows(page: sync_api.Page):
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    part(page, "tour").click()
    for _ in range(5):
        sync_api.expect(page.locator(".ax-run-view[data-method='plain'] .ax-look")).to_have_attribute("aria-pressed", "true")
        part(page, "tour-next").click()
    sync_api.expect(page.locator(".ax-tour")).to_contain_text(re.compile(r"step \d+ of ADED is shown now"))
    sync_api.expect(page.locator(".ax-run-view[data-method='aded'] .ax-look")).to_have_attribute("aria-pressed", "true")
    for place in ("tree-card", "prediction-toggle", "search-slot", "mask-card", "walk-card", "matrix-card"):
        while not part(page, place).evaluate("e => e.classList.contains('ax-toured')"):
            assert part(page, "tour-next").inner_text() != "Finish"
            part(page, "tour-next").click()
            drawn(page)
        sync_api.expect(part(page, place)).to_be_visible()


@pytest.mark.slow
def test_the_tour_leaves_out_what_no_run_has(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, Race([run for run in race.lanes if run.header.method == "plain"]), tmp_path)
    part(page, "tour").click()
    sync_api.expect(page.locator(".ax-tour .ax-dim").first).to_have_text("1 of 5")
    for _ in range(4):
        part(page, "tour-next").click()
    sync_api.expect(page.locator(".ax-tour .ax-dim").first).to_have_text("5 of 5")
    sync_api.expect(part(page, "tour-next")).to_have_text("Finish")
    part(page, "tour-next").click()
    sync_api.expect(page.locator(".ax-tour")).to_be_hidden()


BOX = """name => {
    const element = document.querySelector(name), panel = element?.closest(".ax-panel");
    if (!element) return null;
    const { top, bottom } = element.getBoundingClientRect();
    const end = Math.min(bottom, panel?.getBoundingClientRect().bottom ?? bottom);
    return { top, bottom: end, height: end - top };
}"""
"""The part of an element that its panel shows."""


@pytest.mark.slow
def test_the_card_of_the_tour_never_covers_what_it_explains(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.emulate_media(reduced_motion="reduce")
        for width, height in ((1280, 720), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            page.locator(".ax-header button[data-part='tour']").evaluate("e => e.click()")
            while True:
                drawn(page)
                card, place = (page.evaluate(BOX, name) for name in (".ax-tour", ".ax-toured"))
                assert place, stop(page)
                covered = min(card["bottom"], place["bottom"]) - max(card["top"], place["top"])
                assert covered <= 0.2 * place["height"], stop(page)
                if page.locator(".ax-tour-next").inner_text() == "Finish":
                    break
                page.locator(".ax-tour-next").click()
            page.locator(".ax-tour-next").click()


@pytest.mark.parametrize(("presented", "words"), [(False, "press Run"), (True, "the other steps and runs")])
@pytest.mark.slow
def test_the_tour_ends_with_what_the_user_can_do_next(page: sync_api.Page, presented: bool, words: str):
    part(page, "tour").click()
    if presented:
        part(page, "present").click()
        sync_api.expect(page.locator("#ax-run")).to_be_hidden()
    while part(page, "tour-next").inner_text() != "Finish":
        assert not re.search("press Run|the other steps and runs", tour_text(page))
        part(page, "tour-next").click()
    assert words in tour_text(page)


def tour_text(page: sync_api.Page) -> str:
    return page.locator(".ax-tour").inner_text()


def test_the_verdict_is_hidden_until_the_user_has_predicted_it(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    steps = race.lanes[1].steps
    index = next(i for i, step in enumerate(steps) if len(step.path) > 2)
    show_tab(page, "verify")
    page.locator(".ax-run-view[data-method='aded'] .ax-step").nth(index).click()
    part(page, "prediction-toggle").click()
    sync_api.expect(part(page, "prediction-question")).to_be_visible()
    sync_api.expect(page.locator(".ax-walk")).to_be_hidden()
    sync_api.expect(page.locator(".ax-run-view[data-method='aded'] .ax-step").nth(index)).to_be_hidden()
    chips = page.locator(".ax-nodes .ax-chip").all_inner_texts()
    assert set(chips) == {"root", "not verified yet"}
    ends = "steps => document.querySelector('.ax-chart').data[1].x.length === steps + 1"
    page.wait_for_function(ends, arg=index)
    choices = page.locator(".ax-choice")
    assert choices.count() >= 2
    show_tab(page, "learn")
    sync_api.expect(page.locator("#ax-panel-learn > .ax-hidden-note")).to_be_visible()
    show_tab(page, "verify")
    places = [choice.bounding_box() for choice in choices.all()]
    page.locator(f".ax-choice[data-node='{steps[index].path[1]}']").click()
    sync_api.expect(part(page, "prediction-answer")).to_contain_text("Correct: the target chose")
    sync_api.expect(part(page, "prediction-score")).to_have_text("1 of 1 prediction correct")
    sync_api.expect(part(page, "prediction-question")).to_be_visible()
    assert [choice.bounding_box() for choice in choices.all()] == places
    page.wait_for_function(ends, arg=index + 1)
    sync_api.expect(page.locator(".ax-walk")).to_be_visible()
    assert "accepted ✓" in page.locator(".ax-nodes .ax-chip").all_inner_texts()
    part(page, "prediction-next").click()
    sync_api.expect(page.locator(".ax-walk")).to_be_hidden()
    part(page, "prediction-toggle").click()
    page.wait_for_function(ends, arg=len(steps))
    sync_api.expect(page.locator(".ax-walk")).to_be_visible()


LOOKS = """all => all.map(e => [e.getBoundingClientRect().height, getComputedStyle(e).border, e.title,
    [...e.children].map(b => getComputedStyle(b).display)].join())"""


@pytest.mark.slow
def test_the_time_strip_hides_what_is_still_to_be_predicted(page: sync_api.Page):
    bars, strip = page.locator(".ax-strip i"), page.locator(".ax-strip")
    full = bars.evaluate_all(LOOKS)
    bars.nth(5).click()
    part(page, "prediction-toggle").click()
    sync_api.expect(bars.nth(5)).to_have_class("ax-current ax-unpredicted")
    covered = bars.evaluate_all(LOOKS)
    assert covered[:5] == full[:5]
    assert len({*covered[6:]}) == 1
    assert covered[5].split(",")[0] == covered[6].split(",")[0]
    assert "Which does the target accept?" in (strip.get_attribute("aria-valuetext") or "")
    page.locator(".ax-choice").first.click()
    sync_api.expect(bars.nth(5)).to_have_class("ax-current")
    sync_api.expect(bars.nth(6)).to_have_class("ax-ahead ax-unpredicted")
    assert bars.nth(5).evaluate_all(LOOKS)[0].split(",")[0] == full[5].split(",")[0]
    part(page, "prediction-toggle").click()
    sync_api.expect(page.locator(".ax-unpredicted")).to_have_count(0)


def test_a_term_opens_its_explanation_and_escape_closes_it(page: sync_api.Page):
    page.locator(".ax-nodes [data-term='puct']").click()
    box = page.locator(".ax-term-box")
    sync_api.expect(box).to_contain_text("the mean reward Q plus an exploration term U")
    within = box.evaluate(
        "e => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth && r.top >= 0; }"
    )
    assert within
    page.keyboard.press("Escape")
    sync_api.expect(box).to_be_hidden()
    part(page, "origins").locator("[data-term='lossless']").click()
    box.locator("[data-part='term-lesson']").click()
    sync_api.expect(box).to_be_hidden()
    page.wait_for_function("location.hash.includes('lesson=draft-and-verify')")


def test_the_method_of_a_run_is_explained_with_its_paper(page: sync_api.Page):
    page.locator(".ax-run-view[data-method='aded'] .ax-about").click()
    opened = page.locator(".ax-article[open]")
    sync_api.expect(opened).to_have_count(1)
    sync_api.expect(opened).to_contain_text("arXiv 2407.12021")
    page.keyboard.press("Escape")
    sync_api.expect(page.locator(".ax-sheet[data-part='sheet']")).to_be_hidden()
    part(page, "learn").click()
    assert page.locator(".ax-article").count() == len(METHODS)
    assert page.locator(".ax-glossary dt").count() >= 18


def test_the_whole_page_uses_the_selected_language_and_keeps_it(page: sync_api.Page):
    part(page, "language").select_option("zh")
    sync_api.expect(page.locator("#ax-run")).to_have_text("运行")
    sync_api.expect(page.locator("#ax-prompt label span").first).to_have_text("提示词")
    assert page.evaluate("document.documentElement.lang") == "zh"
    page.locator("#ax-prompt textarea").fill(" ")
    page.locator("#ax-run").click()
    sync_api.expect(page.locator("#ax-notice [data-part='text']")).to_contain_text("提示词为空")
    texts = page.locator("[data-say]:visible").evaluate_all("all => all.map(e => e.textContent.trim()).filter(Boolean)")
    assert [text for text in texts if not CHINESE.search(text)] == []
    for tab in ("learn", "pass"):
        show_tab(page, tab)
    for name in ("sentence", "detail", "step-title", "step-sentence", "where", "matrix-key", "mask-text"):
        sync_api.expect(part(page, name)).to_have_text(CHINESE)
    page.reload()
    sync_api.expect(part(page, "tour")).to_have_text("导览")
    sync_api.expect(page.locator("#ax-run")).to_have_text("运行")
    part(page, "language").select_option("en")
    sync_api.expect(page.locator("#ax-run")).to_have_text("Run")
    sync_api.expect(part(page, "sentence")).to_contain_text("plain decoding needed")


@pytest.mark.slow
def test_predictions_in_a_live_race_show_no_answer(live_page: sync_api.Page, live: Live):
    page = live_page
    start(page, "Write a long story about the sea.", 60)
    page.wait_for_function("() => document.querySelectorAll('.ax-run-view[data-method=aded] .ax-step').length >= 3")
    part(page, "prediction-toggle").click()
    sync_api.expect(part(page, "prediction-toggle")).to_have_attribute("aria-pressed", "true")
    drawn(page)
    shown = "() => [...document.querySelectorAll('.ax-run-view[data-method=aded] .ax-step:not(.ax-later)')].length"
    predicted = int(part(page, "where").inner_text().split()[1])
    received = "() => document.querySelectorAll('.ax-run-view[data-method=aded] .ax-step').length"
    before = page.evaluate(received)
    assert page.evaluate(shown) < predicted
    live.engine.gate.set()
    page.wait_for_function(f"before => ({received})() > before", arg=before)
    assert page.evaluate(shown) < predicted
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    assert page.evaluate(shown) == predicted - 1


@pytest.mark.slow
def test_no_run_and_no_label_shows_what_is_to_be_predicted(page: sync_api.Page):
    choose_race(page, "Short facts")
    sync_api.expect(part(page, "race-title")).to_have_text("Short facts")
    part(page, "prediction-toggle").click()
    runs = page.locator(".ax-run-view")
    written = ".ax-step:not(.ax-later)"
    for look in (1, 2):
        drawn(page)
        texts = ["".join(run.locator(written).all_text_contents()) for run in runs.all()]
        selected = "".join(page.locator(f".ax-run-view.ax-focus {written}").all_text_contents())
        assert max(texts, key=len) == selected, "a run that is ahead shows what comes next"
        assert "accepted" not in (part(page, "tree").get_attribute("aria-label") or "")
        assert "tokens in" not in (part(page, "strip").get_attribute("aria-valuetext") or "")
        page.locator(".ax-run-view:not(.ax-focus) .ax-look").nth(look).click()
        sync_api.expect(part(page, "prediction-question")).to_be_visible()

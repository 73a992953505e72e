"""Lessons on the static site from disk: exercises with verdicts, links, the browser's history, and a lesson from a file."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from browsing import choose_race, open_race, part, sync_api
from serving_fakes import Live
from site_fixtures import open_site
from test_browser_access import axe, violations  # noqa: F401  (a fixture)
from ui_fakes import make_race

from aded.lessons import checks
from aded.lessons.template import template
from ui import site

pytest_plugins = ("browser_fixtures", "site_fixtures")
pytestmark = pytest.mark.browser

LESSON = "lesson=draft-and-verify"


@pytest.fixture
def page(site_page: sync_api.Page) -> sync_api.Page:
    return site_page


def expect_part(page: sync_api.Page, number: int) -> None:
    sync_api.expect(page.locator(".ax-lesson-head")).to_contain_text(f"{number} of 7")
    page.wait_for_function("part => location.hash.includes(`part=${part}`)", arg=number)


def expect_above_sheet(page: sync_api.Page, selector: str) -> None:
    """On a phone, the whole element is on screen, and the lesson does not cover it."""
    sync_api.expect(page.locator(selector)).to_be_in_viewport(ratio=1)
    page.wait_for_function(
        "selector => document.querySelector(selector).getBoundingClientRect().bottom <= "
        "document.querySelector('.ax-lesson').getBoundingClientRect().top",
        arg=selector,
    )


def test_a_lesson_is_played_with_verdicts_and_its_progress_is_kept(page: sync_api.Page, folder: Path):
    open_site(page, folder, f"{LESSON}&part=4")
    verdict, following = part(page, "lesson-verdict"), part(page, "lesson-next")
    sync_api.expect(page.locator("[data-part='where']")).to_contain_text("step 16 of 32")
    sync_api.expect(page.locator("[data-part='prediction']")).to_be_hidden()
    sync_api.expect(page.locator("[data-part='step-title']")).not_to_contain_text("accepted")
    for node in (2, 17):
        page.locator(f".ax-lesson-choices [data-node='{node}']").click()
    part(page, "lesson-end").click()
    sync_api.expect(verdict).to_contain_text("Correct")
    sync_api.expect(verdict).to_contain_text("for the target ␣each has probability 0.98")
    following.click()
    expect_part(page, 5)
    options = page.locator(".ax-lesson-options label")
    options.nth(0).click()
    part(page, "lesson-check").click()
    sync_api.expect(verdict).to_contain_text("Try another answer")
    options.nth(1).click()
    part(page, "lesson-check").click()
    sync_api.expect(verdict).to_have_attribute("data-right", "true")
    following.click()
    expect_part(page, 6)
    for typed, said in (("x", "Enter a number"), ("3", "too high"), ("69/32", "Correct")):
        part(page, "lesson-number").fill(typed)
        part(page, "lesson-number").press("Enter")
        sync_api.expect(verdict).to_contain_text(said)
    sync_api.expect(page.locator(".ax-lesson-chart .main-svg").first).to_be_visible()
    page.go_back()
    expect_part(page, 5)
    page.go_forward()
    expect_part(page, 6)
    following.click()
    following.click()
    sync_api.expect(page.locator("[data-lesson='draft-and-verify']")).to_contain_text("4 of 7 parts")
    sync_api.expect(page.locator(".ax-lesson")).to_be_hidden()
    sync_api.expect(page).not_to_have_url(re.compile("lesson="))


def test_what_a_part_asks_for_is_hidden_again_after_another_race_and_after_playback(
    page: sync_api.Page, folder: Path, tmp_path: Path
):
    open_site(page, folder, f"{LESSON}&part=4")
    view = part(page, "view-root")
    sync_api.expect(view).to_have_attribute("data-covered", "true")
    open_race(page, make_race(), tmp_path)
    sync_api.expect(view).to_have_attribute("data-covered", "false")
    part(page, "lesson-show").click()
    sync_api.expect(part(page, "where")).to_contain_text("step 16 of 32")
    sync_api.expect(view).to_have_attribute("data-covered", "true")
    part(page, "play").click()
    page.keyboard.press("End")
    sync_api.expect(view).to_have_attribute("data-covered", "false")
    part(page, "lesson-show").click()
    sync_api.expect(view).to_have_attribute("data-covered", "true")
    page.locator(".ax-lesson-choices [data-node='2']").click()
    part(page, "lesson-end").click()
    sync_api.expect(view).to_have_attribute("data-covered", "false")


def test_a_path_that_was_answered_is_known_in_the_same_part_again(page: sync_api.Page, folder: Path):
    open_site(page, folder, f"{LESSON}&part=4")
    verdict = part(page, "lesson-verdict")
    part(page, "lesson-end").click()
    sync_api.expect(verdict).to_contain_text("It accepts:")
    for button, number in (("back", 3), ("next", 4)):
        part(page, f"lesson-{button}").click()
        expect_part(page, number)
    for node in (2, 17):
        page.locator(f".ax-lesson-choices [data-node='{node}']").click()
    part(page, "lesson-end").click()
    sync_api.expect(verdict).to_contain_text("That is the accepted path.")
    sync_api.expect(verdict).to_have_attribute("data-right", "false")


def test_history_goes_forward_again_when_the_file_of_the_lesson_comes_late(page: sync_api.Page, folder: Path):
    open_site(page, folder, f"{LESSON}&part=2")
    expect_part(page, 2)
    page.evaluate("() => document.querySelector('[data-part=lesson-next]').click()")
    expect_part(page, 3)
    page.evaluate(
        """() => {
          const text = Response.prototype.text;
          window.late = 0;
          Response.prototype.text = async function () {
            window.late += 1;
            await new Promise((resolve) => setTimeout(resolve, 1500));
            return text.call(this).finally(() => (window.late -= 1));
          };
        }"""
    )
    for move, number in ((page.go_back, 2), (page.go_forward, 3)):
        move()
        expect_part(page, number)
    page.go_back()
    page.go_forward()
    page.wait_for_function("() => window.late === 0")
    expect_part(page, 3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of all recorded races, with all lessons."""
    out = tmp_path_factory.mktemp("whole") / "out"
    site.export(out)
    return out


VIEWS = [
    *itertools.product([path.stem for path in checks.bundled()], ["en", "zh"], ["light"]),
    ("draft-and-verify", "en", "dark"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("lesson", "lang", "theme"), VIEWS)
def test_no_part_of_a_lesson_has_a_serious_violation(
    page: sync_api.Page,
    whole: Path,
    axe: str,  # noqa: F811
    lesson: str,
    lang: str,
    theme: str,
):
    body = json.loads((checks.FOLDER / f"{lesson}.json").read_text("utf-8"))
    open_site(page, whole, f"lesson={lesson}&part=1&lang={lang}&theme={theme}")
    for given in body["parts"]:
        sync_api.expect(page.locator(".ax-lesson h3")).to_have_text(given["title"][lang])
        sync_api.expect(page.locator(".ax-lesson-away")).to_be_hidden()
        if "figure" in given:
            sync_api.expect(page.locator(".ax-lesson-chart .main-svg").first).to_be_visible()
        assert violations(page, axe) == [], given["title"][lang]
        part(page, "lesson-next").click()
    sync_api.expect(page.locator(".ax-lesson")).to_be_hidden()
    assert violations(page, axe) == []


def test_a_node_of_a_link_is_selected_in_the_view_of_the_part_and_can_be_checked(page: sync_api.Page, folder: Path):
    open_site(page, folder, "lesson=puct&part=4&node=2")
    sync_api.expect(part(page, "where")).to_contain_text("step 14 of 32")
    sync_api.expect(page.locator(".ax-lesson-answer code")).to_have_text("␣that")
    sync_api.expect(part(page, "note")).to_be_hidden()
    part(page, "lesson-check").click()
    sync_api.expect(part(page, "lesson-verdict")).to_contain_text("Correct")


def test_on_a_phone_what_a_part_frames_is_above_its_sheet(page: sync_api.Page, folder: Path):
    page.set_viewport_size({"width": 390, "height": 844})
    open_site(page, folder, "lesson=puct&part=2")
    expect_above_sheet(page, "[data-part='search-slot'].ax-toured")


def test_without_a_model_a_part_says_what_its_ablation_needs(page: sync_api.Page, folder: Path):
    open_site(page, folder, "lesson=puct&part=5")
    sync_api.expect(part(page, "lesson-ablation")).to_contain_text("python app.py")
    sync_api.expect(page.locator(".ax-lesson-chart .main-svg").first).to_be_visible()


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_a_part_opens_the_controls_of_an_ablation_and_they_start_it(live_page: sync_api.Page, live: Live, width: int):
    live_page.set_viewport_size({"width": width, "height": 844})
    live_page.evaluate("() => { document.body.classList.remove('ax-drawer'); location.hash = 'lesson=puct&part=5'; }")
    run = live_page.locator("#ax-ablate")
    sync_api.expect(run).to_be_hidden()
    part(live_page, "lesson-ablation").click()
    sync_api.expect(run).to_be_focused()
    sync_api.expect(live_page.locator("#ax-axis input")).to_have_value("Search")
    if width == 390:
        expect_above_sheet(live_page, "#ax-ablate")
    live.engine.gate.set()
    run.press("Enter")
    sync_api.expect(live_page.locator(".ax-lesson-away")).to_be_visible()


def test_the_list_begins_with_the_tour_and_a_lesson_of_a_wrong_link_is_reported(page: sync_api.Page, folder: Path):
    open_site(page, folder, "lesson=none")
    sync_api.expect(part(page, "note-text")).to_contain_text("There is no lesson “none”")
    part(page, "lessons").click()
    entries = page.locator(".ax-lesson-list button")
    sync_api.expect(entries.first).to_contain_text("tour")
    entries.nth(1).click()
    sync_api.expect(page.locator(".ax-lesson h3")).to_be_focused()
    sync_api.expect(page.locator(".ax-lesson-text")).to_contain_text("69 tokens in 69 forward passes")
    page.locator(".ax-run-view[data-method='medusa'] .ax-look").click()
    sync_api.expect(page.locator(".ax-lesson-away")).to_be_visible()
    part(page, "lesson-show").click()
    sync_api.expect(page.locator(".ax-lesson-away")).to_be_hidden()
    part(page, "lesson-close").click()
    sync_api.expect(part(page, "lessons")).to_be_focused()
    part(page, "lessons").click()
    entries.first.click()
    sync_api.expect(page.locator(".ax-tour")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_lesson_of_a_file_is_opened_and_one_with_an_error_is_refused(
    page: sync_api.Page, folder: Path, tmp_path: Path, width: int
):
    page.set_viewport_size({"width": width, "height": 844})
    open_site(page, folder, "lang=zh")
    body = json.loads(template("mine"))
    (tmp_path / "mine.json").write_text(json.dumps(body), "utf-8")
    part(page, "open-file").set_input_files(tmp_path / "mine.json")
    sync_api.expect(page.locator(".ax-lesson-name")).to_have_text("我的课程")
    sync_api.expect(page.locator(".ax-lesson-text")).to_contain_text("每步写出 2.16 个词元")
    sync_api.expect(part(page, "lesson-next")).to_be_in_viewport()
    part(page, "lesson-close").click()
    body["parts"][0]["show"]["race"] = "None"
    (tmp_path / "mine.json").write_text(json.dumps(body), "utf-8")
    part(page, "open-file").set_input_files(tmp_path / "mine.json")
    sync_api.expect(part(page, "open-error")).to_contain_text(re.compile(r"parts\[0\]\.show\.race.*没有录制的比赛“None”"))
    sync_api.expect(page.locator(".ax-lesson")).to_be_hidden()
    choose_race(page, "A maths teacher")

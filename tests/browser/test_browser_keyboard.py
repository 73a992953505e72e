"""Keyboard: lists close without a request when they lose the focus, a race moves it to Stop and back, shortcuts respect boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browsing import at_rest, open_controls, open_race, part, start, sync_api, watched_page
from serving_fakes import Live
from ui_fakes import make_race
from waiting import until

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

LISTS = ("examples", "preset", "search", "higher_orders", "feedback", "coupling", "corpus", "axis")
"""All dropdown lists of Gradio."""
OPTION = "[role='listbox'] li"


def settled(page: sync_api.Page) -> None:
    """Wait until the effects of a key or a click are over."""
    at_rest(page)


@contextmanager
def silent(page: sync_api.Page) -> Iterator[None]:
    """No request but that of the status line may be sent meanwhile."""
    asked: list[str] = []

    def watch(request: sync_api.Request) -> None:
        if request.method == "POST" and not (request.post_data or "").startswith('{"data":[],"fn_index"'):
            asked.append(request.post_data or request.url)

    page.on("request", watch)
    yield
    settled(page)
    page.remove_listener("request", watch)
    assert asked == []


def leave_by_every_way(page: sync_api.Page, name: str) -> None:
    """Leave a list by Tab in both directions, after a key, and by a click elsewhere."""
    field, options = page.locator(f"#ax-{name} input"), page.locator(f"#ax-{name} {OPTION}")
    for keys in (["Tab"], ["Shift+Tab"], ["ArrowDown", "Tab"]):
        field.focus()
        sync_api.expect(options.first).to_be_visible()
        for key in keys:
            page.keyboard.press(key)
        settled(page)
        sync_api.expect(options).to_have_count(0)
        sync_api.expect(field).not_to_be_focused()
    field.click()
    sync_api.expect(options.first).to_be_visible()
    page.locator("h1").first.click()
    sync_api.expect(options).to_have_count(0)


@pytest.mark.slow
def test_a_list_that_loses_the_focus_closes_without_a_request(page: sync_api.Page):
    for folded in page.locator("#ax-controls button.label-wrap").all():
        folded.click()
    settled(page)
    named = "all => all.map(e => e.closest('.block').id)"
    assert {*page.locator("input[role='combobox']").evaluate_all(named)} == {f"ax-{name}" for name in LISTS}
    with silent(page):
        for name in LISTS:
            leave_by_every_way(page, name)


@pytest.mark.slow
def test_an_empty_list_changes_nothing_when_it_loses_the_focus(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(), tmp_path)
    page.locator("#ax-prompt textarea").fill("Another prompt.")
    sync_api.expect(page.locator("#ax-examples input")).to_have_value("")
    settled(page)
    with silent(page):
        leave_by_every_way(page, "examples")
    assert page.locator("[data-testid='toast-body']").count() == 0
    sync_api.expect(page.locator("#ax-prompt textarea")).to_have_value("Another prompt.")
    sync_api.expect(part(page, "source")).to_have_text("from a file")


@pytest.mark.slow
def test_a_list_without_a_new_choice_keeps_the_step_on_screen(page: sync_api.Page):
    page.keyboard.press("Home")
    sync_api.expect(part(page, "where")).to_contain_text("step 1 of")
    leave_by_every_way(page, "examples")
    settled(page)
    sync_api.expect(part(page, "where")).to_contain_text("step 1 of")


@pytest.mark.slow
def test_lists_are_used_by_mouse_and_by_keyboard(page: sync_api.Page):
    prompt = page.locator("#ax-prompt textarea")
    prompt.fill("Another prompt.")
    settled(page)
    page.locator("#ax-examples input").click()
    page.locator(OPTION).nth(2).click()
    sync_api.expect(prompt).not_to_have_value("Another prompt.")
    first = prompt.input_value()
    page.locator("#ax-examples input").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    sync_api.expect(prompt).not_to_have_value(first)
    sync_api.expect(page.locator("#ax-examples input")).not_to_have_value("")


def test_tab_goes_to_run_where_it_is_seen(page: sync_api.Page):
    part(page, "present").focus()
    page.keyboard.press("Shift+Tab")
    sync_api.expect(page.locator("#ax-run")).to_be_focused()
    page.keyboard.press("Tab")
    sync_api.expect(part(page, "present")).to_be_focused()
    more = part(page, "more").locator("summary")
    more.focus()
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('#ax-bar')"), "Run is not reached a second time"
    page.keyboard.press("Shift+Tab")
    sync_api.expect(more).to_be_focused()


def press_by_keyboard(page: sync_api.Page, button: str, tokens: int) -> None:
    """Press a button that starts a race by keyboard."""
    open_controls(page)
    page.locator("#ax-max-new-tokens input[type=text]").fill(str(tokens))
    page.locator(button).focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    sync_api.expect(page.locator(button)).to_be_focused()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(button)).to_be_disabled()


@pytest.mark.parametrize("button", ["#ax-run", pytest.param("#ax-ablate", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_race_moves_the_focus_to_stop_and_back(live_page: sync_api.Page, live: Live, button: str):
    page = live_page
    page.locator("#ax-controls button.label-wrap", has_text="Ablation").click()
    press_by_keyboard(page, button, 200)
    sync_api.expect(page.locator("#ax-stop")).to_be_focused()
    page.wait_for_function("() => document.querySelector('[data-part=source]').textContent === 'live race'")
    sync_api.expect(page.locator("#ax-stop")).to_be_focused()
    page.keyboard.press("Enter")
    until(lambda: live.service.scheduler._running_jobs()[0].control.reason)
    live.engine.gate.set()
    sync_api.expect(page.locator(button)).to_be_enabled()
    sync_api.expect(page.locator(button)).to_be_focused()


@pytest.mark.slow
def test_a_race_that_ends_moves_the_focus_back_unless_it_was_moved_elsewhere(live_page: sync_api.Page, live: Live):
    page = live_page
    press_by_keyboard(page, "#ax-run", 8)
    live.engine.gate.set()
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    sync_api.expect(page.locator("#ax-run")).to_be_focused()
    live.engine.gate.clear()
    press_by_keyboard(page, "#ax-run", 40)
    sync_api.expect(page.locator("#ax-stop")).to_be_focused()
    part(page, "theme").focus()
    live.engine.gate.set()
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    settled(page)
    sync_api.expect(part(page, "theme")).to_be_focused()


@pytest.mark.slow
def test_a_race_that_is_started_by_a_click_does_not_focus_stop_so_that_space_does_not_end_it(
    live_page: sync_api.Page, live: Live
):
    page = live_page
    start(page, "List the days of the week.", 24)
    sync_api.expect(page.locator("#ax-stop")).not_to_be_focused()
    page.keyboard.press("Space")
    live.engine.gate.set()
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    assert "Stopped early" not in part(page, "sentence").inner_text()


def test_predictions_can_be_made_by_keyboard_only(page: sync_api.Page):
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    part(page, "prediction-toggle").focus()
    page.keyboard.press("Enter")
    choice = part(page, "prediction-choices").locator("button").first
    sync_api.expect(choice.or_(part(page, "prediction-next")).first).to_be_visible()
    if choice.count():
        choice.focus()
        page.keyboard.press("Enter")
        sync_api.expect(part(page, "prediction-answer")).not_to_have_text("")
    else:
        part(page, "prediction-next").focus()
    sync_api.expect(part(page, "prediction-next")).to_be_focused()
    page.keyboard.press("Enter")
    sync_api.expect(part(page, "prediction-next")).to_be_hidden()
    sync_api.expect(part(page, "prediction-toggle")).to_be_focused()


COMPOSED = """([selector, key, code]) => {
    const settings = { key, bubbles: true, cancelable: true };
    const event = new KeyboardEvent("keydown", code ? { ...settings, keyCode: code } : { ...settings, isComposing: true });
    document.querySelector(selector).dispatchEvent(event);
}"""
"""Sends a key of an input method to an element: during the composition, or the last one with code 229."""


@pytest.mark.parametrize("code", [None, pytest.param(229, marks=pytest.mark.slow)])
def test_keys_of_an_input_method_do_nothing(live_page: sync_api.Page, code: int | None):
    page = live_page
    page.keyboard.press("End")
    page.locator("#ax-examples input").focus()
    sync_api.expect(page.locator(f"#ax-examples {OPTION}").first).to_be_visible()
    seen = "() => [document.querySelector('[data-part=where]').textContent, document.querySelector('#ax-prompt textarea').value]"
    before = [*page.evaluate(seen), page.locator(".ax-nodes tr[aria-selected='true']").get_attribute("data-node")]
    for key in ("Home", "ArrowLeft", " ", "?"):
        page.evaluate(COMPOSED, ["body", key, code])
    for key in ("Escape", "ArrowLeft"):
        page.evaluate(COMPOSED, ["[data-part='tree']", key, code])
    page.evaluate(COMPOSED, [".ax-nodes tbody tr:last-child", "Enter", code])
    for key in ("ArrowDown", "Enter"):
        page.evaluate(COMPOSED, ["#ax-examples input", key, code])
    settled(page)
    assert [*page.evaluate(seen), page.locator(".ax-nodes tr[aria-selected='true']").get_attribute("data-node")] == before
    sync_api.expect(page.locator("dialog[data-part='keys']")).to_be_hidden()
    assert part(page, "play").get_attribute("aria-label") == "Play"


@pytest.mark.slow
def test_shortcuts_leave_keys_to_boxes_that_scroll_and_to_tables(live_page: sync_api.Page):
    page, where = live_page, part(live_page, "where")
    page.keyboard.press("End")
    sync_api.expect(where).to_have_text(re.compile(r"step (\d+) of \1"))
    last = where.inner_text()
    text = page.locator(".ax-run-view .ax-text").first
    text.evaluate("e => { e.style.height = '60px'; e.scrollTop = 0; e.focus(); }")
    page.keyboard.press("End")
    page.wait_for_function("e => e.scrollTop > 0", arg=text.element_handle())
    page.keyboard.press("Home")
    assert where.inner_text() == last
    page.keyboard.press("ArrowLeft")
    sync_api.expect(where).not_to_have_text(last)
    page.keyboard.press("ArrowRight")
    sync_api.expect(where).to_have_text(last)
    text.evaluate("e => { e.style.overflow = 'visible'; }")
    page.keyboard.press("Home")
    sync_api.expect(where).to_contain_text("step 1 of")
    page.locator(".ax-nodes tbody tr").first.focus()
    page.keyboard.press("End")
    sync_api.expect(where).to_contain_text("step 1 of")
    part(page, "strip").focus()
    page.keyboard.press("End")
    sync_api.expect(where).to_have_text(last)


def test_keys_start_the_race_also_while_presenting(live_page: sync_api.Page, live: Live):
    page = live_page
    stop = page.locator("#ax-stop")
    page.locator("#ax-prompt textarea").fill("Another prompt: r")
    sync_api.expect(stop).to_be_disabled()
    page.keyboard.press("Control+Enter")
    live.engine.gate.set()
    sync_api.expect(part(page, "source")).to_have_text("live race")
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    at_rest(page)
    first = page.url
    part(page, "present").click()
    page.keyboard.press("?")
    sync_api.expect(page.locator("dialog[data-part='keys']")).to_contain_text("also while presenting")
    page.keyboard.press("r")
    page.keyboard.press("Escape")
    at_rest(page)
    assert page.locator("#ax-run").is_enabled()
    page.keyboard.press("r")
    page.wait_for_function("first => !location.href.includes(new URLSearchParams(first.split('#')[1]).get('run'))", arg=first)
    sync_api.expect(part(page, "present")).to_have_text("End presenting")
    at_rest(page)


TAKEN = "(e, keys) => !e.dispatchEvent(new KeyboardEvent('keydown', { ...keys, bubbles: true, cancelable: true }))"
"""Whether an element takes a key from the browser."""


def test_the_tree_leaves_the_keys_of_the_browser_and_at_its_root_escape_alone(page: sync_api.Page):
    tree = part(page, "tree")
    assert tree.evaluate(TAKEN, {"key": "ArrowLeft"})
    for keys in ({"key": "ArrowLeft", "altKey": True}, {"key": "+", "ctrlKey": True}, {"key": "-", "metaKey": True}):
        assert not tree.evaluate(TAKEN, keys)
    part(page, "present").click()
    tree.focus()
    for _ in range(4):  # the card of the node, the root, its card, the presentation
        page.keyboard.press("Escape")
        settled(page)
    sync_api.expect(part(page, "present")).to_have_text("Present")


@pytest.mark.slow
def test_shortcuts_can_be_switched_off(browser: sync_api.Browser, live: Live):
    with watched_page(browser, live.address) as page:
        where, sheet = part(page, "where"), page.locator("dialog[data-part='keys']")
        page.keyboard.press("End")
        sync_api.expect(where).to_have_text(re.compile(r"step (\d+) of \1"))
        last = where.inner_text()
        page.keyboard.press("?")
        part(page, "keys-on").uncheck()
        page.keyboard.press("Escape")
        sync_api.expect(sheet).to_be_hidden()
        for _ in range(2):
            for key in ("Home", " ", "r", "Control+Enter", "?"):
                page.keyboard.press(key)
            sync_api.expect(where).to_have_text(last)
            sync_api.expect(sheet).to_be_hidden()
            assert page.locator("#ax-run").is_enabled()
            part(page, "strip").focus()
            page.keyboard.press("Home")
            sync_api.expect(where).to_contain_text("step 1 of")
            page.keyboard.press("End")
            sync_api.expect(where).to_have_text(re.compile(r"step (\d+) of \1"))
            page.reload()  # the browser has stored it
            page.wait_for_selector(".ax-plot .main-svg")
            last = where.inner_text()
        part(page, "keys").click()
        part(page, "keys-on").check()
        page.keyboard.press("Escape")
        page.locator("h1").first.click()
        page.keyboard.press("Home")
        sync_api.expect(where).to_contain_text("step 1 of")

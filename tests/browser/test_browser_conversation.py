"""Several turns of a conversation on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browsing import at_rest, notice, part, saved, sync_api, text_of, watched_page
from serving_fakes import Live

from aded.core import trace

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


WITHOUT_RUN = """
    const find = Document.prototype.getElementById;
    Document.prototype.getElementById = function (id) { return id === "ax-run" ? null : find.call(this, id); };
"""
"""A page whose controls come later than everything else."""


def field(page: sync_api.Page) -> sync_api.Locator:
    return page.locator(".ax-continue input")


def ended(page: sync_api.Page) -> None:
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    sync_api.expect(notice(page)).to_contain_text("Done in")


def first_turn(page: sync_api.Page, live: Live) -> None:
    live.engine.gate.set()
    page.locator("#ax-run").click()
    ended(page)
    sync_api.expect(page.locator(".ax-continue button")).to_be_enabled()


def send(page: sync_api.Page, message: str) -> None:
    field(page).fill(message)
    field(page).press("Enter")


def test_a_conversation_has_two_turns_each_a_race_of_its_own(live_page: sync_api.Page, live: Live, tmp_path: Path):
    page = live_page
    sync_api.expect(field(page)).to_be_hidden()
    first_turn(page, live)
    at_rest(page)
    first, text = page.url, text_of(page, "aded")
    assert page.locator(".ax-earlier").count() == 0
    assert part(page, "turn").inner_text() == ""
    send(page, "And <b>then</b>?")
    fold = page.locator(".ax-run-view[data-method='aded'] .ax-earlier button")
    sync_api.expect(fold).to_have_text("And <b>then</b>? · 1 earlier turn")
    sync_api.expect(part(page, "turn")).to_contain_text("Turn 2 read 1 token and kept 2 in the KV cache.")
    ended(page)
    sync_api.expect(part(page, "turn")).to_contain_text(re.compile(r"ADED wrote \d\.\d\d tokens per step, as in turn 1"))
    assert field(page).input_value() == ""
    assert part(page, "prompt").inner_text() == "And <b>then</b>?"
    assert text_of(page, "aded") == text
    fold.click()
    said = page.locator(".ax-run-view[data-method='aded'] .ax-said")
    assert said.all_inner_texts()[1].startswith("Answer: A language model reads")
    assert {chat.turns[1].text for chat in live.engine.prompts[-1]} == {text}
    record = trace.load(saved(page, "race.json", tmp_path))
    assert isinstance(record, trace.Race)
    at_rest(page)
    assert page.url != first
    page.go_back()
    sync_api.expect(page.locator(".ax-earlier")).to_have_count(0)
    sync_api.expect(field(page)).to_be_hidden()
    sync_api.expect(notice(page)).to_be_hidden()
    page.go_forward()
    sync_api.expect(fold).to_be_visible()
    page.go_back()
    sync_api.expect(part(page, "turn-why")).to_contain_text("Only the latest race, or the latest turn")
    part(page, "turn-why").get_by_role("button").click()
    sync_api.expect(fold).to_be_visible()
    sync_api.expect(field(page)).to_be_visible()
    sync_api.expect(part(page, "turn-why")).to_be_hidden()
    part(page, "language").select_option("zh")
    sync_api.expect(part(page, "turn")).to_contain_text("第 2 轮：读取 1 个词元，KV 缓存保留 2 个。")
    sync_api.expect(fold).to_contain_text("之前 1 轮")


@pytest.mark.slow
def test_a_refused_message_stays_in_its_field_and_the_race_on_screen(live_page: sync_api.Page, live: Live):
    page = live_page
    first_turn(page, live)
    shown = text_of(page, "aded")
    send(page, "  ")
    sync_api.expect(notice(page)).to_have_text("The next message is empty; write one.")
    for session in list(live.service.sessions._sessions.values()):
        session.conversation = None  # as after a restart
    send(page, "And then?")
    sync_api.expect(notice(page)).to_contain_text("The server does not have this conversation any more")
    assert field(page).input_value() == "And then?"
    assert text_of(page, "aded") == shown
    page.locator("#ax-run").click()
    ended(page)
    send(page, "And then?")
    sync_api.expect(page.locator(".ax-earlier").first).to_be_attached()
    ended(page)
    page.locator("#ax-run").click()
    sync_api.expect(page.locator(".ax-earlier")).to_have_count(0)
    ended(page)


def test_the_turns_of_a_shared_race_are_shown_and_only_its_visitor_can_continue_them_until_a_reload(
    browser: sync_api.Browser, live_page: sync_api.Page, live: Live
):
    page = live_page
    first_turn(page, live)
    send(page, "And then?")
    sync_api.expect(part(page, "turn")).to_contain_text("Turn 2")
    ended(page)
    at_rest(page)
    with watched_page(browser, live.address, query="#" + page.url.split("#")[1]) as other:
        sync_api.expect(other.locator(".ax-earlier").first).to_be_attached()
        sync_api.expect(part(other, "turn")).to_contain_text("Turn 2 read 1 token")
        sync_api.expect(field(other)).to_be_hidden()
        sync_api.expect(part(other, "turn-why")).to_contain_text("it ran before this page was loaded")
    asked = page.url.split("#")[1]
    assert "turn=2" in asked
    gone = re.sub(r"run=[0-9a-f]+", "run=" + "0" * 16, asked)
    with watched_page(browser, live.address, query="#" + gone) as other:
        sync_api.expect(part(other, "note-text")).to_contain_text("This live race is no longer available")
        sync_api.expect(part(other, "note-text")).to_contain_text("It is turn 2 of a conversation")
    page.add_init_script(WITHOUT_RUN)
    page.reload()
    sync_api.expect(part(page, "turn-why")).to_contain_text("it ran before this page was loaded")
    sync_api.expect(part(page, "turn-why").get_by_role("button")).to_be_hidden()
    sync_api.expect(field(page)).to_be_hidden()

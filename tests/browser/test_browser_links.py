"""Links into the page: the address and the view agree, also for invalid addresses."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode

import pytest
from browsing import HOSTILE, at_rest, choose_race, drawn, notice, open_race, part, start, sync_api, text_of, watched_page
from serving_fakes import Live
from ui_fakes import make_race

from ui.serving.kept import KeptRaces

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


def link_of(page: sync_api.Page) -> dict[str, str]:
    """The parameters of the current address."""
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.hash.slice(1)")).items()}


def wait_for_link(page: sync_api.Page, name: str, value: str) -> None:
    page.wait_for_function(
        "([name, value]) => new URLSearchParams(location.hash.slice(1)).get(name) === value", arg=[name, value]
    )


@pytest.mark.slow
def test_an_untouched_page_keeps_its_short_address(page: sync_api.Page, address: str):
    at_rest(page)
    assert page.url == address


def test_a_link_opens_the_same_race_run_step_and_node(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, sections=True) as page:
        choose_race(page, "Counting")
        sync_api.expect(part(page, "race-title")).to_have_text("Counting")
        page.locator(".ax-run-view[data-method='aded'] .ax-step").nth(6).click()
        page.locator(".ax-nodes tbody tr[data-node='2']").click()
        wait_for_link(page, "node", "2")
        asked, seen = page.url, [part(page, name).text_content() for name in ("race-title", "step-title", "where", "node")]
    with watched_page(browser, asked) as page:
        sync_api.expect(part(page, "race-title")).to_have_text(str(seen[0]))
        page.wait_for_function("text => document.querySelector('[data-part=step-title]').textContent === text", arg=seen[1])
        page.mouse.move(0, 0)
        sync_api.expect(page.locator(".ax-nodes tr[aria-selected='true']")).to_have_attribute("data-node", "2")
        assert [part(page, name).text_content() for name in ("race-title", "step-title", "where", "node")] == seen
        sync_api.expect(page.locator(".ax-chips [aria-pressed='true']")).to_have_text(str(seen[0]))


def test_a_link_contains_the_settings_and_starts_no_race(browser: sync_api.Browser, address: str):
    with watched_page(browser, address) as page:
        page.locator("#ax-prompt textarea").fill("2 < 3 & “漢” 🙂")
        page.locator("#ax-max-new-tokens input[type=text]").fill("33")
        page.locator("#ax-max-new-tokens input[type=text]").press("Tab")
        page.locator(".ax-picker input[value='suffix']").check()
        wait_for_link(page, "methods", "plain,aded,suffix,medusa")
        wait_for_link(page, "max_new_tokens", "33")
        asked = page.url
    with watched_page(browser, asked) as page:
        sync_api.expect(page.locator("#ax-prompt textarea")).to_have_value("2 < 3 & “漢” 🙂")
        sync_api.expect(page.locator("#ax-max-new-tokens input[type=text]")).to_have_value("33")
        sync_api.expect(page.locator(".ax-picker input[value='suffix']")).to_be_checked()
        assert part(page, "source").inner_text() == "recorded"


def test_the_link_of_a_live_race_says_how_to_repeat_it(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, query="#run=1&method=aded&step=3&seed=5") as page:
        sync_api.expect(notice(page)).to_contain_text("Press Run")
        assert part(page, "source").inner_text() == "recorded"


@pytest.mark.slow
def test_back_and_forward_go_through_the_shown_views(page: sync_api.Page):
    page.keyboard.press("Home")
    wait_for_link(page, "step", "1")
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    wait_for_link(page, "method", "plain")
    page.go_back()
    sync_api.expect(part(page, "step-title")).to_contain_text("ADED")
    sync_api.expect(part(page, "where")).to_contain_text("step 1 of")
    page.go_forward()
    sync_api.expect(part(page, "step-title")).to_contain_text("Plain decoding")


@pytest.mark.slow
def test_back_restores_the_views_before_it_leaves_the_page(page: sync_api.Page, tmp_path: Path):
    where, title, source = part(page, "where"), part(page, "race-title"), part(page, "source")
    first = where.inner_text()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        at_rest(page)
    moved = where.inner_text()
    open_race(page, make_race(), tmp_path)
    wait_for_link(page, "file", "opened.json")
    page.locator("#ax-temperature input[type=text]").fill("0.5")
    wait_for_link(page, "temperature", "0.5")
    choose_race(page, "Counting")
    wait_for_link(page, "race", "Counting")
    page.go_back()
    sync_api.expect(source).to_have_text("from a file")
    sync_api.expect(title).to_have_text("opened.json")
    page.go_back()
    sync_api.expect(title).to_have_text("A maths teacher")
    sync_api.expect(where).to_have_text(moved)
    sync_api.expect(page.locator("#ax-temperature input[type=text]")).to_have_value("0")
    page.go_back()
    sync_api.expect(where).to_have_text(first)
    assert page.url.endswith("/")
    for _ in range(3):
        page.go_forward()
        drawn(page)
    sync_api.expect(title).to_have_text("Counting")


@pytest.mark.slow
def test_back_during_a_race_waits_for_its_end_and_loses_nothing_of_it(live_page: sync_api.Page, live: Live):
    page = live_page
    title, source = part(page, "race-title"), part(page, "source")
    page.keyboard.press("Home")
    wait_for_link(page, "step", "1")
    choose_race(page, "Counting")
    wait_for_link(page, "race", "Counting")
    start(page, "Write a long story about the sea.", 400)
    page.wait_for_function("() => document.querySelectorAll('.ax-run-view[data-method=aded] .ax-step').length >= 2")
    page.wait_for_function("() => location.hash.includes('run=')")
    page.go_back()
    sync_api.expect(page.locator("[data-part='note-text']")).to_contain_text("opens when the race has ended")
    sync_api.expect(source).to_have_text("live race")
    live.stop(page)
    sync_api.expect(title).to_have_text("Counting")
    sync_api.expect(page.locator("[data-part='note-text']")).to_have_text("")
    wait_for_link(page, "race", "Counting")
    page.go_back()
    sync_api.expect(source).to_have_text("live race")
    sync_api.expect(part(page, "sentence")).to_contain_text("Stopped early")


@pytest.mark.slow
def test_a_link_to_an_opened_file_shows_its_step_once_the_file_is_opened(browser: sync_api.Browser, address: str, tmp_path: Path):
    watched = watched_page(browser, address)
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with watched as page:
        open_race(page, make_race(), tmp_path)
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        wait_for_link(page, "step", "2")
        part(page, "copy").click()
        sync_api.expect(part(page, "note-text")).to_contain_text("The link does not contain the opened file.")
        asked = page.evaluate("navigator.clipboard.readText()")
    with watched_page(browser, address, query=asked.removeprefix(address)) as page:
        sync_api.expect(part(page, "note-text")).to_contain_text("Open the file here under “Open a saved race”")
        open_race(page, make_race(), tmp_path)
        sync_api.expect(part(page, "where")).to_contain_text("step 2 of")
        sync_api.expect(part(page, "note")).to_be_hidden()


def test_invalid_parts_of_a_link_are_reported_with_a_remedy_and_the_rest_is_used(browser: sync_api.Browser, address: str):
    query = "#race=No+such+race&methods=foo,plain,rest&temperature=9&seed=5&theme=blue&method=x&speed=2"
    with watched_page(browser, address, query=query) as page:
        note = part(page, "note-text")
        for words in (
            "“No such race”",
            "“foo”",
            "Temperature: 9 is out of range. Give a number from 0 to 2.",
            "“blue”",
            "“speed”",
        ):
            sync_api.expect(note).to_contain_text(words)
        page.locator("#ax-controls button.label-wrap", has_text="Sampling").click()
        sync_api.expect(page.locator("#ax-seed input[type=text]")).to_have_value("5")
        sync_api.expect(page.locator(".ax-picker input:checked")).to_have_count(2)
        part(page, "note-close").click()
        sync_api.expect(part(page, "note")).to_be_hidden()
    with watched_page(browser, address, query="?hide=controls#race=A+summary&method=nobody&step=9999&node=77777") as page:
        for words in ("no run “nobody”; ADED is shown", "no step “9999”; step 2 is shown", "no node “77777”; the node “"):
            sync_api.expect(part(page, "note-text")).to_contain_text(words)
        sync_api.expect(part(page, "race-title")).to_have_text("A summary")


def test_a_field_shows_the_value_that_is_used_and_its_limits(page: sync_api.Page):
    page.locator("#ax-controls button.label-wrap", has_text="Sampling").click()
    for name, typed, shown in (
        ("seed", "007", "7"),
        ("seed", "1e3", "1000"),
        ("temperature", "0.70", "0.7"),
        ("budget", "AUTO", "auto"),
    ):
        field = page.locator(f"#ax-{name} input[type=text]")
        field.fill(typed)
        field.press("Tab")
        sync_api.expect(field).to_have_value(shown)
        assert page.locator(f"#ax-{name} .ax-error").is_hidden()
    field = page.locator("#ax-max-new-tokens")
    field.locator("input[type=text]").fill("513")
    field.locator("input[type=text]").press("Tab")
    sync_api.expect(field.locator(".ax-error")).to_contain_text("Give a number from 1 to 512")
    field.locator("input[type=text]").fill("512")
    field.locator("input[type=text]").press("Tab")
    sync_api.expect(field.locator(".ax-error")).to_be_hidden()
    field = page.locator("#ax-temperature input[type=text]")
    field.fill("3.5")
    field.press("Tab")
    sync_api.expect(page.locator("#ax-temperature .ax-error")).to_have_text(
        "Temperature: 3.5 is out of range. Give a number from 0 to 2."
    )
    sync_api.expect(field).to_have_value("3.5")
    page.locator("#ax-run").click()
    sync_api.expect(notice(page)).to_have_text("Temperature: 3.5 is out of range. Give a number from 0 to 2.")


def test_a_wrong_number_is_reported_once_at_its_field_or_where_that_is_out_of_view_in_the_notice(page: sync_api.Page):
    field, error = page.locator("#ax-temperature input[type=text]"), page.locator("#ax-temperature .ax-error")
    field.fill("3.5")
    field.press("Tab")
    page.locator("#ax-run").click()
    sync_api.expect(notice(page)).to_contain_text("3.5 is out of range")
    sync_api.expect(error).to_be_visible()
    sync_api.expect(notice(page)).to_be_hidden()
    sync_api.expect(field).to_be_focused()
    page.locator("#ax-close").click()
    sync_api.expect(error).to_be_hidden()
    sync_api.expect(notice(page)).to_be_visible()
    page.locator("[data-edit='settings']").click()
    sync_api.expect(notice(page)).to_be_hidden()
    field.fill("0.5")
    field.press("Tab")
    sync_api.expect(error).to_be_hidden()
    page.locator("#ax-close").click()
    sync_api.expect(notice(page)).to_be_hidden()


def test_a_link_sets_theme_language_and_hidden_controls(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, query="?hide=controls#theme=dark&lang=zh") as page:
        assert page.locator("body.dark").count() == 1
        sync_api.expect(part(page, "tour")).to_have_text("导览")
        sync_api.expect(part(page, "tour")).to_be_hidden()
        sync_api.expect(part(page, "present")).to_be_visible()
        sync_api.expect(page.locator("#ax-controls")).to_be_hidden()
        page.keyboard.press("Home")
        wait_for_link(page, "hide", "controls")
        assert (link_of(page)["theme"], link_of(page)["lang"]) == ("dark", "zh")


def test_the_link_is_copied(browser: sync_api.Browser, address: str):
    watched = watched_page(browser, address)
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with watched as page:
        place = part(page, "copy").bounding_box()
        part(page, "copy").click()
        sync_api.expect(part(page, "copied")).to_have_text("Link copied.")
        assert part(page, "copy").bounding_box() == place
        copied = page.evaluate("navigator.clipboard.readText()")
        assert "race=A+maths+teacher" in copied
        assert "step=" in copied


@pytest.mark.parametrize("text", ["".join(HOSTILE[:5]), HOSTILE[1]], ids=["all of them", "one"])
@pytest.mark.slow
def test_hostile_addresses_are_harmless_text(browser: sync_api.Browser, address: str, text: str):
    names = ("race", "method", "step", "node", "theme", "lang", "hide", "example", "methods", "seed", "search", "c1", "budget")
    query = "#" + urlencode({**dict.fromkeys(names, text), "prompt": text})
    with watched_page(browser, address, query=query) as page:
        sync_api.expect(page.locator("#ax-prompt textarea")).to_have_value(text)
        assert page.evaluate("window.PWN") is None
        assert text_of(page, "plain") != ""
        page.evaluate(f"location.hash = {quote(text)!r}")
        drawn(page)
        assert page.evaluate("window.PWN") is None


@pytest.mark.slow
def test_sliders_and_typed_numbers_agree_and_are_in_the_link(browser: sync_api.Browser, address: str):
    with watched_page(browser, address) as page:
        page.locator("#ax-controls button.label-wrap", has_text="ADED settings").click()
        c1, depth = page.locator("#ax-c1"), page.locator("#ax-depth")
        field, slider = c1.locator("input[type=text]"), c1.locator("input[type=range]")
        assert (field.input_value(), field.get_attribute("placeholder")) == ("", "preset’s value")
        slider.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        sync_api.expect(field).to_have_value("0.5")
        wait_for_link(page, "c1", "0.5")
        depth.locator("input[type=text]").fill("7")
        sync_api.expect(depth.locator("input[type=range]")).to_have_value("5")
        assert depth.locator("input[type=range]").get_attribute("aria-valuetext") == "7"
        wait_for_link(page, "depth", "7")
        page.locator("#ax-budget input[type=range]").press("End")
        wait_for_link(page, "budget", "256")
        page.locator("#ax-simulations input[type=text]").fill("many")
        sync_api.expect(page.locator("#ax-simulations input[type=text]")).to_have_attribute("aria-invalid", "true")
        page.locator("#ax-simulations input[type=text]").fill("40")
        wait_for_link(page, "simulations", "40")
        asked = page.url
    with watched_page(browser, asked) as page:
        page.locator("#ax-controls button.label-wrap", has_text="ADED settings").click()
        for name, value in (("c1", "0.5"), ("depth", "7"), ("budget", "256"), ("simulations", "40"), ("c2", "")):
            sync_api.expect(page.locator(f"#ax-{name} input[type=text]")).to_have_value(value)
        page.locator("#ax-budget input[type=range]").press("Home")
        sync_api.expect(page.locator("#ax-budget input[type=text]")).to_have_value("auto")
        wait_for_link(page, "budget", "auto")


@pytest.mark.slow
def test_the_copied_link_has_the_settings_of_the_race_not_of_the_changed_controls(browser: sync_api.Browser, live: Live):
    live.engine.gate.set()
    with watched_page(browser, live.address) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        start(page, "List the days of the week.", 12)
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        page.locator("#ax-prompt textarea").fill("Something else.")
        at_rest(page)
        part(page, "copy").click()
        sync_api.expect(page.locator("[data-part='note-text']")).to_contain_text("describes the race on screen")
        copied = parse_qs(page.evaluate("navigator.clipboard.readText()").partition("#")[2])
        assert (copied["prompt"], copied["max_new_tokens"]) == (["List the days of the week."], ["12"])
        assert copied["run"]
        sync_api.expect(page.locator("[data-part='note-text']")).to_contain_text("in memory only")


@pytest.mark.slow
def test_where_the_browser_copies_nothing_the_link_is_shown_to_be_copied_by_hand(browser: sync_api.Browser, live: Live):
    """As in the frame of another site, without clipboard and dialogs."""
    page = browser.new_page()  # its console has an error of the clipboard
    page.goto(live.address + "robots.txt")
    page.evaluate(
        """src => {
            const settings = { sandbox: "allow-scripts allow-same-origin", allow: "clipboard-write 'none'", width: 900 };
            document.body.append(Object.assign(document.createElement("iframe"), settings, { src }));
        }""",
        live.address,
    )
    inner = page.frame_locator("iframe")
    inner.locator(".ax-plot .main-svg").first.wait_for()
    inner.locator("[data-part='copy']").click()
    field = inner.locator(".ax-link-field input")
    sync_api.expect(field).to_have_value(re.compile(f"^{re.escape(live.address)}#race="))
    sync_api.expect(field).to_be_focused()
    assert field.evaluate("e => [e.readOnly, e.selectionStart, e.selectionEnd - e.value.length]") == [True, 0, 0]
    inner.locator("[data-part='note-close']").click()
    sync_api.expect(inner.locator("[data-part='note']")).to_be_hidden()
    page.close()


@pytest.mark.slow
def test_the_link_of_an_ablation_repeats_the_ablation(browser: sync_api.Browser, live: Live):
    live.engine.gate.set()
    with watched_page(browser, live.address) as page:
        page.locator("#ax-max-new-tokens input[type=text]").fill("8")
        page.get_by_text("Ablation", exact=True).first.click()
        page.locator("#ax-ablate").click()
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        page.locator(".ax-run-view .ax-look").nth(2).click()
        wait_for_link(page, "ablation", "search")
        link = page.evaluate("location.hash")
    live.service.races = KeptRaces()  # the race itself is gone
    with watched_page(browser, live.address, query=link) as page:
        sync_api.expect(notice(page)).to_contain_text("“Run the ablation”")
        page.locator("#ax-ablate").click()
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        wait_for_link(page, "method", parse_qs(link[1:])["method"][0])
        sync_api.expect(page.locator("[data-part='note-text']")).to_have_text("")


@pytest.mark.model
@pytest.mark.slow
def test_back_over_live_races_shows_each_with_its_settings(page: sync_api.Page):
    texts = []
    for prompt in ("List the days of the week.", "Name three rivers."):
        start(page, prompt, 12)
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        wait_for_link(page, "prompt", prompt)
        texts.append(text_of(page, "plain"))
    assert texts[0] != texts[1]
    page.go_back()
    sync_api.expect(page.locator("#ax-prompt textarea")).to_have_value("List the days of the week.")
    assert text_of(page, "plain") == texts[0]
    page.go_forward()
    sync_api.expect(page.locator("#ax-prompt textarea")).to_have_value("Name three rivers.")
    assert text_of(page, "plain") == texts[1]


def test_a_race_that_is_no_longer_available_is_reported(page: sync_api.Page):
    links = ["#run=0badcafe0badcafe&method=aded&step=3&node=14&temperature=0.7", "#race=A+maths+teacher"]
    # In one go: the page writes its address when it has been at rest for a moment.
    page.evaluate("links => { for (const link of links) history.pushState(null, '', link); history.back(); }", links)
    sync_api.expect(page.locator("[data-part='note-text']")).to_contain_text("no longer available")
    sync_api.expect(page.locator("#ax-temperature input[type=text]")).to_have_value("0.7")
    assert part(page, "source").inner_text() == "recorded"


@pytest.mark.slow
def test_an_edited_address_is_one_step_of_the_history(page: sync_api.Page, address: str):
    there = "([link, count]) => location.hash !== link && location.hash.includes('race=') && history.length === count"
    count = page.evaluate("history.length") + 1
    for link in (
        "#race=No+such+race",
        "#race=No+such+race",
        "#race=A+summary",
        "#method=plain",
        "#step=3",
        "#method=nobody&seed=5",
    ):
        page.evaluate("link => { location.hash = link; }", link)
        page.wait_for_function(there, arg=[link, count])
        at_rest(page)
        assert page.evaluate("history.length") == count
        sync_api.expect(part(page, "note-text")).to_contain_text(
            "No such race" if "such" in link else "nobody" if "nobody" in link else ""
        )
        page.go_back()
        at_rest(page)
        assert page.url == address
    sync_api.expect(part(page, "race-title")).to_have_text("A maths teacher")


@pytest.mark.slow
def test_a_link_without_valid_settings_does_not_mention_its_settings(browser: sync_api.Browser, address: str):
    for query, words in (
        ("#temperature=99", "Invalid settings keep their default values."),
        ("?utm_source=x#tour=99", "There is no setting “tour”; it is not used."),
    ):
        with watched_page(browser, address, query=query) as page:
            sync_api.expect(part(page, "note-text")).to_contain_text(words)
            at_rest(page)
            assert notice(page).inner_text() == ""
    with watched_page(browser, address, query="#run=0badcafe0badcafe") as page:
        sync_api.expect(notice(page)).to_contain_text("Press Run to start the race.")


@pytest.mark.slow
def test_a_note_about_a_race_disappears_with_it(page: sync_api.Page):
    for link, words in (
        ("#file=gone.json", "“gone.json”"),
        ("#race=No+such+race&method=aded", "“No such race” here; “"),
        ("#method=nobody", "“nobody”"),
    ):
        page.evaluate("link => { location.hash = link; }", link)
        sync_api.expect(part(page, "note-text")).to_contain_text(words)
        at_rest(page)
        page.locator(".ax-chips [aria-pressed='false']").first.click()
        sync_api.expect(part(page, "note")).to_be_hidden()
    page.evaluate("location.hash = '#race=A+summary&step=9999'")
    sync_api.expect(part(page, "race-title")).to_have_text("A summary")
    sync_api.expect(part(page, "note-text")).to_contain_text("no step “9999”")


@pytest.mark.slow
def test_a_link_to_another_run_has_no_step_or_node_of_the_first(page: sync_api.Page):
    page.evaluate("location.hash = '#method=plain'")
    sync_api.expect(part(page, "step-title")).to_contain_text("Plain decoding")
    at_rest(page)
    sync_api.expect(part(page, "note")).to_be_hidden()


@pytest.mark.slow
def test_the_note_about_a_missing_file_disappears_when_another_race_is_shown(live_page: sync_api.Page, live: Live):
    page = live_page
    for link in ("#file=gone.json", "#race=A+maths+teacher&method=aded&step=3"):
        page.evaluate("link => history.pushState(null, '', link)", link)
    start(page, "Write a long story about the sea.", 400)
    page.wait_for_function("() => location.hash.includes('run=')")
    page.evaluate("history.go(-2)")
    sync_api.expect(part(page, "note-text")).to_contain_text("opens when the race has ended")
    live.stop(page)
    sync_api.expect(part(page, "note-text")).to_contain_text("“gone.json”")
    choose_race(page, "A maths teacher")
    sync_api.expect(part(page, "source")).to_have_text("recorded")
    sync_api.expect(part(page, "note")).to_be_hidden()


def test_a_live_race_is_opened_again_after_a_reload_and_by_its_link(browser: sync_api.Browser, live: Live):
    live.engine.gate.set()
    with watched_page(browser, live.address) as page:
        start(page, "Hello there.", 20)
        sync_api.expect(notice(page)).to_contain_text("Done in")
        page.wait_for_function("() => /run=[0-9a-f]{16}/.test(location.hash)")
        text, shared, runs = text_of(page, "aded"), page.url, len(live.engine.asked)
        page.reload()
        sync_api.expect(part(page, "source")).to_have_text("live race")
        assert text_of(page, "aded") == text
    with watched_page(browser, shared) as other:
        sync_api.expect(part(other, "source")).to_have_text("live race")
        assert text_of(other, "aded") == text
        sync_api.expect(other.locator("#ax-prompt textarea")).to_have_value("Hello there.")
    assert len(live.engine.asked) == runs, "nothing runs again"


STORED = "async () => (await (await caches.open('aded-races')).keys()).some(one => location.hash.includes(one.url.slice(-16)))"


@pytest.mark.slow
def test_a_reload_during_a_race_keeps_the_steps_so_far(live_page: sync_api.Page, live: Live):
    page = live_page
    start(page, "Write a long story about the sea.", 400)
    page.wait_for_function("() => document.querySelectorAll('.ax-run-view[data-method=aded] .ax-step').length >= 2")
    page.wait_for_function("() => /run=[0-9a-f]{16}/.test(location.hash) && !location.hash.includes('step=')")
    asked = link_of(page)
    assert (asked["prompt"], asked["method"]) == ("Write a long story about the sea.", "aded")
    page.wait_for_function(STORED)
    left = page.locator(".ax-run-view .ax-step").count()
    page.reload()
    sync_api.expect(part(page, "source")).to_have_text("live race")
    sync_api.expect(part(page, "note-text")).to_contain_text(re.compile(r"incomplete: .* and (1 step|\d+ steps) had arrived"))
    at_rest(page)
    assert page.locator(".ax-run-view .ax-step").count() >= left
    assert link_of(page)["run"] == asked["run"]
    choose_race(page, "Counting")
    sync_api.expect(part(page, "note")).to_be_hidden()
    at_rest(page)
    page.go_back()
    sync_api.expect(part(page, "source")).to_have_text("live race")
    at_rest(page)
    assert link_of(page)["run"] == asked["run"]

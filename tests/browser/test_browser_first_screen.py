"""The first screen: what a visitor sees and can do without scrolling."""

from __future__ import annotations

import pytest
from browsing import CHARTED, at_rest, choose_race, drawn, notice, open_file, part, show_tab, sync_api, watched_page

from aded.core.paths import ASSETS

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

TABS = ("draft", "pass", "verify", "learn")
NODES = 12
"""Nodes of the tree that must be on the first screen."""
INSIDE = """(element, bottom) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= (bottom ?? innerHeight);
}"""
"""Whether an element is on the screen, above ``bottom``."""


def inside(place: sync_api.Locator, bottom: float | None = None) -> bool:
    return bool(place.evaluate(INSIDE, bottom))


def nodes_on_screen(page: sync_api.Page) -> int:
    """Nodes of the tree, or entries of the list in its place, above the strip."""
    bottom = (part(page, "strip").bounding_box() or {"y": 0})["y"]
    points = page.locator(".ax-plot .points path").all()
    return sum(inside(point, bottom) for point in points)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), pytest.param(1440, 900, marks=pytest.mark.slow), (390, 844)])
def test_the_first_screen_has_run_the_runs_the_tree_and_the_player(
    browser: sync_api.Browser, address: str, width: int, height: int
):
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(CHARTED)
        assert inside(page.locator("#ax-run"))
        heads = page.locator(".ax-run-view .ax-run-head")
        assert heads.count() == 3
        assert all(inside(head) for head in heads.all())
        page.wait_for_function("least => document.querySelectorAll('.ax-plot .points path').length >= least", arg=NODES)
        assert nodes_on_screen(page) >= NODES
        assert inside(part(page, "play"))
        before = part(page, "where").inner_text()
        part(page, "previous").click()
        sync_api.expect(part(page, "where")).not_to_have_text(before)
        assert page.evaluate("scrollY") == 0
        for tab in TABS:
            show_tab(page, tab)
            drawn(page)
            check_tab(page, tab, width)


def test_a_first_visit_has_a_line_about_the_page_and_closing_it_moves_nothing(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.wait_for_function(CHARTED)
        assert inside(part(page, "welcome")) and inside(part(page, "welcome-tour"))
        before = part(page, "stage").bounding_box()
        part(page, "welcome-close").click()
        sync_api.expect(part(page, "welcome")).to_be_hidden()
        sync_api.expect(part(page, "stage")).to_be_visible()
        assert part(page, "stage").bounding_box() == before
        page.reload()
        page.wait_for_function(CHARTED)
        sync_api.expect(part(page, "welcome")).to_be_hidden()


@pytest.mark.slow
def test_every_tab_fits_a_low_screen_whatever_the_race(browser: sync_api.Browser, address: str):
    """Also a race of many runs or with a long verdict: the page need not be scrolled for any part of a step."""
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.wait_for_function(CHARTED)
        for race in ("Speculative sampling", "Short facts"):
            choose_race(page, race)
            sync_api.expect(part(page, "race-title")).to_have_text(race)
            for tab in TABS:
                show_tab(page, tab)
                drawn(page)
                check_tab(page, tab, 1280 if race == "Speculative sampling" else 1000)
            if race == "Speculative sampling":
                check_residual_view(page)
            heads = page.locator(".ax-run-head")
            assert heads.evaluate_all(CUT_HEADS) == []


def test_most_rows_of_the_what_if_are_in_view_on_a_low_screen(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        for race in ("A maths teacher", "Speculative sampling", "ADED sampled"):
            choose_race(page, race)
            sync_api.expect(part(page, "race-title")).to_have_text(race)
            show_tab(page, "verify")
            drawn(page)
            dock = part(page, "dock").bounding_box()
            assert dock
            rows = part(page, "whatif-rows").locator("tr").all()
            box = part(page, "whatif").locator(".ax-wide")
            assert sum(inside(row, dock["y"] - 10) for row in rows) >= 8
            assert box.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def check_residual_view(page: sync_api.Page) -> None:
    """The tests of the draft and the draw of the last token take turns, each with all of its columns."""
    show_tab(page, "verify")
    for view, visible, hidden in (("residual", "residual", "walk-card"), ("walk", "walk-card", "residual")):
        part(page, "verify-views").locator(f"[data-shows='{view}']").click()
        drawn(page)
        sync_api.expect(part(page, visible)).to_be_visible()
        sync_api.expect(part(page, hidden)).to_be_hidden()
        check_tab(page, "verify", 1280)
        assert part(page, visible).locator(".ax-wide").evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def open_sampled_race(page: sync_api.Page) -> None:
    """The race with the longest verdict and the longest settings, on a low screen."""
    page.set_viewport_size({"width": 1280, "height": 720})
    choose_race(page, "ADED sampled")
    sync_api.expect(part(page, "race-title")).to_have_text("ADED sampled")


@pytest.mark.slow
def test_the_walk_is_whole_on_a_low_screen_beside_a_long_verdict(browser: sync_api.Browser, address: str):
    """Also while presenting; of the verdict, sentences that do not fit are left out."""
    with watched_page(browser, address, controls=False) as page:
        open_sampled_race(page)
        page.locator(".ax-run-view[data-method='aded'] .ax-look").click()
        show_tab(page, "verify")
        drawn(page)
        walk, verdict = part(page, "walk-card").locator(".ax-wide"), part(page, "verdict")
        cut = "e => e.scrollHeight > e.clientHeight + 1"
        assert not walk.evaluate(cut)
        assert not verdict.evaluate(cut)
        sync_api.expect(part(page, "verdict-more")).to_be_visible()
        part(page, "present").click()
        drawn(page)
        assert not verdict.evaluate(cut)
        assert page.locator(".ax-run-head").evaluate_all(CUT_HEADS) == []
        assert inside(walk, (part(page, "dock").bounding_box() or {"y": 0})["y"])


@pytest.mark.slow
def test_the_settings_of_a_race_are_not_cut_before_its_methods(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        open_sampled_race(page)
        cut = page.locator(".ax-line > :is(.ax-line-part, .ax-source)").evaluate_all(
            "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.className)"
        )
        assert cut == ["ax-line-part ax-line-methods"]
        assert page.locator(".ax-source").inner_text().endswith("recorded on NVIDIA H200")


CUT_HEADS = """all => all.flatMap(head => [...head.children, head].filter(e => {
    if (getComputedStyle(e).display === "none") return false;
    const [inner, outer] = [e, head.parentElement].map(one => one.getBoundingClientRect());
    return e.scrollWidth > e.clientWidth + 1 && e.clientWidth || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
}).map(e => e.className + e.textContent))"""
"""Parts of the heads of the runs that are cut off: name, tokens per step, speed-up, acceptance rate."""
TALLER = """all => all.filter(e => e.clientHeight && e.scrollHeight > e.clientHeight + 1)
    .filter(e => ["auto", "scroll"].includes(getComputedStyle(e).overflowY))
    .filter(e => !getComputedStyle(e).backgroundImage.includes("gradient")).map(e => e.className)"""
"""Boxes of the stage that can be scrolled without a visible edge."""


def check_tab(page: sync_api.Page, tab: str, width: int) -> None:
    """The whole tab is in the window, without scrolling inside it; on phones the tree is, and other tabs scroll with the page."""
    assert page.evaluate("scrollY") == 0
    assert inside(page.locator(f"[role='tab'][data-tab='{tab}']"))
    dock = part(page, "dock").bounding_box()
    stage = part(page, "stage").bounding_box()
    assert dock and stage
    panel = page.locator(f"[data-panel='{tab}']")
    if tab == "draft" or width > 860:
        assert stage["y"] + stage["height"] <= dock["y"] + 1
    if width >= 1280 or (tab != "draft" and width <= 860):
        assert panel.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), tab
    assert page.locator(".ax-stage, .ax-stage *").evaluate_all(TALLER) == []


BELOW_NOTICE = """() => {
    const { left, right } = document.querySelector("#ax-notice .ax-notice").getBoundingClientRect();
    const boxes = [...document.querySelectorAll(".ax-line > *")].map(e => [e, e.getBoundingClientRect()]);
    return boxes.filter(([, box]) => box.width && box.left < right && box.right > left).map(([e]) => e.className);
}"""
"""Parts of the line about the race that are below the message."""


def test_nothing_moves_when_a_message_about_a_race_appears(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.wait_for_function(CHARTED)
        before = part(page, "stage").bounding_box()
        says = "[['notice.text', { text: 'starting the engine' }]]"
        busy = f"kind => AdedExplorer.emit('notice', {{ kind, messages: {says}, fraction: null }})"
        for kind in ("busy", "done"):
            page.evaluate(busy, kind)
            sync_api.expect(notice(page)).to_have_text("starting the engine")
            drawn(page)
            assert part(page, "stage").bounding_box() == before
            assert page.evaluate(BELOW_NOTICE) == []
            for name in ("prompt", "line-methods", "line-settings"):
                sync_api.expect(part(page, name)).to_be_visible()
        page.locator("#ax-notice [data-part='close']").click()
        sync_api.expect(page.locator("#ax-notice .ax-notice")).to_be_hidden()
        says = "[['notice.preparing', { name: 'Blockwise decoding', run: 4, runs: 6 }], ['notice.compiling', {}]]"
        page.evaluate(f"AdedExplorer.emit('notice', {{ kind: 'busy', messages: {says}, fraction: null }})")
        sync_api.expect(notice(page)).to_contain_text("(once per machine)")
        drawn(page)
        assert page.locator("#ax-notice [data-part='text']").evaluate("e => e.scrollWidth <= e.clientWidth"), "it is whole"
        assert part(page, "stage").bounding_box() == before
        assert page.evaluate(BELOW_NOTICE) == []
        for busy in (True, False):
            page.evaluate("busy => AdedExplorer.emit('busy', busy)", busy)
            sync_api.expect(part(page, "view-root")).to_have_attribute("aria-busy", str(busy).lower())
            sync_api.expect(part(page, "stage")).to_have_css("opacity", "0.4" if busy else "1")


@pytest.mark.slow
def test_an_arrow_leads_to_the_races_that_are_not_in_view(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.emulate_media(reduced_motion="reduce")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 720})
            part(page, "chips").evaluate("e => { e.scrollLeft = 0; }")
            more, last = part(page, "chips-more"), page.locator(".ax-chips button").last
            sync_api.expect(part(page, "chips-back")).to_be_hidden()
            for _ in range(12):
                if more.is_hidden():
                    break
                more.click()
                at_rest(page)
            sync_api.expect(more).to_be_hidden()
            assert inside(last)
            sync_api.expect(part(page, "chips-back")).to_be_visible()


@pytest.mark.slow
def test_an_enlarged_page_can_be_used(browser: sync_api.Browser, address: str):
    """At 200 % a screen of 1280 x 720 has 640 x 360 pixels: the bars at its edges leave room for the whole tree."""
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 640, "height": 360})
        for tab in TABS:
            page.locator(f"[role='tab'][data-tab='{tab}']").evaluate("e => e.click()")
            drawn(page)
            part(page, "stage").evaluate("e => e.scrollIntoView()")
            dock, stage = part(page, "dock").bounding_box(), part(page, "stage").bounding_box()
            assert dock and stage
            assert stage["y"] > -1  # scroll positions are rounded to pixels
            assert tab != "draft" or stage["y"] + stage["height"] <= dock["y"] + 1
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


TARGETS = "button, a[href], input, select, summary, textarea, label:has(> input), [role='button'], [role='tab'], [role='slider']"
SMALL = f"""() => [...document.querySelectorAll("{TARGETS}, [tabindex='0']")]
    .filter(e => e.checkVisibility({{ visibilityProperty: true }}) && !e.closest("[aria-hidden='true'], label > input"))
    .map(e => [e, e.getBoundingClientRect()])
    .filter(([, box]) => box.width > 1 && (box.width < 24 || box.height < 24))
    .map(([e, box]) => [e.tagName, e.className, e.textContent, box.width, box.height].join(" "))"""
"""Targets smaller than 24 x 24 pixels; a field in a label is as large as the label."""


def test_no_target_on_a_phone_is_smaller_than_24_pixels_and_no_table_of_the_verification_is_cut(
    browser: sync_api.Browser, address: str
):
    with watched_page(browser, address, 390) as page:
        choose_race(page, "Speculative sampling")
        sync_api.expect(part(page, "race-title")).to_have_text("Speculative sampling")
        sync_api.expect(part(page, "line-methods")).to_be_hidden()
        part(page, "prompt-toggle").click()
        for name in ("line-methods", "line-settings", "machine", "rejected"):
            sync_api.expect(part(page, name)).to_be_visible()
        page.evaluate("() => { for (const box of document.querySelectorAll('details')) box.open = true; }")
        for method in ("speculative", "plain"):
            page.locator(f".ax-run-view[data-method='{method}'] .ax-look").evaluate("e => e.click()")
            for tab in TABS:
                page.locator(f"[role='tab'][data-tab='{tab}']").evaluate("e => e.click()")
                drawn(page)
                assert page.evaluate(SMALL) == []
                if tab == "verify":
                    walk = part(page, "walk-card").locator(".ax-wide")
                    assert walk.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
                    assert part(page, "walk").locator("td[data-head]").count() > 3


@pytest.mark.slow
def test_on_a_phone_the_card_of_a_node_is_a_sheet_at_the_bottom(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, 390, controls=False) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_function(CHARTED)
        card = part(page, "node-card")
        sync_api.expect(card).to_be_hidden()
        press_node(page, 2)
        sync_api.expect(card).to_be_visible()
        box, dock = card.bounding_box(), part(page, "dock").bounding_box()
        assert box and dock
        assert abs(box["y"] + box["height"] - dock["y"]) < 2
        assert box["width"] == 390
        page.keyboard.press("Escape")
        sync_api.expect(card).to_be_hidden()


@pytest.mark.slow
def test_on_a_phone_no_tooltip_is_beside_the_sheet_of_a_node(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, 390, controls=False) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_function(CHARTED)
        card, label, term = part(page, "node-card"), page.locator(".ax-plot .hoverlayer"), page.locator(".ax-term-box")
        press_node(page, 2)
        sync_api.expect(card).to_be_visible()
        sync_api.expect(page.locator(".ax-plot .hovertext")).to_have_count(1)
        sync_api.expect(label).to_be_hidden()
        page.locator(".ax-race [data-term]:visible").first.click()
        sync_api.expect(term).to_be_visible()
        sync_api.expect(card).to_be_hidden()
        press_node(page, 3)
        sync_api.expect(card).to_be_visible()
        sync_api.expect(term).to_be_hidden()


def press_node(page: sync_api.Page, index: int) -> None:
    """Press the mark of a node in the picture of the tree."""
    box = page.locator(".ax-plot .points path").nth(index).bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    drawn(page)


@pytest.mark.slow
def test_while_presenting_the_tree_is_whole_in_the_whole_width_and_arrows_turn_the_pages(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.wait_for_function(CHARTED)
        part(page, "present").click()
        drawn(page)
        assert page.evaluate(SMALL_TEXTS) == []
        tree = part(page, "tree").bounding_box()
        assert tree
        assert tree["width"] > 0.9 * 1280
        assert part(page, "tree").evaluate("e => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth")
        assert page.locator(".ax-run-head").evaluate_all(CUT_HEADS) == []
        card = part(page, "node-card")
        sync_api.expect(card).to_be_hidden()
        press_node(page, 3)
        sync_api.expect(card).to_be_visible()
        assert page.evaluate(SMALL_TEXTS) == []
        page.keyboard.press("Escape")
        sync_api.expect(card).to_be_hidden()
        where = part(page, "where").inner_text()
        keys = ["ArrowRight", "PageDown", "ArrowRight"]
        for key, tab in zip(keys, ("pass", "verify", "learn"), strict=True):
            page.keyboard.press(key)
            sync_api.expect(part(page, "stage")).to_have_attribute("data-tab", tab)
            drawn(page)
            assert page.evaluate(SMALL_TEXTS) == []
        page.locator("[role='tab'][data-tab='learn']").click()
        page.keyboard.press("ArrowRight")
        sync_api.expect(part(page, "stage")).to_have_attribute("data-tab", "draft")
        sync_api.expect(part(page, "where")).not_to_have_text(where)
        page.keyboard.press("PageUp")
        sync_api.expect(part(page, "where")).to_have_text(where)
        page.keyboard.press("Escape")
        sync_api.expect(part(page, "present")).to_have_text("Present")


def test_while_presenting_space_plays_and_pauses(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.wait_for_function(CHARTED)
        part(page, "present").click()
        for playing in ("true", "false"):
            page.keyboard.press("Space")
            sync_api.expect(part(page, "play")).to_have_attribute("data-on", playing)
            sync_api.expect(part(page, "present")).to_have_text("End presenting")


SMALL_TEXTS = """() => {
    const shown = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim();
        range.selectNodeContents(texts.currentNode);
        const { width, right } = range.getBoundingClientRect();
        if (!text || '✓×'.includes(text) || element.closest('.ax-sr, sub')) continue;
        if (!width || right < 0 || !element.checkVisibility()) continue;
        const size = parseFloat(getComputedStyle(element).fontSize) * (element.currentCSSZoom ?? 1);
        if (size < 17.95) shown.push([size, text]);
    }
    return shown;
}"""
"""Texts on screen of less than 18 pixels, without subscripts and the signs in marks."""


@pytest.mark.slow
def test_a_prediction_leaves_the_tree_in_view(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.wait_for_function(CHARTED)
        part(page, "prediction-toggle").click()
        drawn(page)
        box, dock = part(page, "prediction").bounding_box(), part(page, "dock").bounding_box()
        assert box and dock
        assert box["y"] >= dock["y"] - 1
        points = page.locator(".ax-plot .points path").all()
        assert sum(inside(point, dock["y"]) for point in points) >= NODES
        sync_api.expect(page.locator(".ax-plot")).not_to_contain_text("✓")


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_the_controls_are_those_of_the_race_on_screen(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, controls=False) as page:
        page.set_viewport_size({"width": width, "height": 844})
        sync_api.expect(part(page, "race-title")).to_have_text("A maths teacher")
        check_controls(page)
        for title in ("A maths teacher", "Speculative sampling", "On two CPU cores"):
            page.locator(f".ax-chips [data-race='{title}']").click()
            sync_api.expect(part(page, "race-title")).to_have_text(title)
            check_controls(page)


def check_controls(page: sync_api.Page) -> None:
    prompt = str(part(page, "prompt").text_content())
    sync_api.expect(page.locator("#ax-prompt textarea")).to_have_value(prompt)
    methods = page.locator(".ax-run-view").evaluate_all("all => all.map(e => e.dataset.method)")
    ticked = "all => all.filter(e => e.checked).map(e => e.value)"
    page.wait_for_function(
        "methods => JSON.stringify([...document.querySelectorAll('.ax-picker [data-part=list] input')]"
        ".filter(e => e.checked).map(e => e.value).sort()) === JSON.stringify([...methods].sort())",
        arg=methods,
    )
    assert sorted(page.locator(".ax-picker [data-part='list'] input").evaluate_all(ticked)) == sorted(methods)
    tokens = page.locator("#ax-max-new-tokens input[type=text]").input_value()
    assert f"{tokens} tokens" in str(part(page, "line-settings").text_content())


def test_a_race_from_a_file_fills_the_controls(browser: sync_api.Browser, address: str):
    with watched_page(browser, address) as page:
        sync_api.expect(part(page, "race-title")).to_have_text("A maths teacher")
        file = next((ASSETS / "traces").glob("*speculative-sampling.json"))
        open_file(page, file)
        sync_api.expect(part(page, "race-title")).to_have_text(file.name)
        check_controls(page)
        page.wait_for_function("location.hash.includes('file=')")
        assert "prompt=" not in page.url


def test_a_menu_closes_when_something_else_is_pressed(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        opened = page.locator(".ax-menu[open]")
        for menu, other in (
            ("save-menu", "[data-tab='verify']"),
            ("save-menu", "[data-part='more'] > summary"),
            ("more", ".ax-look"),
        ):
            part(page, menu).evaluate("e => { e.open = true; }")
            page.locator(other).first.click()
            sync_api.expect(page.locator(f".ax-menu[data-part='{menu}'][open]")).to_have_count(0)
        page.set_viewport_size({"width": 390, "height": 844})
        part(page, "more").locator("summary").click()
        page.locator("[data-edit='prompt']").click()
        sync_api.expect(page.locator("#ax-prompt")).to_be_visible()
        assert inside(part(page, "play")), "the bar at the bottom is cut below open controls"
        sync_api.expect(opened).to_have_count(0)
        page.evaluate("scrollTo(0, 0)")
        part(page, "more").locator("summary").click()
        assert page.locator(".ax-menu-list:visible").evaluate(COVERED) == [], "labels of the controls are below the menu"


COVERED = """list => {
    const { left, right, top, bottom } = list.getBoundingClientRect(), found = [];
    for (let y = top + 4; y < bottom - 4; y += 8) for (let x = left + 4; x < right - 4; x += 12)
        if (!list.contains(document.elementFromPoint(x, y))) found.push([x, y]);
    return found;
}"""
"""Points of a menu at which something else is on top."""

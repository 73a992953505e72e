"""Large and small draft trees: hidden nodes are counted, labels do not overlap, drawing is fast."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from browsing import at_rest, choose_race, drawn, open_race, part, saved, show_tab, sync_api
from ui_fakes import make_race, make_step, make_trace

from aded.core import trace
from ui.browser.layout import MAX_NODES

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
SECTIONS = True

NODES = 2000
MAX_SECONDS = 0.1  # to draw a tree
WIDE = ["漢字漢字漢字漢字", " 한국어입니다", "🙂🙂🙂🙂🙂🙂", "WWWWWWWWWWWWWWWW", "ﬃﬃﬃﬃﬃﬃﬃﬃ", " mmmmmmmmmmmm"]


def large_race() -> trace.Race:
    tokens = ["one", " two", " three", " four", " five", " six", " seven"] * 4
    return trace.Race([make_trace("plain", tokens), make_trace("aded", tokens, size=NODES)])


def wide_race() -> trace.Race:
    """A race whose drafted tokens have wide characters."""
    plain, aded = make_race().lanes
    steps = [
        replace(step, tree=replace(step.tree, texts=[WIDE[i % len(WIDE)] for i in range(len(step.tree.texts))]))
        for step in aded.steps
    ]
    return trace.Race([plain, replace(aded, steps=steps)])


def touching(page: sync_api.Page, most: float = 2) -> list[list[str]]:
    """Pairs of labels of the tree whose boxes share more than a border of ``most`` pixels."""
    return page.locator(".ax-plot .textpoint text").evaluate_all(
        """(all, most) => { const labels = all.filter(e => !'✓×'.includes(e.textContent));
        const boxes = labels.map(e => [e.textContent, e.getBoundingClientRect()]);
        const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > most;
        return boxes.flatMap(([x, a], i) => boxes.slice(0, i).filter(([, b]) => over(a, b)).map(([y]) => [x, y])); }""",
        most,
    )


@pytest.mark.slow
def test_two_thousand_nodes_are_folded_with_a_note(page: sync_api.Page, tmp_path: Path):
    open_race(page, large_race(), tmp_path)
    sync_api.expect(part(page, "hidden")).to_contain_text(f"{NODES - MAX_NODES} of {NODES} nodes are folded")
    for key in ("Home", *["ArrowRight"] * 6):
        page.keyboard.press(key)
    drawn(page)
    assert touching(page) == []


@pytest.mark.slow
def test_the_labels_of_a_tall_tree_are_drawn_around_what_is_in_view(page: sync_api.Page, tmp_path: Path):
    open_race(page, large_race(), tmp_path)
    drawn(page)
    tree, labels = part(page, "tree"), page.locator(".ax-plot .textpoint text")
    assert tree.evaluate("e => e.scrollHeight > 5 * e.clientHeight")
    for share in (0.0, 0.5, 1.0):
        tree.evaluate("(e, share) => e.scrollTo(0, share * (e.scrollHeight - e.clientHeight))", share)
        drawn(page)
        assert labels.count() < MAX_NODES / 2
        assert labels.evaluate_all(IN_VIEW) > 5


IN_VIEW = """all => { const { top, bottom } = document.querySelector("[data-part='tree']").getBoundingClientRect();
    return all.map(e => e.getBoundingClientRect()).filter(box => box.top >= top && box.bottom <= bottom).length; }"""


def path_race() -> trace.Race:
    """A race in which one step accepts 17 draft tokens; among them are bytes and spaces."""
    tokens = [
        " representation",
        "<0xF0>",
        "<0x9F>",
        " ",
        "\u00a0",
        " distribution",
        "\n",
        " probability",
        " is",
        "<0x99>",
        " mathematical",
        " and",
        ",",
    ]
    tokens += [" the", " which", " essential", " random", " variables", "."]
    written = tokens[:18]
    step = make_step(0, written, [100 + i for i in range(18)], 17, random.Random(0), 64)
    aded = replace(make_trace("aded", written), steps=[step], token_ids=step.emitted)
    return trace.Race([make_trace("plain", written), aded])


@pytest.mark.slow
def test_a_long_path_has_no_overlapping_labels_and_fit_shows_the_whole_tree(page: sync_api.Page, tmp_path: Path):
    open_race(page, path_race(), tmp_path)
    labels = page.locator(".ax-plot .textpoint text").all_text_contents()
    assert {"<0xF0>", "<0x9F>", "␣", "⟨U+00A0⟩"} <= {label.split()[0] for label in labels if label}
    sync_api.expect(part(page, "visits-key")).to_have_text("size, N: visits")
    assert "N " in "".join(labels)
    part(page, "tree-fit").click()
    drawn(page)
    numbered = any(" N " in label for label in page.locator(".ax-plot .textpoint text").all_text_contents())
    sync_api.expect(part(page, "visits-key")).to_have_text("size, N: visits" if numbered else "size: visits N")
    for width, height in ((1280, 720), (1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        drawn(page)
        assert touching(page) == []
        part(page, "tree-fit").click()
        drawn(page)
        tree = part(page, "tree")
        assert tree.evaluate("e => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth")
        assert page.locator(".ax-plot .points path").count() == 65
        assert touching(page) == []


@pytest.mark.timing
def test_two_thousand_nodes_are_drawn_quickly(page: sync_api.Page, tmp_path: Path):
    open_race(page, large_race(), tmp_path)
    page.evaluate(
        """() => { const old = Plotly.react; window.took = [];
        Plotly.react = (box, ...rest) => { const from = performance.now(), out = old(box, ...rest);
            if (box.classList.contains('ax-plot')) window.took.push(performance.now() - from); return out; }; }"""
    )
    for key in ("Home", *["ArrowRight"] * 6):
        page.keyboard.press(key)
        drawn(page)
    took = sorted(page.evaluate("window.took"))
    assert len(took) >= 6
    assert took[len(took) // 2] < 1000 * MAX_SECONDS


@pytest.mark.slow
def test_no_label_of_a_tree_is_cut_off(page: sync_api.Page):
    part(page, "where").filter(has_text="step").wait_for()
    page.keyboard.press("Home")
    steps = int(re.findall(r"\d+", part(page, "where").inner_text())[1])
    for step in range(1, steps + 1, 2):
        sync_api.expect(part(page, "where")).to_contain_text(f"step {step} of")
        beyond = page.locator(".ax-plot").evaluate(
            """e => { const end = box => box.getBoundingClientRect().right, edge = end(e.querySelector('.main-svg'));
            return [...e.querySelectorAll('.textpoint text')].map(text => end(text) - edge).filter(by => by > 0); }"""
        )
        assert beyond == [], step
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")


@pytest.mark.slow
def test_a_large_tree_is_complete_in_the_table_and_in_the_saved_drawing(page: sync_api.Page, tmp_path: Path):
    open_race(page, large_race(), tmp_path)
    sync_api.expect(page.locator(".ax-nodes tbody tr")).to_have_count(MAX_NODES + 1)
    drawing = saved(page, "tree.svg", tmp_path).read_text("utf-8")
    assert drawing.count('class="textpoint"') >= MAX_NODES
    assert "+" in "".join(page.locator(".ax-plot .textpoint text").all_text_contents())
    assert touching(page) == []


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.slow
def test_wide_tokens_do_not_overlap(page: sync_api.Page, tmp_path: Path, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    open_race(page, wide_race(), tmp_path)
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
        drawn(page)
        assert touching(page) == []


@pytest.mark.parametrize(("width", "race"), [(1440, "A maths teacher"), (390, "Where drafting is slower")])
@pytest.mark.slow
def test_scores_colour_the_nodes_and_touch_no_label_during_a_search(page: sync_api.Page, width: int, race: str):
    page.set_viewport_size({"width": width, "height": 1400})
    page.evaluate("link => { location.hash = link; }", f"race={quote(race)}&method=aded&step=9")
    sync_api.expect(part(page, "race-title")).to_have_text(race)
    sync_api.expect(part(page, "where")).to_contain_text("step 9 of")
    fills, searches = page.locator(".ax-plot .points path"), 0
    for _ in range(4):
        drawn(page)
        if part(page, "search-row").is_visible():
            searches += 1
            sync_api.expect(part(page, "colour-key")).to_contain_text("colour: PUCT")
            assert len(set(fills.evaluate_all("all => all.map(e => e.style.fill)"))) > 4
            for moment in range(2, int(part(page, "search").get_attribute("max") or 0), 13):
                part(page, "search").fill(str(moment))
                drawn(page)
                assert touching(page) == [], moment
            sync_api.expect(part(page, "visits-key")).to_contain_text("on the edge: PUCT")
            page.keyboard.press("Escape")
        part(page, "previous").click()
    assert searches >= 2


@pytest.mark.slow
def test_a_draft_without_a_search_names_its_source(page: sync_api.Page, tmp_path: Path):
    runs = [make_trace("plain"), make_trace("prompt-lookup", size=2), make_trace("aded")]
    open_race(page, trace.Race(runs), tmp_path)
    for method, words in (("plain", "drafts nothing"), ("prompt-lookup", "earlier|before"), ("aded", "")):
        page.locator(f".ax-run-view[data-method='{method}'] .ax-look").click()
        drawn(page)
        note = part(page, "search-note").inner_text()
        assert not words or any(word in note for word in words.split("|"))
        keys = [part(page, key).is_visible() for key in ("plain-key", "bonus-key")]
        assert keys == [method == "plain", method != "plain"], "plain decoding has no bonus token"


@pytest.mark.slow
def test_rejected_tokens_are_shown_struck_through_in_the_text_on_demand(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    struck = page.locator("s").filter(visible=True)
    now = page.locator(".ax-now s").filter(visible=True)
    assert struck.count() == now.count(), "those of the step on screen"
    part(page, "rejected").click()
    sync_api.expect(part(page, "rejected")).to_have_attribute("aria-pressed", "true")
    steps = page.locator(".ax-run-view[data-method='aded'] .ax-step")
    for i, step in enumerate(race.lanes[1].steps):
        children = [node for node, parent in enumerate(step.tree.parents) if parent == step.path[-1]]
        shown = "all => all.filter(e => getComputedStyle(e).display !== 'none').map(e => e.textContent)"
        found = steps.nth(i).locator("s").evaluate_all(shown)
        assert len(found) == bool(children)
        visits = step.tree.columns["visits"]
        best = max(children, key=lambda node: (visits[node] or 0, -node), default=None)
        assert best is None or found[0].startswith(step.tree.texts[best].replace("\n", "⏎"))
    part(page, "rejected").click()
    assert struck.count() == now.count()


@pytest.mark.slow
def test_a_rejected_line_break_is_a_mark_and_breaks_no_line(page: sync_api.Page):
    choose_race(page, "Where drafting is slower")
    sync_api.expect(part(page, "race-title")).to_have_text("Where drafting is slower")
    part(page, "rejected").click()
    struck = page.locator("s").all_text_contents()
    assert any("⏎" in text for text in struck)
    assert not any("\n" in text for text in struck)
    boxes = page.locator(".ax-text")
    partial = "all => all.filter(e => (e.scrollHeight - e.clientHeight) % 25 || Math.round(e.scrollTop) % 25).length"
    assert boxes.evaluate_all(partial) == 0, "no line is cut at the edges of the boxes"


def test_rows_of_the_mask_and_slots_of_the_kv_cache_are_those_of_the_nodes(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    show_tab(page, "pass")
    check_mask(page)
    check_slots(page, race)


def check_mask(page: sync_api.Page) -> None:
    rows = page.locator(".ax-nodes tbody tr:not([data-node='-1'])")
    count = rows.count()
    mask = part(page, "mask")
    mask.scroll_into_view_if_needed()
    box = mask.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 5.5 / count)
    picked = page.locator(".ax-nodes tr[aria-selected='true']")
    sync_api.expect(picked).to_have_attribute("data-node", "5")
    page.mouse.move(0, 0)
    sync_api.expect(page.locator(".ax-node-head code")).to_have_text(picked.locator("code").inner_text())
    assert part(page, "tree").get_attribute("data-node") == "5"


def check_slots(page: sync_api.Page, race: trace.Race) -> None:
    """Before and after compaction."""
    rows = [part(page, f"slots-{when}").locator("[data-node]") for when in ("before", "after")]
    shown = page.locator(".ax-run-view:has(.ax-look[aria-pressed='true'])").get_attribute("data-method")
    run = next(run for run in race.lanes if run.header.method == shown)
    step = run.steps[int(part(page, "where").inner_text().split()[1]) - 1]
    assert rows[0].count() == len(step.tree.tokens)
    kept = [int(str(cell.get_attribute("data-node"))) for cell in rows[1].all()]
    assert kept == step.path[: len(step.emitted)]
    numbers = [int(text.split(" ")[0]) for text in rows[1].locator("small").all_text_contents()]
    assert numbers == list(range(step.position, step.position + len(kept)))
    rows[1].last.click()
    sync_api.expect(page.locator(".ax-nodes tr[aria-selected='true']")).to_have_attribute("data-node", str(kept[-1]))
    page.mouse.move(0, 0)
    for row in rows:
        sync_api.expect(row.and_(page.locator(".ax-picked"))).to_have_attribute("data-node", str(kept[-1]))
    part(page, "prediction-toggle").click()
    sync_api.expect(part(page, "slots-after")).to_be_hidden()
    assert rows[1].count() == 0
    sync_api.expect(part(page, "mask-legend")).to_contain_text("not verified yet", use_inner_text=True)
    part(page, "prediction-toggle").click()
    sync_api.expect(part(page, "mask-legend")).not_to_contain_text("not verified yet", use_inner_text=True)


@pytest.mark.slow
def test_the_slots_of_hidden_nodes_are_one_mark(page: sync_api.Page, tmp_path: Path):
    open_race(page, large_race(), tmp_path)
    show_tab(page, "pass")
    more = page.locator(".ax-slot-more")
    sync_api.expect(more).to_have_count(1)
    rows = page.locator(".ax-nodes tbody tr[data-node]")
    nodes = sorted(int(node) for node in rows.evaluate_all("all => all.map(e => e.dataset.node)") if int(node) >= 0)
    assert nodes[-1] >= 96 > nodes[5]
    for node, picked in ((nodes[-1], 1), (nodes[5], 0)):
        page.locator(f".ax-nodes tr[data-node='{node}']").click()
        page.mouse.move(0, 0)
        sync_api.expect(page.locator(".ax-slot-more.ax-picked")).to_have_count(picked)
        sync_api.expect(part(page, "slots-before").locator(".ax-picked")).to_have_count(1)


def test_the_visits_of_a_node_over_the_search_are_drawn_and_the_moment_is_marked(page: sync_api.Page):
    picture = page.locator(".ax-history svg")
    page.locator(".ax-nodes tbody tr[data-node='1']").click()
    page.mouse.move(0, 0)
    visits = page.locator(".ax-nodes tbody tr[data-node='1'] td:nth-child(5)")
    sync_api.expect(picture).to_have_attribute("aria-label", re.compile(f": {visits.inner_text()} visits at the end"))
    end = float(picture.locator("line").get_attribute("x1") or 0)
    part(page, "search").evaluate("e => { e.value = '12'; e.dispatchEvent(new Event('input')); }")
    sync_api.expect(page.locator(".ax-why")).to_contain_text("not verified yet")
    sync_api.expect(picture).to_have_attribute("aria-label", re.compile(f"{visits.inner_text()} after simulation 3;"))
    assert float(picture.locator("line").get_attribute("x1") or 0) < end


@pytest.mark.slow
def test_nothing_moves_away_from_the_pointer_below_the_card_of_the_node(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(), tmp_path)
    show_tab(page, "pass")
    for places in (page.locator(".ax-nodes tbody tr"), part(page, "slots-before").locator("[data-node]")):
        places.first.scroll_into_view_if_needed()
        page.mouse.move(0, 0)
        drawn(page)
        before = [box["y"] for box in map(sync_api.Locator.bounding_box, places.all()[:6]) if box]
        for place in places.all()[:6]:
            place.hover()
            drawn(page)
            assert [box["y"] for box in map(sync_api.Locator.bounding_box, places.all()[:6]) if box] == before
        for one in (places.nth(0), places.nth(3), places.nth(1)):
            one.click()
            drawn(page)
            assert [box["y"] for box in map(sync_api.Locator.bounding_box, places.all()[:6]) if box] == before
        target = places.nth(min(4, places.count() - 1))
        target.click()
        sync_api.expect(part(page, "tree")).to_have_attribute("data-node", target.get_attribute("data-node") or "")
    mask = part(page, "mask")
    mask.scroll_into_view_if_needed()
    box = mask.bounding_box()
    assert box
    for share in (0.05, 0.5, 0.95):
        page.mouse.move(box["x"] + 5, box["y"] + share * box["height"])
        drawn(page)
        assert mask.bounding_box() == box


TEXTS = """() => [...document.querySelectorAll(".ax-plot .textpoint text:not([text-anchor='middle'])")]
    .filter(e => e.textContent).map(e => ({ text: e.textContent, y: Math.round(e.getBoundingClientRect().y) }))"""
"""The labels and numbers of the tree on screen."""
NUMBERS = re.compile(r"N \d+( · )?P \d")


def test_the_accepted_path_keeps_its_numbers_beside_six_runs_and_a_long_verdict(page: sync_api.Page, tmp_path: Path):
    """As in a later turn of a conversation."""
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("document.body.classList.remove('ax-drawer')")
    methods = ("plain", "aded", "rest", "medusa", "eagle", "lookahead")
    open_race(page, trace.Race([make_trace(method) for method in methods]), tmp_path)
    turn = "Turn 2 read 21 tokens and kept 240 in the KV cache. ADED wrote 2.51 tokens per step, 2.22 in turn 1. "
    page.evaluate("text => document.querySelector('.ax-turn').textContent = text", 3 * turn)
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
        drawn(page)
        path = page.locator("[role='treeitem']").filter(has_text=re.compile("accepted.*N "))
        numbered = [one["text"] for one in page.evaluate(TEXTS) if NUMBERS.search(one["text"])]
        assert len(numbered) >= path.count()
    assert path.count()


def tokens_and_numbers(page: sync_api.Page) -> str:
    """All that is said in the picture, with what is beside the mark of the selected node."""
    tag = page.locator(".ax-ring-tag")
    return " ".join([*(one["text"] for one in page.evaluate(TEXTS)), tag.inner_text() if tag.is_visible() else ""])


SELECTED = "[role='treeitem'][aria-selected='true']"


@pytest.mark.parametrize("race", ["Short facts", pytest.param("Where drafting is slower", marks=pytest.mark.slow)])
def test_while_presenting_the_selected_node_has_its_numbers_and_the_path_its_labels(page: sync_api.Page, race: str):
    page.set_viewport_size({"width": 1280, "height": 720})
    page.evaluate("document.body.classList.remove('ax-drawer')")
    site = page.url.split("#")[0]
    for step in (1, 2, 32):
        for node in range(0, 24, 3):
            page.goto(
                f"{site}#race={quote(race)}&method=aded&step={min(step, 12) if race == 'Short facts' else step}&node={node}"
            )
            sync_api.expect(part(page, "tree")).to_have_attribute("data-node", str(node))
            sync_api.expect(part(page, "race-title")).to_have_text(race)
            if part(page, "present").get_attribute("aria-pressed") == "false":
                part(page, "present").click()
            at_rest(page)
            name, said = str(page.locator(SELECTED).text_content()), tokens_and_numbers(page)
            numbers = re.search(r"N \d+( · P [\d.]+)?", name)
            assert name.split(", ")[0] in said
            assert numbers and numbers[0] in said
        path = page.locator("[role='treeitem']").filter(has_text="accepted").all_text_contents()
        assert all(one.split(", ")[0] in said for one in path)


def test_while_presenting_no_label_is_left_out_of_a_tree_of_twenty_rows(page: sync_api.Page):
    page.set_viewport_size({"width": 1280, "height": 720})
    choose_race(page, "Short facts")
    sync_api.expect(part(page, "race-title")).to_have_text("Short facts")
    part(page, "present").click()
    drawn(page)
    for _ in range(3):
        part(page, "next").click()
        drawn(page)
        nodes = page.locator("[role='treeitem']").count()
        assert len(page.evaluate(TEXTS)) >= nodes


def test_while_presenting_a_tree_of_many_rows_is_whole_and_has_its_labels(page: sync_api.Page):
    page.set_viewport_size({"width": 1280, "height": 720})
    site = page.url.split("#")[0]
    for race in ("A maths teacher", "Counting"):
        page.goto(f"{site}#race={quote(race)}&method=medusa&step=5")
        sync_api.expect(part(page, "race-title")).to_have_text(race)
        sync_api.expect(part(page, "where")).to_contain_text("step 5 of")
        if part(page, "present").get_attribute("aria-pressed") == "false":
            for _ in range(3):  # presenting begins with the whole tree
                part(page, "tree-in").click()
            part(page, "present").click()
        drawn(page)
        assert part(page, "tree").evaluate("e => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth")
        assert len(page.evaluate(TEXTS)) >= page.locator("[role='treeitem']").count() > 20
        assert touching(page, most=4) == [], "a box is higher than its letters"


def test_pointing_at_a_node_does_not_scroll_the_tree_and_keys_do(page: sync_api.Page, tmp_path: Path):
    open_race(page, large_race(), tmp_path)
    tree, row = part(page, "tree"), page.locator(".ax-nodes tbody tr[data-node]").last
    tree.focus()
    page.keyboard.press("Escape")
    drawn(page)
    top = tree.evaluate("e => e.scrollTop")
    row.hover()
    sync_api.expect(tree).to_have_attribute("data-node", row.get_attribute("data-node") or "")
    drawn(page)
    assert tree.evaluate("e => e.scrollTop") == top
    page.mouse.move(0, 0)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    for _ in range(60):
        page.keyboard.press("ArrowDown")
    drawn(page)
    assert tree.evaluate("e => e.scrollTop") > top

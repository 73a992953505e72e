"""Experiments on the page: what drafting costs and brings, two runs side by side, a memory over prompts, an ablation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from browsing import notice, open_race, part, saved, sync_api, text_of
from ui_fakes import make_race

from aded.core.trace import Cost, Race

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


def finished(page: sync_api.Page, prompt: str, button: str = "#ax-run") -> None:
    """Run a prompt to its end."""
    page.locator("#ax-prompt textarea").fill(prompt)
    page.locator("#ax-max-new-tokens input[type=text]").fill("12")
    page.locator(button).click()
    sync_api.expect(page.locator(button)).to_be_disabled()
    sync_api.expect(page.locator(button)).to_be_enabled()
    if page.locator(".ax-notice[data-kind='error']").count():
        pytest.skip(f"no model here: {notice(page).inner_text()}")
    sync_api.expect(notice(page)).to_contain_text("Done in")


def opened(page: sync_api.Page, title: str, inside: str) -> None:
    """Unfold a group of controls."""
    page.locator("#ax-controls button.label-wrap", has_text=title).click()
    sync_api.expect(page.locator(inside)).to_be_visible()


def keep_and_reopen(page: sync_api.Page, folder: Path) -> None:
    """A saved page holds the experiments: the two runs, the memory over both, and what a step cost where they ran."""
    file = saved(page, "race.html", folder)
    assert page.context.browser is not None
    context = page.context.browser.new_context(offline=True)
    alone = context.new_page()
    alone.goto(file.as_uri())
    sync_api.expect(part(alone, "compare-rows").locator("tr")).to_have_count(2)
    for name in ("compare-sentence", "memory-sentence", "paying-sentence", "paying-source"):
        assert part(alone, name).inner_text() == part(page, name).inner_text()
    sync_api.expect(part(alone, "memory-rows").locator("tr")).to_have_count(2)
    sync_api.expect(part(alone, "memory-reset")).to_be_hidden()
    context.close()


def test_where_drafting_pays_is_told_of_the_lane_on_screen(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    steps = race.lanes[1].steps
    accepted = sum(len(step.path) - 1 for step in steps)
    refused = sum(step.path[-1] in step.tree.parents and step.origins[-1] == "target" for step in steps)
    sentence = part(page, "paying-sentence")
    sync_api.expect(sentence).to_contain_text(f"α = {accepted / (accepted + refused):.2f}")
    assert page.locator("#ax-experiment .main-svg").count() >= 3
    page.locator(".ax-lane[data-method='plain'] .ax-look").click()
    sync_api.expect(sentence).to_contain_text("Plain decoding drafts nothing")
    sync_api.expect(part(page, "paying-pictures")).to_be_hidden()


def test_what_the_cache_saves_is_counted_from_the_passes_of_the_lane_on_screen(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    sentence, rows = part(page, "caching-sentence"), part(page, "caching-rows").locator("tr")
    for lane in reversed(race.lanes):
        page.locator(f".ax-lane[data-method='{lane.header.method}'] .ax-look").click()
        before = [step.position for step in lane.steps]
        nodes = sum(len(step.tree.tokens) for step in lane.steps)
        told = f"{len(lane.steps)} passes have read {before[0] + nodes:,} tokens"
        sync_api.expect(sentence).to_contain_text(f"{lane.header.label}: {told}")
        sync_api.expect(sentence).to_contain_text(f"anew: {sum(before) + nodes:,} tokens")
        assert rows.first.evaluate("e => e.firstChild.textContent") == str(before[-1])
    assert page.locator("[data-part='caching-card'] .main-svg").count() >= 2
    part(page, "language").select_option("zh")
    sync_api.expect(sentence).to_contain_text("若没有缓存")


@pytest.mark.parametrize(
    ("cost", "source"),
    [
        (Cost([1, 8, 64], [16], [[0.02, 0.021, 0.05]], padded=False), "Line: measured on cpu. Dots: the race's passes."),
        (None, "Line: fitted to the race's own passes (dots), on cpu."),
    ],
    ids=["measured", "fitted"],
)
def test_a_file_is_weighed_by_the_costs_that_it_holds(page: sync_api.Page, tmp_path: Path, cost: Cost | None, source: str):
    race = Race([replace(lane, header=replace(lane.header, cost=cost)) for lane in make_race().lanes])
    open_race(page, race, tmp_path)
    sync_api.expect(part(page, "paying-source")).to_have_text(source)


def test_nothing_is_compared_before_there_are_runs(page: sync_api.Page):
    sync_api.expect(part(page, "compare-card")).to_be_hidden()
    sync_api.expect(part(page, "memory-card")).to_be_hidden()


@pytest.mark.model
def test_a_second_run_stands_beside_the_first_and_a_memory_grows_until_it_is_forgotten(page: sync_api.Page, tmp_path: Path):
    page.evaluate("() => { location.hash = 'methods=plain,aded&keep=1'; }")  # the settings stay folded
    sync_api.expect(page.locator(".ax-picker input:checked")).to_have_count(2)
    finished(page, "List the days of the week.")
    sync_api.expect(part(page, "compare-sentence")).to_contain_text("Run again")
    sync_api.expect(part(page, "memory-rows").locator("tr")).to_have_count(1)
    sync_api.expect(part(page, "paying-source")).to_contain_text("measured on cpu")
    finished(page, "List the days of the week again.")
    sync_api.expect(part(page, "compare-sentence")).to_have_text("Changed since the run before: another prompt.")
    sync_api.expect(part(page, "compare-rows").locator("tr")).to_have_count(2)
    sync_api.expect(part(page, "memory-rows").locator("tr")).to_have_count(2)
    part(page, "memory-measure").select_option("top_4")
    sync_api.expect(part(page, "memory-meaning")).to_contain_text("4")
    keep_and_reopen(page, tmp_path)
    part(page, "memory-reset").click()
    sync_api.expect(notice(page)).to_contain_text("starts afresh")
    sync_api.expect(part(page, "memory-card")).to_be_hidden()
    finished(page, "List the days of the week again.")
    sync_api.expect(part(page, "memory-rows").locator("tr")).to_have_count(1)
    sync_api.expect(part(page, "compare-sentence")).to_contain_text("Nothing was changed")


@pytest.mark.model
def test_an_ablation_races_the_four_searches_and_their_texts_are_the_same(page: sync_api.Page):
    opened(page, "Ablation", "#ax-ablate")
    finished(page, "List the days of the week.", "#ax-ablate")
    labels = page.locator(".ax-lane-label").all_inner_texts()
    expected = ["MCTS", "best-first", "greedy", "full", "Plain decoding"]
    assert [label.removeprefix("ADED · Search: ") for label in labels] == expected
    widths = page.locator(".ax-lane").evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
    assert widths[-1] > 1.9 * widths[0], "the last of an odd number has the row to itself"
    assert "all five texts are identical" in part(page, "sentence").inner_text()
    assert text_of(page, "plain") != ""
    page.locator(".ax-lane .ax-look").nth(2).click()
    sync_api.expect(part(page, "step-title")).to_contain_text("ADED · Search: greedy")
    page.wait_for_function("() => location.hash.includes('lane=aded%7E3')")


@pytest.mark.model
@pytest.mark.slow
def test_what_was_learned_outlasts_other_races_and_the_card_is_told_when_it_is_forgotten(page: sync_api.Page):
    rows = part(page, "memory-rows").locator("tr:visible")

    def race(settings: str, count: int, button: str = "#ax-run") -> None:
        page.evaluate("hash => { location.hash = hash; }", settings)
        sync_api.expect(page.locator(".ax-picker input:checked")).to_have_count(2)
        finished(page, "Name a colour.", button)
        sync_api.expect(rows).to_have_count(count)

    race("methods=plain,aded&keep=1", 1)
    race("methods=plain,medusa&keep=1", 1)
    opened(page, "Ablation", "#ax-ablate")
    race("methods=plain,aded&keep=1", 1, "#ax-ablate")
    race("methods=plain,aded&keep=1&seed=5&temperature=0.5", 2)
    race("methods=plain,aded&keep=1&preset=paper", 1)
    sync_api.expect(notice(page)).to_contain_text("from 2 prompts is forgotten: it cannot be used with another “Preset”")
    sync_api.expect(part(page, "memory-sentence")).to_contain_text("What it had learned before that is forgotten.")
    race("methods=plain,aded", 0)
    sync_api.expect(notice(page)).to_contain_text("from 1 prompt is forgotten: “Remember prompts” is off.")
    sync_api.expect(part(page, "memory-card")).to_be_hidden()

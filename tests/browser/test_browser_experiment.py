"""Experiments on the page: cost and benefit of drafts, two races compared, learning over several prompts, an ablation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import drawn, notice, open_controls, open_race, part, saved, sync_api, text_of, unfold
from ui_fakes import make_race

from aded.core.trace import Cost, Race

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
SECTIONS = True


def finished(page: sync_api.Page, prompt: str, button: str = "#ax-run") -> None:
    """Run a race on a prompt to its end."""
    open_controls(page)
    page.locator("#ax-prompt textarea").fill(prompt)
    page.locator("#ax-max-new-tokens input[type=text]").fill("12")
    page.locator(button).click()
    sync_api.expect(page.locator(button)).to_be_disabled()
    sync_api.expect(page.locator(button)).to_be_enabled()
    if page.locator(".ax-notice[data-kind='error']").count():
        pytest.skip(f"no model here: {notice(page).inner_text()}")
    sync_api.expect(notice(page)).to_contain_text("Done in")


def opened(page: sync_api.Page, title: str, inside: str) -> None:
    """Open a group of controls."""
    page.locator("#ax-controls button.label-wrap", has_text=title).click()
    sync_api.expect(page.locator(inside)).to_be_visible()


def keep_and_reopen(page: sync_api.Page, folder: Path) -> None:
    """A saved page contains the experiments: both races, what was learned over both, and the measured cost of a step."""
    file = saved(page, "race.html", folder)
    assert page.context.browser is not None
    context = page.context.browser.new_context(offline=True)
    alone = context.new_page()
    alone.goto(file.as_uri())
    alone.wait_for_selector(".ax-plot .main-svg")
    unfold(alone)
    sync_api.expect(part(alone, "compare-rows").locator("tr")).to_have_count(2)
    for name in ("compare-sentence", "memory-sentence", "throughput-sentence", "throughput-source"):
        assert part(alone, name).inner_text() == part(page, name).inner_text()
    sync_api.expect(part(alone, "memory-rows").locator("tr")).to_have_count(2)
    sync_api.expect(part(alone, "memory-reset")).to_be_hidden()
    context.close()


@pytest.mark.slow
def test_draft_depth_and_throughput_are_those_of_the_selected_run(page: sync_api.Page, tmp_path: Path):
    race = make_race()
    open_race(page, race, tmp_path)
    steps = race.lanes[1].steps
    accepted = sum(len(step.path) - 1 for step in steps)
    rejected = sum(step.path[-1] in step.tree.parents and step.origins[-1] == "target" for step in steps)
    sentence = part(page, "throughput-sentence")
    sync_api.expect(sentence).to_contain_text(f"α = {accepted / (accepted + rejected):.2f}")
    assert page.locator(".ax-measure-grid .main-svg").count() >= 3
    page.locator(".ax-run-view[data-method='plain'] .ax-look").click()
    sync_api.expect(sentence).to_contain_text("Plain decoding drafts nothing")
    sync_api.expect(part(page, "throughput-pictures")).to_be_hidden()


HOVERS = """() => [...document.querySelectorAll('.js-plotly-plot')].filter(box => box.offsetParent).flatMap(box =>
    box.data.filter(one => one.hoverinfo !== 'skip' && !one.hovertext)
        .map(one => [box.dataset.part, one.hovertemplate, one.line?.dash]))"""


@pytest.mark.slow
def test_every_chart_names_line_axes_and_units_below_the_pointer_and_dashes_what_is_extrapolated(page: sync_api.Page):
    page.wait_for_function("document.querySelectorAll('.ax-measure-grid .main-svg').length >= 3")
    drawn(page)
    found = page.evaluate(HOVERS)
    charts = {chart for chart, *_ in found}
    assert {"chart", "cost-chart", "tokens-chart", "speed-chart", "kvcache-tokens", "agreement", "sizes-chart"} <= charts
    for chart, template, _ in found:
        assert re.match(r"<b>[^<]+</b><br>[^<]+: %\{x:[^}]*\}[^<]*<br>[^<]+: %\{y:", template), (chart, template)
    for chart in ("tokens-chart", "speed-chart"):
        dashes = {dash for name, template, dash in found if name == chart and "extrapolated" in template}
        assert dashes == {"6px,5px"}, chart
    page.evaluate("Plotly.Fx.hover(document.querySelector('[data-part=cost-chart]'), [{ curveNumber: 0, pointNumber: 2 }])")
    hover = part(page, "cost-chart").locator(".hoverlayer")
    for words in ("fitted cost", "nodes per forward pass: 3", "ms per forward pass: "):
        sync_api.expect(hover).to_contain_text(words)


@pytest.mark.slow
def test_the_savings_of_the_kv_cache_are_computed_from_the_forward_passes_of_the_selected_run(
    page: sync_api.Page, tmp_path: Path
):
    race = make_race()
    open_race(page, race, tmp_path)
    sentence, rows = part(page, "kvcache-sentence"), part(page, "kvcache-rows").locator("tr")
    for run in reversed(race.lanes):
        page.locator(f".ax-run-view[data-method='{run.header.method}'] .ax-look").click()
        before = [step.position for step in run.steps]
        nodes = sum(len(step.tree.tokens) for step in run.steps)
        processed = f"{len(run.steps)} forward passes processed {before[0] + nodes:,} tokens"
        sync_api.expect(sentence).to_contain_text(f"{run.header.label}: {processed}")
        sync_api.expect(sentence).to_contain_text(f"the whole context again: {sum(before) + nodes:,} tokens")
        assert rows.first.evaluate("e => e.firstChild.textContent") == str(before[-1])
    assert page.locator("[data-part='kvcache-card'] .main-svg").count() >= 2
    part(page, "language").select_option("zh")
    sync_api.expect(sentence).to_contain_text("若没有 KV 缓存")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cost", "source"),
    [
        (
            Cost([1, 8, 64], [16], [[0.02, 0.021, 0.05]], padded=False),
            "Line: measured on cpu, dashed where extrapolated. Dots: forward passes of the race.",
        ),
        (None, "Line: fitted to the race's forward passes (dots) on cpu, dashed where extrapolated."),
    ],
    ids=["measured", "fitted"],
)
def test_a_file_is_evaluated_by_the_costs_that_it_contains(page: sync_api.Page, tmp_path: Path, cost: Cost | None, source: str):
    race = Race([replace(run, header=replace(run.header, cost=cost)) for run in make_race().lanes])
    open_race(page, race, tmp_path)
    sync_api.expect(part(page, "throughput-source")).to_have_text(source)


def test_nothing_is_compared_before_a_live_race(page: sync_api.Page):
    sync_api.expect(part(page, "compare-card")).to_be_hidden()
    sync_api.expect(part(page, "memory-card")).to_be_hidden()


@pytest.mark.model
@pytest.mark.slow
def test_a_second_race_is_compared_with_the_first_and_learning_goes_on_until_it_is_deleted(page: sync_api.Page, tmp_path: Path):
    page.evaluate("() => { location.hash = 'methods=plain,aded&keep=1'; }")  # the settings stay closed
    sync_api.expect(page.locator(".ax-picker input:checked")).to_have_count(2)
    finished(page, "List the days of the week.")
    sync_api.expect(part(page, "compare-sentence")).to_contain_text("run again")
    sync_api.expect(part(page, "memory-rows").locator("tr")).to_have_count(1)
    sync_api.expect(part(page, "throughput-source")).to_contain_text("measured on cpu")
    finished(page, "List the days of the week again.")
    sync_api.expect(part(page, "compare-sentence")).to_have_text("Changed since the race before: another prompt.")
    sync_api.expect(part(page, "compare-rows").locator("tr")).to_have_count(2)
    sync_api.expect(part(page, "memory-rows").locator("tr")).to_have_count(2)
    part(page, "memory-measure").select_option("top_4")
    sync_api.expect(part(page, "memory-meaning")).to_contain_text("4")
    keep_and_reopen(page, tmp_path)
    part(page, "memory-reset").click()
    sync_api.expect(notice(page)).to_contain_text("starts without session counts")
    sync_api.expect(part(page, "memory-card")).to_be_hidden()
    finished(page, "List the days of the week again.")
    sync_api.expect(part(page, "memory-rows").locator("tr")).to_have_count(1)
    sync_api.expect(part(page, "compare-sentence")).to_contain_text("Nothing was changed")


@pytest.mark.model
@pytest.mark.slow
def test_an_ablation_races_the_four_searches_and_their_texts_are_the_same(page: sync_api.Page):
    opened(page, "Ablation", "#ax-ablate")
    finished(page, "List the days of the week.", "#ax-ablate")
    labels = page.locator(".ax-run-label").all_inner_texts()
    expected = ["Plain decoding", "MCTS", "best-first", "greedy", "full"]
    assert [label.removeprefix("ADED · Search: ") for label in labels] == expected
    tops = page.locator(".ax-run-view").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
    assert tops == sorted({*tops}), "more than three runs are rows"
    assert "All five texts are identical" in part(page, "detail").inner_text()
    assert text_of(page, "plain") != ""
    page.locator(".ax-run-view .ax-look").nth(3).click()
    sync_api.expect(part(page, "step-title")).to_contain_text("ADED · Search: greedy")
    page.wait_for_function("() => location.hash.includes('method=aded%7E3')")


@pytest.mark.model
@pytest.mark.slow
def test_what_was_learned_is_kept_over_other_races_and_its_deletion_is_reported(page: sync_api.Page):
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
    sync_api.expect(notice(page)).to_contain_text(
        "from 2 prompts were deleted: they cannot be used with another value of “Preset”"
    )
    sync_api.expect(part(page, "memory-sentence")).to_contain_text("What it had learned before was deleted.")
    race("methods=plain,aded", 0)
    sync_api.expect(notice(page)).to_contain_text("from 1 prompt were deleted: “Keep what was learned” is off.")
    sync_api.expect(part(page, "memory-card")).to_be_hidden()

"""What if: the numbers on screen are those of the record, other settings change them, also in a saved page."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import CHARTED, drawn, open_race, part, saved, show_tab, sync_api
from fakes import VOCAB, cost, near, tiny_target
from ui_fakes import make_race

from aded.core import trace
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.drafters.methods.speculative import SpeculativeDrafter

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def race() -> trace.Race:
    """A run of speculative sampling."""
    target = tiny_target()
    drafter = SpeculativeDrafter(ChainRunner(near(target, 0.8), VOCAB), cost(1.0), lambda greedy: 0.1, "rejection", 4)
    run = Decoder(target, drafter, GenerationSettings(max_new_tokens=24, temperature=0.8, seed=2)).run([5, 9, 14, 3, 20])
    trials = [trial for step in run.steps for choice in step.choices if choice.rejection for trial in choice.rejection.trials]
    assert {trial.accepted for trial in trials} == {True, False}
    return trace.Race([run])


def move(page: sync_api.Page, name: str, value: float) -> None:
    """Move a slider."""
    part(page, f"whatif-{name}").evaluate(
        "(e, value) => { e.value = value; e.dispatchEvent(new Event('input', { bubbles: true })); }", value
    )


ROUNDING = 1.5e-3
"""Numbers on screen have four significant digits; logits are recorded with five."""


def value_of(text: str) -> float:
    """A number as it is on screen: 0.001517, or 1.517·10⁻⁷."""
    return float(text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")).replace("·10", "e"))


def near_to(*values: float) -> Any:
    return pytest.approx(values, abs=ROUNDING)


def rows(page: sync_api.Page) -> dict[str, list[str]]:
    """The cells after the bar, by token."""
    texts = "all => all.map(r => [...r.cells].map(c => (c.querySelector('code') ?? c).textContent))"
    found = part(page, "whatif-rows").locator("tr").evaluate_all(texts)
    return {cells[0]: cells[2:] for cells in found}


def check_choice(page: sync_api.Page, choice: trace.Choice) -> None:
    """With the settings of the run, every number is that of the record."""
    sync_api.expect(part(page, "whatif-sentence")).to_contain_text(f"chooses “{choice.text.replace(' ', '␣')}”, as recorded")
    table = rows(page)
    tops = [*zip(choice.top_texts, choice.top_probabilities), (choice.text, choice.probability)]
    for text, p in tops:
        assert tuple(map(value_of, table[text.replace(" ", "␣")][:2])) == near_to(p, p)
    record = choice.rejection
    tests = part(page, "whatif-tests").locator("li").all_inner_texts()
    for text, trial in zip(tests, record.trials if record else (), strict=True):
        u, sign, ratio, p, q = re.search(r"u = (\S+) (.) (\S+) = min\(1, p/q\), with p = (\S+) and q = (\S+)\.$", text).groups()
        assert sign == ("≤" if trial.accepted else ">")
        assert tuple(map(value_of, (u, p, q))) == near_to(trial.uniform, trial.p, trial.q)
        assert value_of(ratio) == pytest.approx(trial.ratio, abs=ROUNDING, rel=1e-2)
    if record and record.residual_probability is not None:
        assert value_of(table[choice.text.replace(" ", "␣")][-1]) == pytest.approx(record.residual_probability, abs=ROUNDING)


def check_residual(page: sync_api.Page, choice: trace.Choice) -> None:
    """The draw of the last token has its random number and the residual distribution, with bars."""
    record = choice.rejection
    if record is None or record.residual_probability is None:
        sync_api.expect(part(page, "residual")).to_be_hidden()
        return
    views = part(page, "verify-views").locator("button")
    views.last.evaluate("e => e.click()")  # visible in a low window only
    drawn_row = part(page, "residual-rows").locator("tr[data-chosen]")
    cells = drawn_row.locator("td").all_inner_texts()
    assert cells[0] == choice.text.replace(" ", "␣")
    assert choice.draw is not None
    u, rate = map(value_of, cells[-3:-1])
    assert (u, rate) == near_to(choice.draw, -math.log(choice.draw) / record.residual_probability)
    assert drawn_row.locator(".ax-share-p").is_visible()
    rates = part(page, "residual-rows").locator("tr td:nth-last-child(2)").all_inner_texts()
    assert rate == min(value_of(text) for text in rates if text not in ("–", "∞"))
    views.first.evaluate("e => e.click()")


def test_the_numbers_of_every_step_of_speculative_sampling_are_those_of_the_record(
    page: sync_api.Page, race: trace.Race, tmp_path: Path
):
    open_race(page, race, tmp_path)
    show_tab(page, "verify")
    page.keyboard.press("Home")
    for step in race.lanes[0].steps:
        sync_api.expect(part(page, "where")).to_contain_text(f"step {step.index + 1} of")
        drawn(page)
        for i, choice in enumerate(step.choices):
            part(page, "whatif-choice").select_option(str(i))
            check_choice(page, choice)
        check_residual(page, step.choices[-1])
        page.keyboard.press("ArrowRight")


@pytest.mark.slow
def test_p_and_the_recorded_p_are_named_with_their_temperatures(page: sync_api.Page):
    show_tab(page, "verify")
    heads = [part(page, f"whatif-{name}-head") for name in ("p", "recorded")]
    for head, words in zip(heads, ("p, T 0", "recorded p, T 1"), strict=True):
        sync_api.expect(head).to_have_text(words)
    move(page, "temperature", 0.7)
    sync_api.expect(heads[0]).to_have_text("p, T 0.7")
    sync_api.expect(heads[1]).to_have_text("recorded p, T 1")


@pytest.mark.slow
def test_other_settings_change_the_choice_and_reset_restores_it_also_in_a_saved_page(
    page: sync_api.Page, browser: sync_api.Browser, race: trace.Race, tmp_path: Path
):
    open_race(page, race, tmp_path)
    show_tab(page, "verify")
    part(page, "whatif-rows").locator("tr").first.wait_for()
    assert (
        saved(page, "whatif.csv", tmp_path).read_text("utf-8").count("\n") == part(page, "whatif-rows").locator("tr").count() + 1
    )
    file = saved(page, "race.html", tmp_path)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    alone = context.new_page()
    alone.goto(file.as_uri())
    alone.wait_for_selector(".ax-run-view .ax-step", state="attached")
    alone.wait_for_function(CHARTED)  # it opens in the tab where it was saved
    for view in (page, alone):
        show_tab(view, "verify")
        part(view, "whatif-rows").locator("tr").first.wait_for()
        before, sentence = rows(view), part(view, "whatif-sentence").inner_text()
        sync_api.expect(part(view, "whatif-reset")).to_be_disabled()
        move(view, "temperature", 0)
        sync_api.expect(part(view, "whatif-sentence")).to_contain_text("With temperature 0, the target would")
        assert "1.000" in [cells[0] for cells in rows(view).values()]
        sync_api.expect(part(view, "whatif-draw")).to_be_disabled()
        move(view, "temperature", 1)
        move(view, "top-k", 3)
        sync_api.expect(part(view, "whatif-sentence")).to_contain_text("With temperature 1, top-k 3, the target would")
        assert sum(cells[0] != "0" for cells in rows(view).values()) == 3
        part(view, "whatif-draw").click()
        sync_api.expect(part(view, "whatif-sentence")).to_contain_text("With temperature 1, top-k 3, seed 3, the target would")
        part(view, "whatif-reset").click()
        sync_api.expect(part(view, "whatif-sentence")).to_have_text(sentence)
        assert rows(view) == before
    context.close()


@pytest.mark.slow
def test_a_record_without_logits_says_so(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(), tmp_path)
    show_tab(page, "verify")
    sync_api.expect(part(page, "whatif-intro")).to_contain_text("does not contain the target's logits")
    sync_api.expect(part(page, "whatif-body")).to_be_hidden()

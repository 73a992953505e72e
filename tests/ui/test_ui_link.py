"""Links into the page: valid settings, and messages about untrusted text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aded.drafters.registry import METHODS
from ui import link, picker
from ui.controls import CHOICES, Localizer, create_controls, create_run
from ui.race.form import ABLATIONS
from ui.words import say


@pytest.fixture(scope="module")
def controls() -> Any:
    import gradio as gr

    with gr.Blocks():
        return create_controls(Localizer(), create_run(Localizer()), gr.HTML())


@pytest.fixture(scope="module")
def first(controls: Any) -> dict[str, Any]:
    return controls.first


def changed(first: dict[str, Any]) -> dict[str, Any]:
    picked = picker.encode(("aded", "rest", "suffix"))
    return {
        **first,
        "prompt": "2 < 3 & “漢” 🙂\n#?=",
        "methods": picked,
        "temperature": "0.7",
        "seed": "12",
        "search": "greedy",
        "c1": "1.25",
        "feedback": "off",
        "keep": True,
    }


def test_a_link_contains_changed_settings_only(first: dict[str, Any]):
    assert link.encode(first, first) == {}


def test_a_link_is_read_back_as_it_was_made(first: dict[str, Any]):
    values = changed(first)
    text = link.encode(values, first)
    assert all(isinstance(value, str) for value in text.values())
    assert text["methods"] == "aded,rest,suffix"
    assert link.decode(text, first, CHOICES) == link.LinkValues(values)


def test_the_prompt_of_an_example_is_replaced_by_its_name(first: dict[str, Any]):
    name, prompt = list(link.examples().items())[2]
    text = link.encode({**first, "prompt": prompt}, first)
    assert text == {"example": name}
    assert link.decode(text, first, CHOICES).values["prompt"] == prompt


def refusals(asked: object, first: dict[str, Any], foreign: tuple[str, ...] = ()) -> list[str]:
    """Messages about a link without a valid setting."""
    opened = link.decode(asked, first, CHOICES, foreign)
    assert opened.values == first
    return [say(key, **values) for key, values in opened.refused]


@pytest.mark.parametrize("asked", [None, [], "text", {"seed": 7, "prompt": ["a"], 3: "x"}])
def test_invalid_data_leaves_the_defaults(asked: object, first: dict[str, Any]):
    assert refusals(asked, first) == []


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("temperature", "nan", "Temperature: “nan” is not a number. Give one from 0 to 2."),
        ("temperature", "9", "Temperature: 9 is out of range. Give a number from 0 to 2."),
        ("temperature", "-1e300", "Temperature: -1e300 is out of range"),
        ("seed", "1.5", "Seed: 1.5 is not a whole number"),
        ("top_p", "", "Top-p (1: off) is empty"),
        ("budget", "lots", "Draft budget (nodes): “lots” is not a number"),
        ("search", "rm -rf", "Search: “rm -rf” is not a valid value. Choose one in the controls."),
        ("keep", "yes", "Keep what was learned: “yes” is not a valid value"),
        ("preset", "<b>", "Preset: “<b>” is not"),
        ("example", "none such", "There is no example prompt “none such”. Choose one under “Example prompts”"),
        ("methods", "foo", "There is no method “foo”; it is left out. Choose methods under “Methods in the race”."),
        ("speed", "2", "There is no setting “speed”; it is not used."),
        ("__proto__x", "2", None),
    ],
)
def test_an_invalid_value_is_named_with_its_remedy(name: str, text: str, words: str | None, first: dict[str, Any]):
    said = refusals({name: text, "theme": "dark", "race": "A", "step": "3"}, first)
    assert words in " ".join(said) if words else said == []


def test_foreign_parameters_after_the_question_mark_are_ignored(first: dict[str, Any]):
    assert refusals({"utm_source": "x", "__sign": "y"}, first, ("utm_source", "__sign")) == []


def test_the_valid_part_of_a_link_applies(first: dict[str, Any]):
    opened = link.decode({"methods": "foo,aded,rest", "temperature": "9", "seed": "5", "search": "no"}, first, CHOICES)
    assert picker.chosen(opened.values["methods"]) == ("aded", "rest")
    assert (opened.values["seed"], opened.values["temperature"], opened.values["search"]) == ("5", "0", "")
    assert [key for key, _ in opened.refused].count("link.kept") == 1
    assert len(opened.refused) == 4


def test_methods_of_a_link_are_unique_and_at_most_six(first: dict[str, Any]):
    asked = {"methods": ",".join(["<img>", "aded", "aded", *METHODS])}
    opened = link.decode(asked, first, CHOICES)
    assert json.loads(opened.values["methods"])["chosen"] == list(METHODS)[: picker.MAX_METHODS]
    said = [say(key, **values) for key, values in opened.refused]
    assert "There is no method “<img>”; it is left out." in said[0]
    left_out = list(METHODS)[picker.MAX_METHODS :]
    assert [METHODS[name].label in sentence for name, sentence in zip(left_out, said[1:])] == [True] * len(left_out)


def test_a_long_prompt_is_cut_with_a_message(first: dict[str, Any]):
    opened = link.decode({"prompt": "x" * 10**6}, first, CHOICES)
    assert len(opened.values["prompt"]) == link.LONGEST
    assert [key for key, _ in opened.refused] == ["link.cut"]


def test_an_opened_link_fills_every_widget_in_order(controls: Any):
    values, refused = controls.link_values({"seed": "5", "prompt": "mine"})
    named = dict(zip(controls.widgets, values))
    assert (named["seed"], named["prompt"], values[-2:], refused) == ("5", "mine", [None, ABLATIONS[0]], [])
    assert len(values) == len(controls.widgets) + 2


def test_the_link_of_an_ablation_contains_its_setting(controls: Any):
    values = {widget: widget.value for widget in controls.widgets.values()} | {controls.axis: "depth"}
    assert "ablation" not in controls.form(values).link
    asked = controls.form(values, ablation=True).link
    assert asked["ablation"] == "depth"
    assert controls.link_values(asked)[0][-1] == "depth"
    _, refused = controls.link_values({"ablation": "<b>"})
    assert [key for key, _ in refused] == ["link.choice", "link.kept"]

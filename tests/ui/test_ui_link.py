"""Links into the page: what one may ask for. Whoever wrote it is a stranger."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aded.drafters.registry import METHODS
from ui import link, picker
from ui.controls import CHOICES, Wording, create_controls
from ui.form import ABLATIONS
from ui.words import say


@pytest.fixture(scope="module")
def controls() -> Any:
    import gradio as gr

    with gr.Blocks():
        return create_controls(Wording())


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


def test_what_was_not_changed_is_not_in_a_link(first: dict[str, Any]):
    assert link.encode(first, first) == {}


def test_a_link_that_was_made_is_read_as_it_was(first: dict[str, Any]):
    values = changed(first)
    text = link.encode(values, first)
    assert all(isinstance(value, str) for value in text.values())
    assert text["methods"] == "aded,rest,suffix"
    assert link.decode(text, first, CHOICES) == link.Opened(values)


def test_an_examples_prompt_is_named(first: dict[str, Any]):
    name, prompt = list(link.examples().items())[2]
    text = link.encode({**first, "prompt": prompt}, first)
    assert text == {"example": name}
    assert link.decode(text, first, CHOICES).values["prompt"] == prompt


def refusals(asked: object, first: dict[str, Any], foreign: tuple[str, ...] = ()) -> list[str]:
    """What is said of a link of which nothing can be had."""
    opened = link.decode(asked, first, CHOICES, foreign)
    assert opened.values == first
    return [say(key, **values) for key, values in opened.refused]


@pytest.mark.parametrize("asked", [None, [], "text", {"seed": 7, "prompt": ["a"], 3: "x"}])
def test_what_is_no_link_leaves_the_defaults(asked: object, first: dict[str, Any]):
    assert refusals(asked, first) == []


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("temperature", "nan", "Temperature: “nan” is no number. Give one from 0 to 2."),
        ("temperature", "9", "Temperature: 9 is out of range. Give a number from 0 to 2."),
        ("temperature", "-1e300", "Temperature: -1e300 is out of range"),
        ("seed", "1.5", "Seed: 1.5 is no whole number"),
        ("top_p", "", "Top-p (1: off) is empty"),
        ("budget", "lots", "Draft budget in nodes: “lots” is no number"),
        ("search", "rm -rf", "Search: “rm -rf” is none of its values. Choose one in the controls."),
        ("keep", "yes", "Remember prompts: “yes” is none of its values"),
        ("preset", "<b>", "Preset: “<b>” is none"),
        ("example", "none such", "There is no example prompt “none such”. Choose one under “Example prompts”"),
        ("methods", "foo", "There is no method “foo”. Choose methods under “Methods in the race”."),
        ("speed", "2", "There is no setting “speed”."),
        ("__proto__x", "2", None),
    ],
)
def test_what_cannot_be_had_is_refused_by_name_with_the_remedy(name: str, text: str, words: str | None, first: dict[str, Any]):
    said = refusals({name: text, "theme": "dark", "race": "A", "step": "3"}, first)
    assert words in " ".join(said) if words else said == []


def test_a_strangers_name_behind_the_question_mark_is_no_fault(first: dict[str, Any]):
    assert refusals({"utm_source": "x", "__sign": "y"}, first, ("utm_source", "__sign")) == []


def test_the_rest_of_a_link_holds(first: dict[str, Any]):
    opened = link.decode({"methods": "foo,aded,rest", "temperature": "9", "seed": "5", "search": "no"}, first, CHOICES)
    assert picker.chosen(opened.values["methods"]) == ("aded", "rest")
    assert (opened.values["seed"], opened.values["temperature"], opened.values["search"]) == ("5", "0", "")
    assert [key for key, _ in opened.refused].count("link.kept") == 1
    assert len(opened.refused) == 4


def test_only_methods_race_each_once_and_six_at_most(first: dict[str, Any]):
    asked = {"methods": ",".join(["<img>", "aded", "aded", *METHODS])}
    opened = link.decode(asked, first, CHOICES)
    assert json.loads(opened.values["methods"])["chosen"] == list(METHODS)[: picker.MOST]
    said = [say(key, **values) for key, values in opened.refused]
    assert "There is no method “<img>”." in said[0]
    assert [METHODS[name].label in sentence for name, sentence in zip(list(METHODS)[picker.MOST :], said[1:])] == [True] * 6


def test_a_prompt_of_any_length_is_cut_and_that_is_said(first: dict[str, Any]):
    opened = link.decode({"prompt": "x" * 10**6}, first, CHOICES)
    assert len(opened.values["prompt"]) == link.LONGEST
    assert [key for key, _ in opened.refused] == ["link.cut"]


def test_an_opened_link_fills_every_widget_in_order(controls: Any):
    values, refused = controls.opened({"seed": "5", "prompt": "mine"})
    named = dict(zip(controls.widgets, values))
    assert (named["seed"], named["prompt"], values[-2:], refused) == ("5", "mine", [None, ABLATIONS[0]], [])
    assert len(values) == len(controls.widgets) + 2


def test_the_link_of_an_ablation_names_the_setting_that_it_varies(controls: Any):
    values = {widget: widget.value for widget in controls.widgets.values()} | {controls.axis: "depth"}
    assert "ablation" not in controls.form(values).link
    asked = controls.form(values, ablation=True).link
    assert asked["ablation"] == "depth"
    assert controls.opened(asked)[0][-1] == "depth"
    _, refused = controls.opened({"ablation": "<b>"})
    assert [key for key, _ in refused] == ["link.choice", "link.kept"]

"""Links into the page: what one may ask for. Whoever wrote it is a stranger."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aded.methods import METHODS
from ui import link, picker
from ui.controls import CHOICES, Wording, create_controls


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
        "temperature": 0.7,
        "seed": 12,
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
    assert link.decode(text, first, CHOICES) == values


def test_an_examples_prompt_is_named(first: dict[str, Any]):
    name, prompt = list(link.examples().items())[2]
    text = link.encode({**first, "prompt": prompt}, first)
    assert text == {"example": name}
    assert link.decode(text, first, CHOICES)["prompt"] == prompt


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        "text",
        {"seed": 7, "prompt": ["a"], 3: "x"},
        {"temperature": "nan", "seed": "inf", "top_k": "x", "top_p": "", "max_new_tokens": "1e999"},
        {"preset": "<b>", "search": "rm -rf", "example": "none such"},
        {"__proto__": "x", "no such setting": "1"},
    ],
)
def test_what_is_no_setting_leaves_the_defaults(asked: object, first: dict[str, Any]):
    assert link.decode(asked, first, CHOICES) == first


def test_numbers_stay_within_their_widgets(first: dict[str, Any]):
    for name, (least, most) in link.BOUNDS.items():
        assert link.decode({name: "-1e300"}, first, CHOICES)[name] == least
        assert link.decode({name: "1e300"}, first, CHOICES)[name] == most


def test_only_methods_race_each_once_and_six_at_most(first: dict[str, Any]):
    asked = {"methods": ",".join(["<img>", "aded", "aded", *METHODS])}
    chosen = json.loads(link.decode(asked, first, CHOICES)["methods"])["chosen"]
    assert chosen == list(METHODS)[: picker.MOST]


def test_a_prompt_of_any_length_is_cut(first: dict[str, Any]):
    assert len(link.decode({"prompt": "x" * 10**6}, first, CHOICES)["prompt"]) == link.LONGEST


def test_an_opened_link_fills_every_widget_in_order(controls: Any):
    values = controls.opened({"seed": "5", "prompt": "mine"})
    named = dict(zip(controls.widgets, values))
    assert (named["seed"], named["prompt"], values[-1]) == (5, "mine", None)
    assert len(values) == len(controls.widgets) + 1

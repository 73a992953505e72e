"""The widgets beside the race: what they hold, how they are worded, and the form that their values make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui import link, picker, theme
from ui.run import Form
from ui.words import FALLBACK, say

SEARCHES = ("", "mcts", "best-first", "greedy", "full")
"""Searches of ADED; the empty one is the preset's."""
PRESETS = ("tuned", "paper")


class Wording:
    """Gradio's widgets and how to word them in a language: what the browser cannot do for them."""

    def __init__(self) -> None:
        self._words: list[tuple[Any, Callable[[str], dict[str, Any]]]] = []

    def label(self, make: Any, key: str, **settings: Any) -> Any:
        """A new widget whose label has this key."""
        return self.add(make(label=say(key), **settings), lambda language: {"label": say(key, language)})

    def add(self, widget: Any, properties: Callable[[str], dict[str, Any]]) -> Any:
        self._words.append((widget, properties))
        return widget

    @property
    def widgets(self) -> list[Any]:
        return [widget for widget, _ in self._words]

    def updates(self, language: str) -> list[Any]:
        """What makes the widgets speak a language, in their order."""
        return [gr.update(**properties(language)) for _, properties in self._words]


@dataclass(frozen=True)
class Controls:
    """The widgets whose values make a ``Form``, by the names that links use."""

    widgets: dict[str, Any]
    examples: gr.Dropdown

    @property
    def first(self) -> dict[str, Any]:
        """The widgets' values on a new page."""
        return {name: widget.value for name, widget in self.widgets.items()}

    def form(self, values: dict[Any, Any]) -> Form:
        """What the visitor asked for.

        Raises:
            AdedError: too few or too many methods.
        """
        named = {name: values[widget] for name, widget in self.widgets.items()}
        return Form(
            prompt=named["prompt"] or "",
            methods=picker.decode(named["methods"]),
            budget=named["budget"] or "auto",
            numbers={name: named[name] for name in link.BOUNDS},
            options={"aded": {name: named[name] for name in ("preset", "search", "simulations", "c1")}},
        )

    def link(self, values: Sequence[Any]) -> dict[str, str]:
        """The settings as a link names them, from the widgets' values in their order."""
        return link.encode(dict(zip(self.widgets, values)), self.first)

    def opened(self, asked: object) -> list[Any]:
        """The widgets' values that a link asks for, in their order, and the example whose prompt it is, if any."""
        values = link.decode(asked, self.first, {"preset": PRESETS, "search": SEARCHES})
        return [*values.values(), link.example_of(values["prompt"])]


def create_controls(wording: Wording) -> tuple[Controls, gr.Button, gr.Button, gr.HTML]:
    """The form, Run, Stop and the notice under them."""
    prompt, examples = create_prompt(wording)
    widgets: dict[str, Any] = {"prompt": prompt, "methods": create_methods()}
    start, stop, notice = create_run(wording)
    widgets |= create_settings(wording) | create_search(wording)
    return Controls(widgets, examples), start, stop, notice


def create_prompt(wording: Wording) -> tuple[gr.Textbox, gr.Dropdown]:
    examples = link.examples()
    first = next(iter(examples))
    prompt = wording.label(gr.Textbox, "control.prompt", value=examples[first], lines=4, max_lines=14, elem_id="ax-prompt")
    pick = wording.label(gr.Dropdown, "control.examples", choices=list(examples), value=first, elem_id="ax-examples")
    pick.input(lambda name: examples[name], pick, prompt, queue=False, show_progress="hidden", api_visibility="private")
    return prompt, pick


def create_methods() -> gr.HTML:
    return theme.panel("picker", "picker.mountPicker(element, props, watch);", picker.encode(picker.DEFAULT))


def create_run(wording: Wording) -> tuple[gr.Button, gr.Button, gr.HTML]:
    with gr.Row(elem_id="ax-run-row"):
        start, stop = gr.Button(variant="primary", elem_id="ax-run", min_width=0), gr.Button(elem_id="ax-stop", min_width=0)
    start.value, stop.value, stop.interactive = say("control.run"), say("control.stop"), False
    wording.add(start, lambda language: {"value": say("control.run", language)})
    wording.add(stop, lambda language: {"value": say("control.stop", language)})
    return start, stop, theme.panel("notice", "notice.mountNotice(element, props, watch);")


def create_settings(wording: Wording) -> dict[str, Any]:
    label = wording.label
    widgets = {
        "max_new_tokens": label(gr.Number, "control.tokens", value=96, precision=None, elem_id="ax-max-new-tokens"),
        "budget": label(gr.Textbox, "control.budget", value="auto", max_lines=1, elem_id="ax-budget"),
        "temperature": label(gr.Slider, "control.temperature", maximum=2, value=0, step=0.05, elem_id="ax-temperature"),
    }
    with label(gr.Accordion, "control.sampling", open=False):
        return {
            **widgets,
            "top_p": label(gr.Slider, "control.top_p", minimum=0.05, maximum=1, value=1, step=0.05),
            "top_k": label(gr.Number, "control.top_k", value=0, precision=None),
            "seed": label(gr.Number, "control.seed", value=0, precision=None),
        }


def create_search(wording: Wording) -> dict[str, Any]:
    with wording.label(gr.Accordion, "control.aded", open=False):

        def worded(name: str, kind: Any, settings: dict[str, Any]) -> Any:
            return wording.add(kind(**search_words(name, FALLBACK), **settings), lambda language: search_words(name, language))

        names = ("preset", "search", "simulations", "c1")
        fields: list[Any] = [gr.Dropdown, gr.Dropdown, gr.Textbox, gr.Textbox]
        more: list[dict[str, Any]] = [
            {"value": "tuned"},
            {"value": ""},
            {"value": "", "max_lines": 1},
            {"value": "", "max_lines": 1},
        ]
        return {name: worded(name, kind, rest) for name, kind, rest in zip(names, fields, more)}


def search_words(name: str, language: str) -> dict[str, Any]:
    """A search setting's label and, in words, the choices or what an empty field stands for."""
    default = say("control.default", language)
    words: dict[str, dict[str, Any]] = {
        "preset": {"choices": [(say(f"control.preset.{preset}", language), preset) for preset in PRESETS]},
        "search": {"choices": [(search or default, search) for search in SEARCHES]},
        "simulations": {"placeholder": default},
        "c1": {"placeholder": default},
    }
    return {"label": say(f"control.{name}", language), **words[name]}

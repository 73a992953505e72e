"""The widgets beside the race: what they hold, how they are worded, and the form that their values make."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr

from aded.drafters.registry import CORPORA, METHODS
from ui import link, picker, theme
from ui.form import ABLATIONS, SWITCHES, Form
from ui.numbers import FIELDS, Field, parse
from ui.words import FALLBACK, Saying, say, say_or

ADED = tuple(name for name in METHODS["aded"].options if name != "matrix")
"""Settings of ADED; which matrix it has is not a visitor's to say."""
GENERATION = tuple(name for name in FIELDS if name not in ADED and name != "budget")
"""Numbers that all methods share."""
USUAL_TOKENS = 96
"""New tokens that a page asks for at first, where the server writes so many."""
CHOICES: dict[str, tuple[str, ...]] = {
    "preset": ("tuned", "paper"),
    "search": ("", "mcts", "best-first", "greedy", "full"),
    "feedback": ("", *SWITCHES),
    "corpus": ("", *CORPORA),
}
"""Settings that are chosen from a list; the empty word stands for the preset's value."""


AXIS = "ablation"
"""What a link calls the setting that its ablation varies."""


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
    """The widgets whose values make a ``Form``, by the names that links use; the buttons beside them.

    Attributes:
        start, ablate: the buttons that begin a race, of the chosen methods and of the values of ``axis``.
        stop: the one that ends it.
        ablation: what ``axis`` and ``ablate`` are folded into.
        forget: the one that makes kept drafters forget.
        fields: what each number may be.
    """

    widgets: dict[str, Any]
    examples: gr.Dropdown
    start: gr.Button
    stop: gr.Button
    notice: gr.HTML
    axis: gr.Dropdown
    ablate: gr.Button
    ablation: gr.Accordion
    forget: gr.Button
    fields: Mapping[str, Field]

    @property
    def first(self) -> dict[str, Any]:
        """The widgets' values on a new page."""
        return {name: widget.value for name, widget in self.widgets.items()}

    def form(self, values: dict[Any, Any], ablation: bool = False) -> Form:
        """What the visitor asked for: a race of the chosen methods, or of the values of one setting of ADED.

        Raises:
            Refused: too few or too many methods, or a field that holds no number or one out of its range.
        """
        named = {name: values[widget] for name, widget in self.widgets.items()}
        named |= {name: parse(name, str(named[name] or ""), self.fields) for name in self.fields}
        aded = {name: named[name] for name in ADED}
        return Form(
            prompt=named["prompt"] or "",
            methods=() if ablation else picker.decode(named["methods"]),
            budget=named["budget"] or "auto",
            numbers={name: named[name] for name in GENERATION},
            options={"aded": {**aded, "keep": aded["keep"] or None}},
            ablation=values[self.axis] if ablation else None,
            link=self.link([values[widget] for widget in self.widgets.values()])
            | ({AXIS: values[self.axis]} if ablation else {}),
        )

    def link(self, values: Sequence[Any]) -> dict[str, str]:
        """The settings as a link names them, from the widgets' values in their order."""
        return link.encode(dict(zip(self.widgets, values)), self.first)

    def opened(self, asked: object, foreign: Collection[str] = ()) -> tuple[list[Any], list[Saying]]:
        """What a link asks for: the widgets' values in their order, the example whose prompt it is, if any, and the axis.

        Returns:
            The values, and a sentence for each one of the link's that cannot be had (see ``link.decode``).
        """
        defaults, choices = {**self.first, AXIS: self.axis.value}, {**CHOICES, AXIS: ABLATIONS}
        opened = link.decode(asked, defaults, choices, foreign, self.fields)
        values = [opened.values[name] for name in self.widgets]
        return [*values, link.example_of(opened.values["prompt"]), opened.values[AXIS]], opened.refused


def create_controls(wording: Wording, fields: Mapping[str, Field] = FIELDS) -> Controls:
    """The form, its buttons, and the notice under them; each number is held to its field."""
    prompt, examples = create_prompt(wording)
    widgets: dict[str, Any] = {"prompt": prompt, "methods": create_methods()}
    start, stop, notice = create_run(wording)
    widgets |= create_settings(wording, fields)
    with wording.label(gr.Accordion, "control.aded", open=False):
        widgets |= create_aded(wording)
        forget = create_button(wording, "control.forget", elem_id="ax-forget", size="sm")
    with wording.label(gr.Accordion, "control.ablation", open=False) as ablation:
        axis, ablate = create_ablation(wording)
    return Controls(widgets, examples, start, stop, notice, axis, ablate, ablation, forget, fields)


def create_prompt(wording: Wording) -> tuple[gr.Textbox, gr.Dropdown]:
    examples = link.examples()
    first = next(iter(examples))
    prompt = wording.label(gr.Textbox, "control.prompt", value=examples[first], lines=4, max_lines=14, elem_id="ax-prompt")
    pick = create_list(wording, "control.examples", {name: f"example.{name}" for name in examples}, elem_id="ax-examples")
    quiet: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    chosen = f"(name, prompt) => window.AdedExplorer.lists.chose('ax-examples') ? {json.dumps(examples)}[name] ?? prompt : prompt"
    pick.input(None, [pick, prompt], prompt, js=chosen, **quiet)
    prompt.change(link.example_of, prompt, pick, trigger_mode="always_last", **quiet)
    return prompt, pick


def create_list(wording: Wording, key: str, names: Mapping[str, str], **settings: Any) -> gr.Dropdown:
    """A list of names, the first one chosen; each is shown by the words of its key, or as it is where there are none."""

    def words(language: str) -> dict[str, Any]:
        return {"label": say(key, language), "choices": [(say_or(own, name, language), name) for name, own in names.items()]}

    return wording.add(gr.Dropdown(value=next(iter(names), None), **settings, **words(FALLBACK)), words)


def create_methods() -> gr.HTML:
    return theme.panel("picker", "picker.mountPicker(element, props, watch);", picker.encode(picker.DEFAULT))


def create_run(wording: Wording) -> tuple[gr.Button, gr.Button, gr.HTML]:
    with gr.Row(elem_id="ax-run-row"):
        start = create_button(wording, "control.run", variant="primary", elem_id="ax-run", min_width=0)
        stop = create_button(wording, "control.stop", elem_id="ax-stop", min_width=0, interactive=False)
    return start, stop, theme.panel("notice", "notice.mountNotice(element, props, watch, true);")


def create_button(wording: Wording, key: str, **settings: Any) -> gr.Button:
    return wording.add(gr.Button(say(key), **settings), lambda language: {"value": say(key, language)})


def create_settings(wording: Wording, fields: Mapping[str, Field]) -> dict[str, Any]:
    tokens = f"{min(USUAL_TOKENS, fields['max_new_tokens'].most):g}"
    first = {"max_new_tokens": tokens, "budget": "auto", "temperature": "0"}
    widgets = {name: create_number(name, value, fields[name]) for name, value in first.items()}
    with wording.label(gr.Accordion, "control.sampling", open=False):
        sampling = {"top_p": "1", "top_k": "0", "seed": "0"}
        return widgets | {name: create_number(name, value, fields[name]) for name, value in sampling.items()}


def create_aded(wording: Wording) -> dict[str, Any]:
    """A widget for each setting of ADED, two side by side."""
    widgets: dict[str, Any] = {}
    for at in range(0, len(ADED), 2):
        with gr.Row(elem_classes="ax-two"):
            widgets |= {name: create_setting(wording, name) for name in ADED[at : at + 2]}
    return widgets


def create_setting(wording: Wording, name: str) -> Any:
    """A list where there are words to choose from, a field for a number, else a box to tick for what is on or off."""
    if name in FIELDS:
        return create_number(name, "", FIELDS[name])
    settings: dict[str, Any] = {"elem_id": f"ax-{name}", "min_width": 0}
    words = aded_words(name, FALLBACK)
    if name in CHOICES:
        widget = gr.Dropdown(value=CHOICES[name][0], **settings, **words)
    else:
        widget = gr.Checkbox(value=False, **settings, **words)
    return wording.add(widget, lambda language: aded_words(name, language))


def create_number(name: str, value: str, field: Field) -> gr.HTML:
    """A field for a number, whose value is text, and a slider where it has notches."""
    about = json.dumps({"name": name, **asdict(field)})
    mount = f"number.mountNumber(element, props, watch, {about});"
    return theme.panel("number", mount, value, elem_id=f"ax-{name.replace('_', '-')}", min_width=0)


def aded_words(name: str, language: str) -> dict[str, Any]:
    """A setting's label and, in words, its choices."""
    label = say(f"control.{name}", language)
    if name not in CHOICES:
        return {"label": label}
    named = [(say(f"choice.{word}" if word else "control.default", language), word) for word in CHOICES[name]]
    return {"label": label, "choices": named}


def create_ablation(wording: Wording) -> tuple[gr.Dropdown, gr.Button]:
    def words(language: str) -> dict[str, Any]:
        choices = [(say(f"control.{name}", language), name) for name in ABLATIONS]
        return {"label": say("control.axis", language), "choices": choices, "info": say("control.axis.info", language)}

    axis = wording.add(gr.Dropdown(value=ABLATIONS[0], elem_id="ax-axis", **words(FALLBACK)), words)
    return axis, create_button(wording, "control.ablate", elem_id="ax-ablate")

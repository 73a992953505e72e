"""The controls next to the race: widgets, their labels, and the form made from their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr

from aded.core import limits
from aded.core.trace import Race
from aded.drafters.aded_options import AdedOptions
from aded.drafters.registry import CORPORA, METHODS
from ui import link, picker, theme
from ui.numbers import FIELDS, Field, parse
from ui.race.form import ABLATIONS, SWITCHED, SWITCHES, Form
from ui.words import FALLBACK, Message, say, say_or

ADED = tuple(name for name in METHODS["aded"].options if name != "matrix")
"""Settings of ADED; visitors cannot choose its matrix file."""
GENERATION = tuple(name for name in FIELDS if name not in ADED and name != "budget")
"""Numbers that apply to all methods."""
DEFAULT_TOKENS = 96
"""Default of new tokens, if the server's limit allows it."""
DEFAULT_BUDGET = "24"
"""Default draft budget: with ``auto``, a small model on a CPU often drafts nothing, and there is no tree to look at."""
CHOICES: dict[str, tuple[str, ...]] = {
    "preset": ("tuned", "paper"),
    "search": ("", "mcts", "best-first", "greedy", "full"),
    "corpus": ("", *CORPORA),
    **dict.fromkeys(SWITCHED, ("", *SWITCHES)),
}
"""Settings that are selected from a list; the empty string is the preset's value."""


def settings_of(race: Race) -> dict[str, str]:
    """The settings with which a race was run, as in a link."""
    header = race.lanes[0].header
    values = {"prompt": header.prompt, "methods": ",".join(dict.fromkeys(run.header.method for run in race.lanes))}
    values |= {name: _as_text(header.settings[name]) for name in (*GENERATION, "budget") if name in header.settings}
    used = next((run.header.method_settings for run in race.lanes if run.header.method == "aded"), {})
    preset = AdedOptions.paper() if used.get("preset") == "paper" else AdedOptions.tuned()
    own = {name: used[name] for name in ("search", *limits.ADED) if name in used and used[name] != getattr(preset, name)}
    own |= {"preset": "paper"} if used.get("preset") == "paper" else {}
    own |= {"corpus": "none"} if used.get("base_matrix") is False else {}
    for name in SWITCHED:
        if used.get(name, getattr(preset, name)) != getattr(preset, name):
            own[name] = "on" if used[name] else "off"
    return values | {name: _as_text(value) for name, value in own.items()}


def _as_text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


AXIS = "ablation"
"""Name in links of the setting that an ablation varies."""


class Localizer:
    """Gradio's widgets and their texts in a language, which the browser cannot replace."""

    def __init__(self) -> None:
        self._widgets: list[tuple[Any, Callable[[str], dict[str, Any]]]] = []

    def label(self, make: Any, key: str, **settings: Any) -> Any:
        """A new widget with the label of this key."""
        return self.add(make(label=say(key), **settings), lambda language: {"label": say(key, language)})

    def add(self, widget: Any, properties: Callable[[str], dict[str, Any]]) -> Any:
        self._widgets.append((widget, properties))
        return widget

    @property
    def widgets(self) -> list[Any]:
        return [widget for widget, _ in self._widgets]

    def updates(self, language: str) -> list[Any]:
        """Updates of all widgets for a language, in their order."""
        return [gr.update(**properties(language)) for _, properties in self._widgets]


@dataclass(frozen=True)
class Controls:
    """The widgets whose values make a ``Form``, by their names in links, and the buttons.

    Attributes:
        start, ablate: buttons that start a race, of the selected methods or of the values of ``axis``.
        stop: button that ends it.
        ablation: accordion that contains ``axis`` and ``ablate``.
        forget: button that deletes what drafters have learned.
        fields: ranges of the numbers.
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
        """The visitor's request: a race of the selected methods, or of the values of one setting of ADED.

        Raises:
            Refused: too few or too many methods, or an invalid number.
        """
        by_name = {name: values[widget] for name, widget in self.widgets.items()}
        by_name |= {name: parse(name, str(by_name[name] or ""), self.fields) for name in self.fields}
        aded = {name: by_name[name] for name in ADED}
        return Form(
            prompt=by_name["prompt"] or "",
            methods=() if ablation else picker.decode(by_name["methods"]),
            budget=by_name["budget"] or "auto",
            numbers={name: by_name[name] for name in GENERATION},
            options={"aded": {**aded, "keep": aded["keep"] or None}},
            ablation=values[self.axis] if ablation else None,
            link=self.link([values[widget] for widget in self.widgets.values()])
            | ({AXIS: values[self.axis]} if ablation else {}),
        )

    def link(self, values: Sequence[Any]) -> dict[str, str]:
        """The settings for a link, from the widgets' values in their order."""
        return link.encode(dict(zip(self.widgets, values)), self.first)

    def link_values(self, asked: object, foreign: Collection[str] = ()) -> tuple[list[Any], list[Message]]:
        """What a link asks for: the widgets' values in their order, the example with its prompt, if any, and the axis.

        Returns:
            The values, and a message for each invalid part of the link (see ``link.decode``).
        """
        defaults, choices = {**self.first, AXIS: self.axis.value}, {**CHOICES, AXIS: ABLATIONS}
        found = link.decode(asked, defaults, choices, foreign, self.fields)
        values = [found.values[name] for name in self.widgets]
        return [*values, link.example_of(found.values["prompt"]), found.values[AXIS]], found.refused


def create_controls(
    localizer: Localizer, buttons: tuple[gr.Button, gr.Button], notice: gr.HTML, fields: Mapping[str, Field] = FIELDS
) -> Controls:
    """The form, in three columns: prompt, methods, settings; numbers are limited by ``fields``."""
    with gr.Column(min_width=0):
        prompt, examples = create_prompt(localizer)
        with localizer.label(gr.Accordion, "control.ablation", open=False, elem_id="ax-ablation") as ablation:
            axis, ablate = create_ablation(localizer)
    with gr.Column(min_width=0):
        widgets: dict[str, Any] = {"prompt": prompt, "methods": create_methods()}
    with gr.Column(min_width=0):
        widgets |= create_settings(localizer, fields)
        with localizer.label(gr.Accordion, "control.aded", open=False):
            widgets |= create_aded(localizer)
            forget = create_button(localizer, "control.forget", elem_id="ax-forget", size="sm")
        create_button(localizer, "control.close", elem_id="ax-close", size="sm")
    return Controls(widgets, examples, *buttons, notice, axis, ablate, ablation, forget, fields)


def create_prompt(localizer: Localizer) -> tuple[gr.Textbox, gr.Dropdown]:
    examples = link.examples()
    first = next(iter(examples))
    prompt = localizer.label(gr.Textbox, "control.prompt", value=examples[first], lines=4, max_lines=14, elem_id="ax-prompt")
    pick = create_list(localizer, "control.examples", {name: f"example.{name}" for name in examples}, elem_id="ax-examples")
    quiet: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    chosen = f"(name, prompt) => window.AdedExplorer.wasChosen('ax-examples') ? {json.dumps(examples)}[name] ?? prompt : prompt"
    pick.input(None, [pick, prompt], prompt, js=chosen, **quiet)
    prompt.change(link.example_of, prompt, pick, trigger_mode="always_last", **quiet)
    return prompt, pick


def create_list(localizer: Localizer, key: str, names: Mapping[str, str], **settings: Any) -> gr.Dropdown:
    """A dropdown of names with the first one selected; each is shown as the text of its key, or unchanged without one."""

    def words(language: str) -> dict[str, Any]:
        return {"label": say(key, language), "choices": [(say_or(own, name, language), name) for name, own in names.items()]}

    return localizer.add(gr.Dropdown(value=next(iter(names), None), **settings, **words(FALLBACK)), words)


def create_methods() -> gr.HTML:
    return theme.panel("picker", "mountPicker(element, props, watch);", picker.encode(picker.DEFAULT))


def create_run(localizer: Localizer) -> tuple[gr.Button, gr.Button]:
    """The buttons that start and stop a race."""
    with gr.Row(elem_id="ax-run-row"):
        start = create_button(localizer, "control.run", variant="primary", elem_id="ax-run", min_width=0)
        return start, create_button(localizer, "control.stop", elem_id="ax-stop", min_width=0, interactive=False)


def create_button(localizer: Localizer, key: str, **settings: Any) -> gr.Button:
    return localizer.add(gr.Button(say(key), **settings), lambda language: {"value": say(key, language)})


def create_settings(localizer: Localizer, fields: Mapping[str, Field]) -> dict[str, Any]:
    tokens = f"{min(DEFAULT_TOKENS, fields['max_new_tokens'].maximum):g}"
    first = {"max_new_tokens": tokens, "budget": DEFAULT_BUDGET, "temperature": "0"}
    widgets = {name: create_number(name, value, fields[name]) for name, value in first.items()}
    with localizer.label(gr.Accordion, "control.sampling", open=False):
        sampling = {"top_p": "1", "top_k": "0", "seed": "0"}
        return widgets | {name: create_number(name, value, fields[name]) for name, value in sampling.items()}


def create_aded(localizer: Localizer) -> dict[str, Any]:
    """A widget for each setting of ADED, two side by side."""
    widgets: dict[str, Any] = {}
    for at in range(0, len(ADED), 2):
        with gr.Row(elem_classes="ax-two"):
            widgets |= {name: create_setting(localizer, name) for name in ADED[at : at + 2]}
    return widgets


def create_setting(localizer: Localizer, name: str) -> Any:
    """A dropdown for a setting with fixed values, a number field for a number, else a checkbox."""
    if name in FIELDS:
        return create_number(name, "", FIELDS[name])
    settings: dict[str, Any] = {"elem_id": f"ax-{name}", "min_width": 0}
    words = aded_words(name, FALLBACK)
    if name in CHOICES:
        widget = gr.Dropdown(value=CHOICES[name][0], **settings, **words)
    else:
        widget = gr.Checkbox(value=False, **settings, **words)
    return localizer.add(widget, lambda language: aded_words(name, language))


def create_number(name: str, value: str, field: Field) -> gr.HTML:
    """A number field, whose value is text, with a slider if it has ticks."""
    properties = json.dumps({"name": name, **asdict(field)})
    mount = f"mountNumber(element, props, watch, {properties});"
    return theme.panel("number", mount, value, elem_id=f"ax-{name.replace('_', '-')}", min_width=0)


def aded_words(name: str, language: str) -> dict[str, Any]:
    """The label of a setting and its choices."""
    label = say(f"control.{name}", language)
    if name not in CHOICES:
        return {"label": label}
    by_name = [(say(f"choice.{word}" if word else "control.default", language), word) for word in CHOICES[name]]
    return {"label": label, "choices": by_name}


def create_ablation(localizer: Localizer) -> tuple[gr.Dropdown, gr.Button]:
    def words(language: str) -> dict[str, Any]:
        choices = [(say(f"control.{name}", language), name) for name in ABLATIONS]
        return {"label": say("control.axis", language), "choices": choices, "info": say("control.axis.info", language)}

    axis = localizer.add(gr.Dropdown(value=ABLATIONS[0], elem_id="ax-axis", **words(FALLBACK)), words)
    return axis, create_button(localizer, "control.ablate", elem_id="ax-ablate")

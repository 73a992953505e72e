"""The page as a table of contents: one ``create_*`` a panel, and the events that connect them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from aded import trace
from aded.errors import AdedError
from aded.methods import METHODS
from aded.trace import Race
from ui import picker, theme
from ui.models import ModelHolder
from ui.run import Engine, Form, Notice, Session, Update, failed, run
from ui.wire import Colours, check_drawable, whole

COLOURS: Colours = {name: (method.colour, method.colour_dark) for name, method in METHODS.items()}
PRESET_DEFAULT = "as the preset"

log = logging.getLogger(__name__)


def create_panel(name: str, mount: str, value: str | None = None, **settings: Any) -> gr.HTML:
    """Static markup whose script draws the value, a JSON string: no token ever passes through a template.

    (Not a subclass of ``gr.HTML``: Gradio would write an interface file beside the source of one.)
    """
    return gr.HTML(
        value=value,
        html_template=theme.template(name),
        js_on_load=f"{theme.script()}\nmodules.{mount}",
        apply_default_css=False,
        elem_id=f"ax-{name}",
        **settings,
    )


@dataclass(frozen=True)
class Controls:
    """The widgets whose values make a ``Form``."""

    prompt: gr.Textbox
    methods: gr.HTML
    budget: gr.Textbox
    numbers: dict[str, gr.Number | gr.Slider]
    search: dict[str, Any]

    @property
    def all(self) -> set[Any]:
        return {self.prompt, self.methods, self.budget, *self.numbers.values(), *self.search.values()}

    def form(self, values: dict[Any, Any]) -> Form:
        """What the visitor asked for.

        Raises:
            AdedError: too few or too many methods.
        """
        search = {name: values[widget] for name, widget in self.search.items() if values[widget] != PRESET_DEFAULT}
        return Form(
            prompt=values[self.prompt] or "",
            methods=picker.decode(values[self.methods]),
            budget=values[self.budget] or "auto",
            numbers={name: values[widget] for name, widget in self.numbers.items()},
            options={"aded": search},
        )


def build(holder: ModelHolder) -> gr.Blocks:
    """The whole page; nothing of the engine is imported until Run is pressed."""
    recorded = load_recorded(theme.ASSETS / "traces")
    with gr.Blocks(title="ADED Explorer", analytics_enabled=False, fill_width=True) as page:
        session = gr.State(Session())
        create_header()
        with gr.Row(elem_id="ax-frame"):
            with gr.Column(elem_id="ax-controls", scale=0, min_width=0):
                prompt = create_prompt()
                methods = create_methods()
                start, stop, notice = create_run()
                numbers, budget = create_settings()
                search = create_search()
                choice, upload = create_recorded(recorded)
            with gr.Column(elem_id="ax-stage", min_width=0):
                view = create_view(recorded)
        controls = Controls(prompt, methods, budget, numbers, search)
        connect_run(controls, session, holder, start, stop, view, notice)
        connect_recorded(recorded, choice, upload, view, notice)
        page.load(lambda: known(holder), None, methods, queue=False, show_progress="hidden", api_visibility="private")
    return page


def create_header() -> None:
    create_panel("header", "header.mountHeader(element);")


def create_prompt() -> gr.Textbox:
    examples = json.loads((theme.ASSETS / "prompts" / "examples.json").read_text("utf-8"))
    by_name = {example["name"]: example["prompt"] for example in examples}
    prompt = gr.Textbox(examples[0]["prompt"], label="Prompt", lines=4, max_lines=14, elem_id="ax-prompt")
    pick = gr.Dropdown(list(by_name), value=examples[0]["name"], label="Example prompts", elem_id="ax-examples")
    pick.input(lambda name: by_name[name], pick, prompt, queue=False, show_progress="hidden", api_visibility="private")
    return prompt


def create_methods() -> gr.HTML:
    return create_panel("picker", "picker.mountPicker(element, props, watch);", picker.encode(picker.DEFAULT))


def known(holder: ModelHolder) -> Any:
    """What a model that is loaded already cannot run, for a page that was opened since."""
    return picker.encode(None, Engine().unavailable(holder.model)) if holder.loaded else gr.skip()


def create_run() -> tuple[gr.Button, gr.Button, gr.HTML]:
    with gr.Row(elem_id="ax-run-row"):
        start = gr.Button("Run", variant="primary", elem_id="ax-run", min_width=0)
        stop = gr.Button("Stop", interactive=False, elem_id="ax-stop", min_width=0)
    return start, stop, create_panel("notice", "notice.mountNotice(element, props, watch);")


def create_settings() -> tuple[dict[str, gr.Number | gr.Slider], gr.Textbox]:
    tokens = gr.Number(96, label="New tokens, at most", precision=None, elem_id="ax-max-new-tokens")
    budget = gr.Textbox("auto", label="Draft budget in nodes", max_lines=1, elem_id="ax-budget")
    temperature = gr.Slider(0, 2, value=0, step=0.05, label="Temperature", elem_id="ax-temperature")
    with gr.Accordion("Sampling", open=False):
        numbers: dict[str, gr.Number | gr.Slider] = {
            "max_new_tokens": tokens,
            "temperature": temperature,
            "top_p": gr.Slider(0.05, 1, value=1, step=0.05, label="Top-p (1: off)"),
            "top_k": gr.Number(0, label="Top-k (0: off)", precision=None),
            "seed": gr.Number(0, label="Seed", precision=None),
        }
    return numbers, budget


def create_search() -> dict[str, Any]:
    with gr.Accordion("ADED's search", open=False):
        return {
            "preset": gr.Dropdown([("tuned", "tuned"), ("as published", "paper")], value="tuned", label="Preset"),
            "search": gr.Dropdown([PRESET_DEFAULT, "mcts", "best-first", "greedy", "full"], value=PRESET_DEFAULT, label="Search"),
            "simulations": gr.Textbox("", label="Simulations", placeholder=PRESET_DEFAULT, max_lines=1),
            "c1": gr.Textbox("", label="c₁, weight of the prior", placeholder=PRESET_DEFAULT, max_lines=1),
        }


def create_recorded(recorded: dict[str, Race]) -> tuple[gr.Dropdown, gr.UploadButton]:
    names = list(recorded)
    choice = gr.Dropdown(names, value=names[0] if names else None, label="Recorded races", elem_id="ax-recorded")
    return choice, gr.UploadButton("Open a saved race", file_types=[".json"], file_count="single", elem_id="ax-open")


def create_view(recorded: dict[str, Race]) -> gr.HTML:
    first = next(iter(recorded.items()), None)
    value = whole(first[1], COLOURS, "recorded", first[0]) if first else None
    mount = f"main.mountRace(element, props, watch, {json.dumps(theme.plotly_url())});"
    return create_panel("race", mount, value, min_height=600)


def load_recorded(folder: Path) -> dict[str, Race]:
    """The bundled races by title, in the order of their file names; a damaged one is left out and said in the log."""
    races = {}
    for file in sorted(folder.glob("*.json")):
        try:
            races[title_of(file)] = trace.load(file)
        except AdedError as error:
            log.warning("%s: %s", file.name, error)
    return races


def title_of(file: Path) -> str:
    """``01-a-short_story.json`` is "A short story"."""
    words = file.stem.lstrip("0123456789-_ ").replace("-", " ").replace("_", " ") or file.stem
    return words[:1].upper() + words[1:]


def connect_run(
    controls: Controls, session: gr.State, holder: ModelHolder, start: gr.Button, stop: gr.Button, view: gr.HTML, notice: gr.HTML
) -> None:
    outputs = [view, notice, start, stop, controls.methods]

    def announce(state: Session) -> list[Any]:
        state.stop.clear()
        waiting = "Waiting for the model: one race runs at a time."
        return to_page(Update(notice=Notice("busy", waiting)))

    def race(values: dict[Any, Any]) -> Iterator[list[Any]]:
        try:
            form = controls.form(values)
        except AdedError as error:
            yield to_page(failed(error))
            return
        for update in run(form, values[session], holder, COLOURS):
            yield to_page(update)

    def halt(state: Session) -> list[Any]:
        state.stop.set()
        return [encode(Notice("busy", "Stopping after this step…")), gr.update(interactive=False)]

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    begun = start.click(announce, session, outputs, queue=False, trigger_mode="once", **quiet)
    begun.then(race, controls.all | {session}, outputs, concurrency_limit=1, concurrency_id="model", **quiet)
    stop.click(halt, session, [notice, stop], queue=False, **quiet)


def connect_recorded(
    recorded: dict[str, Race], choice: gr.Dropdown, upload: gr.UploadButton, view: gr.HTML, notice: gr.HTML
) -> None:
    def show(name: str) -> list[Any]:
        return [whole(recorded[name], COLOURS, "recorded", name), encode(Notice("", ""))]

    def open_file(path: str) -> list[Any]:
        try:
            race = trace.load(path)
            check_drawable(race)
            return [whole(race, COLOURS, "file", Path(path).name), encode(Notice("", ""))]
        except AdedError as error:
            return [gr.skip(), encode(Notice("error", f"{Path(path).name}: {error}"))]

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    choice.input(show, choice, [view, notice], **quiet)
    upload.upload(open_file, upload, [view, notice], **quiet)


def to_page(update: Update) -> list[Any]:
    """View, notice, Run, Stop, methods."""
    return [
        gr.skip() if update.view is None else update.view,
        gr.skip() if update.notice is None else encode(update.notice),
        gr.update(interactive=not update.running),
        gr.update(interactive=update.running),
        gr.skip() if update.unavailable is None else picker.encode(None, update.unavailable),
    ]


def encode(notice: Notice) -> str:
    return json.dumps({"kind": notice.kind, "text": notice.text, "fraction": notice.fraction})

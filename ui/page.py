"""The page: its panels, and the events that connect them."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import gradio as gr

from aded.core import trace
from aded.core.errors import AdedError
from aded.evaluation.colours import METHOD_COLOURS
from ui import picker, theme
from ui.blocks import Page
from ui.controls import AXIS, Controls, Localizer, create_controls, create_list
from ui.form import ABLATIONS
from ui.numbers import fields_for
from ui.run import Notice, Update, failed
from ui.serving.endpoints import add_endpoints
from ui.serving.service import Service
from ui.serving.sessions import Session
from ui.wire import Colours, to_lines
from ui.words import Message, cut, word

COLOURS: Colours = METHOD_COLOURS
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
ENDED = "() => [true, true, false, true].map(interactive => ({ __type__: 'update', interactive }))"
"""Enables controls after a race, also if its end was not received: two buttons that start, one that stops, the list of races."""
NOTHING = Notice("", [])
STATUS_SECONDS = 5

log = logging.getLogger(__name__)


def build(service: Service) -> Page:
    """The whole page; the engine is not imported until Run is pressed."""
    recorded, localizer = load_recorded(theme.ASSETS / "traces"), Localizer()
    with Page(title="ADED Explorer", analytics_enabled=False, fill_width=True) as page:
        header = theme.panel("header", "header.mountHeader(element, props, watch, trigger);")
        with gr.Row(elem_id="ax-frame"):
            with gr.Column(elem_id="ax-controls", scale=0, min_width=0):
                controls = create_controls(localizer, fields_for(service.limits.max_new_tokens))
                choice = create_recorded(recorded, localizer)
                status = create_status()
            with gr.Column(elem_id="ax-stage", min_width=0):
                view = create_view(recorded)
                experiment = create_experiment()
        ends = connect_run(controls, service, view, experiment, choice)
        connect_recorded(recorded, choice, view, controls.notice)
        connect_link(controls, recorded, header, choice, view)
        connect_language(header, localizer)
        connect_status(page, service, status, ends)
        page.load(lambda: unavailable_methods(service), None, controls.widgets["methods"], queue=False, **QUIET)
        add_endpoints(service)
    return page


def unavailable_methods(service: Service) -> Any:
    """The picker's value with the methods that cannot run on the loaded model, for a page that is opened later."""
    holder = service.models.first
    return picker.encode(None, service.engine.unavailable(holder.model)) if holder.loaded else gr.skip()


def key_of(request: gr.Request) -> str:
    """Identifies a visitor's tab."""
    return str(request.session_hash)


def create_recorded(recorded: dict[str, str], localizer: Localizer) -> gr.Dropdown:
    return create_list(localizer, "control.recorded", {title: f"title.{title}" for title in recorded}, elem_id="ax-recorded")


def create_view(recorded: dict[str, str]) -> gr.HTML:
    script = "window.AdedExplorer"
    mount = f"main.mountRace(element, props, watch, {json.dumps(theme.plotly_url())}, {script}.standalone.standalone);"
    mount += f" {script}.connection.keepConnected(); {script}.dropdowns.fixDropdowns(document, trigger);"
    mount += f" {script}.runfocus.keepRunFocus(document.getElementById('ax-controls') || document.body);"
    mount += f" {script}.fields.adjustFields(document.getElementById('ax-controls') || document.body);"
    return theme.panel("race", mount, next(iter(recorded.values()), None), min_height=600)


def create_status() -> gr.HTML:
    """The server's status line: a notice that screen readers do not announce at every change."""
    quiet = theme.template("notice").replace(' role="status" aria-live="polite"', "")
    mount = "window.AdedExplorer.notice.mountNotice(element, props, watch);"
    return gr.HTML(html_template=quiet, js_on_load=mount, apply_default_css=False, elem_id="ax-status")


def create_experiment() -> gr.HTML:
    mount = f"experiment.mountExperiment(element, props, watch, {json.dumps(theme.plotly_url())}, trigger);"
    return theme.panel("experiment", mount)


def load_recorded(folder: Path) -> dict[str, str]:
    """The bundled races as JSON lines, by title, in the order of their file names.

    A damaged file is left out and logged.
    """
    races = {}
    for file in sorted(folder.glob("*.json")):
        title = title_of(file)
        try:
            races[title] = to_lines(trace.load(file), COLOURS, "recorded", title)
        except AdedError as error:
            log.warning("%s: %s", file.name, error)
    return races


def title_of(file: Path) -> str:
    """``01-a-short_story.json`` becomes "A short story"."""
    words = file.stem.lstrip("0123456789-_ ").replace("-", " ").replace("_", " ") or file.stem
    return words[:1].upper() + words[1:]


def connect_run(controls: Controls, service: Service, view: gr.HTML, experiment: gr.HTML, choice: gr.Dropdown) -> list[Any]:
    """Starting, stopping and forgetting: races of methods and ablations; returns the ends of both kinds of races."""
    buttons = [controls.start, controls.ablate, controls.stop]
    outputs = [view, controls.notice, *buttons, controls.widgets["methods"], choice]
    inputs = {*controls.widgets.values(), controls.axis}

    def session_of(request: gr.Request) -> Session:
        return service.sessions.get(key_of(request))

    def begin(request: gr.Request) -> list[Any]:
        session_of(request).begin()
        return to_page(Update(notice=Notice("busy", [("notice.waiting", {})])))

    async def race(ablation: bool, values: dict[Any, Any], session: Session) -> AsyncGenerator[list[Any], None]:
        try:
            form = controls.form(values, ablation)
        except AdedError as error:
            yield to_page(failed(error))
            return
        async with aclosing(service.race(session, form, COLOURS)) as updates:
            async for update in updates:
                yield to_page(update)

    async def race_methods(values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[list[Any], None]:
        async with aclosing(race(False, values, session_of(request))) as changes:
            async for outputs in changes:
                yield outputs

    async def race_values(values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[list[Any], None]:
        async with aclosing(race(True, values, session_of(request))) as changes:
            async for outputs in changes:
                yield outputs

    def stop(request: gr.Request) -> list[Any]:
        session_of(request).stop()
        return [encode(Notice("busy", [("notice.stopping", {})])), gr.update(interactive=False)]

    def forget(request: gr.Request) -> str:
        session_of(request).memories.clear()
        return encode(Notice("info", [("notice.forgotten", {})]))

    ends = []
    for button, runs in ((controls.start, race_methods), (controls.ablate, race_values)):
        started = button.click(begin, None, outputs, queue=False, trigger_mode="once", **QUIET)
        ended = started.then(runs, inputs, outputs, concurrency_limit=None, **QUIET)
        ends.append(ended.then(None, None, [*buttons, choice], js=ENDED, **QUIET))
    controls.stop.click(stop, None, [controls.notice, controls.stop], queue=False, **QUIET)
    gr.on([controls.forget.click, experiment.clear], forget, None, controls.notice, queue=False, **QUIET)
    return ends


def connect_status(page: gr.Blocks, service: Service, status: gr.HTML, ends: list[Any]) -> None:
    """Update the status line when the page opens, at intervals, and at the end of each race."""

    def update() -> str:
        return encode(service.status())

    page.load(update, None, status, queue=False, **QUIET)
    gr.Timer(STATUS_SECONDS).tick(update, None, status, queue=False, **QUIET)
    for end in ends:
        end.then(update, None, status, queue=False, **QUIET)


def connect_recorded(recorded: dict[str, str], choice: gr.Dropdown, view: gr.HTML, notice: gr.HTML) -> None:
    """Show another race; the dropdown has no selection while the race is from a file."""

    def show(event: gr.EventData) -> list[Any]:
        title = event_value(event, "race")
        return [recorded[title], encode(NOTHING)] if isinstance(title, str) and title in recorded else [gr.skip(), gr.skip()]

    choice.input(None, choice, None, js="title => window.AdedExplorer.dropdowns.chooseRace(title)", **QUIET)
    view.select(show, None, [view, notice], trigger_mode="always_last", **QUIET)
    view.upload(None, None, choice, js="() => [null]", **QUIET)


def connect_link(controls: Controls, recorded: dict[str, str], header: gr.HTML, choice: gr.Dropdown, view: gr.HTML) -> None:
    """Changed settings go into the address; an opened link fills the controls and shows its race, but runs nothing."""
    widgets = list(controls.widgets.values())

    def follow(*values: Any) -> Any:
        """While the server's picker rows leave the selection to the browser, the link stays unchanged."""
        methods = dict(zip(controls.widgets, values))["methods"]
        return gr.skip() if picker.undecided(methods) else json.dumps({"settings": controls.link(values)})

    def open_link(event: gr.EventData) -> list[Any]:
        """An open page (``again``) only returns to links that it has made itself."""
        asked = event_value(event, "link")
        title = asked.get("race") if isinstance(asked, dict) else None
        values, refused = controls.link_values(asked, foreign(event))
        shown: list[Any] = [gr.skip(), gr.skip()]
        settings = controls.link(values[: len(widgets)])
        runs = not event_value(event, "again") and (settings or (isinstance(asked, dict) and "run" in asked))
        notice_shown = Notice("info", [start_hint(asked)]) if runs else NOTHING
        unfold = gr.update(open=True) if notice_shown != NOTHING and of_ablation(asked) else gr.skip()
        if isinstance(title, str) and title in recorded:
            shown, notice_shown = [title, recorded[title]], NOTHING
        elif isinstance(title, str):
            refused = [("link.race", {"value": cut(title), "list": word("control.recorded")}), *refused]
        note = json.dumps({"settings": settings, "messages": refused, "visit": visit_of(event)})
        return [*values, *shown, encode(notice_shown), unfold, note]

    outputs = [*widgets, controls.examples, controls.axis, choice, view, controls.notice, controls.ablation, header]
    gr.on([widget.change for widget in widgets], follow, widgets, header, queue=False, trigger_mode="always_last", **QUIET)
    header.submit(open_link, None, outputs, queue=False, trigger_mode="multiple", **QUIET)


def start_hint(link: object) -> Message:
    """How to start the race of an opened link."""
    if of_ablation(link):
        return "notice.link.ablation", {"ablate": word("control.ablate"), "ablation": word("control.ablation")}
    return "notice.link", {}


def of_ablation(link: object) -> bool:
    """Whether a link is to an ablation."""
    return isinstance(link, dict) and "run" in link and link.get(AXIS) in ABLATIONS


def visit_of(event: gr.EventData) -> int | None:
    """Number of the opened link, so that two equal answers in a row differ."""
    visit = event_value(event, "visit")
    return visit if isinstance(visit, int) else None


def foreign(event: gr.EventData) -> list[str]:
    """Names in the address that may belong to something else."""
    names = event_value(event, "foreign")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def connect_language(header: gr.HTML, localizer: Localizer) -> None:
    def speak(event: gr.EventData) -> list[Any]:
        return localizer.updates(str(event_value(event, "language")))

    header.select(speak, None, localizer.widgets, queue=False, **QUIET)


def event_value(event: gr.EventData, name: str) -> object:
    """A value that a browser sent with an event: anything."""
    data = event._data
    return data.get(name) if isinstance(data, dict) else None


def to_page(update: Update) -> list[Any]:
    """View, notice, buttons that start and stop a race, methods, and the list of recorded races."""
    return [
        gr.skip() if update.view is None else update.view,
        gr.skip() if update.notice is None else encode(update.notice),
        gr.update(interactive=not update.running),
        gr.update(interactive=not update.running),
        gr.update(interactive=update.running),
        gr.skip() if update.unavailable is None else picker.encode(None, update.unavailable),
        race_chooser(update),
    ]


def race_chooser(update: Update) -> Any:
    """The list of recorded races: disabled while a race runs, which would replace the view again."""
    if update.view is None and update.running:
        return gr.skip()
    chosen = {} if update.view is None else {"value": None}
    return gr.update(**chosen, interactive=not update.running)


def encode(notice: Notice) -> str:
    return json.dumps({"kind": notice.kind, "messages": list(notice.messages), "fraction": notice.fraction})

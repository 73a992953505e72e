"""The page: its panels, and the events that connect them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import gradio as gr
from pydantic import Field, TypeAdapter, ValidationError

from aded.core import trace
from aded.core.errors import AdedError
from aded.evaluation.colours import METHOD_COLOURS
from aded.lessons.checks import race_files
from ui import picker, theme
from ui.blocks import Page
from ui.browser.wire import Colours
from ui.controls import AXIS, Controls, Localizer, create_controls, create_run, settings_of
from ui.numbers import fields_for
from ui.race.conversation import next_turn
from ui.race.form import ABLATIONS, Form
from ui.race.notices import Notice
from ui.race.run import Update, failed
from ui.serving.endpoints import add_endpoints
from ui.serving.service import Service
from ui.serving.sessions import Session
from ui.words import Message, word

COLOURS: Colours = METHOD_COLOURS
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
STOPPING = "() => window.AdedExplorer.emit('notice', { kind: 'busy', messages: [['notice.stopping', {}]], fraction: null })"
"""Shown by the page itself: the server's answer could arrive after the end of the race."""
ENDED = "() => [true, true, false].map(interactive => ({ __type__: 'update', interactive }))"
"""Enables controls after a race, also if its end was not received: two buttons that start, one that stops."""
NOTHING = Notice("", [])
HEADERS: TypeAdapter[list[trace.Header]] = TypeAdapter(Annotated[list[trace.Header], Field(min_length=1, max_length=64)])
STATUS_SECONDS = 5


def build(service: Service) -> Page:
    """The whole page; the engine is not imported until Run is pressed."""
    localizer = Localizer()
    with Page(title="ADED Explorer", analytics_enabled=False, fill_width=True) as page:
        with gr.Row(elem_id="ax-bar"):
            header = theme.panel("header", "mountHeader(element, props, watch, trigger);")
            buttons = create_run(localizer)
        notice = theme.panel("notice", "mountNotice(element, props, watch, true);")
        with gr.Row(elem_id="ax-controls"):
            controls = create_controls(localizer, buttons, notice, fields_for(service.limits.max_new_tokens))
        view = create_view(service.limits.prompt_characters)
        status = create_status()
        ends = connect_run(controls, service, view)
        connect_recorded(view, header, controls)
        connect_link(controls, header)
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


def create_view(prompt_characters: int) -> gr.HTML:
    limits = json.dumps({"promptCharacters": prompt_characters})
    return theme.panel("race", f"mountLiveRace(element, props, watch, trigger, {limits});", min_height=600)


def create_status() -> gr.HTML:
    """The server's status line: a notice that screen readers do not announce at every change."""
    quiet = theme.template("notice").replace(' role="status" aria-live="polite"', "")
    mount = theme.on_load("ax.mountNotice(element, props, watch);")
    return gr.HTML(html_template=quiet, js_on_load=mount, apply_default_css=False, elem_id="ax-status")


def recorded_settings(title: str) -> dict[str, str] | None:
    """The settings of a bundled recorded race, as in a link; None if there is no such race."""
    file = race_files().get(title)
    return None if file is None else _settings_in(file)


@cache
def _settings_in(file: Path) -> dict[str, str]:
    return settings_of(trace.load(file))


def opened_settings(headers: object) -> dict[str, str] | None:
    """The settings of a race from a visitor's file, by the headers of its runs; None if they are not valid."""
    try:
        valid = HEADERS.validate_python(headers)
    except ValidationError:
        return None
    return settings_of(trace.Race([trace.Trace(header) for header in valid]))


def connect_run(controls: Controls, service: Service, view: gr.HTML) -> list[Any]:
    """Starting, stopping and forgetting: races of methods, ablations and next turns; returns the ends of all kinds of races."""
    buttons = [controls.start, controls.ablate, controls.stop]
    outputs = [view, controls.notice, *buttons, controls.widgets["methods"]]
    inputs = {*controls.widgets.values(), controls.axis}

    def session_of(request: gr.Request) -> Session:
        return service.sessions.get(key_of(request))

    def begin(request: gr.Request) -> list[Any]:
        session_of(request).begin()
        return to_page(Update(notice=Notice("busy", [("notice.waiting", {})])))

    async def race(make: Callable[[], Form], session: Session, message: Any = None) -> AsyncGenerator[list[Any], None]:
        try:
            form = make()
        except AdedError as error:
            yield to_page(failed(error))
            return
        async with aclosing(service.race(session, form, COLOURS, message)) as updates:
            async for update in updates:
                yield to_page(update)

    async def race_methods(values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[list[Any], None]:
        async with aclosing(race(lambda: controls.form(values), session_of(request))) as changes:
            async for outputs in changes:
                yield outputs

    async def race_values(values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[list[Any], None]:
        async with aclosing(race(lambda: controls.form(values, ablation=True), session_of(request))) as changes:
            async for outputs in changes:
                yield outputs

    async def race_turn(event: gr.EventData, request: gr.Request) -> AsyncGenerator[list[Any], None]:
        session, holder, message = session_of(request), service.models.first, event_value(event, "message")
        yield begin(request)
        asked = partial(next_turn, session.conversation, event_value(event, "race"), message)
        async with aclosing(race(lambda: asked(holder.loaded and holder.model, service.limits), session, message)) as changes:
            async for outputs in changes:
                yield outputs

    def stop(request: gr.Request) -> None:
        session_of(request).stop()

    def forget(request: gr.Request) -> str:
        session_of(request).forget()
        return encode(Notice("info", [("notice.forgotten", {})]))

    asked = view.submit(race_turn, None, outputs, concurrency_limit=None, trigger_mode="multiple", **QUIET)
    ends = [asked.then(None, None, buttons, js=ENDED, **QUIET)]
    for button, runs in ((controls.start, race_methods), (controls.ablate, race_values)):
        started = button.click(begin, None, outputs, queue=False, trigger_mode="once", **QUIET)
        ended = started.then(runs, inputs, outputs, concurrency_limit=None, **QUIET)
        ends.append(ended.then(None, None, buttons, js=ENDED, **QUIET))
    controls.stop.click(stop, None, None, js=STOPPING, queue=False, **QUIET)
    gr.on([controls.forget.click, view.clear], forget, None, controls.notice, queue=False, **QUIET)
    return ends


def connect_status(page: gr.Blocks, service: Service, status: gr.HTML, ends: list[Any]) -> None:
    """Update the status line when the page opens, at intervals, and at the end of each race."""

    def update() -> str:
        return encode(service.status())

    page.load(update, None, status, queue=False, **QUIET)
    gr.Timer(STATUS_SECONDS).tick(update, None, status, queue=False, **QUIET)
    for end in ends:
        end.then(update, None, status, queue=False, **QUIET)


def connect_recorded(view: gr.HTML, header: gr.HTML, controls: Controls) -> None:
    """The browser loads a recorded race, or opens a file with one; its settings fill the controls."""
    notice, filled = controls.notice, [*controls.widgets.values(), controls.examples, controls.axis]

    def fill(event: gr.EventData) -> list[Any]:
        title, headers = event_value(event, "race"), event_value(event, "headers")
        settings = (recorded_settings(title) if headers is None else opened_settings(headers)) if isinstance(title, str) else None
        if settings is None:
            return [gr.skip()] * (2 + len(filled))
        values, _ = controls.link_values(settings)
        return [encode(NOTHING), *values, filled_note(controls, title, values)]

    # With "always_last", Gradio would send the data of an earlier event again.
    view.select(fill, None, [notice, *filled, header], trigger_mode="multiple", **QUIET)


def filled_note(controls: Controls, title: object, values: Sequence[Any], **more: Any) -> str:
    """For the header: a recorded race has filled the controls with these settings."""
    return json.dumps({"settings": controls.link(values[: len(controls.widgets)]), "messages": [], "filled": title, **more})


def connect_link(controls: Controls, header: gr.HTML) -> None:
    """Changed settings go into the address; an opened link fills the controls, but runs nothing.

    The browser loads the recorded race of a link; its settings are those of the controls if the link has no others.
    """
    widgets = list(controls.widgets.values())

    def follow(*values: Any) -> Any:
        """While the server's picker rows leave the selection to the browser, the link stays unchanged."""
        methods = dict(zip(controls.widgets, values))["methods"]
        return gr.skip() if picker.undecided(methods) else json.dumps({"settings": controls.link(values)})

    def open_link(event: gr.EventData) -> list[Any]:
        """An open page (``again``) only returns to links that it has made itself."""
        asked = event_value(event, "link")
        title = asked.get("race") if isinstance(asked, dict) else None
        own = recorded_settings(title) if isinstance(title, str) else None
        values, refused = controls.link_values({**(own or {}), **asked} if isinstance(asked, dict) else asked, foreign(event))
        settings = controls.link(values[: len(widgets)])
        runs = not event_value(event, "again") and (settings or (isinstance(asked, dict) and "run" in asked))
        notice_shown = Notice("info", [start_hint(asked)]) if runs else NOTHING
        unfold = gr.update(open=True) if notice_shown != NOTHING and of_ablation(asked) else gr.skip()
        visit = {"messages": refused, "visit": visit_of(event)}
        if own is not None:
            note, notice_shown = filled_note(controls, title, controls.link_values(own)[0], **visit), NOTHING
        else:
            note = json.dumps({"settings": settings, **visit})
        return [*values, encode(notice_shown), unfold, note]

    outputs = [*widgets, controls.examples, controls.axis, controls.notice, controls.ablation, header]
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
    """View, notice, buttons that start and stop a race, and methods."""
    return [
        gr.skip() if update.view is None else update.view,
        gr.skip() if update.notice is None else encode(update.notice),
        gr.update(interactive=not update.running),
        gr.update(interactive=not update.running),
        gr.update(interactive=update.running),
        gr.skip() if update.unavailable is None else picker.encode(None, update.unavailable),
    ]


def encode(notice: Notice) -> str:
    return json.dumps(asdict(notice))

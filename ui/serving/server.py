"""The page as a server: Gradio's launch with a gate in front, the counters beside it, and an orderly end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import gradio as gr
from fastapi import Response
from fastapi.routing import APIRoute
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware

from aded.core.errors import AdedError
from aded.core.validation import is_creatable
from ui import theme
from ui.blocks import Page
from ui.page import LARGEST_TRACE, build
from ui.serving import logs, parts
from ui.serving.calls import Calls, Endpoint
from ui.serving.gate import Gate
from ui.serving.service import Service
from ui.serving.tools import answer_tools
from ui.serving.uploads import Uploads

END_SECONDS = 8.0
"""Within which the server has ended once it is told to, whatever its parts do; they share it."""
WORDS_SECONDS = 2.0
"""Of these, at most, for what runs end with to reach those who read them."""
CLOSE_SECONDS = 1.0
"""Of these, at most, for connections to end; those that stay open then are cut."""
POLL_SECONDS = 0.01
"""How often Gradio looks into its queue; by itself it does a thousand times a second."""
THREADS = 40
"""For what is not a run; a run holds a place in Gradio's queue, but no thread."""
SESSIONS = 1000
"""Of which Gradio keeps settings; the oldest is forgotten first."""
FOLDER = "aded-explorer"
"""Name of the folder, in Gradio's own, for what visitors send: in it a folder for each port."""


@dataclass(frozen=True)
class Address:
    """Where to listen, who may show the page in a frame, and below which path a proxy shows it."""

    host: str
    port: int
    frame_ancestors: Sequence[str] = ()
    open_browser: bool = False
    root_path: str = ""


def launch(service: Service, address: Address, tools: bool = True) -> Page:
    """Start serving and come back; ``tools``: offer the endpoints over the Model Context Protocol too.

    Raises:
        AdedError: the address cannot be had, or no folder for temporary files.
    """
    theme.serve_static()
    parts.note()
    uploads = Uploads(own_folder(address.port), LARGEST_TRACE)
    page = build(service)
    page.refused, page.end_uploads = service.counters.refused, uploads.end
    places = service.limits.queue_size + service.limits.at_once + THREADS
    service.unread = lambda stream: unread(page, stream)
    _spare_the_model(page, 2 * places)
    try:
        _launch(page, service, address, uploads, places, tools)
    except OSError:
        raise AdedError(f"cannot listen on {address.host}:{address.port}; give another --port or --host") from None
    answer_tools(page, service, endpoints_of(page))
    return page


def _launch(page: gr.Blocks, service: Service, address: Address, uploads: Uploads, places: int, tools: bool) -> None:
    page.launch(
        server_name=f"[{address.host}]" if ":" in address.host else address.host,  # so that it can be part of an address
        server_port=address.port,
        inbrowser=address.open_browser,
        root_path=address.root_path or None,
        max_threads=places,
        theme=theme.theme(),
        head=theme.head(),
        ssr_mode=False,
        run_history=False,
        enable_monitoring=False,
        footer_links=[],
        allowed_paths=[],
        max_file_size=LARGEST_TRACE,
        state_session_capacity=SESSIONS,
        show_error=True,
        share=False,
        quiet=True,
        mcp_server=tools,
        prevent_thread_lock=True,
        app_kwargs={"routes": routes(service), "middleware": [gate(service, page, uploads, address.frame_ancestors)]},
    )


def own_folder(port: int) -> Path:
    """The folder for what visitors send, as Gradio is told of it: other pages of this machine, on other ports, have others.

    Raises:
        AdedError: no folder can be written to, of which Gradio itself needs one to start.
    """
    folder = Path(get_upload_folder())
    if folder.parent.name == FOLDER and folder.name.isdigit():  # that of a server before, in this process
        folder = folder.parent.parent
    if not is_creatable(folder):
        raise AdedError(f"the page needs a folder for temporary files, and {folder} cannot be written to; set GRADIO_TEMP_DIR")
    folder = folder / FOLDER / str(port)
    os.environ["GRADIO_TEMP_DIR"] = str(folder)
    return folder


def _spare_the_model(page: gr.Blocks, most: int) -> None:
    """Gradio's queue, without what it does by itself on the model's cost: polling, and tables of every past event."""
    for name, value in (("CACHE_FREQUENCY", 1_000_000_000), ("MAX_EVENTS", 100)):
        os.environ.setdefault(f"GRADIO_ANALYTICS_{name}", str(value))
    page.queue(max_size=most, default_concurrency_limit=8)
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = POLL_SECONDS


def unread(page: gr.Blocks, stream: str) -> int:
    """Messages that Gradio holds for a stream."""
    messages = page._queue.pending_messages_per_session
    return messages[stream].qsize() if stream in messages else 0


def readable(page: gr.Blocks, key: str) -> bool:
    """Whether Gradio holds anything for an event or a session, be it what is still to come."""
    queue = page._queue
    if key in queue.pending_messages_per_session or key in queue.event_ids_to_events:
        return True
    return any(key in events for events in queue.pending_event_ids_session.values())


def stream_of(page: gr.Blocks, event: str) -> str | None:
    """The stream that tells an event's messages; None where the event is over and was told."""
    streams = page._queue.pending_event_ids_session
    return next((stream for stream, events in streams.items() if event in events), None)


def streams(page: gr.Blocks, function: str | int) -> bool:
    """Whether an endpoint, by its name, or a function, by its index, gives several answers."""
    return any(fn.types_generator for index, fn in page.fns.items() if function in (index, fn.api_name))


def gate(service: Service, page: gr.Blocks, uploads: Uploads, frame_ancestors: Sequence[str]) -> Any:
    """The layer in front of Gradio's routes."""
    endpoints = cache(lambda: endpoints_of(page))
    calls = Calls(
        endpoints,
        lambda: page.fns.keys(),
        uploads.holds,
        lambda event: stream_of(page, event),
        service.stop_call,
        lambda function: streams(page, function),
    )
    return Middleware(
        Gate,
        files=[theme.PLOTLY],
        uploads=uploads,
        calls=calls,
        readable=lambda key: readable(page, key),
        frame_ancestors=frame_ancestors,
        refused=service.counters.refused,
    )


def endpoints_of(page: gr.Blocks) -> dict[str, Endpoint]:
    """The named endpoints, by what Gradio itself tells of them."""
    told = page.get_api_info()["named_endpoints"]
    return {name.lstrip("/"): _endpoint(endpoint["parameters"]) for name, endpoint in told.items()}


def _endpoint(parameters: list[dict[str, Any]]) -> Endpoint:
    names = {p["parameter_name"]: p["parameter_has_default"] for p in parameters}
    return Endpoint(tuple(names), frozenset(name for name, optional in names.items() if not optional))


def routes(service: Service) -> list[APIRoute]:
    """What is served beside the page."""

    def metrics() -> Response:
        """All counters in Prometheus' text format."""
        service.sessions.sweep()
        return Response(service.counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def healthz() -> dict[str, Any]:
        """Whether the server answers and can run."""
        service.sessions.sweep()
        return {"status": "ok" if service.scheduler.alive else "failed", "loaded": service.models.first.loaded}

    return [APIRoute("/metrics", metrics), APIRoute("/healthz", healthz)]


def serve(service: Service, address: Address) -> None:
    """Serve until interrupted or told to end; runs that are on then have a step to end in."""
    told: list[int] = []  # not an event: a signal may come while one is being waited for
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: told.append(sent))
    logs.keep_to_lines()
    page = launch(service, address)
    logs.keep_to_lines()  # those of the server too
    print(f"ADED Explorer is on {page.local_url}", flush=True)
    while not told:
        time.sleep(0.1)
    if not end(page, service):
        leave()


def end(page: Page, service: Service) -> bool:
    """Cut what runs, tell its readers so, and close all connections, in ``END_SECONDS``; whether nothing is at work then."""
    page.end_uploads()
    idle = service.close(END_SECONDS - WORDS_SECONDS - CLOSE_SECONDS)
    _let_last_words_out(page)
    closing = threading.Thread(target=page.close, args=[False], daemon=True)  # it waits for sockets that are open and idle too
    closing.start()
    closing.join(CLOSE_SECONDS)
    return idle and not closing.is_alive()


def leave() -> NoReturn:
    """End the process here and now: a thread that is within PyTorch while Python takes itself apart would abort it."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _let_last_words_out(page: gr.Blocks) -> None:
    """Wait until what the runs ended with is on its way to those who read them."""
    until = time.monotonic() + WORDS_SECONDS - 0.2
    while page._queue.get_active_worker_count() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.2)

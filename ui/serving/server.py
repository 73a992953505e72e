"""The page as a server: Gradio with the gate in front, counters, and an orderly shutdown."""

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
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from gradio import http_server
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware
from starlette.routing import Route

from aded.core.errors import AdedError
from aded.core.validation import is_creatable
from ui import theme
from ui.blocks import Page
from ui.page import build
from ui.serving.http import logs, static
from ui.serving.http.calls import Calls, Endpoint
from ui.serving.http.connections import Connections
from ui.serving.http.gate import Gate
from ui.serving.openai.routes import routes as openai_routes
from ui.serving.service import Service
from ui.serving.tools import answer_tools

SHUTDOWN_SECONDS = 8.0
"""Maximum duration of a shutdown; the following two are part of it."""
FLUSH_SECONDS = 2.0
"""Maximum time for the last updates of jobs to reach their readers."""
CLOSE_SECONDS = 1.0
"""Maximum time for connections to close; remaining ones are cut."""
POLL_SECONDS = 0.01
"""Polling interval of Gradio's queue; the default is a thousand times per second."""
THREADS = 40
"""Threads for everything but jobs; a job holds a place in Gradio's queue, but no thread."""
SESSIONS = 1000
"""Number of sessions whose state Gradio keeps; the oldest is deleted first."""


@dataclass(frozen=True)
class Address:
    """Where to listen, and the path of a proxy in front of it.

    Attributes:
        frame_ancestors: sites that may show the page in a frame; ``embeds``: whether every site may show one panel of it.
    """

    host: str
    port: int
    frame_ancestors: Sequence[str] = ()
    embeds: bool = True
    open_browser: bool = False
    root_path: str = ""


def launch(service: Service, address: Address, tools: bool = True) -> Page:
    """Start serving and return; ``tools``: also offer the endpoints over the Model Context Protocol.

    Raises:
        AdedError: the address is not available, or no folder for temporary files is writable.
    """
    check_temporary_folder()
    page = build(service)
    page.refused = service.counters.refused
    places = service.limits.queue_size + service.limits.at_once + THREADS
    service.unread = lambda stream: unread(page, stream)
    _configure_queue(page, 2 * places)
    try:
        _launch(page, service, address, places, tools)
    except OSError:
        raise AdedError(f"cannot listen on {address.host}:{address.port}; give another --port or --host") from None
    answer_tools(page, service, endpoints_of(page))
    return page


def _launch(page: gr.Blocks, service: Service, address: Address, places: int, tools: bool) -> None:
    connections = Connections(service.sessions.free)
    http_server.Server.run_in_thread = _run_in_thread
    page.launch(
        server_name=f"[{address.host}]" if ":" in address.host else address.host,  # brackets for IPv6 in URLs
        server_port=address.port,
        inbrowser=address.open_browser,
        root_path=address.root_path or None,
        max_threads=places,
        theme=theme.theme(),
        ssr_mode=False,
        run_history=False,
        enable_monitoring=False,
        footer_links=[],
        allowed_paths=[],
        state_session_capacity=SESSIONS,
        show_error=True,
        share=False,
        quiet=True,
        mcp_server=tools,
        prevent_thread_lock=True,
        _frontend=False,  # no check, with 3 s to answer, that the page can be reached: it fails on a busy machine
        app_kwargs={
            "routes": routes(service, connections),
            "middleware": [
                gate(service, page, connections, address.frame_ancestors, address.embeds),
                Middleware(static.Document),
            ],
        },
    )


_GRADIOS_START = http_server.Server.run_in_thread


def _run_in_thread(server: http_server.Server) -> None:
    """Start the server and wait until it listens or ends; Gradio gives up after 5 s, which is too short on a busy machine."""
    try:
        _GRADIOS_START(server)
    except http_server.ServerFailedToStartError:
        while not server.started and server.thread.is_alive():
            server.thread.join(POLL_SECONDS)
        if not server.started:
            raise


def check_temporary_folder() -> None:
    """Check what Gradio needs to start.

    Raises:
        AdedError: its folder for temporary files is not writable.
    """
    folder = Path(get_upload_folder())
    if not is_creatable(folder):
        raise AdedError(f"the page needs a folder for temporary files, and {folder} is not writable; set GRADIO_TEMP_DIR")


def _configure_queue(page: gr.Blocks, most: int) -> None:
    """Configure Gradio's queue for low overhead: slower polling, and no tables of past events."""
    for name, value in (("CACHE_FREQUENCY", 1_000_000_000), ("MAX_EVENTS", 100)):
        os.environ.setdefault(f"GRADIO_ANALYTICS_{name}", str(value))
    page.queue(max_size=most, default_concurrency_limit=8)
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = POLL_SECONDS


def unread(page: gr.Blocks, stream: str) -> int:
    """Number of messages that Gradio holds for a stream."""
    messages = page._queue.pending_messages_per_session
    return messages[stream].qsize() if stream in messages else 0


def readable(page: gr.Blocks, key: str) -> bool:
    """Whether Gradio has this event or session, with or without messages."""
    queue = page._queue
    if key in queue.pending_messages_per_session or key in queue.event_ids_to_events:
        return True
    return any(key in events for events in queue.pending_event_ids_session.values())


def stream_of(page: gr.Blocks, event: str) -> str | None:
    """The stream that delivers the messages of an event; None if the event has ended and was read."""
    streams = page._queue.pending_event_ids_session
    return next((stream for stream, events in streams.items() if event in events), None)


def streams(page: gr.Blocks, function: str | int) -> bool:
    """Whether an endpoint (by name) or a function (by index) yields several answers."""
    return any(fn.types_generator for index, fn in page.fns.items() if function in (index, fn.api_name))


def gate(service: Service, page: gr.Blocks, connections: Connections, frame_ancestors: Sequence[str], embeds: bool = True) -> Any:
    """The layer in front of Gradio's routes."""
    endpoints = cache(lambda: endpoints_of(page))
    calls = Calls(
        endpoints,
        lambda: page.fns.keys(),
        lambda event: stream_of(page, event),
        service.stop_call,
        lambda function: streams(page, function),
    )
    return Middleware(
        Gate,
        calls=calls,
        readable=lambda key: readable(page, key),
        frame_ancestors=frame_ancestors,
        embeds=embeds,
        refused=service.counters.refused,
        connections=connections,
    )


def endpoints_of(page: gr.Blocks) -> dict[str, Endpoint]:
    """The named endpoints, from Gradio's own description."""
    info = page.get_api_info()["named_endpoints"]
    return {name.lstrip("/"): _endpoint(endpoint["parameters"]) for name, endpoint in info.items()}


def _endpoint(parameters: list[dict[str, Any]]) -> Endpoint:
    names = {p["parameter_name"]: p["parameter_has_default"] for p in parameters}
    return Endpoint(tuple(names), frozenset(name for name, optional in names.items() if not optional))


LINES = "application/x-ndjson"
KEPT_IN = "x-aded-kept"
"""Header of a kept race: ``disk``, or ``memory`` if it is lost when the server restarts."""


def routes(service: Service, connections: Connections) -> list[Route]:
    """Additional routes."""

    def metrics() -> Response:
        """All counters in Prometheus' text format."""
        service.sessions.sweep()
        return Response(service.counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def healthz() -> dict[str, Any]:
        """Whether the server responds and can run jobs."""
        service.sessions.sweep()
        return {"status": "ok" if service.scheduler.alive else "failed", "loaded": service.models.first.loaded}

    def kept(key: str) -> Response:
        """A race that a link names, as JSON lines; no content if it is no longer kept."""
        found = service.races.find(key)
        headers = {"cache-control": "no-store"}
        if found is None:
            return Response(status_code=204, headers=headers)
        text, place = found
        return Response(text, headers={**headers, KEPT_IN: place}, media_type=LINES)

    async def connection(session: str, request: Request) -> StreamingResponse:
        """A stream that a page keeps open, so that the server knows whether it is still there."""
        return StreamingResponse(connections.presence(session, request.app.stop_event), media_type="text/event-stream")

    async def leave(session: str) -> Response:
        """The page is closed."""
        connections.leave(session)
        return Response(status_code=204)

    present = [APIRoute("/connection/{session}", connection), APIRoute("/connection/{session}", leave, methods=["POST"])]
    present.append(APIRoute("/races/{key}", kept, methods=["GET", "HEAD"]))
    files = APIRoute(static.ROUTE, static.answer, methods=["GET", "HEAD"])
    return [APIRoute("/metrics", metrics), APIRoute("/healthz", healthz), files, *present, *openai_routes(service)]


def serve(service: Service, address: Address) -> None:
    """Serve until a signal arrives; running jobs then get one more step."""
    signals: list[int] = []  # not an event: a signal may arrive while the event is waited for
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: signals.append(sent))
    logs.configure()
    page = launch(service, address)
    logs.configure()  # again, for handlers that the server added
    print(f"ADED Explorer is on {page.local_url}", flush=True)
    while not signals:
        time.sleep(0.1)
    if not end(page, service):
        exit_now()


def end(page: Page, service: Service) -> bool:
    """Stop all jobs, notify readers, and close all connections, in ``SHUTDOWN_SECONDS``; returns whether all threads ended."""
    idle = service.close(SHUTDOWN_SECONDS - FLUSH_SECONDS - CLOSE_SECONDS)
    _flush_messages(page)
    closing = threading.Thread(target=page.close, args=[False], daemon=True)  # it waits for idle connections too
    closing.start()
    closing.join(CLOSE_SECONDS)
    return idle and not closing.is_alive()


def exit_now() -> NoReturn:
    """End the process at once: a thread inside PyTorch would abort during the interpreter's shutdown."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _flush_messages(page: gr.Blocks) -> None:
    """Wait until the last updates are on their way to their readers."""
    until = time.monotonic() + FLUSH_SECONDS - 0.2
    while page._queue.get_active_worker_count() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.2)

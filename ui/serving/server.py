"""The page as a server: Gradio's launch with a gate in front, the counters beside it, and an orderly end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import Response
from fastapi.routing import APIRoute
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware

from ui import theme
from ui.page import LARGEST_TRACE, build
from ui.serving.gate import Endpoint, Gate
from ui.serving.service import Service
from ui.serving.tools import answer_tools

END_SECONDS = 5.0
"""How long runs have to end when the server is told to: a step each."""
LAST_WORDS_SECONDS = 2.0
POLL_SECONDS = 0.01
"""How often Gradio looks into its queue; by itself it does a thousand times a second."""
THREADS = 40
"""For what is not a run; a run holds a place in Gradio's queue, but no thread."""
SESSIONS = 1000
"""Of which Gradio keeps settings; the oldest is forgotten first."""


@dataclass(frozen=True)
class Address:
    """Where to listen, who may show the page in a frame, and below which path a proxy shows it."""

    host: str
    port: int
    frame_ancestors: Sequence[str] = ()
    open_browser: bool = False
    root_path: str = ""


def launch(service: Service, address: Address, tools: bool = True) -> gr.Blocks:
    """Start serving and come back; ``tools``: offer the endpoints over the Model Context Protocol too."""
    theme.serve_static()
    page = build(service)
    places = service.limits.queue_size + service.limits.at_once + THREADS
    service.unread = lambda session: unread(page, session)
    _spare_the_model(page, 2 * places)
    page.launch(
        server_name=address.host,
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
        mcp_server=tools,
        prevent_thread_lock=True,
        app_kwargs={"routes": routes(service), "middleware": [gate(service, page, address.frame_ancestors)]},
    )
    answer_tools(page, service, endpoints_of(page))
    return page


def _spare_the_model(page: gr.Blocks, most: int) -> None:
    """Gradio's queue, without what it does by itself on the model's cost: polling, and tables of every past event."""
    for name, value in (("CACHE_FREQUENCY", 1_000_000_000), ("MAX_EVENTS", 100)):
        os.environ.setdefault(f"GRADIO_ANALYTICS_{name}", str(value))
    page.queue(max_size=most, default_concurrency_limit=8)
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = POLL_SECONDS


def unread(page: gr.Blocks, session: str) -> int:
    """Messages that Gradio holds for a session."""
    messages = page._queue.pending_messages_per_session
    return messages[session].qsize() if session in messages else 0


def readable(page: gr.Blocks, key: str) -> bool:
    """Whether Gradio holds anything for an event or a session, be it what is still to come."""
    queue = page._queue
    if key in queue.pending_messages_per_session or key in queue.event_ids_to_events:
        return True
    return any(key in events for events in queue.pending_event_ids_session.values())


def gate(service: Service, page: gr.Blocks, frame_ancestors: Sequence[str]) -> Any:
    """The layer in front of Gradio's routes."""
    return Middleware(
        Gate,
        files=[theme.PLOTLY],
        uploads=Path(get_upload_folder()),
        endpoints=cache(lambda: endpoints_of(page)),
        functions=lambda: page.fns.keys(),
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
    page = launch(service, address)
    while not told:
        time.sleep(0.2)
    service.close(END_SECONDS)
    _let_last_words_out(page)
    page.close(verbose=False)


def _let_last_words_out(page: gr.Blocks) -> None:
    """Wait until what the runs ended with is on its way to those who read them."""
    until = time.monotonic() + LAST_WORDS_SECONDS
    while page._queue.get_active_worker_count() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.2)

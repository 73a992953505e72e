"""An ASGI layer in front of Gradio's routes that filters requests and adds security headers.

Gradio serves more than this page needs, such as a proxy for external addresses and a monitor. Only paths that the page and the
API use are let through, others are not found. Bodies of calls are limited and checked before Gradio reads them
(``ui.serving.http.calls``); every response gets security headers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qs

from ui.serving.http import addresses, asgi
from ui.serving.http.asgi import App, Message, Problem, Receive, Scope, Send
from ui.serving.http.calls import CALLS, MAX_BODY_BYTES, Calls
from ui.serving.http.connections import Connections
from ui.serving.openai import errors

OPEN = re.compile(
    r"/(|config/?|healthz|metrics|races/[0-9a-f]{16}|connection/[\w-]{1,64}|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon(/\d+)?"
    r"|(assets|static|svelte)/.+|files/[0-9a-f]{16}/[^/]+|gradio_api/mcp(/(http/?|schema/?)?)?"
    r"|gradio_api/(info/?|openapi\.json|startup-events|app_id|theme\.css|reset/?|cancel"
    r"|queue/(join|data)|run/\w{1,64}/?|call/(v2/)?\w{1,64}(/[\w-]{1,64})?/?)"
    r"|v1/(chat/completions|completions|models(/.+)?))"
)
"""Allowed paths."""
ANSWERS = re.compile(r"/gradio_api/call/(v2/)?\w+/(?P<event>[\w-]+)/?")
"""Paths at which the answers of a call are read."""
QUEUE_DATA = "/gradio_api/queue/data"
EMBED = "/embed"
"""The page for a frame of any site: one panel, without controls."""
SHARED = re.compile(r"/((assets|static|svelte)/.+|files/[0-9a-f]{16}/[^/]+|theme\.css|races/[0-9a-f]{16})")
"""What that page loads. A frame with the attribute ``sandbox`` has no origin: its browser loads only what every site may read."""
NAME, COUNT = re.compile(r"[\w-]{1,64}"), re.compile(r"[0-9]{1,9}")
NOT_FOUND: Problem = (404, "path", "not found")
UNKNOWN_SESSION = {
    "msg": "unexpected_error",
    "message": "the session is unknown; reload the page",
    "session_not_found": True,
    "success": False,
}
"""Answer to Gradio's clients if their session is unknown, for example after a restart."""


def security_headers(frame_ancestors: Sequence[str] = ()) -> dict[str, str]:
    """Headers as strict as Gradio allows: it inlines scripts and styles and compiles scripts of panels in the page.

    Args:
        frame_ancestors: sites that may embed the page in a frame, besides the page's own.
    """
    policy = {
        "default-src": "'self'",
        "script-src": "'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self'",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": " ".join(["'self'", *frame_ancestors]),
    }
    headers = {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=()",
    }
    return headers if frame_ancestors else {**headers, "x-frame-options": "SAMEORIGIN"}


class Gate:
    """The layer; one per server.

    Args:
        app: the application behind it.
        calls: checks calls.
        readable: whether Gradio has anything for an event or a session.
        frame_ancestors: see ``security_headers``.
        embeds: whether every site may show ``EMBED`` in a frame.
        refused: called with the reason of each refusal.
        connections: continues streams of messages that were cut.
    """

    def __init__(
        self,
        app: App,
        calls: Calls | None = None,
        readable: Callable[[str], bool] = lambda key: True,
        frame_ancestors: Sequence[str] = (),
        embeds: bool = True,
        refused: Callable[[str], None] = lambda reason: None,
        connections: Connections | None = None,
    ) -> None:
        self.app = app
        self._calls = calls or Calls()
        self._readable = readable
        self._headers, self._embeds = _encoded(security_headers(frame_ancestors)), embeds
        self._refused = refused
        self._connections = connections or Connections()
        self._read: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"])
        framed = self._embeds and path == EMBED
        shared = self._embeds and scope["method"] in ("GET", "HEAD") and SHARED.fullmatch(path)
        send = self._with_headers(
            send, path, [*(EMBED_HEADERS if framed else self._headers), *(SHARED_HEADERS if shared else ())]
        )
        problem = self._problem(scope)
        scope = {**scope, "path": "/", "raw_path": b"/"} if framed else scope
        if problem is None:
            problem = await self._forward({**scope, "headers": addresses.without_internal(scope["headers"])}, receive, send)
        if problem is not None:
            self._refused(problem[1])
            refuse = errors.refuse if str(scope["path"]).startswith(errors.PREFIX) else asgi.refuse
            await refuse(send, problem)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Forward a request whose path and headers are valid; returns what is wrong with the rest, if anything."""
        path, event = str(scope["path"]), ANSWERS.fullmatch(str(scope["path"]))
        if scope["method"] == "POST" and CALLS.fullmatch(path):
            return await self._call(scope, receive, send)
        if scope["method"] == "GET" and event:
            return await self._answers(event["event"], scope, receive, send)
        if path == QUEUE_DATA:
            await self._messages(scope, receive, send)
        else:
            await self.app(scope, receive, send)
        return None

    async def _messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The messages of a session; of a stream that the page has named, those that it has not received."""
        asked = {name: values[-1] for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
        session, stream = asked.get("session_hash"), asked.get("stream", "")
        known = session is None or self._readable(session)
        if known and session and NAME.fullmatch(stream) and COUNT.fullmatch(asked.get("after", "")):
            known = await self._connections.messages(session, stream, int(asked["after"]), self.app, scope, receive, send)
        elif known:
            await self.app(scope, receive, send)
        if not known:
            await asgi.answer(send, 200, b"text/event-stream", f"data: {json.dumps(UNKNOWN_SESSION)}\n\n".encode())

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        path = str(scope["path"])
        body, problem = await asgi.read(receive, MAX_BODY_BYTES)
        if problem is None:
            body, problem = self._calls.read(path, body)
        if problem is None and self._calls.stops(path, body):
            await asgi.answer(send, 200, b"application/json", b'{"success": true}')
        elif problem is None:
            length = (b"content-length", str(len(body)).encode())
            headers = [(k, v) for k, v in scope["headers"] if k not in (length[0], b"transfer-encoding")]
            await self.app({**scope, "headers": [*headers, length]}, asgi.replay(body, receive), send)
        return problem

    async def _answers(self, event: str, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """The answers of a call, for one reader only: several readers would each get a part of them."""
        if not self._readable(event):
            return 404, "malformed", "no call has this event_id, or its answers were already read; post the call again"
        if event in self._read:
            return 409, "malformed", "the answers of this call are already being read; post another call"
        self._read.add(event)
        try:
            await self.app(scope, receive, send)
        finally:
            self._read.remove(event)
        return None

    def _problem(self, scope: Scope) -> Problem | None:
        """Refuse a request by its path and headers."""
        path = str(scope["path"])
        if not addresses.is_path(path):
            return NOT_FOUND
        if wrong := addresses.malformed(scope["headers"]):
            return 400, "malformed", f"the header {wrong} is malformed; send a host name, or http or https"
        return None if OPEN.fullmatch(path) or (self._embeds and path == EMBED) else NOT_FOUND

    def _with_headers(self, send: Send, path: str, headers: Sequence[tuple[bytes, bytes]]) -> Send:
        """A ``send`` that adds headers, and turns failed calls of ``/run`` from server errors into client errors."""
        direct = path.startswith("/gradio_api/run/")

        async def wrapped(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in headers}
                rest = [(k, v) for k, v in message.get("headers", []) if k.lower() not in own]
                status = 422 if direct and message["status"] == 500 and _is_json(rest) else message["status"]
                message = {**message, "status": status, "headers": [*rest, *headers]}
            await send(message)

        return wrapped


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


EMBED_HEADERS = _encoded(security_headers(["*"]))
SHARED_HEADERS = _encoded({"access-control-allow-origin": "*"})


def _is_json(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(k.lower() == b"content-type" and v.startswith(b"application/json") for k, v in headers)

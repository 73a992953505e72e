"""What is let in and what is let out: an ASGI layer in front of Gradio's own routes.

Gradio serves more than this page needs: a proxy for addresses on the open net, an editor of its own source, a monitor.
Only what the page and the endpoints use is let through; all else is not found. Bodies are bounded and looked at before
Gradio sees them, uploads have a bounded room on the disk, and every answer carries strict headers.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from ui.serving import addresses

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

OPEN = re.compile(
    r"/(|config/?|healthz|metrics|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon(/\d+)?"
    r"|(assets|static|svelte)/.+|gradio_api/mcp(/(http/?|schema/?)?)?"
    r"|gradio_api/(info/?|openapi\.json|startup-events|upload|upload_progress|app_id|theme\.css|reset/?|cancel"
    r"|heartbeat/[\w-]{1,64}|queue/(join|data)|run/\w{1,64}/?|call/(v2/)?\w{1,64}(/[\w-]{1,64})?/?))"
)
"""Paths that are let through."""
FILES, UPLOAD = "/gradio_api/file=", "/gradio_api/upload"
CALLS = re.compile(r"/gradio_api/(queue/join|run/\w+/?|call/.*|cancel|reset/?|mcp.*)")
"""Paths whose bodies are JSON."""
ANSWERS = re.compile(r"/gradio_api/call/(v2/)?\w+/(?P<event>[\w-]+)/?")
"""Where the answers of a call are read."""
NEWS = "/gradio_api/queue/data"
NO_NEWS = {"msg": "unexpected_error", "message": "the session is not known here", "session_not_found": True, "success": False}
"""What Gradio's clients are told where nothing is kept for their session, as after a restart."""
BY_KEYWORD = "/gradio_api/call/v2/"
LARGEST_CALL = 1 << 20
LARGEST_UPLOADS = 256 << 20
"""Bytes that all uploads together may take on the disk; older ones are removed with time."""
UNFINISHED_SECONDS = 600.0
"""How long an upload may take; what is left of one that was broken off goes after that."""
Problem = tuple[int, str, str]
"""Status, a word for the counters, and what is said."""
SESSION = re.compile(r"[\w-]{1,64}")


def security_headers(frame_ancestors: Sequence[str] = ()) -> dict[str, str]:
    """As strict as Gradio allows: it writes scripts and styles into its page, and compiles the panels' scripts there.

    Args:
        frame_ancestors: sites that may show the page in a frame, beside itself.
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


@dataclass(frozen=True)
class Endpoint:
    """The arguments of a named endpoint in their order, and those that must be given."""

    arguments: tuple[str, ...]
    required: frozenset[str]


class Gate:
    """The layer; one for a server.

    Args:
        app: what is behind it.
        files: the only files that are served by path.
        uploads: the folder that uploads go to.
        endpoints: named endpoints and what they take; a call of another one is not found.
        functions: indices of all functions that the page may call.
        readable: whether anything is kept for an event or a session.
        frame_ancestors: see ``security_headers``.
        refused: told the reason of each refusal.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        files: Sequence[Path] = (),
        uploads: Path | None = None,
        endpoints: Callable[[], Mapping[str, Endpoint]] = dict,
        functions: Callable[[], Collection[int]] = tuple,
        readable: Callable[[str], bool] = lambda key: True,
        frame_ancestors: Sequence[str] = (),
        refused: Callable[[str], None] = lambda reason: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self._files = {str(file) for file in files}
        self._uploads = uploads
        self._endpoints = endpoints
        self._functions = functions
        self._readable = readable
        self._headers = [(k.encode(), v.encode()) for k, v in security_headers(frame_ancestors).items()]
        self._refused = refused
        self._clock = clock
        self._unfinished: dict[Path, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        send = self._with_headers(send, str(scope["path"]))
        problem = self._problem(scope)
        scope = {**scope, "headers": addresses.believed(scope["headers"])}
        if problem is None and scope["method"] == "POST" and CALLS.fullmatch(scope["path"]):
            body, problem = await _body(receive)
            problem = problem or self._call_problem(scope["path"], body)
            receive = _replay(body, receive)
        try:
            if problem is None and self._has_no_news(scope):
                await _send(send, 200, b"text/event-stream", f"data: {json.dumps(NO_NEWS)}\n\n".encode())
            elif problem is None:
                await self.app(scope, receive, send)
        except (OSError, TypeError) as error:
            if scope["path"] != UPLOAD:
                raise
            problem = _upload_problem(error)
        if problem is not None:
            self._refused(problem[1])
            await _answer(send, *problem)

    def _problem(self, scope: Scope) -> Problem | None:
        """Status, reason and words where a request is refused by its head alone."""
        path = str(scope["path"])
        if not addresses.is_path(path):
            return 404, "path", "not found"
        if wrong := addresses.malformed(scope["headers"]):
            return 400, "malformed", f"the header {wrong} is malformed; send the name of a host, or http or https"
        if path.startswith(FILES):
            return None if unquote(path.removeprefix(FILES)) in self._files else (404, "path", "not found")
        if not OPEN.fullmatch(path):
            return 404, "path", "not found"
        if scope["method"] == "GET" and (read := ANSWERS.fullmatch(path)) and not self._readable(read["event"]):
            return 404, "malformed", "no call has this event_id, or its answers were read already; post the call again"
        if path == UPLOAD and self._uploads is not None:
            self._sweep(self._uploads)
            if size_of(self._uploads) > LARGEST_UPLOADS:
                return 503, "uploads", "too many files were sent lately; try again later"
        return None

    def _has_no_news(self, scope: Scope) -> bool:
        asked = parse_qs(scope["query_string"].decode("latin-1")) if scope["path"] == NEWS else {}
        return not all(self._readable(session) for session in asked.get("session_hash", ())[-1:])

    def _sweep(self, uploads: Path) -> None:
        """Remove what broken-off uploads have left; whole ones stand in folders of their own, and Gradio removes them."""
        now = self._clock()
        found = {file for file in uploads.glob("*") if file.is_file()}
        self._unfinished = {file: self._unfinished.get(file, now) for file in found}
        for file, seen in self._unfinished.items():
            if now - seen > UNFINISHED_SECONDS:
                file.unlink(missing_ok=True)

    def _call_problem(self, path: str, body: bytes) -> Problem | None:
        """The same by a call's body: the form that every call of Gradio's has, before Gradio reads it."""
        try:
            call = json.loads(body)
            json.dumps(call, ensure_ascii=False).encode()  # half surrogate pairs are no text
        except (ValueError, RecursionError):
            return 400, "malformed", "the body is not JSON"
        if path.startswith("/gradio_api/mcp"):
            return None
        return self._form_problem(path, call) if isinstance(call, dict) else (400, "malformed", "the body is no object")

    def _form_problem(self, path: str, call: dict[str, Any]) -> Problem | None:
        session = call.get("session_hash")
        if session is not None and not (isinstance(session, str) and SESSION.fullmatch(session)):
            return 400, "malformed", "session_hash must be a short word"
        if path.startswith(("/gradio_api/cancel", "/gradio_api/reset")):
            return None
        return self._function_problem(path, call) or _data_problem(path, call)

    def _function_problem(self, path: str, call: dict[str, Any]) -> Problem | None:
        name, index = path.rstrip("/").rsplit("/", 1)[-1], call.get("fn_index")
        if path.startswith("/gradio_api/call/") or (index is None and "/run/" in path):
            endpoint = self._endpoints().get(name)
            if endpoint is None:
                return 404, "malformed", f"no endpoint is called '{name}'"
            return _argument_problem(endpoint, call) if path.startswith(BY_KEYWORD) else _count_problem(endpoint, call)
        known = isinstance(index, int) and not isinstance(index, bool) and index in self._functions()
        return None if known else (404, "malformed", "no function has this fn_index")

    def _with_headers(self, send: Send, path: str) -> Send:
        """A ``send`` that adds the headers; what a call could not do is the caller's fault, not the server's."""
        fault = path.startswith("/gradio_api/run/")

        async def wrapped(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in self._headers}
                rest = [(k, v) for k, v in message.get("headers", []) if k.lower() not in own]
                status = 422 if fault and message["status"] == 500 and _is_json(rest) else message["status"]
                message = {**message, "status": status, "headers": [*rest, *self._headers]}
            await send(message)

        return wrapped


def _upload_problem(error: OSError | TypeError) -> Problem:
    """What Gradio's reading of an upload failed of: it takes what has no file name for no file."""
    if isinstance(error, TypeError):
        return 400, "malformed", "the upload holds no file with a name; send one as multipart/form-data"
    return 507, "disk", f"the file could not be kept here ({error.strerror or error}); try again later"


def argument_fault(endpoint: Endpoint, call: Mapping[str, Any]) -> str | None:
    """What is wrong with the names of a call's arguments, in words."""
    unknown, missing = sorted(set(call) - set(endpoint.arguments)), sorted(endpoint.required - set(call))
    if not unknown and not missing:
        return None
    words = f"'{unknown[0]}' is no argument" if unknown else f"'{missing[0]}' is missing"
    return f"{words}; there are {', '.join(endpoint.arguments)}"


def _argument_problem(endpoint: Endpoint, call: dict[str, Any]) -> Problem | None:
    fault = argument_fault(endpoint, call)
    return (400, "malformed", fault) if fault else None


def _count_problem(endpoint: Endpoint, call: dict[str, Any]) -> Problem | None:
    data, count = call.get("data"), len(endpoint.arguments)
    if not isinstance(data, list) or len(data) == count:
        return None
    return 400, "malformed", f"data must hold all {count} arguments; /gradio_api/call/v2 takes them by name"


def _data_problem(path: str, call: dict[str, Any]) -> Problem | None:
    """What every call of Gradio's must hold: its arguments, none of them a file that the server would have to fetch."""
    by_keyword = path.startswith(BY_KEYWORD)
    data = call if by_keyword else call.get("data")
    if not by_keyword and not isinstance(data, list):
        return 400, "malformed", "data must be a list"
    todo = [data]
    while todo:
        found = todo.pop()
        if isinstance(found, dict) and "://" in str(found.get("path", "")):
            return 400, "fetch", "send the file itself: nothing is fetched from an address"
        todo += found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return None


def _is_json(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(k.lower() == b"content-type" and v.startswith(b"application/json") for k, v in headers)


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder and below."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else 0


async def _body(receive: Receive) -> tuple[bytes, Problem | None]:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"", (400, "malformed", "the body did not arrive")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > LARGEST_CALL:
            return b"", (413, "large", f"the body is larger than {LARGEST_CALL} bytes")
    return b"".join(parts), None


def _replay(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


async def _answer(send: Send, status: int, reason: str, words: str) -> None:
    await _send(send, status, b"application/json", json.dumps({"error": words, "reason": reason}).encode())


async def _send(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""ASGI types, error responses and short answers, shared by all layers in front of Gradio's routes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Problem = tuple[int, str, str]
"""Status, reason for the counters, and message."""


async def read(receive: Receive, max_bytes: int) -> tuple[bytes, Problem | None]:
    """Read a request's body of at most ``max_bytes`` bytes."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"", (400, "malformed", "the body is incomplete; send it again")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > max_bytes:
            return b"", (413, "large", f"the body is larger than {max_bytes} bytes; send less")
    return b"".join(parts), None


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that starts with a body that was already read."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


async def refuse(send: Send, problem: Problem) -> None:
    """Send a problem as JSON."""
    status, reason, message = problem
    await answer(send, status, b"application/json", json.dumps({"error": message, "reason": reason}).encode())


async def answer(send: Send, status: int, kind: bytes, body: bytes) -> None:
    """Send a complete response."""
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

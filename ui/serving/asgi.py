"""Words that all layers in front of Gradio's routes speak: ASGI's messages, problems, and short answers."""

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
"""Status, a word for the counters, and what is said."""


async def read(receive: Receive, most: int) -> tuple[bytes, Problem | None]:
    """A request's body, as long as it has no more than ``most`` bytes."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"", (400, "malformed", "the body did not arrive")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > most:
            return b"", (413, "large", f"the body is larger than {most} bytes")
    return b"".join(parts), None


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that begins with a body that was read already."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


async def refuse(send: Send, problem: Problem) -> None:
    """Answer what is refused, as JSON."""
    status, reason, words = problem
    await answer(send, status, b"application/json", json.dumps({"error": words, "reason": reason}).encode())


async def answer(send: Send, status: int, kind: bytes, body: bytes) -> None:
    """A whole answer."""
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

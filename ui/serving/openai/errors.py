"""Errors in the format of OpenAI's API: status, and an object with message, type, param and code."""

from __future__ import annotations

import json
from typing import Any

from aded.core.errors import AdedError
from ui.serving.http import asgi
from ui.serving.http.asgi import Problem, Send
from ui.serving.zerogpu.quota import NoGpu, WorkerLost
from ui.words import Refused

PREFIX = "/v1/"
"""Of all paths whose errors have this format."""
STATUS = {"notice.full": 429, "notice.one": 429, "notice.hour": 429, "notice.closing": 503}
"""Of refusals by the scheduler; those of a request itself have 400."""
CODES = {"notice.full": "queue_full", "notice.one": "session_busy", "notice.hour": "session_limit", "notice.closing": "closing"}


NO_PATH = "there is no such path; there are /v1/chat/completions, /v1/completions and /v1/models"


class RequestError(AdedError):
    """An invalid request.

    Attributes:
        param: the invalid argument, such as ``messages[0].content``, or None.
        code: for programs, or None; ``status``: of the response.
    """

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status


def described(error: Exception, message: str) -> tuple[int, dict[str, Any]]:
    """Status and object of an error; ``message``: what the client may see of it."""
    if isinstance(error, RequestError):
        return error.status, error_object(message, error.status, error.param, error.code)
    if isinstance(error, (NoGpu, WorkerLost)):
        return 503, error_object(message, 503)
    if isinstance(error, Refused):
        key = error.messages[0][0]
        status = STATUS.get(key, 400)
        return status, error_object(message, status, code=CODES.get(key))
    status = 400 if isinstance(error, AdedError) else 500
    return status, error_object(message, status)


def error_object(message: str, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The body of an error response."""
    kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


async def send_error(send: Send, status: int, body: dict[str, Any]) -> None:
    """Send an error as a response."""
    await asgi.answer(send, status, b"application/json", json.dumps(body).encode())


async def refuse(send: Send, problem: Problem) -> None:
    """Send a problem that a layer in front of the endpoints has found."""
    status, reason, message = problem
    message = NO_PATH if reason == "path" else message
    await send_error(send, status, error_object(message, status))

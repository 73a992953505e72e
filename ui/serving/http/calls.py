"""Checks of API calls before Gradio handles them: form, size, arguments, and no files."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ui.serving.http.asgi import Problem
from ui.serving.http.streams import session_of, stream_of
from ui.serving.openai import errors
from ui.words import cut

CALLS = re.compile(r"/gradio_api/(queue/join|run/\w+/?|call/.*|cancel|reset/?|mcp.*)|/v1/.*")
"""Paths with JSON bodies."""
TOOLS, BY_NAME, BY_KEYWORD, DIRECTLY = "/gradio_api/mcp", "/gradio_api/call/", "/gradio_api/call/v2/", "/gradio_api/run/"
CANCEL, RESET = "/gradio_api/cancel", "/gradio_api/reset"
MAX_BODY_BYTES = 1 << 20
MAX_DEPTH = 64
"""Maximum nesting of lists and objects; no endpoint needs more than a few levels."""
SESSION = re.compile(r"[\w-]{1,64}")


@dataclass(frozen=True)
class Endpoint:
    """Names of an endpoint's arguments, in order, and those without a default."""

    arguments: tuple[str, ...]
    required: frozenset[str]


class Calls:
    """Checks all calls.

    Args:
        endpoints: named endpoints and their arguments; calls of other names are refused.
        functions: indices of all functions that the page calls.
        stream: the stream that delivers the messages of an event, if there is one.
        stop: stops the job of an event of a session, so that its last message says so; returns whether there was one.
        streams: whether an endpoint (by name) or a function (by index) yields several answers.
    """

    def __init__(
        self,
        endpoints: Callable[[], Mapping[str, Endpoint]] = dict,
        functions: Callable[[], Collection[int]] = tuple,
        stream: Callable[[str], str | None] = lambda event: None,
        stop: Callable[[str, str], bool] = lambda event, session: False,
        streams: Callable[[str | int], bool] = lambda function: False,
    ) -> None:
        self._endpoints, self._functions, self._stream = endpoints, functions, stream
        self._stop, self._streams = stop, streams

    def stops(self, path: str, body: bytes) -> bool:
        """Whether a valid request cancels a job. The job then ends by itself: Gradio's own cancel would drop its last answer."""
        call = json.loads(body) if path.startswith(CANCEL) else {}
        return bool(call) and self._stop(call["event_id"], session_of(call["session_hash"]))

    def read(self, path: str, body: bytes) -> tuple[bytes, Problem | None]:
        """The body for Gradio, or what is wrong with it."""
        try:
            call = json.loads(body)
            json.dumps(call, ensure_ascii=False).encode()  # lone surrogates are not valid text
        except RecursionError:
            return b"", _TOO_DEEP
        except ValueError:
            return b"", _malformed("the body is not JSON; send a JSON object")
        if _is_deep(call):
            return b"", _TOO_DEEP
        if not isinstance(call, dict):
            return b"", _malformed("the body is not an object; send a JSON object")
        if path.startswith(TOOLS):
            return body, _message_problem(call)
        if path.startswith(errors.PREFIX):
            return body, None
        return self._with_stream(path, call, body), self._problem(path, call)

    def _with_stream(self, path: str, call: dict[str, Any], body: bytes) -> bytes:
        """The body with the call's own stream as its session, if that differs from the session that it names."""
        session, stream = call.get("session_hash"), None
        if isinstance(session, str) and path.startswith(BY_NAME) and not path.startswith(BY_KEYWORD):
            stream = stream_of(session)
        elif path.startswith(CANCEL):
            known = self._stream(str(call.get("event_id")))
            stream = known if known is not None and session_of(known) == session else None
        elif path.startswith(DIRECTLY) and session is None:
            stream = uuid.uuid4().hex  # otherwise all calls without a session would share one
        return body if stream is None else json.dumps({**call, "session_hash": stream}).encode()

    def _problem(self, path: str, call: dict[str, Any]) -> Problem | None:
        session = call.get("session_hash")
        if session is not None and not (isinstance(session, str) and SESSION.fullmatch(session)):
            return _malformed("session_hash must be a word of at most 64 letters, digits, _ and -")
        if path.startswith(CANCEL):
            return self._cancel_problem(call)
        if path.startswith(RESET):
            return None
        if not path.startswith(BY_KEYWORD) and not isinstance(call.get("data"), list):
            return _malformed("data must be a list of all arguments")
        return self._function_problem(path, call) or _file_problem(call)

    def _cancel_problem(self, call: dict[str, Any]) -> Problem | None:
        event, session = call.get("event_id"), call.get("session_hash")
        if not isinstance(event, str) or session is None or type(call.get("fn_index")) is not int:
            return _malformed(
                "name the call to cancel by event_id, session_hash and fn_index; closing the connection cancels it too"
            )
        stream = self._stream(event)
        if stream is not None and session_of(stream) != session:
            return 404, "malformed", "no call of this session has this event_id; cancel it with the session that made it"
        return None

    def _function_problem(self, path: str, call: dict[str, Any]) -> Problem | None:
        name, index = path.rstrip("/").rsplit("/", 1)[-1], call.get("fn_index")
        if path.startswith(DIRECTLY) and self._streams(name if index is None else index):
            return _malformed(f"this endpoint yields several answers; post the call to {BY_KEYWORD} or {BY_NAME}")
        if _is_named(path, call):
            endpoint = self._endpoints().get(name)
            if endpoint is None:
                return 404, "malformed", f"there is no endpoint '{name}'; there are {', '.join(self._endpoints())}"
            return _argument_problem(endpoint, call) if path.startswith(BY_KEYWORD) else _count_problem(endpoint, call)
        exists = isinstance(index, int) and not isinstance(index, bool) and index in self._functions()
        return None if exists else (404, "malformed", "no function has this fn_index; reload the page")


def _message_problem(call: dict[str, Any]) -> Problem | None:
    """Refuse what is not a message of the Model Context Protocol; the protocol's library would log every line of it."""
    from mcp.types import ClientNotification, ClientRequest, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest
    from pydantic import ValidationError

    try:
        message = JSONRPCMessage.model_validate(call).root
        asked = {name: call[name] for name in ("method", "params") if call.get(name) is not None}
        if isinstance(message, JSONRPCRequest):
            ClientRequest.model_validate(asked)
        elif isinstance(message, JSONRPCNotification):
            ClientNotification.model_validate(asked)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"][1:]) or "the body"
        return _malformed(f"not a message of the Model Context Protocol (see {cut(where)}); tools/list lists the tools")
    return None


def argument_error(endpoint: Endpoint, call: Mapping[str, Any]) -> str | None:
    """An error in the names of a call's arguments, as a message; None if they are valid."""
    unknown, missing = sorted(set(call) - set(endpoint.arguments)), sorted(endpoint.required - set(call))
    if not unknown and not missing:
        return None
    words = f"there is no argument '{cut(unknown[0])}'" if unknown else f"the argument '{missing[0]}' is missing"
    return f"{words}; the arguments are {', '.join(endpoint.arguments)}" if endpoint.arguments else f"{words}; give no arguments"


def _malformed(words: str) -> Problem:
    return 400, "malformed", words


_TOO_DEEP = _malformed(f"the body nests more than {MAX_DEPTH} lists or objects; give texts and numbers")


def _is_named(path: str, call: Mapping[str, Any]) -> bool:
    """Whether a named endpoint is called; functions of the page are called by their index."""
    return path.startswith(BY_NAME) or (path.startswith(DIRECTLY) and call.get("fn_index") is None)


def _argument_problem(endpoint: Endpoint, call: dict[str, Any]) -> Problem | None:
    error = argument_error(endpoint, call)
    return _malformed(error) if error else None


def _count_problem(endpoint: Endpoint, call: dict[str, Any]) -> Problem | None:
    count = len(endpoint.arguments)
    if len(call["data"]) == count:
        return None
    return _malformed(f"data must contain all {count} arguments; or post them by name to /gradio_api/call/v2")


def _within(value: Any) -> Iterator[Any]:
    """The elements of a list or an object; nothing for other values."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _within(outer)]
    return any(isinstance(found, (dict, list)) for found in level)


def _file_problem(call: dict[str, Any]) -> Problem | None:
    """Refuse what Gradio would treat as a file: no function takes one."""
    for found in _files(call):
        if "://" in str(found):
            return 400, "fetch", "send text or a number: the server does not fetch addresses"
        return _malformed("an argument is a file; give text or a number")
    return None


def _files(call: dict[str, Any]) -> Iterator[Any]:
    """Paths of everything in a call that Gradio may treat as a file."""
    todo: list[Any] = [call]
    while todo:
        found = todo.pop()
        if isinstance(found, dict) and "path" in found:
            yield found["path"]
        todo += _within(found)

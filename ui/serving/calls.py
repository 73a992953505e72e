"""What a call's body must be before Gradio reads it: of the form of its calls, bounded, and with no file but a sent one."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ui.serving.asgi import Problem
from ui.serving.streams import session_of, stream_of
from ui.words import cut

CALLS = re.compile(r"/gradio_api/(queue/join|run/\w+/?|call/.*|cancel|reset/?|mcp.*)")
"""Paths whose bodies are JSON."""
TOOLS, BY_NAME, BY_KEYWORD, DIRECTLY = "/gradio_api/mcp", "/gradio_api/call/", "/gradio_api/call/v2/", "/gradio_api/run/"
CANCEL, RESET = "/gradio_api/cancel", "/gradio_api/reset"
LARGEST = 1 << 20
"""Bytes of a body."""
DEEPEST = 64
"""Lists and objects within each other; nothing that is called takes more than a few."""
SESSION = re.compile(r"[\w-]{1,64}")


@dataclass(frozen=True)
class Endpoint:
    """The arguments of a named endpoint in their order, and those that must be given."""

    arguments: tuple[str, ...]
    required: frozenset[str]


class Calls:
    """The calls that are let through.

    Args:
        endpoints: named endpoints and what they take; a call of another one is not found.
        functions: indices of all functions that the page may call.
        holds: whether a path is one that a visitor's file was kept under.
        stream: the stream that tells an event's messages, where there is one.
        stop: ends the run of an event of a session, so that its last answer tells so; whether there is one.
        streams: whether an endpoint, by its name, or a function, by its index, gives several answers.
    """

    def __init__(
        self,
        endpoints: Callable[[], Mapping[str, Endpoint]] = dict,
        functions: Callable[[], Collection[int]] = tuple,
        holds: Callable[[str], bool] = lambda path: False,
        stream: Callable[[str], str | None] = lambda event: None,
        stop: Callable[[str, str], bool] = lambda event, session: False,
        streams: Callable[[str | int], bool] = lambda function: False,
    ) -> None:
        self._endpoints, self._functions, self._holds, self._stream = endpoints, functions, holds, stream
        self._stop, self._streams = stop, streams

    def stops(self, path: str, body: bytes) -> bool:
        """Whether a body that is in order was to cancel a run, which ends by itself then: Gradio would drop its last answer."""
        call = json.loads(body) if path.startswith(CANCEL) else {}
        return bool(call) and self._stop(call["event_id"], session_of(call["session_hash"]))

    def read(self, path: str, body: bytes) -> tuple[bytes, Problem | None]:
        """The body as Gradio is to have it, or what is wrong with it."""
        try:
            call = json.loads(body)
            json.dumps(call, ensure_ascii=False).encode()  # half surrogate pairs are no text
        except RecursionError:
            return b"", _TOO_DEEP
        except ValueError:
            return b"", _malformed("the body is not JSON; send an object")
        if _is_deep(call):
            return b"", _TOO_DEEP
        if not isinstance(call, dict):
            return b"", _malformed("the body is no object; send one")
        if path.startswith(TOOLS):
            return body, _message_problem(call)
        return self._with_stream(path, call, body), self._problem(path, call)

    def _with_stream(self, path: str, call: dict[str, Any], body: bytes) -> bytes:
        """The body with the stream of that call as its session, where that is another than the one it names."""
        session, stream = call.get("session_hash"), None
        if isinstance(session, str) and path.startswith(BY_NAME) and not path.startswith(BY_KEYWORD):
            stream = stream_of(session)
        elif path.startswith(CANCEL):
            told = self._stream(str(call.get("event_id")))
            stream = told if told is not None and session_of(told) == session else None
        elif path.startswith(DIRECTLY) and session is None:
            stream = uuid.uuid4().hex  # all that name no session would be one
        return body if stream is None else json.dumps({**call, "session_hash": stream}).encode()

    def _problem(self, path: str, call: dict[str, Any]) -> Problem | None:
        session = call.get("session_hash")
        if session is not None and not (isinstance(session, str) and SESSION.fullmatch(session)):
            return _malformed("session_hash must be a short word, of letters, digits, _ and -")
        if path.startswith(CANCEL):
            return self._cancel_problem(call)
        if path.startswith(RESET):
            return None
        if not path.startswith(BY_KEYWORD) and not isinstance(call.get("data"), list):
            return _malformed("data must be a list of all arguments")
        return self._function_problem(path, call) or self._file_problem(path, call)

    def _cancel_problem(self, call: dict[str, Any]) -> Problem | None:
        event, session = call.get("event_id"), call.get("session_hash")
        if not isinstance(event, str) or session is None or type(call.get("fn_index")) is not int:
            return _malformed("name what to cancel by event_id, session_hash and fn_index; or hang up, which ends a run too")
        stream = self._stream(event)
        if stream is not None and session_of(stream) != session:
            return 404, "malformed", "no call of this session has this event_id; cancel it by the session that made it"
        return None

    def _function_problem(self, path: str, call: dict[str, Any]) -> Problem | None:
        name, index = path.rstrip("/").rsplit("/", 1)[-1], call.get("fn_index")
        if path.startswith(DIRECTLY) and self._streams(name if index is None else index):
            return _malformed(f"it gives several answers, and here is room for one; post it to {BY_KEYWORD} or {BY_NAME}")
        if _is_named(path, call):
            endpoint = self._endpoints().get(name)
            if endpoint is None:
                return 404, "malformed", f"no endpoint is called '{name}'; there are {', '.join(self._endpoints())}"
            return _argument_problem(endpoint, call) if path.startswith(BY_KEYWORD) else _count_problem(endpoint, call)
        known = isinstance(index, int) and not isinstance(index, bool) and index in self._functions()
        return None if known else (404, "malformed", "no function has this fn_index; reload the page")

    def _file_problem(self, path: str, call: dict[str, Any]) -> Problem | None:
        """What Gradio would take for a file: a named endpoint takes none, and a function of the page none but a sent one."""
        for found in _files(call):
            if "://" in str(found):
                return 400, "fetch", "send the file itself: nothing is fetched from an address"
            if _is_named(path, call):
                return _malformed("an argument is a file; give a text or a number")
            if not isinstance(found, str) or not self._holds(found):
                return _malformed("the file is none that was sent here; send it again")
        return None


def _message_problem(call: dict[str, Any]) -> Problem | None:
    """What no message of the Model Context Protocol is; its library would write it into the log, line by line."""
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
        return _malformed(f"no message of the Model Context Protocol (see {cut(where)}); tools/list tells what can be called")
    return None


def argument_fault(endpoint: Endpoint, call: Mapping[str, Any]) -> str | None:
    """What is wrong with the names of a call's arguments, in words."""
    unknown, missing = sorted(set(call) - set(endpoint.arguments)), sorted(endpoint.required - set(call))
    if not unknown and not missing:
        return None
    words = f"'{cut(unknown[0])}' is no argument" if unknown else f"'{missing[0]}' is missing"
    return f"{words}; there are {', '.join(endpoint.arguments)}" if endpoint.arguments else f"{words}; there are none"


def _malformed(words: str) -> Problem:
    return 400, "malformed", words


_TOO_DEEP = _malformed(f"the body holds more than {DEEPEST} lists or objects within each other; give texts and numbers")


def _is_named(path: str, call: Mapping[str, Any]) -> bool:
    """Whether it calls a named endpoint, by its path; the page's functions are called by their index."""
    return path.startswith(BY_NAME) or (path.startswith(DIRECTLY) and call.get("fn_index") is None)


def _argument_problem(endpoint: Endpoint, call: dict[str, Any]) -> Problem | None:
    fault = argument_fault(endpoint, call)
    return _malformed(fault) if fault else None


def _count_problem(endpoint: Endpoint, call: dict[str, Any]) -> Problem | None:
    count = len(endpoint.arguments)
    if len(call["data"]) == count:
        return None
    return _malformed(f"data must hold all {count} arguments; /gradio_api/call/v2 takes them by name")


def _within(value: Any) -> Iterator[Any]:
    """What a list or an object holds; nothing of anything else."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _within(outer)]
    return any(isinstance(found, (dict, list)) for found in level)


def _files(call: dict[str, Any]) -> Iterator[Any]:
    """Paths of all that Gradio may take for a file, wherever in a call it stands."""
    todo: list[Any] = [call]
    while todo:
        found = todo.pop()
        if isinstance(found, dict) and "path" in found:
            yield found["path"]
        todo += _within(found)

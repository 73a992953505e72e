"""The endpoints of OpenAI's API, on the scheduler of all endpoints: chat completions, completions, models."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import quote

import anyio
import gradio as gr
from gradio.context import LocalContext
from starlette.requests import Request as HttpRequest
from starlette.routing import Route

from aded.core.errors import AdedError
from ui.serving import api
from ui.serving.follow import READER_TIMEOUT
from ui.serving.http import asgi
from ui.serving.http.asgi import Receive, Scope, Send
from ui.serving.http.calls import MAX_BODY_BYTES
from ui.serving.http.streams import MARK
from ui.serving.openai import answers
from ui.serving.openai.answers import DONE, Response, event
from ui.serving.openai.errors import RequestError, described, send_error
from ui.serving.openai.requests import Kind, Request, model_names, parse
from ui.serving.service import Service
from ui.words import cut

SILENCE = 2.0
"""Seconds without an event after which a queued stream begins, so that no proxy closes it. Until then errors have a status."""
SESSION = "v1:"
"""Start of the keys of these sessions; no other session's key can have it."""
WAITING = b": waiting\n\n"
JSON, EVENTS = b"application/json", b"text/event-stream"


def routes(service: Service) -> list[Route]:
    """All of them."""
    ways = {"/v1/chat/completions": Completions(service, "chat"), "/v1/completions": Completions(service, "text")}
    models = Models(service)
    return [
        *(Route(path, app) for path, app in ways.items()),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", models),
    ]


class Models:
    """Lists the names of models, or describes one."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await _is(scope, send, "GET", "HEAD"):
            return
        service, name = self._service, scope["path_params"].get("name")
        unavailable = await anyio.to_thread.run_sync(api.unavailable_methods, service)  # reads the artifacts of all methods
        rows = [_model(each) for each in model_names(service.models, unavailable)]
        if name is None:
            await asgi.answer(send, 200, JSON, json.dumps({"object": "list", "data": rows}).encode())
        elif found := [row for row in rows if row["id"] == name]:
            await asgi.answer(send, 200, JSON, json.dumps(found[0]).encode())
        else:
            error = RequestError(f"there is no model '{cut(name)}'; GET /v1/models lists them", "model", "model_not_found", 404)
            await _send_error(service, send, error)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "aded"}


class Completions:
    """One endpoint. The job ends within a step after its client has disconnected."""

    def __init__(self, service: Service, kind: Kind) -> None:
        self._service, self._kind = service, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await _is(scope, send, "POST"):
            return
        body, problem = await asgi.read(receive, MAX_BODY_BYTES)
        try:
            if problem is not None:
                raise RequestError(problem[2], status=problem[0])
            request = parse(self._kind, json.loads(body), self._service.models, self._service.limits)
        except AdedError as error:
            await _send_error(self._service, send, error)
            return
        await while_connected(receive, lambda: self._answer(request, scope, send))

    async def _answer(self, request: Request, scope: Scope, send: Send) -> None:
        LocalContext.request.set(gr.Request(HttpRequest(scope)))  # on ZeroGPU: the visitor whose quota is used
        session = SESSION + (_quoted(request.key) if request.key else uuid.uuid4().hex)
        try:
            await (self._stream if request.stream else self._complete)(request, session, send)
        finally:
            if request.key is None:
                self._service.sessions.free(session)

    def _answers(self, request: Request, session: str) -> AsyncGenerator[api.Answer, None]:
        kept = request.key is not None
        made = api.text_progress, answers.result
        return api.stream(self._service, session, request.model, request.form, *made, continues=kept)

    async def _complete(self, request: Request, session: str, send: Send) -> None:
        try:
            async with aclosing(self._answers(request, session)) as answers:
                async for answer in answers:
                    last = answer
            body = Response(request).complete(last)
        except Exception as error:
            await _send_error(self._service, send, error)
            return
        await asgi.answer(send, 200, JSON, json.dumps(body).encode())

    async def _stream(self, request: Request, session: str, send: Send) -> None:
        out = Stream(send)
        with suppress(TimeoutError):
            try:
                async with aclosing(self._events(request, session)) as events:
                    async for part in events:
                        await out.send(part)
            except TimeoutError:
                raise
            except Exception as error:
                if not out.begun:
                    await _send_error(self._service, send, error)
                    return
                await out.send(event(_described(self._service, error)[1]))
            await out.send(DONE, more=False)

    async def _events(self, request: Request, session: str) -> AsyncGenerator[bytes, None]:
        """The events of a stream, from its first text on; while the job is queued, comments that keep the connection open."""
        response = Response(request)
        last, quiet_until = None, anyio.current_time() + SILENCE
        async with aclosing(self._answers(request, session)) as answers:
            async for last in answers:
                if last["text"]:
                    yield response.chunks(last)
                elif anyio.current_time() > quiet_until:
                    yield WAITING
        assert last is not None, "a job has a last answer"
        yield response.chunks(last, last=True)


class Stream:
    """A response of server-sent events, which begins with its first part.

    Sending fails with ``TimeoutError`` if the client reads nothing for ``READER_TIMEOUT``.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def send(self, part: bytes, more: bool = True) -> None:
        with anyio.fail_after(READER_TIMEOUT):
            if not self.begun:
                self.begun = True
                headers = [(b"content-type", EVENTS), (b"cache-control", b"no-cache")]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send({"type": "http.response.body", "body": part, "more_body": more})


async def while_connected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Run ``work``; cancel it when the client disconnects."""
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await work()
        tasks.cancel_scope.cancel()


def _quoted(key: str) -> str:
    """A client's key without what separates a session from its stream; different keys stay different."""
    return quote(key, safe="").replace(MARK, f"%{ord(MARK):02X}")


async def _is(scope: Scope, send: Send, *methods: str) -> bool:
    """Whether the request has one of these methods; else it is refused."""
    if scope["method"] in methods:
        return True
    await send_error(send, *described(error := RequestError(f"use {methods[0]} here", status=405), str(error)))
    return False


def _described(service: Service, error: Exception) -> tuple[int, dict[str, Any]]:
    text = api.error_text(service, error)
    return described(error, str(error) if isinstance(error, RequestError) else text)  # else a path such as /v1/models is removed


async def _send_error(service: Service, send: Send, error: Exception) -> None:
    await send_error(send, *_described(service, error))

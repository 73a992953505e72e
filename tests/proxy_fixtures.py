"""A server behind a reverse proxy that serves it below a path, as in docs/deploy.md, and that may cut streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field

import httpx
import pytest
import uvicorn
from app_process import free_port
from serving_fakes import fake_service, serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from waiting import HANG, until

BELOW = "/tools/aded"
HOPS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


@dataclass
class Faults:
    """What a proxy does to its connections.

    Attributes:
        cut: beginnings of paths whose responses end after ``seconds``.
        abrupt: whether these end without the end that HTTP requires.
        down: whether the server behind it does not answer.
        count: number of responses that were cut.
    """

    cut: tuple[str, ...] = ()
    seconds: float = 1.0
    abrupt: bool = False
    down: bool = False
    count: int = field(default=0)


@contextmanager
def proxy(behind: str, faults: Faults | None = None) -> Iterator[str]:
    """A proxy of ``behind`` below the path ``BELOW``: it removes the path, sets the usual headers, and does not buffer."""
    faults = faults or Faults()
    client = httpx.AsyncClient(base_url=behind, timeout=HANG)

    async def forward(request: Request) -> Response:
        if faults.down:
            return PlainTextResponse("no server", 502)
        headers = {name: value for name, value in request.headers.items() if name not in HOPS}
        headers |= {"x-forwarded-host": request.headers["host"], "x-forwarded-proto": "http"}
        query = request.url.query
        path = "/" + request.path_params["path"] + (f"?{query}" if query else "")
        forwarded = client.build_request(request.method, path, headers=headers, content=await request.body())
        answer = await client.send(forwarded, stream=True)

        async def body() -> AsyncIterator[bytes]:
            async with aclosing(answer), aclosing(answer.aiter_raw()) as parts:
                end = asyncio.get_running_loop().time() + faults.seconds
                while (part := await next_part(parts, end if path.startswith(faults.cut) and faults.cut else None)) is not None:
                    yield part

        async def next_part(parts: AsyncIterator[bytes], end: float | None) -> bytes | None:
            left = None if end is None else max(0.0, end - asyncio.get_running_loop().time())
            try:
                return await asyncio.wait_for(anext(parts, None), left)
            except asyncio.TimeoutError:
                faults.count += 1
                if faults.abrupt:
                    raise ConnectionAbortedError from None
                return None

        kept = {name: value for name, value in answer.headers.items() if name not in HOPS}
        return StreamingResponse(body(), answer.status_code, kept)

    async def elsewhere(request: Request) -> Response:
        if request.url.path == "/favicon.ico":  # browsers request it from every site
            return Response(status_code=204)
        return PlainTextResponse("another site", 418)

    routes = [Route(BELOW + "/{path:path}", forward, methods=["GET", "POST", "DELETE"]), Route("/{path:path}", elsewhere)]
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), "127.0.0.1", port, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{port}{BELOW}"
    server.should_exit = server.force_exit = True
    thread.join(HANG)


@pytest.fixture(scope="module")
def proxied() -> Iterator[str]:
    service = fake_service()
    with serving(service, root_path=BELOW) as behind, proxy(behind) as found:
        yield found

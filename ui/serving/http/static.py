"""The page's files, compressed once and cacheable indefinitely, and Gradio's page with links to them."""

from __future__ import annotations

import gzip
import logging
import re
import threading
from functools import cache
from pathlib import PurePath

import brotli  # a requirement of Gradio
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders

from aded.core.errors import AdedError
from ui.browser import files
from ui.browser.files import File
from ui.serving.http.asgi import App, Message, Receive, Scope, Send

ROUTE = f"/{files.FOLDER}/{{digest}}/{{name}}"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
}
FOR_GOOD = "public, max-age=31536000, immutable"
BEST, RACE, FAST = 11, 10, 5
"""Compression levels of files, compressed once; of recorded races, for which the first visitor waits longest; and of the page,
compressed for each visitor."""

log = logging.getLogger(__name__)
compressing: dict[tuple[File, str], threading.Lock] = {}


def accepted(header: str) -> str:
    """The best encoding that an Accept-Encoding header allows: ``br``, ``gzip`` or ``identity``."""
    parts = [part.strip() for part in header.lower().split(",")]
    names = {part.split(";")[0].strip() for part in parts if not re.search(r";\s*q=0(\.0*)?$", part)}
    return next((name for name in ("br", "gzip") if name in names), "identity")


def encode(body: bytes, encoding: str, level: int) -> bytes:
    """Compress with an encoding of ``accepted``."""
    if encoding == "br":
        return brotli.compress(body, quality=level)
    return gzip.compress(body, min(level, 9), mtime=0) if encoding == "gzip" else body


@cache
def _encoded(file: File, encoding: str) -> bytes:
    return encode(file.read(), encoding, RACE if file.name.endswith(".jsonl") else BEST)


def encoded(file: File, encoding: str) -> bytes:
    """The content of a file in an encoding; concurrent callers wait for the first one.

    Raises:
        AdedError: the file cannot be read.
    """
    with compressing.setdefault((file, encoding), threading.Lock()):
        return _encoded(file, encoding)


def answer(digest: str, name: str, request: Request) -> Response:
    """A file of the page."""
    file, encoding = files.find(digest, name), accepted(request.headers.get("accept-encoding", ""))
    try:
        body = encoded(file, encoding) if file else None
    except AdedError as error:
        log.warning("%s: %s", name, error)
        body = None
    if body is None:
        return JSONResponse({"error": "not found; reload the page", "reason": "path"}, 404)
    headers = {"content-type": TYPES[PurePath(name).suffix], "cache-control": FOR_GOOD, "vary": "Accept-Encoding"}
    return Response(body, headers=headers | ({} if encoding == "identity" else {"content-encoding": encoding}))


class Document:
    """An ASGI layer that adds ``files.head`` to Gradio's page and compresses it; Gradio compresses only its files."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._start, self._end = files.head()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/":
            await self.app(scope, receive, send)
            return
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, keep)
        begin, body = messages[0], b"".join(message.get("body", b"") for message in messages[1:])
        headers = MutableHeaders(raw=begin["headers"])
        if headers.get("content-type", "").startswith("text/html"):
            encoding = accepted(Headers(scope=scope).get("accept-encoding", ""))
            body = encode(self._completed(body), encoding, FAST)
            headers["content-length"] = str(len(body))
            headers["vary"] = "Accept-Encoding"
            if encoding != "identity":
                headers["content-encoding"] = encoding
        await send(begin)
        await send({"type": "http.response.body", "body": body})

    def _completed(self, html: bytes) -> bytes:
        begun = html.replace(b"<head>", b"<head>" + self._start.encode(), 1)
        return begun.replace(b"</head>", self._end.encode() + b"</head>", 1)

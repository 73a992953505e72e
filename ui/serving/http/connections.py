"""Connections of browsers: a visitor has left only after some time without any, and streams of messages that were cut continue.

Proxies cut connections, for example all event streams after 20 seconds. A browser then connects again and names the stream and
the number of messages that it has received.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

from ui.serving.http.asgi import App, Message, Receive, Scope, Send

AWAY_SECONDS = 15.0
"""Time without any connection after which a visitor has left."""
ALIVE_SECONDS = 3.0
"""Interval of comments on an idle stream, by which a browser knows that it is not cut."""
KEPT = 64
"""Number of messages that are kept for a browser that may not have received them."""
AHEAD = 8
"""Number of messages that are taken from Gradio before the browser has read them."""
ALIVE = b": alive\n\n"

log = logging.getLogger(__name__)


class Connections:
    """All connections of a server, by session. Used from its event loop only.

    Args:
        left: called with the session of a visitor who has left.
    """

    def __init__(self, left: Callable[[str], None] = lambda session: None) -> None:
        self._left = left
        self._count: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._streams: dict[str, MessageStream] = {}

    @contextmanager
    def connected(self, session: str) -> Iterator[None]:
        """A connection of this session."""
        self._cancel(session)
        self._count[session] += 1
        try:
            yield
        finally:
            self._count[session] -= 1
            if not self._count[session]:
                del self._count[session]
                self._timers[session] = asyncio.get_running_loop().call_later(AWAY_SECONDS, self.leave, session)

    async def presence(self, session: str, stopped: asyncio.Event) -> AsyncIterator[bytes]:
        """The stream that a page keeps open; it ends when the server stops."""
        with self.connected(session):
            while not stopped.is_set():
                yield ALIVE
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(stopped.wait(), ALIVE_SECONDS)

    def leave(self, session: str) -> None:
        """The visitor has left."""
        self._cancel(session)
        if stream := self._streams.pop(session, None):
            stream.leave()
        self._left(session)

    def _cancel(self, session: str) -> None:
        if timer := self._timers.pop(session, None):
            timer.cancel()

    async def messages(self, session: str, name: str, after: int, app: App, scope: Scope, receive: Receive, send: Send) -> bool:
        """Send the messages of a session, of a stream that starts now or continues.

        Args:
            name: of the stream, given by the browser.
            after: number of messages of this stream that the browser has received.

        Returns:
            Whether the stream could start or continue; if not, nothing was sent.
        """
        stream = self._streams.get(session)
        if stream is None or (stream.ended and stream.name != name):
            if after:
                return False
            stream = self._streams[session] = MessageStream()
            stream.start(app, scope, lambda ended: self._drop_later(session, ended))
        with self.connected(session):
            return await stream.read(name, after, receive, send)

    def _drop_later(self, session: str, stream: MessageStream) -> None:
        """Forget an ended stream when its browser has had time to read the rest."""

        def drop() -> None:
            if self._streams.get(session) is stream:
                del self._streams[session]

        asyncio.get_running_loop().call_later(AWAY_SECONDS, drop)


class MessageStream:
    """The messages that Gradio sends to a session, independent of the connections on which the browser reads them.

    Attributes:
        name: of the stream as the browser knows it. A new name takes over a stream that has not ended.
        ended: whether there are no more messages.
    """

    def __init__(self) -> None:
        self.name, self.ended = "", False
        self._first = self._count = self._read = 0
        self._messages: deque[bytes] = deque(maxlen=KEPT)
        self._head: Message = {}
        self._reader: asyncio.Task[None] | None = None
        self._gone, self._changed = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, app: App, scope: Scope, ended: Callable[[MessageStream], None]) -> None:
        """Request the messages from Gradio."""

        async def run() -> None:
            try:
                await app(scope, self._receive, self._take)
            except Exception:
                log.warning("a stream of messages failed", exc_info=True)
            self.ended = True
            self._notify()
            ended(self)

        self._task = asyncio.create_task(run())

    def leave(self) -> None:
        """The browser does not come back: Gradio ends what it does for the session."""
        self._gone.set()
        self._notify()

    async def read(self, name: str, after: int, receive: Receive, send: Send) -> bool:
        """Send all messages after the given number to one connection; an earlier one ends. See ``Connections.messages``."""
        oldest = self._count - len(self._messages)
        if name != self.name:
            self.name, self._first = name, oldest
        at = self._first + after
        if not oldest <= at <= self._count:
            return False
        self._read, self._reader = at, asyncio.create_task(self._disconnected(receive))
        reader = self._reader
        self._notify()
        try:
            return await self._send(reader, send)
        finally:
            reader.cancel()

    async def _send(self, reader: asyncio.Task[None], send: Send) -> bool:
        def is_idle() -> bool:
            return self._reader is reader and not reader.done() and not self.ended and self._read == self._count

        await self._wait(lambda: not self._head and not self.ended)
        if not self._head:
            return False
        await send(self._head)
        while self._reader is reader and not reader.done() and not (self.ended and self._read == self._count):
            await self._wait(is_idle, ALIVE_SECONDS)
            message = ALIVE if self._read == self._count else self._messages[self._read - self._count]
            if self._reader is reader:
                self._read += message is not ALIVE
                self._notify()
                await send({"type": "http.response.body", "body": message, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return True

    async def _disconnected(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._notify()

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message: Message) -> None:
        """Take a message from Gradio, not many more than the browser has read."""
        if message["type"] == "http.response.start":
            self._head = message
        elif message.get("body"):
            await self._wait(lambda: self._count - self._read >= AHEAD and not self._gone.is_set())
            self._messages.append(message["body"])
            self._count += 1
        self._notify()

    async def _wait(self, blocked: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait as long as the condition holds, but no longer than ``seconds``."""
        end = None if seconds is None else asyncio.get_running_loop().time() + seconds
        while blocked():
            left = None if end is None else end - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:
                return

    def _notify(self) -> None:
        """Wake all that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

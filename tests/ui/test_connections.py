"""Connections of browsers: when a visitor counts as gone, and streams of messages that continue after a cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from waiting import HANG

from ui.serving.http import connections
from ui.serving.http.connections import AHEAD, ALIVE, KEPT, Connections


class Source:
    """Gradio's side: sends what a test puts into it, until the browser has left.

    Attributes:
        sent: number of messages that were taken from it; ``gone``: whether it was told that the browser has left.
    """

    def __init__(self) -> None:
        self.sent, self.gone = 0, False
        self._more: asyncio.Queue[bytes | None] = asyncio.Queue()

    def put(self, *messages: str | None) -> None:
        for message in messages:
            self._more.put_nowait(message and f"data: {message}\n\n".encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        left = asyncio.ensure_future(receive())
        while not left.done():
            more = asyncio.ensure_future(self._more.get())
            await asyncio.wait({left, more}, return_when=asyncio.FIRST_COMPLETED)
            if not more.done() or (message := more.result()) is None:
                break
            await send({"type": "http.response.body", "body": message, "more_body": True})
            self.sent += 1
        self.gone = left.done()


class Reader:
    """A connection of a browser; ``cut`` ends it.

    Attributes:
        messages: what has arrived, without comments.
    """

    def __init__(self, kept: Connections, source: Source, name: str = "s", after: int = 0) -> None:
        self.messages: list[str] = []
        self.alive = 0
        self._cut = asyncio.Event()
        self.done = asyncio.ensure_future(kept.messages("a", name, after, source, {}, self._receive, self._send))

    async def cut(self) -> None:
        self._cut.set()
        await self.done

    async def _receive(self) -> dict[str, Any]:
        await self._cut.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        body = message.get("body", b"")
        self.alive += body == ALIVE
        if body.startswith(b"data: "):
            self.messages.append(body.decode()[6:-2])


def check(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), HANG))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(connections, "ALIVE_SECONDS", 0.01)


def test_a_visitor_has_left_after_some_time_without_any_connection():
    async def test() -> None:
        left: list[str] = []
        kept, stopped = Connections(left.append), asyncio.Event()
        one, other = kept.presence("a", stopped), kept.presence("a", stopped)
        assert [await anext(one), await anext(other)] == [ALIVE, ALIVE]
        await one.aclose()
        await asyncio.sleep(0.1)
        assert not left
        await other.aclose()
        with kept.connected("a"):
            await asyncio.sleep(0.1)
        assert not left
        await until(lambda: left == ["a"])

    check(test)


def test_a_visitor_who_says_so_has_left_at_once():
    async def test() -> None:
        left: list[str] = []
        kept = Connections(left.append)
        async for _ in kept.presence("a", asyncio.Event()):
            kept.leave("a")
            break
        assert left == ["a"]

    check(test)


def test_the_stream_of_an_open_page_ends_when_the_server_stops():
    async def test() -> None:
        stopped = asyncio.Event()
        async for _ in Connections().presence("a", stopped):
            stopped.set()

    check(test)


def test_a_cut_stream_continues_with_what_the_browser_has_not_received():
    async def test() -> None:
        kept, source = Connections(), Source()
        first = Reader(kept, source)
        source.put("1", "2", "3")
        await until(lambda: len(first.messages) == 3)
        await first.cut()
        source.put("4")
        second = Reader(kept, source, after=1)
        await until(lambda: len(second.messages) == 3)
        source.put("5", None)
        assert await second.done
        assert second.messages == ["2", "3", "4", "5"]
        last = Reader(kept, source, after=4)
        assert await last.done
        assert last.messages == ["5"]

    check(test)


def test_an_idle_stream_has_comments():
    async def test() -> None:
        reader = Reader(Connections(), Source())
        await until(lambda: reader.alive > 1)
        await reader.cut()

    check(test)


def test_a_new_connection_takes_over_and_the_earlier_one_ends():
    async def test() -> None:
        kept, source = Connections(), Source()
        first = Reader(kept, source)
        source.put("1")
        await until(lambda: first.messages)
        second = Reader(kept, source, after=1)
        assert await first.done
        source.put("2", None)
        assert await second.done
        assert (first.messages, second.messages) == (["1"], ["2"])

    check(test)


def test_a_stream_with_another_name_gets_all_that_is_kept_of_one_that_has_not_ended():
    async def test() -> None:
        kept, source, other = Connections(), Source(), Source()
        first = Reader(kept, source)
        source.put("1")
        await until(lambda: first.messages)
        await first.cut()
        second = Reader(kept, other, name="t")
        source.put("2", None)
        assert await second.done
        assert second.messages == ["1", "2"]
        third = Reader(kept, other, name="u")
        other.put("3", None)
        assert await third.done
        assert third.messages == ["3"]

    check(test)


@pytest.mark.parametrize(("count", "after"), [(KEPT + 1, 0), (3, 4), (0, 1)])
def test_a_stream_of_which_messages_are_missing_does_not_continue(count: int, after: int):
    async def test() -> None:
        kept, source = Connections(), Source()
        if count:
            first = Reader(kept, source)
            source.put(*map(str, range(count)))
            await until(lambda: len(first.messages) == count)
            await first.cut()
        second = Reader(kept, source, after=after)
        assert not await second.done
        assert not second.messages

    check(test)


def test_messages_wait_for_a_reader_and_are_not_collected():
    async def test() -> None:
        kept, source = Connections(), Source()
        await Reader(kept, source).cut()
        source.put(*map(str, range(3 * AHEAD)))
        for _ in range(100):
            await asyncio.sleep(0)
        assert source.sent == AHEAD
        reader = Reader(kept, source)
        await until(lambda: len(reader.messages) == 3 * AHEAD)
        await reader.cut()

    check(test)


def test_gradio_is_told_when_the_visitor_has_left_even_if_messages_wait():
    async def test() -> None:
        kept, source = Connections(), Source()
        await Reader(kept, source).cut()
        source.put(*map(str, range(3 * AHEAD)))
        await until(lambda: source.gone)
        assert not await Reader(kept, source, after=1).done

    check(test)


def test_an_ended_stream_is_forgotten_after_some_time():
    async def test() -> None:
        kept, source = Connections(), Source()
        source.put("1", None)
        with kept.connected("a"):
            assert await Reader(kept, source).done
            assert kept._streams
            await until(lambda: not kept._streams)

    check(test)


def test_an_application_that_fails_leaves_no_answer(caplog: pytest.LogCaptureFixture):
    async def test() -> None:
        async def broken(scope: Any, receive: Any, send: Any) -> None:
            raise ValueError("broken")

        assert not await Reader(Connections(), broken).done  # type: ignore[arg-type]

    check(test)
    assert "a stream of messages failed" in caplog.text

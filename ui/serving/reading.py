"""Following a run from an event loop: no thread is held while it waits, and leaving the loop ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TypeVar

from ui.serving.runs import Run

T = TypeVar("T")
BEAT = 0.5
"""Seconds after which a run that waits is asked for its place again."""
MAX_UNREAD = 16
"""Pieces of news on their way to a reader; while there are more, the newest waits and replaces the one before."""
PATIENCE = 30.0
"""Seconds that a reader may read nothing for; then nobody listens."""


async def follow(
    run: Run[T],
    in_line: Callable[[], T | None],
    unread: Callable[[], int] = lambda: 0,
    beat: float = BEAT,
    patience: float = PATIENCE,
) -> AsyncGenerator[T, None]:
    """The run's news as it comes, the newest where the reader is slow; what ``in_line`` tells while it waits.

    Closing the iterator ends the run within a step, and so does a reader that reads nothing for ``patience`` seconds.

    Args:
        unread: how many pieces of news the reader has not read yet.

    Raises:
        what the run ended with.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(news.set)

    run.listen(wake)
    try:
        over, heard = False, loop.time()
        while not over:
            news.clear()
            if unread() > MAX_UNREAD:
                if loop.time() - heard > patience:
                    return
                await asyncio.sleep(beat)
                continue
            heard = loop.time()
            over, found = run.over, run.take()
            if found is None and not over and run.place:
                found = in_line()
            if found is not None:
                yield found
            if not over:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(news.wait(), beat)
    finally:
        run.leave()
    if run.error is not None:
        raise run.error

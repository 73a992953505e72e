"""Follows a job from an event loop: no thread is blocked while it waits, and leaving the loop stops the job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TypeVar

from ui.serving.jobs import Job

T = TypeVar("T")
POLL_SECONDS = 0.5
"""Interval at which the reader of a job without an update learns what it waits for."""
MAX_UNREAD = 16
"""Messages that a reader has not read yet; beyond these, only the latest one is kept."""
READER_TIMEOUT = 30.0
"""Seconds after which a reader that reads nothing counts as gone."""


async def follow(
    job: Job[T],
    meanwhile: Callable[[], T | None],
    unread: Callable[[], int] = lambda: 0,
    poll: float = POLL_SECONDS,
    max_idle: float = READER_TIMEOUT,
) -> AsyncGenerator[T, None]:
    """The updates of a job, only the latest one if the reader is slow; ``meanwhile`` provides updates while there are none.

    Closing the iterator stops the job within a step, and so does a reader that reads nothing for ``max_idle`` seconds.

    Args:
        unread: number of updates that the reader has not read yet.

    Raises:
        the exception with which the job ended.
    """
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(changed.set)

    job.listen(wake)
    try:
        finished, read_at = False, loop.time()
        while not finished:
            changed.clear()
            if unread() > MAX_UNREAD:
                if loop.time() - read_at > max_idle:
                    return
                await asyncio.sleep(poll)
                continue
            read_at = loop.time()
            finished, found = job.finished, job.take()
            if found is None and not finished:
                found = meanwhile()
            if found is not None:
                yield found
            if not finished:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), poll)
    finally:
        job.leave()
    if job.error is not None:
        raise job.error

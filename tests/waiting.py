"""Waiting for events in tests, with a timeout after which a test counts as hanging."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import httpx

HANG = 300.0 * float(os.environ.get("ADED_TEST_PATIENCE") or 1)
"""Seconds. A wait ends with its event, so the timeout may be long; ``ADED_TEST_PATIENCE=3`` triples it on a very slow machine."""


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, f"nothing happened in {HANG:g} s"
        time.sleep(0.005)


class http:
    """The functions of ``httpx`` for one request, with ``HANG`` as timeout."""

    get = staticmethod(partial(httpx.get, timeout=HANG))
    post = staticmethod(partial(httpx.post, timeout=HANG))
    stream = staticmethod(partial(httpx.stream, timeout=HANG))
    request = staticmethod(partial(httpx.request, timeout=HANG))

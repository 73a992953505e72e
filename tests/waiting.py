"""How long the tests wait for an event before they count it as a hang."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import httpx

HANG = 120.0 * float(os.environ.get("ADED_TEST_PATIENCE") or 1)
"""Seconds. A wait ends with its event, so this may be long; ``ADED_TEST_PATIENCE=3`` triples it on a very slow machine."""


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, f"nothing happened in {HANG:g} s"
        time.sleep(0.005)


class http:
    """The functions of ``httpx`` that ask once, with ``HANG`` for a timeout."""

    get = staticmethod(partial(httpx.get, timeout=HANG))
    post = staticmethod(partial(httpx.post, timeout=HANG))
    stream = staticmethod(partial(httpx.stream, timeout=HANG))
    request = staticmethod(partial(httpx.request, timeout=HANG))

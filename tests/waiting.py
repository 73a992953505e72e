"""Waiting for events in tests, with a timeout after which a test counts as hanging."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from gradio_client import Client

HANG = 300.0 * float(os.environ.get("ADED_TEST_PATIENCE") or 1)
"""Seconds. A wait ends with its event, so the timeout may be long; ``ADED_TEST_PATIENCE=3`` triples it on a very slow machine."""


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, f"nothing happened in {HANG:g} s"
        time.sleep(0.005)


def api_client(address: str) -> Client:
    """A client of the page's endpoints, with ``HANG`` as timeout: its default of 5 s is too short on a busy machine."""
    from gradio_client import Client

    return Client(address, verbose=False, httpx_kwargs={"timeout": HANG})


class http:
    """The functions of ``httpx`` for one request, with ``HANG`` as timeout."""

    get = staticmethod(partial(httpx.get, timeout=HANG))
    post = staticmethod(partial(httpx.post, timeout=HANG))
    stream = staticmethod(partial(httpx.stream, timeout=HANG))
    request = staticmethod(partial(httpx.request, timeout=HANG))
    head = staticmethod(partial(httpx.head, timeout=HANG))

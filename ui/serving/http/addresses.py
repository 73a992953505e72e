"""Checks of request paths and of headers from which Gradio builds addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import httpx

Headers = Iterable[tuple[bytes, bytes]]
LONGEST_PATH, LONGEST_NAME = 1024, 255
"""Maximum length in bytes of a path and of one of its parts, as in file systems."""
INTERNAL_HEADERS = frozenset({b"x-gradio-user", b"x-gradio-server"})
"""Headers that Gradio trusts and that only Gradio itself may set."""
HOSTS = frozenset({b"host", b"x-forwarded-host"})
HOST = re.compile(r"([\w.-]{1,253}|\[[0-9A-Fa-f:]{2,39}\])(:[0-9]{1,5})?", re.ASCII)
SCHEMES = frozenset({b"", b"http", b"https", b"ws", b"wss"})


def is_path(path: str) -> bool:
    """Whether the path is valid in a file system."""
    data = path.encode("utf-8", "replace")
    return path.isprintable() and len(data) <= LONGEST_PATH and max(map(len, data.split(b"/"))) <= LONGEST_NAME


def malformed(headers: Headers) -> str | None:
    """Name of the first header from which no valid address can be built; None if all are valid."""
    return next((name.decode("latin-1") for name, value in headers if not _is_sound(name.lower(), value)), None)


def without_internal(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers without ``INTERNAL_HEADERS``."""
    return [(name, value) for name, value in headers if name.lower() not in INTERNAL_HEADERS]


def _is_sound(name: bytes, value: bytes) -> bool:
    first = value.split(b",")[0].strip()  # proxies append values; the first one is used
    if name in HOSTS:
        return not first or _is_host(first.decode("latin-1"))
    return name != b"x-forwarded-proto" or first.lower() in SCHEMES


@lru_cache(maxsize=256)
def _is_host(text: str) -> bool:
    """Whether Gradio (through httpx) can build an address from this host."""
    try:
        return HOST.fullmatch(text) is not None and bool(httpx.URL(f"http://{text}").host)
    except (httpx.InvalidURL, ValueError):
        return False

"""What a request says of addresses: its path, and the headers that Gradio makes addresses of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import httpx

Headers = Iterable[tuple[bytes, bytes]]
LONGEST_PATH, LONGEST_NAME = 1024, 255
"""Bytes of a path, and of a name between its slashes, which is what a file system takes."""
FORGED = frozenset({b"x-gradio-user", b"x-gradio-server"})
"""Headers that Gradio believes, and that nobody outside has a use for: who calls, and where the page stands."""
HOSTS = frozenset({b"host", b"x-forwarded-host"})
HOST = re.compile(r"([\w.-]{1,253}|\[[0-9A-Fa-f:]{2,39}\])(:[0-9]{1,5})?", re.ASCII)
SCHEMES = frozenset({b"", b"http", b"https", b"ws", b"wss"})


def is_path(path: str) -> bool:
    """Whether a file system could be asked for such a path."""
    data = path.encode("utf-8", "replace")
    return path.isprintable() and len(data) <= LONGEST_PATH and max(map(len, data.split(b"/"))) <= LONGEST_NAME


def malformed(headers: Headers) -> str | None:
    """The first header that no address could be made of, by name."""
    return next((name.decode("latin-1") for name, value in headers if not _is_sound(name.lower(), value)), None)


def believed(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers without those that only Gradio itself may set."""
    return [(name, value) for name, value in headers if name.lower() not in FORGED]


def _is_sound(name: bytes, value: bytes) -> bool:
    first = value.split(b",")[0].strip()  # of what proxies have listed, the first counts
    if name in HOSTS:
        return not first or _is_host(first.decode("latin-1"))
    return name != b"x-forwarded-proto" or first.lower() in SCHEMES


@lru_cache(maxsize=256)
def _is_host(text: str) -> bool:
    """Whether Gradio, which reads addresses by httpx, can make an address of this host."""
    try:
        return HOST.fullmatch(text) is not None and bool(httpx.URL(f"http://{text}").host)
    except (httpx.InvalidURL, ValueError):
        return False

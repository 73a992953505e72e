"""The files that the page loads: how they are made, addressed, compressed and served."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path
from typing import Any

import brotli
import httpx
import plotly
import plotly.graph_objects as go
import pytest
from plotly.basedatatypes import BaseTraceType
from serving_fakes import fake_service, serving
from waiting import http

from ui.browser import files, sources
from ui.serving.http import static

pytest_plugins = ("proxy_fixtures",)

PAGE_BYTES, FILE_BYTES = 60_000, 600_000
"""Maximum compressed size of the page, and of its local files that are loaded at first."""


@pytest.fixture(scope="module")
def address():
    with serving(fake_service()) as found:
        yield found


def first_files() -> list[files.File]:
    """What a first visit in English loads, besides Gradio's files."""
    names = ("app.js", "app.css", "en.json", "plotly.js", next(iter(files.recorded().values())).name)
    return [files.page_files()[name] for name in names]


def raw(address: str, encoding: str) -> httpx.Response:
    """An answer whose ``content`` is as it was sent."""
    with http.stream("GET", address, headers={"accept-encoding": encoding}) as found:
        found._content = b"".join(found.iter_raw())
        return found


# The script


def test_the_script_is_plain_and_loads_nothing_from_other_servers():
    script = files.script()
    assert script.startswith("window.AdedExplorer = (() => {\nconst modules = {};")
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    assert "innerHTML" not in script
    assert "</script" not in script.lower()
    head = "".join(files.head())
    assert not re.search("https?:", (script + sources.styles() + head).replace("http://www.w3.org/2000/svg", ""))  # a namespace


# The chart library


def test_the_chart_library_is_the_version_that_its_name_states_and_fits_the_python_package():
    text = files.PLOTLY.read_text("utf-8")
    (stated,) = re.findall(r"plotly-basic-([\d.]+)\.min\.js", files.PLOTLY.name)
    assert re.findall(r"\* plotly\.js \(basic - minified\) v([\d.]+)\n", text) == [stated]
    packaged = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").open(encoding="utf-8").read(100)
    assert re.findall(r"\* plotly\.js v(\d+)\.", packaged) == [stated.split(".")[0]]
    assert "MIT" in (files.PLOTLY.parent / "plotly-LICENSE").read_text("utf-8")


def test_the_chart_library_has_everything_that_the_page_draws():
    library, script = files.PLOTLY.read_text("utf-8"), files.script()
    classes = [one for one in (getattr(go, name) for name in dir(go)) if isinstance(one, type)]
    known = {one.__name__.lower() for one in classes if issubclass(one, BaseTraceType)}
    drawn = {name for name in re.findall(r'\btype: "(\w+)"', script) if name in known}
    assert drawn and drawn <= set(re.findall(r'moduleType:"trace",name:"(\w+)"', library))
    for name in set(re.findall(r"\bPlotly\.(\w+)\(", script)):
        assert re.search(rf"\b{name}:|\.{name}=", library), name


# Recorded races


def test_no_race_is_read_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    read: list[str] = []
    files.recorded.cache_clear()
    monkeypatch.setattr(files.trace, "load", lambda path: read.append(path.stem))
    monkeypatch.setattr(files.wire, "to_lines", lambda *race: "lines")
    races = files.recorded()
    assert len(races) >= 6 and read == []
    assert next(iter(races.values())).read() == b"lines" and len(read) == 1
    files.recorded.cache_clear()


def test_the_lines_of_a_recorded_race_are_the_same_on_every_server():
    title, race = next(iter(files.recorded().items()))
    lines = race.read()
    assert race.read() == lines
    first = json.loads(lines.decode().splitlines()[0])
    assert (first["source"], first["title"], first["id"]) == ("recorded", title, race.digest[:8])


def test_a_damaged_race_is_not_found_and_logged(address: str, tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "01-bad.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr(files, "ASSETS", tmp_path)
        files.recorded.cache_clear()
        damaged = files.recorded()["Bad"]
    files.recorded.cache_clear()
    monkeypatch.setitem(files.page_files(), damaged.name, damaged)
    found = http.get(f"{address}/{damaged.address}")
    assert (found.status_code, found.json()["reason"]) == (404, "path")
    assert "01-bad.jsonl" in caplog.text


# Addresses and answers


def test_every_listed_file_is_served_with_its_type_and_kept_for_good(address: str):
    types = {"js": "text/javascript", "css": "text/css", "json": "application/json", "jsonl": "application/x-ndjson"}
    for file in files.page_files().values():
        if file.name.endswith("jsonl") and file not in first_files():
            continue  # the other races take seconds
        found = http.get(f"{address}/{file.address}")
        assert found.content == file.read()
        assert found.headers["content-type"].split(";")[0] == types[file.name.split(".")[-1]]
        assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert found.headers["vary"] == "Accept-Encoding"
        assert found.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("asked", "sent"), [("gzip, deflate, br", "br"), ("gzip;q=1, br;q=0", "gzip"), ("identity", None)])
def test_a_file_is_sent_in_the_best_encoding_that_the_browser_reads(address: str, asked: str, sent: str | None):
    file = files.page_files()["en.json"]
    found = raw(f"{address}/{file.address}", asked)
    assert found.headers.get("content-encoding") == sent
    unpack: Any = {"br": brotli.decompress, "gzip": gzip.decompress, None: bytes}[sent]
    assert unpack(found.content) == file.read()
    head = http.request("HEAD", f"{address}/{file.address}", headers={"accept-encoding": asked})
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(found.content))


def test_an_address_of_another_version_is_not_found(address: str):
    file = files.page_files()["app.js"]
    for wrong in (file.address.replace(file.digest, "0" * 16), file.address.replace("app.js", "app.css"), "files/app.js"):
        assert http.get(f"{address}/{wrong}").status_code == 404, wrong


def test_the_digest_of_a_file_changes_with_its_content(monkeypatch: pytest.MonkeyPatch):
    before = files.page_files()["app.css"].digest
    monkeypatch.setattr(sources, "styles", lambda: "p { color: red; }")
    assert files.page_files.__wrapped__()["app.css"].digest != before


@pytest.mark.parametrize("encoding", ["br", "gzip", "identity"])
def test_the_page_links_to_its_script_before_gradios_and_to_its_styles_after_gradios(address: str, encoding: str):
    found = http.get(f"{address}/", headers={"accept-encoding": encoding})
    assert found.headers.get("content-encoding", "identity") == encoding
    page, (start, end) = found.text, files.head()
    assert page.index("<head>") < page.index(start) < page.index('<script type="module"')
    assert page.index('rel="stylesheet" crossorigin') < page.index(end) < page.index("</head>")
    assert http.request("HEAD", f"{address}/", headers={"accept-encoding": encoding}).headers["content-length"]


def test_only_a_page_is_completed():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"<head>", "more_body": True})
        await send({"type": "http.response.body", "body": b"</head>"})

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(static.Document(app)), base_url="http://here") as client:
            return await client.get("/")

    found = asyncio.run(ask())
    assert (found.status_code, found.text) == (503, "<head></head>")


def test_files_are_served_below_the_path_of_a_proxy(proxied: str):
    (script,) = re.findall(r'<script defer [^>]*src="([^"]+)"', http.get(f"{proxied}/").text)
    assert http.get(f"{proxied}/{script}").text == files.script()


def test_the_page_and_its_files_are_small(address: str):
    assert int(raw(f"{address}/", "br").headers["content-length"]) < PAGE_BYTES
    sizes = {file.name: int(raw(f"{address}/{file.address}", "br").headers["content-length"]) for file in first_files()}
    assert sum(sizes.values()) < FILE_BYTES, sizes

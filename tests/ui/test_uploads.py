"""Uploads: limited while they stream, each one and all together, in any division into parts."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_fakes import fake_service, serving
from waiting import HANG, http, until

from ui.page import MAX_TRACE_BYTES
from ui.serving import uploads
from ui.serving.gate import Gate
from ui.serving.server import upload_folder
from ui.serving.uploads import Uploads, file_name

HEADERS = {"content-type": "multipart/form-data; boundary=b"}
PATH = "/gradio_api/upload"
END = b"--b--\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(fake_service()) as found:
        yield found


def part(data: bytes = b"{}", head: str = 'name="files"; filename="a.json"') -> bytes:
    return f"--b\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n"


def send(address: str, *pieces: bytes, length: bool = True, query: str = "") -> httpx.Response:
    content: Any = b"".join(pieces) if length else iter(pieces)
    return http.post(f"{address}{PATH}{query}", content=content, headers=HEADERS)


def left(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


def disconnect_after(address: str, data: bytes, arrived: Callable[[], object]) -> None:
    """Disconnect once ``arrived`` is true."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {HEADERS['content-type']}\r\nContent-Length: 1000000\r\n\r\n"
        )
        connection.sendall(head.encode() + data)
        until(arrived)


async def drained(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads the whole body."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"[]"})


def ask(app: Any, content: bytes | Iterable[bytes] = part() + END) -> httpx.Response:
    async def one() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.post(PATH, content=content, headers=HEADERS)

    return asyncio.run(one())


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("head", ['name="files"; filename="a.json"', 'name="x"', 'name="x"; filename="a.json"'])
def test_an_upload_that_is_too_large_is_refused_while_it_streams(address: str, head: str, length: bool):
    """A field without a file name would be kept in memory."""
    found = send(
        address, part(b" " * (1 << 20), head)[:-2], *[b" " * (1 << 20)] * (MAX_TRACE_BYTES >> 20), b"\r\n", END, length=length
    )
    assert (found.status_code, found.json()["reason"]) in ((413, "large"), (400, "malformed"))
    assert found.status_code == 413 or "x" in head


def test_an_upload_that_is_declared_too_large_is_not_read():
    app = Gate(drained, uploads=Uploads(Path("nowhere"), 10))
    assert ask(app, part(b" " * uploads.FORM_OVERHEAD) + END).status_code == 413


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([part(head='name="files"; filename=""'), END], "contains no named file"),
        ([part(head='name="x"'), END], "contains no named file"),
        ([part(head='name="x"; filename="a.json"'), END], "contains no named file"),
        ([part(head='name="files"; filename=".."'), END], "contains no named file"),
        ([END], "contains no named file"),
        ([part(), part(), END], "more than one file"),
        ([part(), part(head='name="x"'), END], "more than one file"),
        ([part()], "not complete multipart/form-data"),
        ([b"x"], "not complete multipart/form-data"),
    ],
)
@pytest.mark.parametrize("query", ["", "?upload_id=q"])
def test_an_upload_has_exactly_one_file_with_a_name(address: str, pieces: list[bytes], words: str, query: str):
    found = send(address, *pieces, query=query)
    assert found.status_code == 400
    assert words in found.json()["error"]


def test_nothing_is_left_of_refused_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    with serving(fake_service()) as address:
        assert send(address, part(), END, query="?upload_id=q").status_code == 200
        send(address, part(b" " * 100_000), part(), END, length=False)
        send(address, part(b" " * 100_000), length=False)
        send(address, part(b" " * (MAX_TRACE_BYTES + 1)), END)
        disconnect_after(address, part(b" " * 100_000), lambda: left(tmp_path) != ["a.json"])
        until(lambda: left(tmp_path) == ["a.json"])
        assert 'reason="large"' in http.get(f"{address}/metrics").text


def test_uploaded_files_are_separate_from_those_of_other_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    with serving(fake_service()) as address:
        (path,) = send(address, part(), END).json()
        port = address.rsplit(":", 1)[1]
    assert re.fullmatch(rf"{tmp_path}/aded-explorer/{port}/\w+/a\.json", path)


def test_servers_on_different_ports_have_different_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for beginning in (tmp_path, tmp_path / "aded-explorer" / "files"):
        monkeypatch.setenv("GRADIO_TEMP_DIR", str(beginning))
        assert [upload_folder(port) for port in (7860, 7861, 7860)] == [
            beginning / "aded-explorer" / p for p in ("7860", "7861", "7860")
        ]


def test_the_oldest_file_is_removed_for_a_new_one(tmp_path: Path):
    size = uploads.MIN_COUNTED_BYTES
    taken = Uploads(tmp_path, size, capacity=3 * size)
    app = Gate(drained, uploads=taken)
    for number, name in enumerate("zyx"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "race.json").write_bytes(b" " * size)
        assert ask(app).status_code == 200, number
    assert left(tmp_path) == ["race.json"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "y"]
    assert taken.used <= 3 * size


def test_many_small_files_are_limited_too(tmp_path: Path):
    taken = Uploads(tmp_path, 100, capacity=4 * uploads.MIN_COUNTED_BYTES)
    app = Gate(drained, uploads=taken)
    for number in range(8):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "race.json").write_bytes(b"{}")
        assert ask(app).status_code == 200
    assert len(left(tmp_path)) < 5


def test_incoming_uploads_share_the_capacity_and_the_oldest_one_is_aborted(tmp_path: Path):
    """Even if it stalls."""

    async def at_once() -> list[int]:
        halves = [asyncio.Event() for _ in range(3)]

        async def slow(half: asyncio.Event) -> Any:
            yield part(b" " * 1000)[:-2]
            await half.wait()
            yield b"\r\n" + END

        taken = Uploads(tmp_path, 2000, capacity=2500)
        app = Gate(drained, uploads=taken)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            sent = []
            for half in halves:
                sent.append(asyncio.create_task(client.post(PATH, content=slow(half), headers=HEADERS)))
                while len(taken._active) < len(sent):
                    await asyncio.sleep(0)
            first = await asyncio.wait_for(sent[0], HANG)
            for half in halves:
                half.set()
            return [first.status_code, *[(await one).status_code for one in sent[1:]]]

    assert asyncio.run(at_once()) == [503, 200, 200]


def test_an_upload_that_stalls_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "MAX_SECONDS", 0.1)

    async def stalled() -> Any:
        yield part()
        await asyncio.Event().wait()

    async def one() -> int:
        app = Gate(drained, uploads=Uploads(tmp_path, 2000))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return (await client.post(PATH, content=stalled(), headers=HEADERS)).status_code

    assert asyncio.run(asyncio.wait_for(one(), HANG)) == 408


def test_files_of_an_aborted_upload_are_removed_and_others_are_not(tmp_path: Path):
    now = [0.0]
    app = Gate(drained, uploads=Uploads(tmp_path, 100, clock=lambda: now[0]))
    (tmp_path / "tmpbroken").write_bytes(b"half")
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "a.json").write_bytes(b"{}")
    for now[0] in (0.0, uploads.MAX_SECONDS, uploads.MAX_SECONDS + 1):
        assert (tmp_path / "tmpbroken").exists()
        assert ask(app).status_code == 200
    assert left(tmp_path) == ["a.json"]


def test_folders_whose_files_gradio_has_removed_are_removed(tmp_path: Path):
    now = [0.0]
    taken = Uploads(tmp_path, 100, clock=lambda: now[0])
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "race.json").write_text("{}")
    for now[0] in (0.0, uploads.EMPTY_SECONDS):
        assert taken.is_upload(f"{tmp_path}/0a/race.json")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full"]
    now[0] += 1
    assert taken.is_upload(f"{tmp_path}/0a/race.json")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_temporary_files_that_gradio_leaves_are_removed(tmp_path: Path):
    now = [0.0]
    taken = Uploads(tmp_path, 100, clock=lambda: now[0])
    for now[0] in (0.0, 30.0, 61.0):
        (tmp_path / f"tmp{now[0]:.0f}").touch()
        assert taken.is_upload(f"{tmp_path}/0a/race.json")
    assert left(tmp_path) == ["tmp30", "tmp61"]


@pytest.mark.parametrize("length", [1, 256, 300, 5000])
def test_a_boundary_of_any_length_is_answered(address: str, length: int):
    boundary = "b" * length
    content = part().replace(b"--b", b"--" + boundary.encode()) + b"--" + boundary.encode() + b"--\r\n"
    kind = {"content-type": f"multipart/form-data; boundary={boundary}"}
    assert http.post(f"{address}{PATH}", content=content, headers=kind).status_code == (200 if length <= 256 else 400)


def test_a_shutdown_aborts_incoming_uploads(tmp_path: Path):
    async def stalled() -> Any:
        yield part()
        await asyncio.Event().wait()

    async def one() -> int:
        taken = Uploads(tmp_path, 2000)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(Gate(drained, uploads=taken)), base_url="http://here"
        ) as client:
            sent = asyncio.create_task(client.post(PATH, content=stalled(), headers=HEADERS))
            while not taken._active:
                await asyncio.sleep(0)
            await asyncio.to_thread(taken.end)
            return (await sent).status_code

    assert asyncio.run(asyncio.wait_for(one(), HANG)) == 503


def test_of_two_content_types_the_first_one_counts_as_in_gradio(address: str):
    twice = [("content-type", HEADERS["content-type"]), ("content-type", "multipart/form-data; boundary=c")]
    content = part(head='name="x"') + END + (part() + END).replace(b"--b", b"--c")
    assert "contains no named file" in http.post(f"{address}{PATH}", content=content, headers=twice).json()["error"]


def test_only_a_path_in_the_folder_is_an_upload(tmp_path: Path):
    taken = Uploads(tmp_path, 100)
    for name in ("race.json", "my\u00a0race\u202f1.json", "\u3000\u200b\U0001f469\u200d\U0001f52c.json"):
        assert taken.is_upload(f"{tmp_path}/0a/{name}")
    for path in ("/etc/passwd", f"{tmp_path}/../x", str(tmp_path), f"{tmp_path}/a\nb", f"{tmp_path}/a\0b", "race.json"):
        assert not taken.is_upload(path), path


def test_an_uploaded_file_cannot_be_fetched(address: str):
    (path,) = send(address, part(), END).json()
    assert http.get(f"{address}/gradio_api/file={path}").status_code == 404


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(b"a.json", "a.json"), (b"../../a.json", "a.json"), (b"..", ""), (b"a/..", ""), (b" ", ""), (b"", ""), (b"/", "")],
)
def test_a_file_keeps_its_name_or_is_refused(sent: bytes, kept: str):
    assert file_name(sent) == kept

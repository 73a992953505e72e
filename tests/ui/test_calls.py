"""Checks of a call's body (its form, its size, no files), and the stream in which its answers come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ui.serving.http import calls
from ui.serving.http.calls import Calls, Endpoint, argument_error
from ui.serving.http.streams import session_of, stream_of

ENDPOINT = Endpoint(("prompt", "seed"), frozenset({"prompt"}))
NAMED, BY_KEYWORD, BY_INDEX = "/gradio_api/call/generate", "/gradio_api/call/v2/generate", "/gradio_api/queue/join"
TOOLS, CANCEL = "/gradio_api/mcp/", "/gradio_api/cancel"


def read(path: str, body: bytes, stream: str | None = None) -> tuple[bytes, Any]:
    return Calls(lambda: {"generate": ENDPOINT}, lambda: range(5), lambda event: stream).read(path, body)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def message(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def event(path: Any) -> bytes:
    return json.dumps({"data": [], "fn_index": 3, "event_data": {"path": path}}).encode()


def uploaded(path: Any) -> bytes:
    return json.dumps({"data": [{"path": path, "meta": {"_type": "gradio.FileData"}}], "fn_index": 3}).encode()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (NAMED, b'{"data": ["x", 1]}', 200),
        (NAMED, b'{"data": ["x"]}', 400),
        (NAMED, b'{"data": ["\\ud800", 1]}', 400),
        (BY_KEYWORD, b'{"prompt": "x"}', 200),
        (BY_INDEX, b'{"data": [], "fn_index": 3, "session_hash": "abc"}', 200),
        ("/gradio_api/run/predict", b'{"data": [], "fn_index": 0, "session_hash": "abc"}', 200),
        (BY_KEYWORD, b'{"seed": 1}', 400),
        (BY_KEYWORD, b'{"prompt": "x", "colour": 1}', 400),
        (NAMED, b"{", 400),
        (NAMED, b"[]", 400),
        (NAMED, b"{}", 400),
        (NAMED, b'{"data": {"a": 1}}', 400),
        (NAMED, b"[" * 100_000, 400),
        ("/gradio_api/call/other", b'{"data": []}', 404),
        (BY_INDEX, b'{"data": [], "fn_index": 9}', 404),
        (BY_INDEX, b'{"data": [], "fn_index": true}', 404),
        (BY_INDEX, b'{"data": []}', 404),
        (BY_INDEX, b'{"data": [], "fn_index": 3, "session_hash": "a b"}', 400),
        (BY_INDEX, b'{"data": [], "fn_index": 3, "session_hash": "a~b"}', 400),
        (BY_INDEX, b'{"data": [], "fn_index": 3, "session_hash": {"a": 1}}', 400),
        ("/gradio_api/run/predict", b'{"data": []}', 404),
        (BY_INDEX, b'{"data": [{"path": "http://10.0.0.1/x"}], "fn_index": 3}', 400),
        (BY_INDEX, b'{"data": [[{"a": {"path": "file:///etc/passwd"}}]], "fn_index": 3}', 400),
        (BY_KEYWORD, b'{"prompt": {"path": "https://example.org/x"}}', 400),
        (BY_INDEX, uploaded("/etc/passwd"), 400),
        (BY_INDEX, uploaded("x\nCRITICAL:root:FORGED"), 400),
        (BY_INDEX, uploaded(["/etc/passwd"]), 400),
        (BY_INDEX, uploaded(None), 400),
        (BY_INDEX, event("x\nCRITICAL:root:FORGED"), 400),
        ("/gradio_api/run/generate", b'{"data": [{"path": "x"}, 1]}', 400),
        (NAMED, b'{"data": [{"path": "x\\nFORGED", "meta": {"_type": "gradio.FileData"}}, 1]}', 400),
        (BY_KEYWORD, b'{"prompt": {"path": "/kept/0a/race.json"}}', 400),
        (BY_KEYWORD, b'{"prompt": ' + nested(calls.MAX_DEPTH - 1) + b"}", 200),
        (BY_KEYWORD, b'{"prompt": ' + nested(calls.MAX_DEPTH) + b"}", 400),
        (TOOLS, b'{"params": ' + nested(calls.MAX_DEPTH) + b"}", 400),
        (TOOLS, b'{"params": ' + nested(960) + b"}", 400),
        (TOOLS, message("tools/list"), 200),
        (TOOLS, message("tools/call", name="generate", arguments={"prompt": "x"}), 200),
        (TOOLS, message("tools/call", name="generate", arguments={"prompt": [[1]]}), 200),
        (TOOLS, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', 200),
        (TOOLS, message("tools/call"), 400),
        (TOOLS, message("tools/call", name="x", arguments="y"), 400),
        (TOOLS, message("x\nERROR: forged"), 400),
        (TOOLS, b'{"prompt": "x"}', 400),
        (TOOLS, b"[]", 400),
        (CANCEL, b"{}", 400),
        (CANCEL, b'{"event_id": "e", "session_hash": "abc"}', 400),
        (CANCEL, b'{"event_id": "e", "session_hash": "abc", "fn_index": 1}', 200),
        (CANCEL, b'{"event_id": ' + nested(calls.MAX_DEPTH) + b"}", 400),
    ],
)
def test_a_body_that_is_no_valid_call_is_refused(path: str, body: bytes, status: int):
    found, problem = read(path, body)
    assert (problem[0] if problem else 200) == status
    if problem is None:
        assert found == body
    else:
        assert len(problem[2]) < 200


def test_each_call_of_a_named_session_has_a_separate_stream_and_belongs_to_the_session():
    body = json.dumps({"data": ["x", 1], "session_hash": "mine"}).encode()
    streams = [json.loads(read(NAMED, body)[0])["session_hash"] for _ in range(2)]
    assert len(set(streams)) == 2
    assert [session_of(stream) for stream in streams] == ["mine", "mine"]
    assert session_of("mine") == "mine"
    page = json.dumps({"data": [], "fn_index": 3, "session_hash": "mine"}).encode()
    assert read(BY_INDEX, page)[0] == page


def test_a_call_is_cancelled_only_with_the_name_of_its_session():
    stream = stream_of("mine")
    bodies = {name: json.dumps({"session_hash": name, "fn_index": 1, "event_id": "e"}).encode() for name in ("mine", "another")}
    found, problem = read(CANCEL, bodies["mine"], stream)
    assert (json.loads(found)["session_hash"], problem) == (stream, None)
    assert read(CANCEL, bodies["another"], stream)[1][0] == 404


def test_a_long_unknown_argument_is_not_repeated_in_full():
    assert len(argument_error(ENDPOINT, {"prompt": "x", "a" * 100_000: 1}) or "") < 120


def test_direct_calls_without_a_session_are_of_different_sessions():
    body = b'{"data": ["x", 1]}'
    first, second = (json.loads(read("/gradio_api/run/generate", body)[0])["session_hash"] for _ in range(2))
    assert first != second
    named = b'{"data": ["x", 1], "session_hash": "mine"}'
    assert read("/gradio_api/run/generate", named)[0] == named

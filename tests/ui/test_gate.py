"""Which requests are accepted: paths, files, bodies; and the headers of every answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from serving_fakes import fake_service, serving
from waiting import http

from ui.browser import files
from ui.serving.http.calls import MAX_BODY_BYTES, Calls
from ui.serving.http.gate import Gate, security_headers


@pytest.fixture(scope="module")
def address():
    service = fake_service()
    with serving(service, tools=True) as found:
        yield found


def echoing(status: int = 200, kind: bytes = b"application/json") -> Any:
    """An application that answers with the body of the request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive()).get("body", b"") if scope["method"] == "POST" else b"{}"
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": body})

    return app


def ask(app: Any, method: str, path: str, **request: Any) -> httpx.Response:
    async def one() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.request(method, path, **request)

    return asyncio.run(one())


def guarded(app: Any = None, **settings: Any) -> Gate:
    return Gate(app or echoing(), calls=Calls(functions=lambda: range(5)), **settings)


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/proxy=https://example.org",
        "/gradio_api/file=https://example.org/x",
        "/gradio_api/file=http://169.254.169.254/latest",
        "/gradio_api/file=app.py",
        f"/gradio_api/file={files.PLOTLY}",
        "/files/app.js",
        "/files/0000000000000000/../app.py",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=../app.py",
        "/gradio_api/file=%2Fetc%2Fpasswd",
        "/gradio_api/file/app.py",
        "/file=/etc/passwd",
        "/gradio_api/vibe-code",
        "/gradio_api/vibe-edit/",
        "/gradio_api/dev/reload",
        "/gradio_api/component_server",
        "/gradio_api/deep_link",
        "/gradio_api/runs",
        "/gradio_api/upload_progress?upload_id=q",
        "/gradio_api/stream/1/2/3/playlist.m3u8",
        "/monitoring",
        "/monitoring/summary",
        "/custom_component/1/client/component/x.js",
        "/docs",
        "/openapi.json",
        "/login",
        "//etc/passwd",
        "/assets",
    ],
)
def test_what_the_page_does_not_need_is_not_found(address: str, path: str):
    for method in ("GET", "POST"):
        found = http.request(method, address + path)
        assert found.status_code in (404, 405), found.text[:200]


@pytest.mark.parametrize("path", ["/assets/../../app.py", "/static/..%2f..%2f..%2fapp.py", "/assets/%2e%2e/%2e%2e/%2e%2e/app.py"])
def test_no_path_leaves_a_served_folder(address: str, path: str):
    found = http.get(address + path)
    assert found.status_code in (403, 404)
    assert "ADED Explorer" not in found.text


@pytest.mark.parametrize("path", ["/assets/" + "a" * 5000, "/static/" + "a" * 300, "/svelte" + "/a" * 600, "/assets/a%00b"])
def test_a_path_that_no_file_system_can_have_is_not_found(address: str, path: str):
    assert http.get(address + path).json() == {"error": "not found", "reason": "path"}


@pytest.mark.parametrize("path", ["/gradio_api/mcp/<b>/gradio_api/mcp/", "/gradio_api/mcp/messages/", "/gradio_api/mcp/sse"])
def test_tools_have_one_address(address: str, path: str):
    assert http.get(address + path).status_code == 404


@pytest.mark.parametrize("root_path", ["", "/aded"])
def test_a_malformed_forwarded_host_is_refused(root_path: str):
    with serving(fake_service(), tools=True, root_path=root_path) as address:
        for path in ("/", "/config", "/gradio_api/mcp/"):
            found = http.get(address + path, headers={"X-Forwarded-Host": "[::1"})
            assert found.status_code == 400, path
            assert "x-forwarded-host is malformed" in found.json()["error"]
            assert http.get(address + path, headers={"X-Forwarded-Host": "[::1]:80"}).status_code == 200, path


def test_headers_that_only_gradio_may_set_are_removed():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": scope["headers"]})
        await send({"type": "http.response.body", "body": b""})

    found = ask(guarded(app), "GET", "/", headers={"X-Gradio-User": "mcp", "X-Gradio-Server": "http://there", "X-Other": "1"})
    assert "x-other" in found.headers
    assert not {"x-gradio-user", "x-gradio-server"} & set(found.headers)


@pytest.mark.parametrize("path", ["call/v2/generate/nope", "call/generate/nope"])
def test_answers_of_an_unknown_call_are_not_found(address: str, path: str):
    found = http.get(f"{address}/gradio_api/{path}")
    assert found.status_code == 404
    assert "no call has this event_id" in found.json()["error"]


@pytest.mark.parametrize("stream", ["", "&stream=s&after=0", "&stream=s&after=7", "&stream=%20&after=x"])
def test_an_unknown_session_is_reported_in_the_form_that_gradios_clients_read(address: str, stream: str):
    found = http.get(f"{address}/gradio_api/queue/data?session_hash=nope{stream}")
    message = json.loads(found.text.removeprefix("data: "))
    assert (message["msg"], message["session_not_found"]) == ("unexpected_error", True)


def test_what_the_page_needs_is_served(address: str):
    for path in ("/", "/config", "/theme.css", "/gradio_api/info", "/healthz", "/metrics", "/robots.txt"):
        assert http.get(address + path).status_code == 200, path
    assert http.get(f"{address}/{files.page_files()['app.css'].address}").status_code == 200


def test_every_answer_has_strict_headers(address: str):
    for path in ("/", "/nowhere", "/metrics", "/gradio_api/info"):
        headers = http.get(address + path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["connect-src"] == policy["frame-ancestors"] == "'self'"
        assert policy["object-src"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-frame-options"] == "SAMEORIGIN"


def test_only_the_named_sites_may_frame_the_page():
    headers = security_headers(["https://frame.example"])
    assert "frame-ancestors 'self' https://frame.example" in headers["content-security-policy"]
    assert "x-frame-options" not in headers


def test_a_header_that_the_application_sets_too_is_replaced():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"X-Content-Type-Options", b"sniff")]})
        await send({"type": "http.response.body", "body": b""})

    assert ask(guarded(app), "GET", "/").headers.get_list("x-content-type-options") == ["nosniff"]


def test_a_failed_call_has_a_status_of_the_client_and_a_crash_one_of_the_server():
    body = json.dumps({"data": [], "fn_index": 0})
    assert ask(guarded(echoing(500)), "POST", "/gradio_api/run/predict", content=body).status_code == 422
    assert ask(guarded(echoing(500, b"text/plain")), "POST", "/gradio_api/run/predict", content=body).status_code == 500
    assert ask(guarded(echoing(500)), "GET", "/config").status_code == 500


def test_the_answers_of_a_call_have_one_reader():
    """Each of two readers would receive a part of them. The second one is refused; the first one reads on."""
    refused: list[str] = []

    async def both() -> tuple[int, int]:
        reading, refused_second = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            reading.set()
            await refused_second.wait()
            await echoing()(scope, receive, send)

        transport = httpx.ASGITransport(guarded(app, refused=refused.append))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            first = asyncio.create_task(client.get("/gradio_api/call/generate/abc"))
            await reading.wait()
            second = await client.get("/gradio_api/call/v2/generate/abc")
            refused_second.set()
            return (await first).status_code, second.status_code

    assert asyncio.run(both()) == (200, 409)
    assert refused == ["malformed"]


def test_the_size_of_a_call_is_limited_and_a_valid_one_is_passed_on_unchanged():
    reasons: list[str] = []
    app = guarded(refused=reasons.append)
    body = b'{"data": [], "fn_index": 0, "session_hash": "abc"}'
    assert ask(app, "POST", "/gradio_api/queue/join", content=body).content == body
    large = ask(app, "POST", "/gradio_api/queue/join", content=b'{"data": ["' + b"a" * MAX_BODY_BYTES + b'"], "fn_index": 0}')
    assert (large.status_code, large.json()["reason"], reasons) == (413, "large", ["large"])


def test_one_panel_may_be_shown_in_a_frame_of_any_site_unless_switched_off():
    whole, panel = ask(guarded(), "GET", "/"), ask(guarded(), "GET", "/embed")
    assert whole.headers["x-frame-options"] == "SAMEORIGIN"
    assert "x-frame-options" not in panel.headers
    assert "frame-ancestors 'self' *" in panel.headers["content-security-policy"]
    assert panel.status_code == 200
    assert ask(guarded(embeds=False), "GET", "/embed").status_code == 404


def test_only_what_the_panel_loads_may_be_read_by_any_site():
    """As a frame with the attribute ``sandbox`` needs, which has no origin."""
    shared = (
        "/assets/index.js",
        "/static/fonts/a.woff2",
        "/theme.css",
        "/files/0123456789abcdef/app.js",
        "/races/0123456789abcdef",
    )
    for path in shared:
        assert ask(guarded(), "GET", path).headers["access-control-allow-origin"] == "*", path
        assert "access-control-allow-origin" not in ask(guarded(embeds=False), "GET", path).headers
    for method, path in (("GET", "/"), ("GET", "/config"), ("GET", "/metrics"), ("GET", "/gradio_api/info"), ("POST", shared[0])):
        assert "access-control-allow-origin" not in ask(guarded(), method, path).headers, path

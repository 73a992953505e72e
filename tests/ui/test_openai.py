"""OpenAI's API with its own client: the texts of ``generate``, conversations, and errors in its format."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from serving_fakes import FakeEngine, GatedEngine, fake_service, serving
from ui_fakes import WORDS, make_trace
from waiting import HANG, api_client, http, until

from aded.core.chat import Chat, Turn
from aded.drafters.registry import METHODS
from ui.serving.openai import routes
from ui.serving.service import Service
from ui.serving.sessions import Sessions

HELLO = [{"role": "user", "content": "hello"}]
CHAT = {"model": "default", "messages": HELLO}
TEXT = {"model": "default", "prompt": "hello"}
RUN = make_trace("aded")
WRITTEN, ACCEPTED = len(RUN.token_ids), sum(step.accepted for step in RUN.steps)


def client_of(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0, timeout=HANG)


@pytest.fixture(scope="module")
def service() -> Service:
    return fake_service(max_new_tokens=64)


@pytest.fixture(scope="module")
def address(service: Service) -> Iterator[str]:
    with serving(service) as found:
        yield found


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[openai.OpenAI]:
    with client_of(address) as found:
        yield found


@pytest.fixture
def gated() -> Iterator[tuple[str, GatedEngine, Service]]:
    engine = GatedEngine()
    service = fake_service(engine, at_once=1, queue_size=0)
    with serving(service) as found:
        yield found, engine, service
        engine.gate.set()


def test_a_chat_completion_has_the_text_of_the_job_and_its_usage(client: openai.OpenAI):
    answer = client.chat.completions.create(**CHAT, max_tokens=32)
    assert (answer.choices[0].message.role, answer.choices[0].message.content) == ("assistant", WORDS)
    assert (answer.object, answer.model, answer.choices[0].finish_reason) == ("chat.completion", "default", "length")
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, WRITTEN, 3 + WRITTEN)
    details = usage.completion_tokens_details
    assert details.accepted_prediction_tokens == ACCEPTED
    assert details.rejected_prediction_tokens == sum(len(step.tree.tokens) - 1 for step in RUN.steps) - ACCEPTED


def test_a_completion_continues_raw_text(client: openai.OpenAI, service: Service):
    answer = client.completions.create(**TEXT, max_tokens=32)
    assert (answer.object, answer.choices[0].text, answer.usage.completion_tokens) == ("text_completion", WORDS, WRITTEN)
    assert service.engine.prompts[-1] == ["hello"]
    assert service.engine.given[-1]["raw"] is True


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_grows_and_ends_with_the_usage_if_it_is_asked_for(client: openai.OpenAI, usage: bool):
    options = {"stream_options": {"include_usage": True}} if usage else {}
    chunks = list(client.chat.completions.create(**CHAT, stream=True, **options))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == WORDS
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert [c.usage.completion_tokens for c in chunks if c.usage] == ([WRITTEN] if usage else [])
    assert len({c.id for c in chunks}) == 1
    texts = list(client.completions.create(**TEXT, stream=True, **options))
    assert "".join(c.choices[0].text for c in texts if c.choices) == WORDS


def test_a_stream_ends_with_done(address: str):
    with http.stream("POST", f"{address}/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert all(json.loads(line.removeprefix("data: "))["object"] == "chat.completion.chunk" for line in lines[:-1])


def test_settings_and_turns_reach_the_engine(client: openai.OpenAI, service: Service):
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "he"}, {"type": "text", "text": "llo"}]},
        {"role": "assistant", "content": "Hello.", "refusal": None, "tool_calls": []},
        {"role": "user", "content": "Bye"},
    ]
    more = {"user": "x", "metadata": {"a": "b"}, "n": 1, "tools": [], "response_format": {"type": "text"}, "logprobs": None}
    client.chat.completions.create(
        model="default:plain", messages=messages, seed=7, stop="\n", temperature=0.5, top_p=0.9, max_completion_tokens=9,
        extra_body={"budget": "12", "top_k": 3}, **more
    )  # fmt: skip
    turns = (Turn("system", "Be brief."), Turn("user", "hello"), Turn("assistant", "Hello."), Turn("user", "Bye"))
    assert service.engine.prompts[-1] == [Chat(turns)]
    given = {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "seed": 7, "max_new_tokens": 9}
    assert service.engine.given[-1] == {**given, "budget": 12, "stop": ("\n",), "raw": False}
    assert service.engine.asked[-1] == ("plain", {})
    client.chat.completions.create(**CHAT, stop=["a", "b"], extra_body={"method": "prompt-lookup"})
    assert (service.engine.given[-1]["stop"], service.engine.asked[-1][0]) == (("a", "b"), "prompt-lookup")


def test_without_settings_the_defaults_of_the_format_are_used(client: openai.OpenAI, service: Service):
    seeds = set()
    for _ in range(2):
        client.chat.completions.create(**CHAT)
        given = service.engine.given[-1]
        assert (given["temperature"], given["top_p"], given["max_new_tokens"]) == (1, 1, 64)
        seeds.add(given["seed"])
    assert len(seeds) == 2, "without a seed each answer has another one"


def test_more_tokens_than_the_limit_are_reported(client: openai.OpenAI):
    answer = client.chat.completions.create(**CHAT, max_tokens=5000)
    assert answer.notices == ["This server writes at most 64 new tokens."]
    assert list(client.chat.completions.create(**CHAT, max_tokens=5000, stream=True))[-1].notices == answer.notices


def test_models_are_listed_with_their_methods(client: openai.OpenAI):
    names = [model.id for model in client.models.list()]
    assert {"default", "second", "default:aded", "second:plain"} < set(names)
    assert len(names) == 2 * (1 + len(METHODS))
    assert client.models.retrieve("default:aded").object == "model"
    with pytest.raises(openai.NotFoundError, match="there is no model 'other'"):
        client.models.retrieve("other")


IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}]
WEATHER = {"type": "function", "function": {"name": "weather"}}


@pytest.mark.parametrize(
    ("change", "status", "param", "words"),
    [
        ({"n": 2}, 400, "n", "n is not supported; leave it out or give 1"),
        ({"n": True}, 400, "n", "n is not supported"),
        ({"logprobs": True}, 400, "logprobs", "logprobs is not supported; leave it out or give false"),
        ({"tools": [WEATHER]}, 400, "tools", "tools is not supported"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format", "response_format is not supported"),
        ({"prediction": {"type": "content", "content": "x"}}, 400, "prediction", "prediction is not supported; leave it out"),
        ({"presence_penalty": 0.5}, 400, "presence_penalty", "presence_penalty is not supported"),
        ({"colour": 1}, 400, "colour", "there is no argument 'colour'; there are messages"),
        ({"messages": IMAGE}, 400, "messages[0].content", "this model reads no images"),
        ({"messages": []}, 400, "messages", "messages is empty"),
        ({"messages": None}, 400, "messages", "messages is missing"),
        ({"messages": ["hello"]}, 400, "messages[0]", "is not an object; give role and content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role", "give system, user, assistant, developer"),
        ({"messages": [{**HELLO[0], "name": "x"}]}, 400, "messages[0].name", "name is not supported"),
        ({"messages": [{"role": "user", "content": " "}]}, 400, None, "The prompt is empty"),
        ({"messages": [{"role": "user", "content": "a" * 20_001}]}, 400, None, "20001 characters"),
        ({"model": "gpt-4o"}, 404, "model", "the model 'gpt-4o' is not available here; give one of: default, second"),
        ({"model": ""}, 404, "model", "is not available here"),
        ({"model": None}, 400, "model", "model is missing; give a name that GET /v1/models lists"),
        ({"model": "default:telepathy"}, 400, "model", "unknown method 'telepathy'; known are plain"),
        ({"model": "default:aded", "method": "plain"}, 400, "method", "leave one of them out"),
        ({"method": 7}, 400, "method", "method is of another type"),
        ({"budget": "lots"}, 400, "budget", "draft budget is 'lots'"),
        ({"max_tokens": 0}, 400, "max_tokens", "max_tokens is out of range; give a number from 1 to 100000"),
        ({"max_tokens": "9"}, 400, "max_tokens", "max_tokens is not a number; give a whole number"),
        ({"max_completion_tokens": 9, "max_tokens": 8}, 400, "max_tokens", "max_completion_tokens and max_tokens differ"),
        ({"temperature": 3}, 400, "temperature", "temperature is out of range; give a number from 0 to 2"),
        ({"seed": -1}, 400, "seed", "seed is out of range"),
        ({"stop": ["x"] * 17}, 400, "stop", "give a string or at most 16"),
        ({"stop": [""]}, 400, "stop", "stop is invalid"),
        ({"stream": "yes"}, 400, "stream", "stream is of another type; give true or false"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options", "or set stream to true"),
        ({"stream": True, "stream_options": {"x": 1}}, 400, "stream_options", "stream_options has no 'x'"),
        ({"keep": True}, 400, "keep", "keep is for a session; name it with prompt_cache_key"),
        ({"prompt_cache_key": "x" * 65}, 400, "prompt_cache_key", "at most 64 characters"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    address: str, change: dict[str, Any], status: int, param: str | None, words: str
):
    answer = http.post(f"{address}/v1/chat/completions", json={**CHAT, **change})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (status, "invalid_request_error", param)
    assert words in error["message"]
    assert "code" in error and len(error["message"]) < 300


def test_a_completion_takes_one_text(address: str):
    for prompt, words in (([1, 2], "the prompt is not one text"), (None, "the prompt is not one text"), (["a", "b"], "one text")):
        answer = http.post(f"{address}/v1/completions", json={**TEXT, "prompt": prompt})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt")
        assert words in answer.json()["error"]["message"]
    assert http.post(f"{address}/v1/completions", json={**TEXT, "prompt": ["hello"]}).json()["choices"][0]["text"] == WORDS


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "chat/completions", b"{", 400, "the body is not JSON; send a JSON object"),
        ("POST", "chat/completions", b"[]", 400, "the body is not an object"),
        ("POST", "chat/completions", b'{"a": "\\ud800"}', 400, "the body is not JSON"),
        ("POST", "completions", b"[" * 70 + b"]" * 70, 400, "nests more than 64"),
        ("POST", "completions", b"x" * (1 << 20 | 1), 413, "the body is larger than 1048576 bytes; send less"),
        ("POST", "embeddings", b"{}", 404, "there are /v1/chat/completions, /v1/completions and /v1/models"),
        ("GET", "chat/completions", b"", 405, "use POST here"),
        ("POST", "models", b"{}", 405, "use GET here"),
    ],
)
def test_malformed_requests_are_answered_in_the_same_format(
    address: str, method: str, path: str, body: bytes, status: int, words: str
):
    answer = http.request(method, f"{address}/v1/{path}", content=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_a_full_queue_and_a_second_request_of_a_session_have_status_429(gated: tuple[str, GatedEngine, Service]):
    address, engine, service = gated
    engine.free = 3
    with client_of(address) as client, client.chat.completions.create(**CHAT, stream=True, prompt_cache_key="mine") as stream:
        assert engine.on.wait(HANG)
        for key, code in (("mine", "session_busy"), ("other", "queue_full")):
            with pytest.raises(openai.RateLimitError) as refused:
                client.chat.completions.create(**CHAT, prompt_cache_key=key)
            assert (refused.value.status_code, refused.value.code, refused.value.type) == (429, code, "rate_limit_error")
        engine.gate.set()
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == WORDS
    assert service.counters.value("aded_refusals_total", {"reason": "full"}) == 1


def test_a_server_that_closes_ends_streams_with_an_error_and_refuses_with_503(gated: tuple[str, GatedEngine, Service]):
    address, engine, service = gated
    engine.free = 3
    with client_of(address) as client, client.chat.completions.create(**CHAT, stream=True) as stream:
        next(stream)
        assert engine.held.wait(HANG)
        assert not service.scheduler.close(0.1)
        with pytest.raises(openai.InternalServerError, match="The server is shutting down") as refused:
            client.chat.completions.create(**CHAT)
        assert (refused.value.status_code, refused.value.code) == (503, "closing")
        with pytest.raises(openai.APIError, match="The server is shutting down"):
            list(stream)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_disconnects_frees_the_model_within_a_step(gated: tuple[str, GatedEngine, Service], stream: bool):
    address, engine, service = gated
    engine.free = 3 if stream else 0

    async def leave() -> None:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0, timeout=HANG) as client:
            asked = asyncio.create_task(client.chat.completions.create(**CHAT, stream=stream))
            if stream:
                await anext(await asked)
            await asyncio.to_thread(engine.held.wait, HANG)
            asked.cancel()

    asyncio.run(leave())
    until(lambda: service.scheduler._running_jobs()[0].control.reason == "left")
    engine.gate.set()
    until(lambda: service.scheduler.running == 0)
    until(lambda: len(service.sessions) == 0)
    assert service.counters.value("aded_runs_total", {"outcome": "left"}) == 1


def test_a_client_that_reads_nothing_frees_the_model(monkeypatch: pytest.MonkeyPatch):
    engine = GatedEngine()
    engine.free = 3
    service = fake_service(engine)
    monkeypatch.setattr(routes, "READER_TIMEOUT", 0.05)
    body = [{"type": "http.request", "body": json.dumps({**CHAT, "stream": True}).encode()}]

    async def receive() -> dict[str, Any]:
        return body.pop() if body else await asyncio.Event().wait()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    asyncio.run(routes.Completions(service, "chat")({"type": "http", "method": "POST", "headers": []}, receive, send))
    engine.gate.set()
    until(lambda: service.counters.value("aded_runs_total", {"outcome": "left"}) == 1)
    service.close()


class OneBadRun(FakeEngine):
    def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
        steps = super().race(decoders, prompts)
        yield next(steps)
        if prompts[0].text == "bad":
            raise RuntimeError("secret: /root/key")
        yield from steps


def test_a_failed_job_is_reported_without_its_details(monkeypatch: pytest.MonkeyPatch):
    bad = {**CHAT, "messages": [{"role": "user", "content": "bad"}]}
    with serving(fake_service(OneBadRun())) as address, client_of(address) as client:
        with pytest.raises(openai.InternalServerError) as failed:
            client.chat.completions.create(**bad)
        assert failed.value.body == {
            "message": "the run failed: RuntimeError; try again", "type": "server_error", "param": None, "code": None
        }  # fmt: skip
        with pytest.raises(openai.APIError, match="the run failed: RuntimeError; try again"):
            list(client.chat.completions.create(**bad, stream=True))
        assert client.chat.completions.create(**CHAT).choices[0].message.content == WORDS


def test_a_queued_stream_is_kept_open_by_comments(gated: tuple[str, GatedEngine, Service], monkeypatch: pytest.MonkeyPatch):
    address, engine, service = gated
    monkeypatch.setattr(routes, "SILENCE", 0.0)
    monkeypatch.setattr(service.models.first, "_thread", type("Busy", (), {"is_alive": lambda self: not engine.gate.is_set()})())
    monkeypatch.setattr(service.models.first, "start", lambda: None)
    monkeypatch.setattr(service.models.first, "_model", object())
    with http.stream("POST", f"{address}/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": waiting"
        engine.gate.set()
        assert [line for line in lines if line][-1] == "data: [DONE]"


def test_a_session_keeps_what_was_learned_and_the_kv_cache(client: openai.OpenAI, service: Service):
    engine = service.engine
    learning = {"extra_body": {"keep": True}}
    for _ in range(2):
        answer = client.chat.completions.create(**CHAT, prompt_cache_key="ours", **learning)
        assert answer.usage.prompt_tokens_details.cached_tokens == 2
    first, second = engine.drafters[-2:]
    assert (first.known, second.known) == (None, first)
    assert engine.caches[-1] is engine.caches[-2] is not None
    client.chat.completions.create(**CHAT, prompt_cache_key="theirs", **learning)
    assert engine.drafters[-1].known is None
    assert engine.caches[-1] is not engine.caches[-2]
    client.chat.completions.create(**CHAT, prompt_cache_key="ours")
    assert engine.drafters[-1] is None, "what was learned is kept only if it is asked for"
    client.chat.completions.create(**CHAT, user="ours")
    assert (engine.drafters[-1], engine.caches[-1]) == (None, None)


def test_what_was_learned_on_a_model_is_not_used_on_another(client: openai.OpenAI, service: Service):
    for model in ("default", "second:prompt-lookup", "default", "second", "second"):
        keep = {"prompt_cache_key": "models", "extra_body": {"keep": True}}
        client.chat.completions.create(**{**CHAT, "model": model}, **keep)
    _, _, again, other, last = service.engine.drafters[-5:]
    assert (again.known, other.known, last.known) == (None, None, other)


def test_a_later_turn_has_the_tokens_of_the_session_of_this_model(client: openai.OpenAI, service: Service):
    client.chat.completions.create(**CHAT, prompt_cache_key="tokens")
    client.chat.completions.create(**CHAT, prompt_cache_key="tokens")
    assert service.engine.prompts[-1][0].ids == (*RUN.header.prompt_tokens, *RUN.token_ids)
    client.chat.completions.create(**{**CHAT, "model": "second"}, prompt_cache_key="tokens")
    assert service.engine.prompts[-1][0].ids == ()
    client.chat.completions.create(**CHAT)
    assert service.engine.prompts[-1][0].ids == ()
    client.completions.create(**TEXT, extra_body={"prompt_cache_key": "tokens"})
    assert service.engine.prompts[-1] == ["hello"]


async def ask(service: Service, body: dict[str, Any]) -> None:
    """A completion, without a server in front of it."""
    sent = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> Any:
        return sent.pop() if sent else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "headers": []}
    await routes.Completions(service, "chat")(scope, receive, send)


def test_sessions_of_different_keys_share_nothing():
    service = fake_service()
    for key in ("ours", "ours~mine", "ours~yours", "ours%7Eyours"):
        asyncio.run(ask(service, {**CHAT, "prompt_cache_key": key, "keep": True}))
    assert len(service.sessions) == 4
    assert [drafter.known for drafter in service.engine.drafters] == [None] * 4
    service.close()


def test_kept_kv_caches_are_limited_and_freed():
    freed: list[str] = []

    class Cache:
        def __init__(self, name: str) -> None:
            self.name, self.bytes = name, 100

        def free(self) -> None:
            freed.append(self.name)

    sessions = Sessions(prefix_bytes=250)
    for name in "abc":
        sessions.get(name).prefix_cache = Cache(name)
    assert (freed, sessions.prefix_bytes) == ([], 300)
    sessions.sweep()
    assert freed == ["a"]
    sessions.free("b")
    assert (freed, sessions.prefix_bytes) == (["a", "b"], 100)


@pytest.mark.slow
@pytest.mark.model
def test_the_text_of_the_real_model_is_that_of_generate_and_a_conversation_continues(real_model):
    from ui.race.engine import Engine
    from ui.race.models import Models
    from ui.serving.service import Service

    asked = {"temperature": 0.8, "top_p": 0.95, "seed": 5}
    budget = {"budget": "12"}
    service = Service(Models(("default",), loader=lambda *_: real_model), engine=Engine())
    with serving(service) as address, client_of(address) as client:
        other = api_client(address)
        told = other.predict("Name three rivers.", max_new_tokens=24, **asked, **budget, api_name="/generate")
        other.close()
        messages: list[Any] = [{"role": "user", "content": "Name three rivers."}]
        settings = {"model": "default", "max_tokens": 24, **asked, "extra_body": budget}
        mine = {**settings, "prompt_cache_key": "a", "extra_body": {**budget, "keep": True}}
        first = client.chat.completions.create(messages=messages, **mine)
        assert first.choices[0].message.content == told["text"]
        messages += [first.choices[0].message, {"role": "user", "content": "And one more?"}]
        kept = client.chat.completions.create(messages=messages, **mine)
        fresh = client.chat.completions.create(messages=messages, **settings)
        assert kept.choices[0].message.content == fresh.choices[0].message.content
        assert kept.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens
        assert fresh.usage.prompt_tokens_details.cached_tokens == 0
        service.sessions.free("v1:a")

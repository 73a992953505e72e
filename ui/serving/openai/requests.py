"""Requests in the format of OpenAI's API become forms. What cannot be done is refused, never ignored. Independent of Gradio."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from aded.core.chat import Chat, Role, Turn
from aded.core.errors import AdedError
from aded.drafters.registry import METHODS, find_method
from ui.numbers import EXACT, FIELDS
from ui.race.form import Form
from ui.race.models import Models
from ui.serving import api
from ui.serving.limits import Limits
from ui.serving.openai.errors import RequestError
from ui.words import cut

T = TypeVar("T")
Kind = Literal["chat", "text"]
Body = Mapping[str, Any]
DEFAULT_METHOD = "aded"
MAX_KEY = 64
MAX_STOPS, MAX_STOP = 16, 200
"""Maximum number of stop strings, and of characters of one."""
NUMBERS: dict[str, float] = {"temperature": 1, "top_p": 1, "top_k": 0}
"""Settings and their defaults in this format."""
LENGTHS: dict[Kind, tuple[str, ...]] = {"chat": ("max_completion_tokens", "max_tokens"), "text": ("max_tokens",)}
USED = ("model", "stream", "stream_options", "stop", "seed", "method", "budget", "prompt_cache_key", "keep", *NUMBERS)
WITHOUT_EFFECT = ("user", "metadata", "safety_identifier", "parallel_tool_calls")
"""Accepted with any value: they change no text."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "store": (False,),
    "service_tier": ("auto", "default"),
    **dict.fromkeys(("audio", "moderation", "prediction", "prompt_cache_options", "prompt_cache_retention"), ()),
    **dict.fromkeys(("reasoning_effort", "verbosity", "web_search_options"), ()),
}
"""Not supported: the values that ask for nothing. Null is one of them for every argument."""
ROLES: dict[str, Role] = {**{role: role for role in get_args(Role)}, "developer": "system"}


@dataclass(frozen=True)
class Request:
    """A valid request.

    Attributes:
        asked: the model as the client wrote it; ``model``: its name in ``Models``.
        key: names the session whose learned state and KV cache are used; None for neither.
        stream: whether the text is streamed; ``usage``: whether the stream ends with the usage.
    """

    kind: Kind
    asked: str
    model: str
    form: Form
    key: str | None
    stream: bool
    usage: bool


def parse(kind: Kind, body: Body, models: Models, limits: Limits) -> Request:
    """The request of a body.

    Raises:
        RequestError: it is invalid, or asks for something that is not supported.
    """
    given = {name: value for name, value in body.items() if value is not None}
    _check_names(given, ("messages" if kind == "chat" else "prompt", *LENGTHS[kind], *USED))
    asked = _typed(given, "model", str, "a name that GET /v1/models lists")
    model, method = _model(asked, models)
    stream = _typed(given, "stream", bool, "true or false", False)
    form = _form(kind, given, limits, _method(given, method))
    return Request(kind, asked, model, form, _key(given), stream, _usage(given, stream))


def model_names(models: Models, unavailable: Mapping[str, str]) -> list[str]:
    """The names that ``model`` may have: each model, and each with a method that can run."""
    methods = [name for name in METHODS if name not in unavailable]
    return [name for model in models.names for name in (model, *(f"{model}:{method}" for method in methods))]


def _check_names(given: Body, used: tuple[str, ...]) -> None:
    """Refuse arguments that would change the answer and are not supported."""
    for name, value in given.items():
        if name in used or name in WITHOUT_EFFECT:
            continue
        if name not in NEUTRAL:
            raise RequestError(f"there is no argument '{cut(name)}'; there are {', '.join(used)}", cut(name), "unknown_parameter")
        if not any(value == neutral and isinstance(value, bool) == isinstance(neutral, bool) for neutral in NEUTRAL[name]):
            words = f" or give {' or '.join(map(json.dumps, NEUTRAL[name]))}" if NEUTRAL[name] else ""
            raise RequestError(f"{name} is not supported; leave it out{words}", name, "unsupported_parameter")


def _typed(given: Body, name: str, kind: type[T], remedy: str, default: T | None = None) -> T:
    """An argument of this type."""
    value = given.get(name, default)
    if not isinstance(value, kind):
        raise RequestError(f"{name} is {'of another type' if name in given else 'missing'}; give {remedy}", name)
    return value


@contextmanager
def _about(param: str) -> Iterator[None]:
    """Errors inside are those of this argument."""
    try:
        yield
    except AdedError as error:
        raise RequestError(str(error), param) from None


def _model(asked: str, models: Models) -> tuple[str, str | None]:
    """The model and the method of a name such as ``default:plain``; None for a name without a method."""
    name, colon, method = asked.rpartition(":")
    if asked in models.names or not colon:
        name, method = asked, ""
    try:
        models.find(name or "?")
    except AdedError as error:
        raise RequestError(f"{error}; for a method, add its name as in MODEL:plain", "model", "model_not_found", 404) from None
    return name, method or None


def _method(given: Body, named: str | None) -> str:
    """The decoding method, from the argument or from the name of the model."""
    method = _typed(given, "method", str, "one of the names that `methods` lists", named or DEFAULT_METHOD)
    with _about("method" if "method" in given else "model"):
        find_method(cut(method))
    if named not in (None, method):
        raise RequestError(f"the model names the method '{named}' and method is '{method}'; leave one of them out", "method")
    return method


def _form(kind: Kind, given: Body, limits: Limits, method: str) -> Form:
    numbers: dict[str, Any] = {**NUMBERS, "seed": secrets.randbelow(EXACT), "max_new_tokens": limits.max_new_tokens}
    lengths = [name for name in LENGTHS[kind] if name in given]
    if any(given[name] != given[lengths[0]] for name in lengths):
        raise RequestError(f"{' and '.join(lengths)} differ; leave one of them out", lengths[-1])
    for name in (*NUMBERS, "seed", *LENGTHS[kind]):
        if name in given:
            key = name if name in numbers else "max_new_tokens"
            with _about(name):
                api.check_number(name, given[name], FIELDS[key])
            numbers[key] = given[name]
    prompt = _chat(given) if kind == "chat" else _text(given)
    with _about("budget"):
        form = api.ask_one(prompt, method, numbers, given.get("budget", "auto"))
        form.settings()
    return replace(form, stop=_stop(given), raw=kind == "text", options=_options(given))


def _options(given: Body) -> dict[str, dict[str, bool]]:
    """Options of the methods: whether drafters continue with what they have learned in the session."""
    if not _typed(given, "keep", bool, "true or false", False):
        return {}
    if "prompt_cache_key" not in given:
        raise RequestError("keep is for a session; name it with prompt_cache_key", "keep")
    return {name: {"keep": True} for name, row in METHODS.items() if "keep" in row.options}


def _text(given: Body) -> str:
    """The prompt of a completion; it may be in a list, but alone."""
    prompt = given.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise RequestError("the prompt is not one text; give a string, and one request for each prompt", "prompt")
    return prompt


def _chat(given: Body) -> Chat:
    messages = _typed(given, "messages", list, "a list of objects with role and content")
    if not messages:
        raise RequestError("messages is empty; give one message or more", "messages")
    return Chat(tuple(_turn(message, f"messages[{index}]") for index, message in enumerate(messages)))


def _turn(message: Any, where: str) -> Turn:
    if not isinstance(message, dict):
        raise RequestError(f"{where} is not an object; give role and content", where)
    role = ROLES.get(role) if isinstance(role := message.get("role"), str) else None
    if role is None:
        raise RequestError(f"{where} has another role; give {', '.join(ROLES)}", f"{where}.role")
    for name, value in message.items():
        if name not in ("role", "content") and value not in (None, [], {}):
            raise RequestError(
                f"{where}: {cut(name)} is not supported; leave it out", f"{where}.{cut(name)}", "unsupported_parameter"
            )
    return Turn(role, _content(message.get("content"), f"{where}.content"))


def _content(content: Any, where: str) -> str:
    """The text of a message: a string, or a list of parts of type text."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise RequestError(f"{where} is not a text; give a string", where)
    if any(part.get("type") != "text" for part in parts):
        raise RequestError(
            f"{where} is not only text; this model reads no images, sound or files", where, "unsupported_parameter"
        )
    if not all(isinstance(part.get("text"), str) for part in parts):
        raise RequestError(f"{where} has a part without text; give a string", where)
    return "".join(part["text"] for part in parts)


def _stop(given: Body) -> tuple[str, ...]:
    stop = given.get("stop", [])
    stops = [stop] if isinstance(stop, str) else stop
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(text, str) and 0 < len(text) <= MAX_STOP for text in stops)
    ):
        raise RequestError(f"stop is invalid; give a string or at most {MAX_STOPS}, each of 1 to {MAX_STOP} characters", "stop")
    return tuple(stops)


def _key(given: Body) -> str | None:
    key = given.get("prompt_cache_key")
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY):
        raise RequestError(
            f"prompt_cache_key is invalid; give a random string of at most {MAX_KEY} characters", "prompt_cache_key"
        )
    return key


def _usage(given: Body, stream: bool) -> bool:
    options = _typed(given, "stream_options", dict, 'an object such as {"include_usage": true}', {})
    if options and not stream:
        raise RequestError("stream_options is for streams; leave it out, or set stream to true", "stream_options")
    if unknown := sorted(set(options) - {"include_usage", "include_obfuscation"}):
        raise RequestError(
            f"stream_options has no '{cut(unknown[0])}'; it has include_usage", "stream_options", "unknown_parameter"
        )
    if options.get("include_obfuscation"):
        raise RequestError("include_obfuscation is not supported; leave it out", "stream_options", "unsupported_parameter")
    return bool(_typed(options, "include_usage", bool, "true or false", False))

"""Answers of a job as objects of OpenAI's API: completions, chunks of a stream, usage. Independent of Gradio."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from aded import __version__
from ui.serving.api import Answer, Runs, text_result
from ui.serving.openai.errors import RequestError
from ui.serving.openai.requests import Request
from ui.words import say

FINISH = {"eos": "stop", "stop": "stop", "length": "length", "context": "length"}
DONE = b"data: [DONE]\n\n"


def result(runs: Runs) -> Answer:
    """The statistics of ``generate``, and the numbers of drafted and accepted tokens."""
    steps = runs[0].steps if runs else []
    drafted = sum(len(step.tree.tokens) - 1 for step in steps)
    return {**text_result(runs), "drafted": drafted, "accepted": sum(step.accepted for step in steps)}


def usage(answer: Answer) -> dict[str, Any]:
    """Token counts; of the draft, tokens of the tree that are not in the text count as rejected."""
    read, written = answer["summary"]["prompt_tokens"], answer["tokens"]
    accepted = answer["accepted"]
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": answer.get("cached_tokens", 0)},
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": answer["drafted"] - accepted,
        },
    }


class Response:
    """The objects of one response, which share an id and a date.

    The last answer of a job is refused with ``RequestError`` if its text is not complete.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        chat = request.kind == "chat"
        self._kind = "chat.completion" if chat else "text_completion"
        self._common = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": request.asked,
            "system_fingerprint": f"aded-{__version__}",
        }
        self._sent = 0
        self._begun = False

    def complete(self, answer: Answer) -> dict[str, Any]:
        """The whole response, from the last answer of the job."""
        self._check(answer)
        message = {"role": "assistant", "content": answer["text"], "refusal": None}
        text = {"message": message} if self._request.kind == "chat" else {"text": answer["text"]}
        return self._object(self._kind, text, answer) | {"usage": usage(answer)}

    def chunks(self, answer: Answer, last: bool = False) -> bytes:
        """What a stream sends for an answer: its new text, and at the end the finish reason and the usage."""
        if last:
            self._check(answer)
        new, self._sent = answer["text"][self._sent :], len(answer["text"])
        parts = [self._chunk(new)] if new or not self._begun else []
        if last:
            parts.append(self._chunk(None, answer))
            parts += [{**self._chunk(None), "choices": [], "usage": usage(answer)}] if self._request.usage else []
        return b"".join(map(event, parts))

    def _check(self, last: Answer) -> None:
        if last["state"] == "shutdown":
            raise RequestError(say("notice.closing"), code="closing", status=503)
        if last["summary"] is None:
            raise RequestError(f"{last['notices'][-1]} before its first token; shorten the prompt", code="time_limit")

    def _chunk(self, text: str | None, end: Answer | None = None) -> dict[str, Any]:
        if self._request.kind == "text":
            content: dict[str, Any] = {"text": text or ""}
        else:
            role = {} if self._begun else {"role": "assistant"}
            content = {"delta": {} if text is None else {**role, "content": text}}
        self._begun = True
        kind = f"{self._kind}.chunk" if self._request.kind == "chat" else self._kind
        return self._object(kind, content, end) | ({"usage": None} if self._request.usage else {})

    def _object(self, kind: str, content: Mapping[str, Any], end: Answer | None) -> dict[str, Any]:
        reason = None if end is None else FINISH.get(end["summary"]["finish_reason"] or "", "length")
        notices = end["notices"] if end else []
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
        return {**self._common, "object": kind, "choices": [choice], **({"notices": notices} if notices else {})}


def event(content: Mapping[str, Any]) -> bytes:
    """A server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()

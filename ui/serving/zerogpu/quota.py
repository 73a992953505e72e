"""Errors of ZeroGPU as messages in the visitor's language, each with its remedy.

The errors are Gradio's, with a title and a message (package ``spaces``, ``zero/client.py`` and ``zero/wrappers.py``).
Independent of Gradio: title and message are read as attributes.
"""

from __future__ import annotations

import re

from ui.words import Message, Refused

RULES = (
    ("quota exceeded.*no gpu was available", "gpu.none"),
    ("quota exceeded.*space app", "gpu.space"),
    ("quota exceeded.*runs limit", "gpu.runs"),
    ("quota exceeded", "gpu.quota"),
    ("illegal duration", "gpu.duration"),
    ("pending credits", "gpu.credits"),
    ("queue timeout|no gpu was available|while re-trying after queue", "gpu.none"),
    ("expired.*token", "gpu.token"),
    (r"no @spaces\.gpu function", "gpu.function"),
    ("task aborted", "gpu.aborted"),
    ("zerogpu worker error", "gpu.worker"),
    ("zerogpu", "gpu.other"),
)
"""A pattern of title and message, and the key of the message to show; the first match is used."""
FAILURES = ("gpu.aborted", "gpu.worker")
LEFT = re.compile(r"\((\d+)s requested vs\. (\d+)s left\)\. Try again in ([^.]+)")
RECORDED: Message = ("gpu.recorded", {})


class NoGpu(Refused):
    """ZeroGPU provides no GPU now."""


class WorkerLost(Refused):
    """The worker failed or was ended: an error of the server, with a message for the visitor."""


def as_refusal(error: Exception) -> Exception:
    """An error of ZeroGPU as a refusal with its remedy, and a hint at recorded races; other errors unchanged."""
    title, message = str(getattr(error, "title", "")), str(getattr(error, "message", error))
    text = f"{title}: {message}"
    key = next((key for pattern, key in RULES if re.search(pattern, text, re.IGNORECASE | re.DOTALL)), None)
    if key is None:
        return error
    left = LEFT.search(message)
    details: list[Message] = [("gpu.left", dict(zip(("asked", "left", "wait"), left.groups())))] if left else []
    kind = WorkerLost if key in FAILURES else NoGpu
    reason = re.sub("<[^>]*>", "", message).strip().rstrip(".")
    return kind(key, and_then=[*details, RECORDED], reason=reason)

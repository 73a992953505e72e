"""What ZeroGPU says when there is no card to be had, in the visitor's words and language, each with its remedy.

Its errors are Gradio's, with a title and a message (package ``spaces``, ``zero/client.py`` and ``zero/wrappers.py``). Knows no
Gradio: title and message are read as they stand.
"""

from __future__ import annotations

import re

from ui.words import Refused, Saying

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
"""A pattern of title and message, and the key of what is said instead; the first that fits."""
FAILURES = ("gpu.aborted", "gpu.worker")
LEFT = re.compile(r"\((\d+)s requested vs\. (\d+)s left\)\. Try again in ([^.]+)")
RECORDED: Saying = ("gpu.recorded", {})


class NoCard(Refused):
    """ZeroGPU gives no card now."""


class WorkerLost(Refused):
    """The worker failed or was ended: a fault, though one that can be said in words."""


def said(error: Exception) -> Exception:
    """An error of ZeroGPU's as one that says the remedy, and that recorded races still play; any other one as it is."""
    title, message = str(getattr(error, "title", "")), str(getattr(error, "message", error))
    text = f"{title}: {message}"
    key = next((key for pattern, key in RULES if re.search(pattern, text, re.IGNORECASE | re.DOTALL)), None)
    if key is None:
        return error
    left = LEFT.search(message)
    details: list[Saying] = [("gpu.left", dict(zip(("asked", "left", "wait"), left.groups())))] if left else []
    kind = WorkerLost if key in FAILURES else NoCard
    reason = re.sub("<[^>]*>", "", message).strip().rstrip(".")
    return kind(key, and_then=[*details, RECORDED], reason=reason)

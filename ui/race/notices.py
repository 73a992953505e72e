"""The messages of a race: progress, errors, and how it ended. Independent of Gradio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aded.core.errors import AdedError
from aded.core.trace import Trace
from aded.drafters.registry import METHODS, RunSpec
from ui.race.models import Loading
from ui.serving.jobs import Control
from ui.serving.limits import Limits
from ui.words import Message, Refused, say, without_folders, word


@dataclass(frozen=True)
class Notice:
    """A message line: ``info``, ``busy`` (with a progress bar), ``done`` or ``error``; its messages are not translated yet.

    Attributes:
        race: id of the race on the page that it is about, beside which alone it is shown; None: beside any.
    """

    kind: str
    messages: Sequence[Message]
    fraction: float | None = None
    race: str | None = None

    @property
    def text(self) -> str:
        """The messages in English."""
        return " ".join(say(key, **values) for key, values in self.messages)


def loading(state: Loading) -> Notice:
    """Progress of loading the model."""
    return Notice("busy", [engine_message(state.text, "…")], state.fraction)


def refusal(error: BaseException) -> Notice:
    """An error as a notice; messages of the engine are unchanged."""
    if isinstance(error, Refused):
        return Notice("error", error.messages)
    if isinstance(error, AdedError):
        return Notice("error", [engine_message(str(error))])
    reason = f"{type(error).__name__}: {without_folders((str(error).splitlines() or [''])[0])}"
    return Notice("error", [("notice.failed", {"reason": reason})])


def preparing(one: RunSpec, run: int, runs: int) -> Message:
    """That the drafter of a run is being made: files are read, and at first code is compiled and costs are measured."""
    name = word(f"article.{one.method}", one.label or METHODS[one.method].label)
    return "notice.preparing", {"name": name, "run": run, "runs": runs}


def prefill_notice(run: int, read: int, tokens: int, runs: int) -> Notice:
    """How much of the prompt a run has read, and all runs together as a fraction."""
    values = {"read": f"{read:,}", "tokens": f"{tokens:,}", "run": run + 1, "runs": runs}
    return Notice("busy", [("notice.prefill", values)], (run + read / tokens) / runs)


def final_notice(
    traces: Sequence[Trace],
    control: Control,
    limits: Limits,
    seconds: float,
    left_out: Sequence[Message],
    deleted: Sequence[Message],
) -> Notice:
    if control.reason:
        ends: dict[str, Message] = {"seconds": ("notice.seconds", {"seconds": f"{control.seconds or limits.run_seconds:g}"})}
        ends["shutdown"] = ("notice.shutdown", {})
        return Notice("info", [ends.get(control.reason, ("notice.stopped" if traces else "notice.early", {})), *deleted])
    reasons: list[Message] = [(f"notice.{t.finish_reason}", {}) for t in traces if t.finish_reason in REPORTED_REASONS]
    notices = [engine_message(trace.header.notice) for trace in traces if trace.header.notice]
    done: Message = ("notice.done", {"seconds": f"{seconds:.1f}"})
    messages = [*reasons, *notices, *left_out, *deleted]
    return Notice("done", [done, *(message for i, message in enumerate(messages) if message not in messages[:i])])


REPORTED_REASONS = ("context", "eos", "stop")
"""Finish reasons that are mentioned in the final notice."""


def engine_message(text: str, end: str = ".") -> Message:
    """An engine message as a sentence, not translated."""
    text = without_folders(text.strip())
    return "notice.text", {"text": text[:1].upper() + text[1:] + ("" if text.endswith((".", "…", "!", "?")) else end)}

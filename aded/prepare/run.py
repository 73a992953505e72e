"""Carries out a plan: writes the text, makes the artifacts one after the other, and reports figures on held-out text."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aded.core.errors import AdedError, InterruptedJobError
from aded.core.paths import artifact_folder
from aded.data import build_datastore, build_matrix
from aded.drafters.registry import METHODS
from aded.engine.loading.weights import Progress
from aded.prepare import figures
from aded.prepare.parts import FOLDERS, TRAINED, existing
from aded.prepare.plan import Plan
from aded.prepare.record import PrepareRecord
from aded.prepare.text import WrittenText, text_folder, write_text

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


class Train(Protocol):
    """Trains an artifact on a text; returns the file of its weights, whose header has figures on the held-out text."""

    def __call__(
        self, part: str, text: WrittenText, minutes: float | None, folder: Path, progress: Progress
    ) -> Path: ...  # pragma: no cover


@dataclass(frozen=True)
class Run:
    """A run: what is made for which model, and how artifacts are trained."""

    target: TargetModel
    plan: Plan
    record: PrepareRecord
    train: Train
    restart: bool
    progress: Progress

    def make(self) -> None:
        """Make all artifacts of the plan. If one fails, its error is recorded, and the next ones are made.

        Raises:
            AdedError: the text cannot be written, or the disk is full.
        """
        plan, target = self.plan, self.target
        count = len(plan.parts) + 1
        with text_folder(target, plan, self.restart) as folder:
            self._start(new_text="batch" not in folder.settings)
            text = self._timed("text", lambda: write_text(target, plan, folder, self._numbered(1, count, "text")))
            self.record.save(text=self.record.body["text"] | text.facts)
            target.release_memory()  # of the last batch of conversations
            for number, part in enumerate(plan.parts, 2):
                self._make_part(part, text, self._numbered(number, count, part))
            folder.keep = any(existing(part, target) is None for part in (*plan.parts, *plan.later))
            self._finish()

    def _start(self, new_text: bool) -> None:
        """Record the plan; unless it continues an unfinished run, remove the checkpoints and entries of that run."""
        from aded.train.loop import remove_checkpoint

        body, plan, target = self.record.body, self.plan, self.target
        if self.restart or not self.record.unfinished(plan.sizes.minutes):
            for part in plan.parts:
                if part in TRAINED and (self.restart or "file" not in body["parts"].get(part, {"file": ""})):
                    remove_checkpoint(self._folder(part))
                body["parts"].pop(part, None)
            body["minutes"] = {}
        if new_text:
            body["text"] = {}
        where = {"device": target.device_name, "dtype": str(target.dtype).removeprefix("torch."), "folder": str(plan.folder)}
        self.record.save(
            **{"model": target.label, "fingerprint": target.fingerprint, **where},
            **{"budget_minutes": plan.sizes.minutes, "minutes": {**body["minutes"], **plan.minutes}},
            **{"left_out": dict(plan.left_out), "finished": False},
        )

    def _finish(self) -> None:
        """Record whether all artifacts that runs with this budget have begun or planned are finished."""
        body = self.record.body
        finished = not self.record.begun() and {*body["minutes"]} <= {"text", *body["parts"]}
        self.record.save(minutes={} if finished else body["minutes"], finished=finished)

    def _make_part(self, part: str, text: WrittenText, progress: Progress) -> None:
        known, target = self.record.part(part), self.target
        known.pop("error", None)
        try:
            path = self._timed(part, lambda: self._build(part, text, progress))
            progress("evaluating on held-out text", None)
            known |= {"file": str(path), "bytes": path.stat().st_size, "figures": self._figures(part, path, text)}
        except InterruptedJobError:
            raise
        except AdedError as error:
            known["error"] = str(error)
        target.release_memory()  # of the trained module and the cached states of the target
        self.record.save()

    def _build(self, part: str, text: WrittenText, progress: Progress) -> Path:
        if (found := existing(part, self.target)) is not None:
            return found
        folder, vocabulary = self._folder(part), text.vocabulary
        if part == "matrix":
            path = folder / "matrix.safetensors"
            build_matrix.count_tokens(text.tokens, vocabulary, path, self.restart, progress)
            return path
        if part == "datastore":
            path = folder / "datastore.safetensors"
            progress("sorting suffixes", None)
            build_datastore.build_file(str(text.tokens), None, vocabulary.separator, self.target.spec, str(path))
            return path
        return self.train(part, text, self.plan.minutes.get(part), folder, progress)

    def _figures(self, part: str, path: Path, text: WrittenText) -> dict[str, Any]:
        if part == "matrix":
            return figures.matrix_figures(self.target, text.held_out)
        if part == "datastore":
            return figures.datastore_figures(self.target, text.held_out)
        return figures.trained_figures(path)

    def _folder(self, part: str) -> Path:
        return artifact_folder(FOLDERS.get(part, part), self.target.label, self.target.fingerprint)

    def _timed(self, name: str, make: Callable[[], Any]) -> Any:
        """The result of ``make``; its time is added to that of earlier, interrupted runs, also if it is interrupted."""
        known = self.record.body["text"] if name == "text" else self.record.part(name)
        started = time.perf_counter()
        try:
            return make()
        finally:
            known["seconds"] = known.get("seconds", 0.0) + time.perf_counter() - started
            self.record.save()

    def _numbered(self, number: int, count: int, name: str) -> Progress:
        def progress(message: str, fraction: float | None = None) -> None:
            self.progress(f"{number} of {count}, {name}, {message}", fraction)

        return progress


def report(record: PrepareRecord, target: TargetModel) -> dict[str, Any]:
    """The record, and which methods can run now, as JSON values."""
    unavailable = {name: reason for name, method in METHODS.items() if (reason := method.unavailable(target)) is not None}
    return {**record.body, "methods": [name for name in METHODS if name not in unavailable], "unavailable": unavailable}


def report_lines(body: dict[str, Any], parts: Sequence[str], record: PrepareRecord) -> Iterator[str]:
    """The report on these artifacts as lines of text."""
    text = body["text"]
    yield (
        f"text: {text['tokens']:,} tokens in {text['conversations']:,} conversations, {text['held_out']:,} of them held out; "
        f"{text['seconds']:.0f} seconds"
    )
    rows = [("part", "file", "MB", "seconds", "on held-out text")]
    for part in parts:
        known, seconds = body["parts"][part], f"{body['parts'][part]['seconds']:.0f}"
        if "error" in known:
            rows.append((part, "–", "–", seconds, f"not made: {known['error']}"))
        else:
            file = os.path.relpath(known["file"], body["folder"])
            rows.append((part, file, f"{known['bytes'] / 1e6:.1f}", seconds, figures.described(part, known)))
    yield from (f"{part:<9}  {file:<33}  {size:>6}  {seconds:>7}  {figure}" for part, file, size, seconds, figure in rows)
    yield f"folder: {body['folder']}, with this report in {record.path.name}"
    yield f"methods that can run now: {', '.join(body['methods'])}"
    if body["unavailable"]:
        yield f"methods that still lack an artifact: {', '.join(body['unavailable'])}"

"""A cell, the measurement of one method on one question in one repeat, and the file from which a benchmark resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError

FORMAT, VERSION = "aded-bench-cells", 1
Key = tuple[str, str, int]
"""(question, method, repeat)."""


@dataclass(frozen=True)
class Cell:
    """The measurement of one method on one question in one repeat.

    Lists hold one entry per timed step, times in milliseconds; they are empty for peers that do not expose them.

    Attributes:
        tokens: tokens generated in the timed steps.
        accepted: draft tokens accepted in the timed steps.
        token_ids: the whole output.
        seconds: duration of the timed steps; None if no model ran.
        step_ms: duration of whole steps.
        budget_nodes: maximum nodes of the draft tree, with the root.
        tree_nodes: nodes of the draft tree, with the root.
        reached_at, accepted_at: see `aded.evaluation.positions.PositionCounts`; empty for peers and in older files.
        memory_mb: peak GPU memory during the run; on a CPU, the process's memory after it.
    """

    question: str
    category: str
    method: str
    repeat: int
    tokens: int
    steps: int
    accepted: int
    token_ids: list[int] = field(default_factory=list)
    seconds: float | None = None
    prefill_ms: float | None = None
    draft_ms: list[float] = field(default_factory=list)
    verify_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)
    update_ms: list[float] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)
    budget_nodes: list[int] = field(default_factory=list)
    tree_nodes: list[int] = field(default_factory=list)
    reached_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    memory_mb: float | None = None

    @property
    def key(self) -> Key:
        return self.question, self.method, self.repeat


def fingerprint(settings: Mapping[str, Any]) -> str:
    """A hash (hex, 16 characters) of everything that must be equal for measurements to be comparable."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


class CellFile:
    """Finished cells, in memory and, if a folder is given, in its ``cells.jsonl``, to which each is appended once measured.

    Raises:
        AdedError: the folder cannot be written, or its file is damaged or has cells of other settings.
    """

    def __init__(self, folder: Path | None, settings: Mapping[str, Any]) -> None:
        self.cells: dict[Key, Cell] = {}
        self._path = folder / "cells.jsonl" if folder else None
        if self._path is None:
            return
        head = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint(settings), "settings": dict(settings)}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            old = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
            complete = old[: old.rfind("\n") + 1]  # drop a line truncated by an interruption
            self._read(complete.split("\n")[:-1], head)
            if not complete:
                self._path.write_text(_line(head), encoding="utf-8")
            elif complete != old:
                self._path.write_text(complete, encoding="utf-8")
        except OSError as error:
            raise AdedError(f"cannot write {self._path}: {error.strerror}; choose another --out") from None
        except UnicodeDecodeError:
            raise self._damaged() from None

    def add(self, cell: Cell) -> None:
        """Add a finished cell.

        Raises:
            AdedError: the file cannot be written.
        """
        self.cells[cell.key] = cell
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(_line(asdict(cell)))
            except OSError as error:
                raise AdedError(f"cannot write {self._path}: {error.strerror}; choose another --out") from None

    def _read(self, lines: list[str], head: Mapping[str, Any]) -> None:
        if not lines:
            return
        try:
            found, *rest = [json.loads(line) for line in lines]
            if found["format"] != FORMAT or found["version"] != VERSION:
                raise ValueError
            cells = [Cell(**body) for body in rest]
        except (ValueError, TypeError, KeyError):
            raise self._damaged() from None
        if found["fingerprint"] != head["fingerprint"]:
            raise AdedError(f"{self._path} was measured with other settings ({_difference(found, head)}); choose another --out")
        self.cells = {cell.key: cell for cell in cells}

    def _damaged(self) -> AdedError:
        return AdedError(f"{self._path} is damaged; remove it or choose another --out")


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    before, now = found.get("settings", {}), wanted["settings"]
    names = [name for name in now if not isinstance(before, dict) or before.get(name) != now[name]]
    return ", ".join(names) or "fewer settings"


def _line(body: Mapping[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"

"""One measured run of one method on one question, and the file that keeps such runs across interruptions."""

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
    """What one run of one method on one question took and wrote.

    Lists hold one entry a timed step, milliseconds; they are empty where a peer's inside cannot be seen.

    Attributes:
        tokens: tokens written by the timed steps; ``seconds``: the time of these steps, or None where no model ran.
        token_ids: all that was written.
        accepted: drafted tokens that were kept in the timed steps.
        step_ms: whole steps.
        budget_nodes: nodes that a draft was allowed; ``tree_nodes``: nodes that it had, both with the root.
        memory_mb: peak of the card's memory during the run, or the process's memory after it.
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
    memory_mb: float | None = None

    @property
    def key(self) -> Key:
        return self.question, self.method, self.repeat


def fingerprint(settings: Mapping[str, Any]) -> str:
    """A hash of all that must be equal for runs to be compared (hex, 16 characters)."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


class CellFile:
    """Finished cells, in memory and, if a folder is given, in its ``cells.jsonl``, one line each as soon as it is measured.

    Raises:
        AdedError: the folder cannot be written, or it holds cells of other settings or a damaged file.
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
            whole = old[: old.rfind("\n") + 1]  # a line cut short by an interruption is measured again
            self._read(whole.split("\n")[:-1], head)
            if not whole:
                self._path.write_text(_line(head), encoding="utf-8")
            elif whole != old:
                self._path.write_text(whole, encoding="utf-8")
        except OSError as error:
            raise AdedError(f"cannot write {self._path}: {error.strerror}; choose another --out") from None
        except UnicodeDecodeError:
            raise self._damaged() from None

    def add(self, cell: Cell) -> None:
        """Keep a finished cell."""
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

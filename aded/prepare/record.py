"""``prepare.json`` beside the artifacts of a model: what runs of ``prepare`` made, and the time limits of an unfinished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aded.core.trace import write_atomically

FILE = "prepare.json"
FORMAT = "aded-prepare"


class PrepareRecord:
    """The record of a model, written after each artifact.

    Attributes:
        path: the file.
        body: JSON values: ``format``; ``model``, ``fingerprint``, ``device``, ``dtype``, ``folder``; ``budget_minutes``;
            ``minutes``, the time limits of an unfinished run; ``text``, its length and the time for writing it; ``parts``, the
            artifacts by name, each with ``seconds``, and with ``file``, ``bytes`` and ``figures`` on held-out text, or ``error``;
            ``left_out``, the artifacts that the model cannot have, with reasons; ``finished``.
    """

    def __init__(self, folder: Path) -> None:
        """Read the record in ``folder``; a missing or damaged record is read as an empty one."""
        self.path = folder / FILE
        try:
            body = json.loads(self.path.read_bytes())
            valid = isinstance(body, dict) and body.get("format") == FORMAT
            valid = valid and all(isinstance(body.get(name), dict) for name in ("minutes", "text", "parts"))
        except (OSError, ValueError, RecursionError):
            valid = False
        self.body: dict[str, Any] = body if valid else {"format": FORMAT, "minutes": {}, "text": {}, "parts": {}}

    def unfinished(self, budget: float | None) -> bool:
        """Whether the latest run had this budget (minutes, None for no limit) and is unfinished."""
        return self.body.get("finished") is False and self.body.get("budget_minutes") == budget

    def started(self, budget: float | None) -> dict[str, float]:
        """The time limits in minutes, by name (``text`` or an artifact), of an unfinished run with this budget; else empty."""
        return self.body["minutes"] if self.unfinished(budget) else {}

    def begun(self) -> set[str]:
        """The artifacts that were begun and neither finished nor failed, because the run was interrupted."""
        return {name for name, known in self.body["parts"].items() if not {"file", "error"} & known.keys()}

    def part(self, name: str) -> dict[str, Any]:
        """The entry of an artifact, added if it is missing; ``save`` writes changes of it."""
        return self.body["parts"].setdefault(name, {})

    def save(self, **more: Any) -> None:
        """Write the record atomically, after updating ``body`` with ``more``.

        Raises:
            AdedError: the file cannot be written.
        """
        self.body |= more
        write_atomically(self.path, json.dumps(self.body, indent=1, ensure_ascii=False, allow_nan=False).encode())

"""``prepare.json`` beside the parts of a model: what the runs of ``prepare`` made, and the division of an unfinished one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aded.core.trace import write_atomically

FILE = "prepare.json"
FORMAT = "aded-prepare"


class PrepareRecord:
    """The record of a model, written after each part.

    Attributes:
        body: JSON values: ``format``; ``model``, ``fingerprint``, ``device``, ``dtype``, ``folder``; ``budget_minutes``;
            ``minutes``, the time limits of an unfinished run; ``text``; ``parts``, each with ``file``, ``bytes``, ``seconds`` and
            ``figures`` on held-out text, or with ``error``; ``left_out``, with reasons; ``finished``.
    """

    def __init__(self, folder: Path) -> None:
        """Read the record in a folder; one that is missing or damaged is empty."""
        self.path = folder / FILE
        try:
            body = json.loads(self.path.read_bytes())
            valid = isinstance(body, dict) and body.get("format") == FORMAT
            valid = valid and all(isinstance(body.get(name), dict) for name in ("minutes", "text", "parts"))
        except (OSError, ValueError, RecursionError):
            valid = False
        self.body: dict[str, Any] = body if valid else {"format": FORMAT, "minutes": {}, "text": {}, "parts": {}}

    def unfinished(self, budget: float | None) -> bool:
        """Whether it is of an unfinished run with this budget."""
        return self.body.get("finished") is False and self.body.get("budget_minutes") == budget

    def started(self, budget: float | None) -> dict[str, float]:
        """The time limits of an unfinished run with this budget."""
        return self.body["minutes"] if self.unfinished(budget) else {}

    def begun(self) -> set[str]:
        """The parts of an unfinished run that were begun and are neither finished nor failed."""
        return {name for name, known in self.body["parts"].items() if not {"file", "error"} & known.keys()}

    def part(self, name: str) -> dict[str, Any]:
        """What is known of a part; changes are kept when the record is saved."""
        return self.body["parts"].setdefault(name, {})

    def save(self, **more: Any) -> None:
        """Write the record atomically, with changed values.

        Raises:
            AdedError: the file cannot be written.
        """
        self.body |= more
        write_atomically(self.path, json.dumps(self.body, indent=1, ensure_ascii=False, allow_nan=False).encode())

"""Question files in the format of Spec-Bench: JSON lines with ``question_id``, ``category`` and ``turns``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from aded.core.errors import AdedError, check_text, first_line
from aded.core.lines import numbered_lines

Item = TypeVar("Item")


@dataclass(frozen=True)
class Question:
    """One question; ``text`` is its first turn."""

    id: str
    category: str
    text: str


def read_questions(path: str | os.PathLike[str]) -> list[Question]:
    """The questions of a file, in file order.

    Raises:
        AdedError: the file is missing or empty, or a line is not a valid question.
    """
    questions: dict[str, Question] = {}
    for number, line in numbered_lines(path, "give a file of questions, one JSON object per line"):
        try:
            question = _question(json.loads(line))
            if question.id in questions:
                raise ValueError(f"question_id {question.id} occurs twice in the file")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
            raise AdedError(f"{path}, line {number} is not a question ({reason}); correct it or leave it out") from None
        questions[question.id] = question
    if not questions:
        raise AdedError(f"{path} holds no question; give a file of questions, one JSON object per line")
    return list(questions.values())


def _question(body: object) -> Question:
    if not isinstance(body, dict):
        raise ValueError("it is not a JSON object")
    turns = body["turns"]
    if not isinstance(turns, list) or not turns or not isinstance(turns[0], str) or not turns[0].strip():
        raise ValueError("'turns' must be a list of texts, the first of them not empty")
    question = Question(str(body["question_id"]), str(body.get("category", "")), turns[0])
    for name, text in asdict(question).items():
        check_text(text, f"its {name}")
    return question


def spread_out(items: Sequence[Item], limit: int | None) -> list[Item]:
    """At most ``limit`` items, spread evenly over the list, so that categories keep their proportions.

    Raises:
        AdedError: the limit is below 1.
    """
    if limit is None:
        return list(items)
    if limit < 1:
        raise AdedError(f"limit is {limit}; give 1 or more")
    count = min(limit, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def digest(path: str | os.PathLike[str]) -> str:
    """A hash (hex, 16 characters) of the file's content."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]

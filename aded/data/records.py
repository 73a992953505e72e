"""Recorded decodes: token ids of prompts and greedy outputs, in JSON Lines files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aded.core.errors import AdedError, check_text, first_line
from aded.core.lines import numbered_lines

LARGEST_ID = 2**31 - 1
"""The largest token id that files may hold."""


@dataclass(frozen=True)
class Record:
    """One recorded decode: token ids of a prompt and of the greedy output."""

    prompt: np.ndarray  # int32 [prompt_length], at least one token
    output: np.ndarray  # int32 [length]
    category: str = ""


def read_records(path: str | os.PathLike[str]) -> list[Record]:
    """Records from a JSON Lines file with the fields ``prompt_ids``, ``output_ids`` and, optionally, ``category``.

    Raises:
        AdedError: the file is missing, or a line is not a record.
    """
    records = []
    for number, line in numbered_lines(path, "give a file of recorded outputs"):
        try:
            body = json.loads(line)
            if not isinstance(body, dict):
                raise ValueError("it is not a JSON object")
            prompt, output = (_token_ids(body[name]) for name in ("prompt_ids", "output_ids"))
            if not len(prompt):
                raise ValueError("prompt_ids is empty")
            category = str(body.get("category", ""))
            check_text(category, "the category")
            records.append(Record(prompt, output, category))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
            raise AdedError(f"{path}, line {number} is not a recorded output ({reason}); record it again") from None
    return records


def records_bytes(records: Iterable[Record]) -> bytes:
    """A file that `read_records` reads."""
    bodies = [{"prompt_ids": one.prompt.tolist(), "output_ids": one.output.tolist()} for one in records]
    return "".join(json.dumps(body) + "\n" for body in bodies).encode()


def _token_ids(values: object) -> np.ndarray:
    if not isinstance(values, list) or any(type(value) is not int or not 0 <= value <= LARGEST_ID for value in values):
        raise ValueError(f"token ids must be a list of whole numbers from 0 to {LARGEST_ID}")
    return np.array(values, dtype=np.int32)

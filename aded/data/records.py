"""Recorded decodes: token ids of prompts and greedy outputs, in JSON Lines files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import numpy as np

from aded.core.errors import AdedError
from aded.core.lines import numbered_lines


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
            prompt, output = (np.array(body[name], dtype=np.int32) for name in ("prompt_ids", "output_ids"))
            if prompt.ndim != 1 or output.ndim != 1 or not len(prompt):
                raise ValueError("token ids must be flat lists, the prompt's not empty")
            records.append(Record(prompt, output, str(body.get("category", ""))))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise AdedError(f"{path}, line {number} is not a recorded output ({error}); record it again") from None
    return records

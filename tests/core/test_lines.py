"""Only a newline character ends a line of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aded.core import errors
from aded.core.errors import AdedError
from aded.core.lines import numbered_lines
from aded.data import corpus
from aded.data.records import read_records
from aded.evaluation.bench.cells import Cell, CellFile
from aded.evaluation.bench.questions import read_questions

NO_LINE_ENDS = ["\u2028", "\u2029", "\u0085"]
"""Characters at which ``str.splitlines`` ends a line and that JSON may contain unescaped."""


def write(path: Path, *bodies: object) -> str:
    path.write_text("".join(json.dumps(body, ensure_ascii=False) + "\n" for body in bodies), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("mark", NO_LINE_ENDS)
def test_every_reader_of_json_lines_keeps_texts_complete(mark: str, tmp_path: Path):
    text, path = f"one{mark}two", tmp_path / "a.jsonl"
    assert corpus.read_texts(write(path, text, {"text": text}, {"turns": [text]})) == [text] * 3
    found = read_questions(write(path, {"question_id": 1, "category": text, "turns": [text]}, {"question_id": 2, "turns": ["b"]}))
    assert [(one.category, one.text) for one in found] == [(text, text), ("", "b")]
    assert [one.category for one in read_records(write(path, {"prompt_ids": [1], "output_ids": [2], "category": text}))] == [text]


@pytest.mark.parametrize("mark", NO_LINE_ENDS)
def test_measured_cells_are_read_again_for_any_category(mark: str, tmp_path: Path):
    cell = Cell("1", f"one{mark}two", "plain", 0, 1, 1, 0)
    CellFile(tmp_path, {}).add(cell)
    assert CellFile(tmp_path, {}).cells == {cell.key: cell}


def test_blank_lines_a_byte_order_mark_and_carriage_returns_are_ignored(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1\r\n\n \n2")
    assert [(number, json.loads(line)) for number, line in numbered_lines(tmp_path / "a", "")] == [(1, 1), (4, 2)]


def test_files_that_cannot_be_read_are_reported_with_a_remedy(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"\xff")
    for name, reason in (("a", "not UTF-8 text"), ("b", "No such file")):
        with pytest.raises(AdedError, match=f"cannot read .*{reason}.*; give a text"):
            list(numbered_lines(tmp_path / name, "give a text"))


def test_an_error_is_reported_in_one_line_even_without_a_message():
    assert errors.first_line(ValueError("\n one \n two")) == "one"
    assert errors.first_line(KeyError()) == "KeyError"
    assert errors.first_line(RuntimeError("\n")) == "RuntimeError"

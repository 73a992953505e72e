"""The log keeps its lines, whatever a stranger's text holds."""

from __future__ import annotations

import logging
import sys

import pytest

from ui.serving.logs import Lines, keep_to_lines


def told(message: str, *values: object, error: bool = False) -> str:
    record = logging.LogRecord("ui", logging.WARNING, __file__, 1, message, values, sys.exc_info() if error else None)
    return Lines().format(record)


def test_no_handler_comes_later_that_keeps_to_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    keep_to_lines()
    logging.basicConfig()  # what `logging.debug(...)` of any module does where there is no handler
    assert [type(handler.formatter) for handler in logging.root.handlers] == [Lines]


def test_no_strangers_text_begins_a_line():
    found = told("refused: %s", "x\nCRITICAL:root:FORGED\rCRITICAL\x1b[2J\u2028CRITICAL\x85")
    first, *rest = found.split("\n")
    assert first == "WARNING: ui: refused: x"
    assert all(line.startswith("    ") for line in rest)
    assert "\\r" in found and "\\x1b[2J" in found and "\\u2028" in found
    assert not set("\r\x1b\x85\u2028") & set(found)


def test_a_traceback_stays_readable_and_begins_no_line_either():
    try:
        raise ValueError("x\nCRITICAL:root:FORGED")
    except ValueError:
        found = told("a run failed", error=True)
    assert "    Traceback (most recent call last):\n" in found
    assert all(line.startswith("    ") for line in found.split("\n")[1:])

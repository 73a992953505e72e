"""Untrusted text cannot start a new log line."""

from __future__ import annotations

import logging
import sys

import pytest

from ui.serving.http.logs import LineFormatter, configure


def logged(message: str, *values: object, error: bool = False) -> str:
    record = logging.LogRecord("ui", logging.WARNING, __file__, 1, message, values, sys.exc_info() if error else None)
    return LineFormatter().format(record)


def test_no_later_handler_has_another_format(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    configure()
    logging.basicConfig()  # called by `logging.debug(...)` if there is no handler
    assert [type(handler.formatter) for handler in logging.root.handlers] == [LineFormatter]


def test_foreign_text_starts_no_line():
    found = logged("refused: %s", "x\nCRITICAL:root:FORGED\rCRITICAL\x1b[2J\u2028CRITICAL\x85")
    first, *rest = found.split("\n")
    assert first == "WARNING: ui: refused: x"
    assert all(line.startswith("    ") for line in rest)
    assert "\\r" in found and "\\x1b[2J" in found and "\\u2028" in found
    assert not set("\r\x1b\x85\u2028") & set(found)


def test_a_traceback_is_readable_and_starts_no_line():
    try:
        raise ValueError("x\nCRITICAL:root:FORGED")
    except ValueError:
        found = logged("a run failed", error=True)
    assert "    Traceback (most recent call last):\n" in found
    assert all(line.startswith("    ") for line in found.split("\n")[1:])

"""Log format: text from outside cannot start a new log line or control the terminal."""

from __future__ import annotations

import logging
import re

FORMAT = "%(levelname)s: %(name)s: %(message)s"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
INDENT = "    "


class LineFormatter(logging.Formatter):
    """Escapes control characters and indents all lines of a record but the first.

    Tracebacks stay readable, but a line break in untrusted text cannot look like a new record.
    """

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        text = CONTROL.sub(lambda found: ascii(found[0])[1:-1], super().format(record))
        return text.replace("\n", f"\n{INDENT}")


def configure() -> None:
    """Use this format for all handlers, and for warnings."""
    logging.captureWarnings(True)
    if not logging.root.handlers:  # else the first call of ``logging.warning`` would add a handler with another format
        logging.root.addHandler(logging.StreamHandler())
    handlers = [handler for name in ("", "uvicorn", "uvicorn.access") for handler in logging.getLogger(name).handlers]
    for handler in [*handlers, *([logging.lastResort] if logging.lastResort else [])]:
        handler.setFormatter(LineFormatter())

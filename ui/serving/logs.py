"""The log keeps its lines: nothing that comes from outside begins one, or moves the terminal that shows it."""

from __future__ import annotations

import logging
import re

FORMAT = "%(levelname)s: %(name)s: %(message)s"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
INDENT = "    "


class Lines(logging.Formatter):
    """Control characters written out, and all lines of a record but the first indented.

    Tracebacks stay readable; a line break in a stranger's text is none that a record could begin behind.
    """

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        text = CONTROL.sub(lambda found: ascii(found[0])[1:-1], super().format(record))
        return text.replace("\n", f"\n{INDENT}")


def keep_to_lines() -> None:
    """Have all handlers that there are, and warnings, keep to it."""
    logging.captureWarnings(True)
    if not logging.root.handlers:  # else the first module that logs by ``logging`` itself adds one that keeps to nothing
        logging.root.addHandler(logging.StreamHandler())
    handlers = [handler for name in ("", "uvicorn", "uvicorn.access") for handler in logging.getLogger(name).handlers]
    for handler in [*handlers, *([logging.lastResort] if logging.lastResort else [])]:
        handler.setFormatter(Lines())

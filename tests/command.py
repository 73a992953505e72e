"""The command line, run in this process."""

from __future__ import annotations

from aded.cli import main


def run(*arguments: object) -> int:
    """The exit status of ``aded`` with these arguments."""
    try:
        return main.main([str(a) for a in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)

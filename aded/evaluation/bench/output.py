"""Writes results to files: JSON, Markdown tables, and an HTML page with charts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError
from aded.core.trace import write_atomically
from aded.evaluation.bench import chart, tables
from aded.evaluation.bench.results import dumps


def write(results: Mapping[str, Any], folder: Path, html: bool) -> list[str]:
    """Write ``results.json``, ``table.md`` and, if ``html`` and Plotly is installed, ``results.html``; returns notes.

    Raises:
        AdedError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AdedError(f"cannot write {folder}: {error.strerror}; choose another --out") from None
    write_atomically(folder / "results.json", (dumps(results, indent=1) + "\n").encode())
    write_atomically(folder / "table.md", tables.markdown(results).encode())
    if not html:
        return []
    page = chart.page(results)
    if page is None:
        return ["results.html was not written: Plotly is not installed"]
    write_atomically(folder / "results.html", page.encode())
    return []

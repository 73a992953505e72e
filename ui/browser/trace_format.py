"""What the browser needs to open a saved race: the format, limits and colours, from their definitions in Python."""

from __future__ import annotations

from typing import Any

from aded.core import trace
from aded.evaluation.colours import METHOD_COLOURS
from ui.browser.layout import MAX_NODES
from ui.browser.wire import MAX_PROBABILITY, SERIES_COLOURS

NAMES = ("title", "description")


def trace_format() -> dict[str, Any]:
    """A JSON value, for ``assets/page/record/traceformat.js``."""
    return {
        "schema": without_titles(trace.schema()),
        "versions": trace.READABLE,
        "nesting": trace.MAX_NESTING,
        "fields": trace.MAX_FIELDS,
        "nodes": MAX_NODES,
        "probability": MAX_PROBABILITY,
        "colours": METHOD_COLOURS,
        "series": SERIES_COLOURS,
    }


def without_titles(schema: Any) -> Any:
    """A JSON Schema without its titles and descriptions."""
    if isinstance(schema, list):
        return [without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_titles(part) for key, part in schema.items() if not (key in NAMES and isinstance(part, str))}

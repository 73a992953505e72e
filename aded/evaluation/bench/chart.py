"""Results as one self-contained HTML page with charts; only this module imports Plotly."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from aded.evaluation.bench.aggregate import ALL
from aded.evaluation.bench.tables import REPRESENTATIVES
from aded.evaluation.colours import METHOD_COLOURS

Results = Mapping[str, Any]
OTHER = "#8a8f98"


def page(results: Results) -> str | None:
    """The page as HTML, or None if Plotly is not installed."""
    try:
        import plotly.graph_objects as go
        from plotly.io import to_html
    except ImportError:
        return None
    figures = {"shape": _step_cost, "attention": _attention, "fidelity": _fidelity, "ablation": _ablation}.get(
        results["kind"], _bars
    )(go, results)
    charts = [to_html(figure, full_html=False, include_plotlyjs=i == 0) for i, figure in enumerate(figures)]
    title = escape(f"{results['model'] or 'recorded text'}, {results['device']}")
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
    said = f"<h1>{title}</h1><p><code>{escape(results['command'])}</code></p>"
    return f'{head}<body style="font-family: system-ui, sans-serif; margin: 2rem">{said}{"".join(charts)}</body></html>'


def _attention(go: Any, results: Results) -> list[Any]:
    """Step time by kind of attention, one chart per number of tokens."""
    figures = []
    for context in dict.fromkeys(row["context"] for row in results["rows"]):
        layout = {"title": {"text": f"Step time, ms, {context} tokens"}, "template": "plotly_white", "height": 380}
        figure = go.Figure(layout={**layout, "xaxis": {"title": {"text": "nodes"}, "type": "category"}})
        for kind in results["settings"]["attention"]:
            rows = [row for row in results["rows"] if (row["attention"], row["context"]) == (kind, context)]
            figure.add_trace(go.Bar(x=[row["nodes"] for row in rows], y=[row["step_ms"] for row in rows], name=kind))
        figures.append(figure)
    return figures


def _bars(go: Any, results: Results) -> list[Any]:
    """Throughput and speed-up (if a model ran), tokens per step and host time by method, and one chart by category."""
    names = [("tokens_per_step", "Tokens per step"), ("host_ms", "Host time, ms per step")]
    if results["kind"] == "live":
        names = [("tokens_per_second", "Tokens per second"), ("speedup", "Wall-clock speed-up over plain decoding"), *names]
    total = [row for row in results["rows"] if row["category"] == ALL]
    figures = []
    for name, title in names:
        rows = [row for row in total if row[name] is not None]
        bar = go.Bar(
            x=[row["label"] for row in rows],
            y=[row[name] for row in rows],
            marker_color=[_colour(row["method"]) for row in rows],
            error_y=_errors(rows, name),
            text=[f"{row[name]:.2f}" for row in rows],
        )
        figures.append(go.Figure(bar, layout={"title": {"text": title}, "template": "plotly_white", "height": 380}))
    return [*figures, _categories(go, results)]


def _categories(go: Any, results: Results) -> Any:
    name, title = ("speedup", "Speed-up") if results["kind"] == "live" else ("tokens_per_step", "Tokens per step")
    figure = go.Figure(layout={"title": {"text": f"{title} by category"}, "template": "plotly_white", "height": 420})
    for method in dict.fromkeys(row["method"] for row in results["rows"]):
        rows = [row for row in results["rows"] if row["method"] == method and row[name] is not None]
        if rows:
            x, y = [row["category"] for row in rows], [row[name] for row in rows]
            figure.add_trace(go.Bar(x=x, y=y, name=rows[0]["label"], marker_color=_colour(method)))
    return figure


def _step_cost(go: Any, results: Results) -> list[Any]:
    rows, floor = results["rows"], results["floor_ms"]["measured"]
    line = go.Scatter(x=[r["nodes"] for r in rows], y=[r["step_ms"] for r in rows], mode="lines+markers", name="step")
    title = "Milliseconds per step by nodes (cost, not acceptance)"
    figure = go.Figure(line, layout={"title": {"text": title}, "template": "plotly_white", "height": 420})
    figure.update_xaxes(type="log", tickvals=[r["nodes"] for r in rows], title="nodes")
    figure.add_hline(y=floor, line_dash="dot", annotation_text="one read of the weights at the measured bandwidth")
    return [figure]


def _fidelity(go: Any, results: Results) -> list[Any]:
    """Total variation distance of each LLM representative from the model, by output position and by prompt."""
    figures = []
    for unit in ("token", "prompt"):
        figure = go.Figure(
            layout={"title": {"text": f"Total variation distance from the model, by {unit}"}, "template": "plotly_white"}
        )
        for who in dict.fromkeys(row["representative"] for row in results["rows"]):
            rows = [r for r in results["rows"] if r["representative"] == who and r["where"].startswith(unit)]
            x, y = [r["where"] for r in rows], [r["total_variation"] for r in rows]
            figure.add_trace(go.Scatter(x=x, y=y, name=REPRESENTATIVES.get(who, who), mode="lines+markers"))
        figures += [figure] if any(len(line.x or ()) for line in figure.data) else []
    return figures


def _ablation(go: Any, results: Results) -> list[Any]:
    """One chart per setting: tokens per step by value."""
    figures = []
    for setting in dict.fromkeys(row["setting"] for row in results["rows"]):
        rows = [row for row in results["rows"] if row["setting"] == setting]
        bar = go.Bar(
            x=[str(row["value"]) for row in rows],
            y=[row["tokens_per_step"] for row in rows],
            marker_color=[METHOD_COLOURS["aded"][0 if row["tuned"] else 1] for row in rows],
            text=[f"{row['tokens_per_step']:.2f}" for row in rows],
            customdata=[row["draft_ms"] for row in rows],
            hovertemplate="%{x}: %{y:.3f} tokens per step, draft %{customdata:.3f} ms<extra></extra>",
        )
        figure = go.Figure(
            bar, layout={"title": {"text": f"{setting}: tokens per step"}, "template": "plotly_white", "height": 340}
        )
        figures.append(figure.update_xaxes(type="category"))
    return figures


def _errors(rows: list[Mapping[str, Any]], name: str) -> dict[str, Any] | None:
    spreads = [row.get(f"{name}_spread") for row in rows]
    if not rows or not all(spreads):
        return None
    above = [s[1] - row[name] for s, row in zip(spreads, rows) if s]
    below = [row[name] - s[0] for s, row in zip(spreads, rows) if s]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below}


def _colour(method: str) -> str:
    return METHOD_COLOURS.get(method.split(":")[0], (PEER_COLOURS.get(method, OTHER),))[0]


PEER_COLOURS = {"hf-generate": OTHER, "hf-prompt-lookup": "#b58a3c", "aded-reference": "#b06fd8"}

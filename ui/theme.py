"""Theme, styles and scripts for Gradio: style sheets in the head, and all modules as one script."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gradio as gr
import plotly

from aded.core.paths import ASSETS
from ui import words
from ui.trace_format import trace_format

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"

MODULES = (
    *("dom", "words", "events", "storage", "panels", "exports", "svgboxes", "svgtext", "svgexport", "enginetext", "record"),
    *("keys", "layout", "schema", "traceformat", "opening", "connection", "fields"),
    *("slots", "csv", "verdict", "search", "nodehistory", "searchplayer", "charts", "zoom", "agreement", "treegrid"),
    *(
        "scorecolours",
        "acceptance",
        "tree",
        "bigrams",
        "racehistory",
        "player",
        "edgeroutes",
        "bigramgraph",
        "heatmap",
        "learnedshare",
    ),
    *("matrix", "node", "steptables", "picker", "rejected", "runs", "steptimes", "timestrip", "mask", "prediction", "step"),
    *("stableheight", "shortcuts", "timebar", "save", "link", "number", "sheet", "shortcutsheet", "glossary", "toursteps"),
    *("tour", "learn", "linknote", "dropdowns", "runfocus", "header", "notice", "runtable"),
    *("promptline", "main", "throughput", "throughputchart", "kvcache", "kvcachechart", "compare", "promptseries"),
    *("experiment", "standalone", "site"),
)
"""Modules of ``assets/js``, each after those that it imports."""
STYLES = ("tokens", "frame", "page", "race", "step", "learn", "matrix", "experiment", "file")
"""Style sheets of ``assets/css``, in order."""


@cache
def script() -> str:
    """All modules, texts and the format of races as one script with one global, ``AdedExplorer``: the modules by name.

    Every module has its own scope and returns its exports.
    """
    data = [f"modules.words.setTables({_data(words.tables())});", f"modules.traceformat.setFormat({_data(trace_format())});"]
    parts = ["const modules = {};", *map(_module, MODULES), *data, "return modules;"]
    return "\n".join(["window.AdedExplorer = (() => {", *parts, "})();"])


def _data(value: Any) -> str:
    """JSON that contains no markup."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _module(name: str) -> str:
    text = (ASSETS / "js" / f"{name}.js").read_text("utf-8")
    exports = re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", text, re.MULTILINE)
    text = re.sub(r'^import ({[^}]*}) from "\./(\w+)\.js";$', r"const \1 = modules.\2;", text, flags=re.MULTILINE)
    assert "</script" not in text.lower() and "<!--" not in text, f"{name}.js would end its own script element"
    text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
    return f"modules.{name} = (() => {{\n{text}return {{ {', '.join(exports)} }};\n}})();"


@cache
def template(name: str) -> str:
    """A static template; it never contains tokens."""
    return (ASSETS / "html" / f"{name}.html").read_text("utf-8")


def panel(name: str, mount: str, value: str | None = None, **settings: Any) -> gr.HTML:
    """Static markup whose script draws the value, a JSON string: templates never contain tokens.

    (Not a subclass of ``gr.HTML``: Gradio would write an interface file next to the source of one.)
    """
    return gr.HTML(
        value=value,
        html_template=template(name),
        js_on_load=f"window.AdedExplorer.{mount}",
        apply_default_css=False,
        **{"elem_id": f"ax-{name}", **settings},
    )


def head() -> str:
    """Style sheets and script for the whole page, loaded before any panel.

    (Gradio limits the scope of ``css``, so it could not style the page's background.)
    """
    styles = [f"<style data-ax>{(ASSETS / 'css' / f'{name}.css').read_text('utf-8')}</style>" for name in STYLES]
    return "".join([*styles, f"<script data-ax-script>{script()}</script>"])


def plotly_url() -> str:
    """Address of the chart library, relative, so that it works behind any root path."""
    return f"gradio_api/file={quote(str(PLOTLY))}"


def serve_static() -> None:
    """Let the server serve the chart library."""
    gr.set_static_paths([PLOTLY])


def _fonts(name: str) -> list[str]:
    """A font family of ``assets/css/tokens.css`` as a list of names."""
    found = re.search(rf"--ax-{name}: ([^;]+);", (ASSETS / "css" / "tokens.css").read_text("utf-8"))
    assert found, "tokens.css defines the font families"
    return [family.strip(' "') for family in found[1].split(",")]


def theme() -> gr.themes.Base:
    """Gradio's widgets with the page's palette; the variables change with light and dark themes."""
    colours = {
        "body_background_fill": "var(--ax-paper)",
        "body_text_color": "var(--ax-ink)",
        "body_text_color_subdued": "var(--ax-muted)",
        "background_fill_primary": "var(--ax-card)",
        "background_fill_secondary": "var(--ax-soft)",
        "block_background_fill": "transparent",
        "block_border_color": "var(--ax-line)",
        "block_label_text_color": "var(--ax-muted)",
        "block_label_background_fill": "transparent",
        "block_title_text_color": "var(--ax-muted)",
        "block_info_text_color": "var(--ax-muted)",
        "border_color_primary": "var(--ax-line)",
        "border_color_accent": "var(--ax-accept)",
        "color_accent_soft": "var(--ax-accept-tint)",
        "input_background_fill": "var(--ax-card)",
        "input_border_color": "var(--ax-line)",
        "input_border_color_focus": "var(--ax-accept)",
        "input_placeholder_color": "var(--ax-muted)",
        "button_primary_background_fill": "var(--ax-button)",
        "button_primary_background_fill_hover": "var(--ax-ink)",
        "button_primary_text_color": "var(--ax-on-button)",
        "button_secondary_background_fill": "var(--ax-card)",
        "button_secondary_background_fill_hover": "var(--ax-soft)",
        "button_secondary_text_color": "var(--ax-ink)",
        "button_secondary_border_color": "var(--ax-line)",
        "checkbox_background_color": "var(--ax-card)",
        "checkbox_background_color_selected": "var(--ax-accept)",
        "checkbox_border_color": "var(--ax-muted)",
        "checkbox_label_background_fill": "transparent",
        "checkbox_label_background_fill_hover": "var(--ax-soft)",
        "checkbox_label_background_fill_selected": "var(--ax-soft)",
        "checkbox_label_border_color": "var(--ax-line)",
        "checkbox_label_text_color": "var(--ax-ink)",
        "checkbox_label_text_color_selected": "var(--ax-ink)",
        "slider_color": "var(--ax-accept)",
        "input_border_width": "1px",
        "block_border_width": "0px",
        "block_shadow": "none",
        "block_padding": "0px",
        "input_padding": "9px 11px",
        "block_label_text_size": "14px",
        "block_title_text_size": "14px",
        "block_title_text_weight": "400",
        "button_large_padding": "10px 14px",
        "button_large_text_size": "16px",
    }
    base = gr.themes.Base(
        primary_hue="slate", neutral_hue="slate", font=_fonts("sans"), font_mono=_fonts("mono"), radius_size="md", text_size="md"
    )
    known = {name for name in vars(base) if not name.startswith("_")}
    both = {key: value for name, value in colours.items() for key in (name, f"{name}_dark") if key in known}
    return base.set(**both)

"""Looks and scripts as Gradio wants them: the theme, the style sheet in the head, one script made of the modules."""

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

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"

MODULES = (
    *("dom", "words", "bus", "memory", "panels", "offers", "boxes", "letters", "drawing", "recorded", "record"),
    *("slots", "csv", "verdict", "search", "history", "searching", "charts", "zoom", "agreement", "treegrid"),
    *("shades", "tree", "pairs", "places", "player", "pairroutes", "pairgraph", "heat", "apart", "matrix", "node"),
    *("tables", "picker", "refused", "lanes", "times", "strip", "mask", "guess", "step", "settled", "keys", "bar"),
    *("save", "link", "number", "sheet", "keysheet", "glossary", "stops", "tour", "learn", "linknote", "upload"),
    *("lists", "holding", "hints", "header", "notice", "figures", "promptline", "main", "paying", "payingchart"),
    *("caching", "cachingchart", "compare", "successive", "experiment", "standalone", "site"),
)
"""Scripts of ``assets/js``, each after those that it imports."""
STYLES = ("tokens", "frame", "page", "race", "step", "learn", "matrix", "experiment", "file")
"""Sheets of ``assets/css`` in the order in which they apply."""


@cache
def script() -> str:
    """All modules and the words as one script, with one global: ``AdedExplorer``, which holds the modules by name.

    Every module keeps a scope of its own and hands out what it exports.
    """
    tables = json.dumps(words.tables(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = ["const modules = {};", *map(_module, MODULES), f"modules.words.setTables({tables});", "return modules;"]
    return "\n".join(["window.AdedExplorer = (() => {", *parts, "})();"])


def _module(name: str) -> str:
    text = (ASSETS / "js" / f"{name}.js").read_text("utf-8")
    exports = re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", text, re.MULTILINE)
    text = re.sub(r'^import ({[^}]*}) from "\./(\w+)\.js";$', r"const \1 = modules.\2;", text, flags=re.MULTILINE)
    assert "</script" not in text.lower() and "<!--" not in text, f"{name}.js would end its own element"
    text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
    return f"modules.{name} = (() => {{\n{text}return {{ {', '.join(exports)} }};\n}})();"


@cache
def template(name: str) -> str:
    """A static template; tokens never pass through it."""
    return (ASSETS / "html" / f"{name}.html").read_text("utf-8")


def panel(name: str, mount: str, value: str | None = None, **settings: Any) -> gr.HTML:
    """Static markup whose script draws the value, a JSON string: no token ever passes through a template.

    (Not a subclass of ``gr.HTML``: Gradio would write an interface file beside the source of one.)
    """
    return gr.HTML(
        value=value,
        html_template=template(name),
        js_on_load=f"window.AdedExplorer.{mount}",
        apply_default_css=False,
        **{"elem_id": f"ax-{name}", **settings},
    )


def head() -> str:
    """The style sheets and the script, once for the whole page; both are there before any panel is.

    (Gradio scopes what it is given as ``css``, which would keep it from the page's own ground.)
    """
    styles = [f"<style data-ax>{(ASSETS / 'css' / f'{name}.css').read_text('utf-8')}</style>" for name in STYLES]
    return "".join([*styles, f"<script data-ax-script>{script()}</script>"])


def plotly_url() -> str:
    """Where this server serves the charts' library: relative, so that it holds below any root path."""
    return f"gradio_api/file={quote(str(PLOTLY))}"


def serve_static() -> None:
    """Let the server hand out the charts' library."""
    gr.set_static_paths([PLOTLY])


def _fonts(name: str) -> list[str]:
    """A family of ``assets/css/tokens.css``, its names in turn."""
    found = re.search(rf"--ax-{name}: ([^;]+);", (ASSETS / "css" / "tokens.css").read_text("utf-8"))
    assert found, "the tokens name the families of fonts"
    return [family.strip(' "') for family in found[1].split(",")]


def theme() -> gr.themes.Base:
    """Gradio's own widgets in the page's palette; the variables switch with light and dark by themselves."""
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

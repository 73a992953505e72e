"""Gradio's theme, and panels: static markup that a script draws into."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import gradio as gr

from aded.core.paths import ASSETS
from ui.browser import sources

template = cache(sources.template)


def on_load(code: str) -> str:
    """A panel's script, in which ``ax`` contains the page's functions; it runs when the language is loaded."""
    return f"const ax = window.AdedExplorer; ax.ready().then(() => {{ {code} }});"


def panel(name: str, mount: str, value: str | None = None, **settings: Any) -> gr.HTML:
    """Static markup whose script draws the value, a JSON string: templates never contain tokens.

    (Not a subclass of ``gr.HTML``: Gradio would write an interface file next to the source of one.)
    """
    return gr.HTML(
        value=value,
        html_template=template(name),
        js_on_load=on_load(f"ax.{mount}"),
        apply_default_css=False,
        **{"elem_id": f"ax-{name}", **settings},
    )


def _fonts(name: str) -> list[str]:
    """A font family of ``assets/page/core/tokens.css`` as a list of names."""
    found = re.search(rf"--ax-{name}: ([^;]+);", (ASSETS / "page" / "core" / "tokens.css").read_text("utf-8"))
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

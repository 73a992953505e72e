"""The templates, and the colours and fonts of the style sheets."""

from __future__ import annotations

import re

from ui import theme


def test_templates_have_no_placeholders():
    for file in theme.ASSETS.rglob("*.html"):
        text = file.read_text("utf-8")
        assert "${" not in text
        assert "{{" not in text


def test_colours_of_text_have_contrast_in_both_themes():
    style = (theme.ASSETS / "page" / "core" / "tokens.css").read_text("utf-8")
    for selector in (":root", ".dark"):
        block = re.search(rf"^{re.escape(selector)} {{(.*?)}}", style, re.MULTILINE | re.DOTALL)
        assert block
        colours = dict(re.findall(r"--ax-([\w-]+): (#[0-9a-f]{6})", block.group(1)))
        for background in ("paper", "card", "soft"):
            for ink in ("ink", "muted", "reject", "target"):
                assert contrast(colours[ink], colours[background]) >= 4.5, (selector, ink, background)
        for ink, background in (
            ("accept-text", "accept-tint"),
            ("target", "target-tint"),
            ("ink", "now"),
            ("ink", "accept-tint"),
            ("ink", "formula"),
        ):
            assert contrast(colours[ink], colours[background]) >= 4.5, (selector, ink, background)


def contrast(a: str, b: str) -> float:
    """Contrast ratio as WCAG 2 defines it."""
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_both_font_families_name_fonts_for_every_script_of_the_page():
    for family in ("sans", "mono"):
        names = theme._fonts(family)
        assert {"PingFang SC", "Microsoft YaHei"} < set(names)
        assert any("CJK" in name for name in names)
        assert names[-1] in ("sans-serif", "monospace")

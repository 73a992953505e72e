"""The one script made of the modules, and the style sheet."""

from __future__ import annotations

import re

from ui import theme


def test_every_module_is_in_the_script_after_those_it_imports():
    files = {file.stem: file.read_text("utf-8") for file in (theme.ASSETS / "js").glob("*.js")}
    assert set(theme.MODULES) == set(files)
    for i, name in enumerate(theme.MODULES):
        assert set(re.findall(r'from "\./(\w+)\.js"', files[name])) <= set(theme.MODULES[:i])


def test_a_module_hands_out_what_it_exports_and_nothing_else():
    assert theme.script().startswith("window.AdedExplorer = (() => {\nconst modules = {};")
    part = theme.script().split("modules.picker = ")[1].split("modules.refused = ")[0]
    assert "const { el, setText, withCode } = modules.dom;" in part
    assert part.rstrip().endswith("return { parsePicks, toggled, merged, mountPicker, countText, lossyMark };\n})();")


def test_the_script_is_plain_and_asks_no_other_server():
    script = theme.script()
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    assert "innerHTML" not in script
    assert "</script" not in script.lower()
    assert not re.search("https?:", (script + theme.head()).replace("http://www.w3.org/2000/svg", ""))  # a name, never fetched


def test_templates_hold_no_placeholders():
    for file in (theme.ASSETS / "html").glob("*.html"):
        text = file.read_text("utf-8")
        assert "${" not in text
        assert "{{" not in text


def test_colours_of_text_have_contrast_in_both_themes():
    style = (theme.ASSETS / "css" / "tokens.css").read_text("utf-8")
    for selector in (":root", ".dark"):
        block = re.search(rf"^{re.escape(selector)} {{(.*?)}}", style, re.MULTILINE | re.DOTALL)
        assert block
        colours = dict(re.findall(r"--ax-([\w-]+): (#[0-9a-f]{6})", block.group(1)))
        for ground in ("paper", "card", "soft"):
            for ink in ("ink", "muted", "reject", "own"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (selector, ink, ground)
        for ink, ground in (
            ("accept-text", "accept-tint"),
            ("own", "own-tint"),
            ("ink", "now"),
            ("ink", "accept-tint"),
            ("ink", "formula"),
        ):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (selector, ink, ground)


def contrast(a: str, b: str) -> float:
    """Contrast ratio as WCAG 2 defines it."""
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_both_families_name_fonts_of_every_script_that_the_page_speaks():
    for family in ("sans", "mono"):
        names = theme._fonts(family)
        assert {"PingFang SC", "Microsoft YaHei"} < set(names)
        assert any("CJK" in name for name in names)
        assert names[-1] in ("sans-serif", "monospace")

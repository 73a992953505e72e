"""Screenshots of every panel for the documents: ``python -m tests.screenshots``.

Not a test. It starts the app, opens a bundled race, runs two prompts on the default model for the panels that need a live
race, and writes ``docs/img/NAME-light.webp``, ``NAME-dark.webp`` (1440 pixels wide) and ``NAME-narrow.webp`` (390).
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent))

from browsing import CHROMIUM, FLAGS, ROOT, free_port, part, start, sync_api, tick, wait_for

FOLDER = ROOT / "docs" / "img"
RACE = "A maths teacher"
PROMPTS = ("Why is the sky blue? Answer in two sentences.", "Why is the sea blue? Answer in two sentences.")
TOKENS = 64
QUALITY = 82
MAX_BYTES = 4_000_000
"""Of all screenshots together."""
WIDTHS = {"light": 1440, "dark": 1440, "narrow": 390}

RECORDED = {
    "race": ".ax-race",
    "time": ".ax-time",
    "step": ".ax-step-grid",
    "search": "[data-part='tree-card']",
    "slots": "[data-part='slots-card']",
    "nodes": ".ax-card:has(.ax-nodes)",
    "matrix": "[data-part='matrix-card']",
    "agreement": "[data-part='agreement-card']",
    "bigrams": "[data-part='bigrams-card']",
    "heat": "[data-part='heat-card']",
    "throughput": "[data-part='throughput-card']",
    "kvcache": "[data-part='kvcache-card']",
}
LIVE = {
    "controls": "#ax-controls",
    "learned": "[data-part='learned-card']",
    "compare": "[data-part='compare-card']",
    "memory": "[data-part='memory-card']",
}
OVER = {"tour": "tour", "learn": "learn", "keys": "keys"}
"""Dialogs, by the button that opens them."""


@contextmanager
def served_page() -> Iterator[sync_api.Page]:
    """The app on a free port, in a browser."""
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--no-browser"]
    server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"})
    try:
        wait_for(f"http://127.0.0.1:{port}/", server)
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"http://127.0.0.1:{port}/?__theme=light#race={RACE.replace(' ', '+')}&method=aded")
            page.wait_for_selector(".ax-plot .main-svg", timeout=60_000)
            page.add_style_tag(content="#ax-controls { align-self: flex-start; }")  # as tall as its content
            yield page
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)


def look(page: sync_api.Page, name: str) -> None:
    """Set width and theme: light, dark or narrow."""
    page.set_viewport_size({"width": WIDTHS[name], "height": 900})
    if page.evaluate("document.body.classList.contains('dark')") != (name == "dark"):
        part(page, "theme").click()
    page.mouse.move(0, 0)
    page.wait_for_timeout(1200)


def save(pixels: bytes, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    Image.open(io.BytesIO(pixels)).convert("RGB").save(FOLDER / f"{name}.webp", quality=QUALITY, method=6)


def panels(page: sync_api.Page, places: dict[str, str], before: Callable[[str], None]) -> None:
    for theme in WIDTHS:
        look(page, theme)
        for name, place in places.items():
            before(name)
            save(page.locator(place).first.screenshot(), f"{name}-{theme}")


def search_or_verdict(page: sync_api.Page, name: str) -> None:
    """Show the search in its tenth simulation for its own screenshot, and its end for all others."""
    slider = part(page, "search")
    wanted = "39" if name == "search" else slider.get_attribute("max")
    slider.evaluate("(e, value) => { e.value = value; e.dispatchEvent(new Event('input')); }", wanted)
    page.wait_for_timeout(400)


def sheets(page: sync_api.Page) -> None:
    for theme in WIDTHS:
        look(page, theme)
        for name, button in OVER.items():
            page.evaluate("window.scrollTo(0, 0)")
            page.locator(f"button[data-part='{button}']").click()
            page.wait_for_timeout(900)
            save(page.screenshot(), f"{name}-{theme}")
            page.keyboard.press("Escape")


def run_twice(page: sync_api.Page) -> None:
    """Run two prompts with a drafter that keeps session counts."""
    tick(page, "plain", "aded", "prompt-lookup")
    page.locator("#ax-controls button.label-wrap", has_text="ADED settings").click()
    page.locator("#ax-keep input").check()
    for prompt in PROMPTS:
        start(page, prompt, TOKENS)
        sync_api.expect(page.locator("#ax-run")).to_be_enabled(timeout=180_000)


def main() -> None:
    with served_page() as page:
        panels(page, RECORDED, lambda name: search_or_verdict(page, name))
        sheets(page)
        look(page, "light")
        run_twice(page)
        panels(page, LIVE, lambda name: None)
    size = sum(file.stat().st_size for file in FOLDER.glob("*.webp"))
    print(f"{len(list(FOLDER.glob('*.webp')))} screenshots, {size / 1e6:.1f} MB")
    assert size < MAX_BYTES, f"the screenshots have {size} bytes; lower QUALITY"


if __name__ == "__main__":
    main()

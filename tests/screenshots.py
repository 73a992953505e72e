"""Screenshots of the page for the documents: ``python -m tests.screenshots``.

Not a test. It starts the app, opens bundled races, and writes ``docs/img/NAME-light.webp``, ``NAME-dark.webp``
(1280 x 720 pixels), ``NAME-narrow.webp`` (390 x 844), and ``assets/screenshot.png``.
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

from app_process import ROOT, free_port, wait_for
from browsing import CHARTED, CHROMIUM, FLAGS, open_controls, part, sync_api

FOLDER = ROOT / "docs" / "img"
QUALITY = 82
MAX_BYTES = 4_000_000
"""Of all screenshots together."""
SIZES = {"light": (1280, 720), "dark": (1280, 720), "narrow": (390, 844)}
RACE = "race=A+maths+teacher&method=aded"


def replay(page: sync_api.Page) -> None:
    """The search in its tenth simulation."""
    part(page, "search").evaluate("e => { e.value = '39'; e.dispatchEvent(new Event('input')); }")


def unfold(name: str) -> Callable[[sync_api.Page], None]:
    """Open a section and scroll to it."""
    return lambda page: part(page, name).evaluate("e => { e.open = true; e.scrollIntoView(); }")


def press(name: str) -> Callable[[sync_api.Page], None]:
    return lambda page: page.locator(f".ax-header button[data-part='{name}']").evaluate("e => e.click()")


def nothing(page: sync_api.Page) -> None:
    """The page as it opens."""


VIEWS: dict[str, tuple[str, Callable[[sync_api.Page], None]]] = {
    "draft": (RACE, nothing),
    "search": (RACE, replay),
    "pass": (f"{RACE}&tab=pass", nothing),
    "verify": ("race=Speculative+sampling&method=speculative&step=3&tab=verify", nothing),
    "learn": (f"{RACE}&tab=learn", nothing),
    "many": ("race=Short+facts&method=aded", nothing),
    "lab": (RACE, unfold("lab")),
    "measure": (RACE, unfold("measure")),
    "controls": (RACE, open_controls),
    "present": (f"{RACE}&hide=controls", nothing),
    "lesson": ("lesson=draft-and-verify&part=4", nothing),
    "calculator": (f"{RACE}&tool=calculator", nothing),
    "results": (f"{RACE}&tool=results", nothing),
    "tour": (RACE, press("tour")),
    "glossary": (RACE, press("learn")),
    "keys": (RACE, press("keys")),
}
"""Name: the view as in a link, and what is done before the screenshot."""


@contextmanager
def served_browser() -> Iterator[tuple[str, sync_api.Browser]]:
    """The address of the app on a free port, and a browser."""
    address = f"http://127.0.0.1:{(port := free_port())}/"
    command = [sys.executable, "app.py", "--port", str(port), "--no-browser"]
    server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"})
    try:
        wait_for(address, server)
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            yield address, browser
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)


def shoot(browser: sync_api.Browser, address: str, theme: str) -> None:
    width, height = SIZES[theme]
    for name, (view, prepare) in VIEWS.items():
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(f"{address}?__theme={'dark' if theme == 'dark' else 'light'}#{view}")
        page.wait_for_function(CHARTED, timeout=60_000)
        prepare(page)
        page.wait_for_timeout(1500)
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        image.save(FOLDER / f"{name}-{theme}.webp", quality=QUALITY, method=6)
        if (name, theme) == ("draft", "light"):
            image.save(ROOT / "assets" / "screenshot.png", optimize=True)
        page.close()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.webp"):
        old.unlink()
    with served_browser() as (address, browser):
        for theme in SIZES:
            shoot(browser, address, theme)
    size = sum(file.stat().st_size for file in FOLDER.glob("*.webp"))
    print(f"{len(list(FOLDER.glob('*.webp')))} screenshots, {size / 1e6:.1f} MB")
    assert size < MAX_BYTES, f"the screenshots have {size} bytes; lower QUALITY"


if __name__ == "__main__":
    main()

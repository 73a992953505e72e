"""Helpers of the browser tests: a page whose console and requests are watched, and common actions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from waiting import HANG

from aded.core import trace

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
sync_api.expect.set_options(timeout=1000 * HANG)
HOSTILE = [
    "<img src=x onerror=window.PWN=1>",
    "${1+1}",
    "${Object.assign(window,{PWN:1})}",
    "{{x}}",
    "`",
    "\u202e",
    "<b>bold</b>",
    "</script>",
    " é漢🙂",
    "\n",
]
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""None: Playwright's own."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


COUNTING = """(() => {
    const { setTimeout, clearTimeout, requestAnimationFrame, cancelAnimationFrame, fetch } = window;
    const waiting = new Map();
    const count = (begin, end, delay) => {
        window[begin.name] = (run, ...rest) => {
            const after = delay(...rest);
            const id = begin((...given) => { waiting.delete(begin.name + id); run(...given); }, ...rest);
            if (after !== null) waiting.set(begin.name + id, { run, after });
            return id;
        };
        window[end.name] = id => { waiting.delete(begin.name + id); end(id); };
    };
    count(setTimeout, clearTimeout, (after = 0) => after);
    // The timer of Gradio's status tracker never stops while an event waits, as in the server's queue.
    count(requestAnimationFrame, cancelAnimationFrame, () => new Error().stack.includes("/statustracker") ? null : 0);
    window.fetch = (...request) => {
        const key = {};
        waiting.set(key, { run: request[0], after: 0 });
        return fetch(...request).finally(() => waiting.delete(key));
    };
    const moving = () => document.getAnimations().some(one =>
        one.playState === "running" && one.effect?.getComputedTiming().iterations !== Infinity);
    const coming = soon => [...waiting.values()].filter(one => one.after < soon).map(one => one.run);
    window.atRest = async (seconds, soon) => {
        const end = performance.now() + 1000 * seconds;
        for (let quiet = 0; quiet < 3; quiet = coming(soon).length || moving() ? 0 : quiet + 1) {
            if (performance.now() > end) throw new Error(`not finished: ${[...coming(soon), moving()].join("\\n")}`);
            await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        }
    };
})()"""
"""Counts what the page has started: timers, animation frames, requests without an answer yet, transitions."""


def at_rest(page: sync_api.Page, soon: int = 1000) -> None:
    """Wait until nothing that the page has started is due in the next ``soon`` milliseconds; no race may run or play."""
    page.evaluate("([seconds, soon]) => atRest(seconds, soon)", [HANG, soon])


def drawn(page: sync_api.Page) -> None:
    """Wait until the last action is on screen; the address may not be updated yet."""
    at_rest(page, 300)


class Tab:
    """A page in a separate browser profile, whose console and requests are watched."""

    def __init__(self, browser: sync_api.Browser) -> None:
        self.context = browser.new_context(accept_downloads=True)
        self.context.set_default_timeout(1000 * HANG)
        self.context.add_init_script(COUNTING)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.external: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", self._watch)

    def _watch(self, request: sync_api.Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:")):
            self.external.append(request.url)

    def forget(self) -> None:
        """Reset everything except the files that the browser has loaded and compiled, which take longest."""
        self.page.evaluate(
            "async () => { localStorage.clear(); sessionStorage.clear(); await window.caches?.delete('aded-races'); }"
        )
        self.page.goto("about:blank")
        self.page.emulate_media(reduced_motion="null")
        self.context.clear_cookies()
        self.context.clear_permissions()
        self.errors.clear()
        self.external.clear()

    def open(self, url: str, width: int) -> None:
        """Open this address with an empty history."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto(url)
        session = self.context.new_cdp_session(self.page)
        session.send("Page.resetNavigationHistory")
        session.detach()


SPARE: dict[tuple[sync_api.Browser, str], list[Tab]] = {}
"""Tabs that no test uses now, by browser and server."""


class watched_page:
    """A page that shares nothing with others, whose console and requests are watched."""

    def __init__(
        self,
        browser: sync_api.Browser,
        address: str,
        width: int = 1440,
        query: str = "",
        controls: bool = True,
        sections: bool = False,
    ) -> None:
        """``controls``, ``sections``: open the controls, and the sections below the stage, which a visitor finds closed.

        Drawing the sections takes longer than the rest of the page.
        """
        self._open = unfold if sections else open_controls if controls else None
        self.url, self.width = address + query, width
        self._spare = SPARE.setdefault((browser, "/".join(address.split("/")[:3])), [])
        self._tab = self._spare.pop() if self._spare else Tab(browser)
        self.context, self.page = self._tab.context, self._tab.page

    def __enter__(self) -> sync_api.Page:
        self._tab.open(self.url, self.width)
        self.page.wait_for_selector(".ax-run-view .ax-step", state="attached")
        if self._open:
            self._open(self.page)
            self.page.wait_for_function(CHARTED)
        return self.page

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None or self.page.is_closed():
            self.context.close()
            return
        errors, external = [*self._tab.errors], [*self._tab.external]
        self._tab.forget()
        self._spare.append(self._tab)
        assert errors == []
        assert external == []


CHARTED = """() => window.Plotly && (document.querySelector('.ax-plot .main-svg')
    || !document.querySelector('.ax-plot').offsetParent)"""
"""Whether the chart library is loaded, and the tree is drawn if its tab is on screen."""
MENU = ("tour", "learn", "keys", "theme", "language")
"""Parts in the menu of the bar."""


def part(page: sync_api.Page, name: str) -> sync_api.Locator:
    """A part of the page; for one in the menu of the bar, the menu is opened."""
    if name in MENU:
        part(page, "more").evaluate("e => { e.open = true; }")
        return page.locator(f".ax-header [data-part='{name}']")
    return page.locator(f"[data-part='{name}']")


def unfold(page: sync_api.Page) -> None:
    """Open the controls, and the sections below the stage."""
    page.evaluate("() => { for (const one of document.querySelectorAll('.ax-section')) one.open = true; }")
    open_controls(page)


def open_controls(page: sync_api.Page) -> None:
    page.evaluate("() => document.body.classList.add('ax-drawer')")


def show_tab(page: sync_api.Page, name: str) -> None:
    """A tab of the stage: draft, pass, verify or learn."""
    tab = page.locator(f"[role='tab'][data-tab='{name}']")
    tab.click()
    tab.evaluate("e => e.blur()")


def choose_race(page: sync_api.Page, title: str) -> None:
    """A recorded race, by its chip."""
    page.locator(f".ax-chips [data-race='{title}']").click()


def text_of(page: sync_api.Page, method: str) -> str:
    """The text of a run, without rejected draft tokens, as its DOM text."""
    return "".join(page.locator(f".ax-run-view[data-method='{method}'] .ax-text .ax-tok").all_text_contents())


def tokens_of(page: sync_api.Page, method: str, origin: str) -> list[str]:
    found = page.locator(f".ax-run-view[data-method='{method}'] .ax-tok.ax-{origin}")
    return found.evaluate_all("all => all.map(e => e.textContent)")


def open_file(page: sync_api.Page, path: Path) -> None:
    part(page, "open-file").set_input_files(path)


def open_race(page: sync_api.Page, race: trace.Race, folder: Path) -> None:
    path = folder / "opened.json"
    trace.save(race, path)
    open_file(page, path)
    sync_api.expect(part(page, "source")).to_have_text("from a file")


def notice(page: sync_api.Page) -> sync_api.Locator:
    return page.locator("#ax-notice [data-part='text']")


def tick(page: sync_api.Page, *names: str) -> None:
    """Choose these methods and no others."""
    open_controls(page)
    boxes = page.locator(".ax-picker [data-part='list'] input")
    for box in boxes.all():
        if box.is_checked() and box.get_attribute("value") not in names:
            box.uncheck()
    for name in names:
        page.locator(f".ax-picker input[value='{name}']").check()


def start(page: sync_api.Page, prompt: str, tokens: int) -> None:
    """Press Run and wait until the first step is there."""
    open_controls(page)
    page.locator("#ax-prompt textarea").fill(prompt)
    page.locator("#ax-max-new-tokens input[type=text]").fill(str(tokens))
    page.locator("#ax-run").click()
    live = "() => document.querySelector('[data-part=source]').textContent === 'live race'"
    failed = "document.querySelector('#ax-notice .ax-notice').dataset.kind === 'error'"
    page.wait_for_function(f"() => ({live})() || {failed}")
    if page.evaluate(failed):
        pytest.skip(f"no model here: {notice(page).inner_text()}")
    open_controls(page)


def saved(page: sync_api.Page, what: str, folder: Path) -> Path:
    """A file that is saved from the menu of the page."""
    part(page, "more").evaluate("e => { e.open = false; }")
    if not part(page, "save-menu").evaluate("e => e.open"):
        part(page, "save-menu").locator("summary").first.click()
    part(page, "save-menu").locator(".ax-save-more").evaluate("e => { e.open = true; }")
    with page.expect_download() as download:
        page.locator(f"[data-save='{what}']").click()
    name, kind = what.split(".")
    assert re.fullmatch(rf"{name}(-[\w-]+)?\.{kind}", download.value.suggested_filename)
    path = folder / what
    download.value.save_as(path)
    return path

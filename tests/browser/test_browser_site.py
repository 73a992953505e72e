"""The exported site plays from a disk and from a plain file server, without any other request."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import HOSTILE, choose_race, open_race, part, saved, sync_api, text_of
from extra_card import copy_with_card
from test_browser_export import alone
from ui_fakes import make_race

from aded.core import trace
from ui import site
from ui.browser import files, sources

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two races; the tokens of the second contain markup and code."""
    folder = tmp_path_factory.mktemp("site")
    trace.save(make_race([" one", " two", " three", " four"]), folder / "01-first.json")
    trace.save(make_race(HOSTILE * 2), folder / "02-second.json")
    site.export(folder / "out", [folder / "01-first.json", folder / "02-second.json"])
    return folder / "out"


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
        server.shutdown()


def choose(page: sync_api.Page, title: str) -> None:
    choose_race(page, title)
    sync_api.expect(part(page, "race-title")).to_have_text(title)


def test_the_site_plays_from_a_disk_without_a_network(folder: Path, browser: sync_api.Browser, tmp_path: Path) -> None:
    context, page, wrong = alone(browser, folder / "index.html")
    assert text_of(page, "aded") == " one two three four"
    choose(page, "Second")
    assert text_of(page, "aded") == "".join(HOSTILE * 2)
    page.keyboard.press("Home")
    sync_api.expect(part(page, "where")).to_contain_text("step 1 of")
    part(page, "language").select_option("zh")
    sync_api.expect(part(page, "where")).to_contain_text("第")
    assert page.evaluate("window.PWN") is None
    file = saved(page, "race.html", tmp_path)
    assert wrong == []
    context.close()
    context, page, wrong = alone(browser, file)
    assert text_of(page, "aded") == "".join(HOSTILE * 2)
    sync_api.expect(part(page, "where")).to_contain_text("第")
    assert wrong == []
    context.close()


def test_a_saved_race_opens_on_the_site_and_in_a_saved_page(folder: Path, browser: sync_api.Browser, tmp_path: Path) -> None:
    """By the button and dropped onto the page; a file that is no race is reported."""
    context, page, wrong = alone(browser, folder / "index.html")
    open_race(page, make_race(["a", " b"]), tmp_path)
    assert text_of(page, "aded") == "a b"
    assert page.locator(".ax-chips [aria-pressed='true']").count() == 0
    choose(page, "First")
    file = saved(page, "race.html", tmp_path)
    assert wrong == []
    context.close()
    context, page, wrong = alone(browser, file)
    sync_api.expect(part(page, "race-title")).to_have_text("First")
    drop(page, ("notes.txt", "text"))
    sync_api.expect(part(page, "open-error")).to_contain_text("“notes.txt” is not a JSON file.")
    race = trace.dumps(make_race(["c", " d"]))
    drop(page, ("one.json", race), ("two.json", race))
    sync_api.expect(part(page, "open-error")).to_contain_text("Only one file")
    sync_api.expect(part(page, "race-title")).to_have_text("First")
    drop(page, ("again.json", race))
    sync_api.expect(part(page, "race-title")).to_have_text("again.json")
    sync_api.expect(part(page, "open-error")).to_be_hidden()
    assert text_of(page, "aded") == "c d"
    assert wrong == []
    context.close()


def drop(page: sync_api.Page, *files: tuple[str, str]) -> None:
    """Drops files with these names and contents onto the page."""
    page.evaluate(
        """(files) => {
            const dataTransfer = new DataTransfer();
            for (const [name, content] of files) dataTransfer.items.add(new File([content], name));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        files,
    )


def test_a_link_into_the_site_opens_race_step_and_node(address: str, browser: sync_api.Browser) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.on("request", lambda r: None if r.url.startswith((address.rsplit("/", 1)[0], "data:", "blob:")) else wrong.append(r.url))
    page.goto(f"{address}#race=Second&method=aded&step=2&node=1&theme=dark")
    sync_api.expect(part(page, "race-title")).to_have_text("Second")
    sync_api.expect(part(page, "where")).to_contain_text("step 2 of")
    assert page.locator("body.dark").count() == 1
    sync_api.expect(page.locator(".ax-chips [aria-pressed='true']")).to_have_text("Second")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert [text for text in wrong if "favicon" not in text] == []
    context.close()


def test_a_missing_file_is_reported_and_the_other_races_work(folder: Path, browser: sync_api.Browser, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "traces" / "02-second.js").unlink()
    context, page, _ = alone(browser, copy / "index.html")
    choose_race(page, "Second")
    sync_api.expect(part(page, "note-text")).to_contain_text("02-second.js is missing")
    sync_api.expect(page.locator("#ax-site [role=status]")).to_have_text("")
    choose(page, "First")
    assert text_of(page, "aded") == " one two three four"
    context.close()


def test_a_card_in_one_more_folder_is_drawn_with_its_style_and_texts(
    folder: Path, browser: sync_api.Browser, tmp_path: Path
) -> None:
    """The site made from sources that have one more card."""
    assets = copy_with_card(tmp_path / "assets")
    copy = shutil.copytree(folder, tmp_path / "site")
    index = (copy / "index.html").read_text("utf-8")
    for make in (files.script, sources.styles, functools.partial(sources.template, "race")):
        assert make() in index
        index = index.replace(make(), make(root=assets))
    (copy / "index.html").write_text(index, "utf-8")
    for code, table in sources.words(assets).items():
        (copy / "languages" / f"{code}.js").write_text(site.script_of(f"languages/{code}.js", json.dumps(table)), "utf-8")
    context, page, wrong = alone(browser, copy / "index.html")
    part(page, "measure").locator("summary").first.click()
    card = part(page, "clock-card")
    sync_api.expect(card.locator("h2")).to_have_text("Clock")
    sync_api.expect(card).to_have_css("font-style", "italic")
    sync_api.expect(part(page, "clock-time")).to_have_text(re.compile(r"^\d+\.\d{3} seconds$"))
    before = part(page, "clock-time").inner_text()
    page.keyboard.press("Home")
    sync_api.expect(part(page, "clock-time")).not_to_have_text(before)
    part(page, "language").select_option("zh")
    sync_api.expect(card.locator("h2")).to_have_text("时钟")
    assert wrong == []
    context.close()

"""The wheel, installed into a separate folder and run from another one: nothing of the checkout is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_process import free_port, wait_for
from waiting import HANG

from aded.drafters.registry import METHODS

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("aded", "ui", "assets", "app.py", "pyproject.toml", "requirements.txt", "README.md", "LICENSE")
NOT_INSTALLED = "screenshot.png"
"""Only README.md shows it."""


class Installed:
    """The wheel in ``folder``; its programs run in ``elsewhere``, with the packages of the running environment."""

    def __init__(self, folder: Path, elsewhere: Path) -> None:
        self.folder, self.elsewhere = folder, elsewhere
        self.environment = {**os.environ, "PYTHONPATH": str(folder), "GRADIO_ANALYTICS_ENABLED": "False"}

    def start(self, program: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        command = [str(self.folder / "bin" / program), *arguments]
        return subprocess.Popen(command, cwd=self.elsewhere, env={**self.environment, **more}, text=True, stdout=subprocess.PIPE)

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        """The output of a program, which must end with status 0."""
        process = self.start(program, *arguments, **more)
        printed = process.communicate(timeout=HANG)[0]
        assert process.returncode == 0
        return printed


def pip(command: str, *arguments: str | Path) -> None:
    whole = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--no-deps", *map(str, arguments)]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("installed")
    source = place / "source"
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, source / name)
    pip("wheel", "--no-build-isolation", "--wheel-dir", place, source)
    pip("install", "--no-compile", "--target", place / "folder", next(place.glob("*.whl")))
    (place / "elsewhere").mkdir()
    return Installed(place / "folder", place / "elsewhere")


def files_below(folder: Path) -> Iterator[str]:
    for file in folder.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts and file.name != NOT_INSTALLED:
            yield file.relative_to(folder).as_posix()


def test_every_module_and_every_bundled_file_is_installed(installed: Installed):
    wanted = {f"{package}/{name}" for package in ("aded", "ui") for name in files_below(ROOT / package)}
    wanted |= {f"aded/assets/{name}" for name in files_below(ROOT / "assets")}
    found = {name for name in files_below(installed.folder) if name.startswith(("aded/", "ui/"))}
    assert found == wanted


def test_the_command_line_shows_its_help_and_finds_the_prerequisites_of_every_method(installed: Installed):
    assert installed.run("aded", "--help").startswith("usage: aded ")
    rows = json.loads(installed.run("aded", "methods", "--json"))
    assert len(rows) == len(METHODS)
    assert [row["unavailable"] for row in rows] == [None] * len(METHODS)


def test_a_bundled_recorded_race_is_exported(installed: Installed):
    race = min((installed.folder / "aded" / "assets" / "traces").iterdir())
    assert installed.run("aded", "export", "site", "--out", "site", "--traces", str(race)).startswith("site: ")
    assert (installed.elsewhere / "site" / "index.html").is_file()


def test_a_bundled_lesson_is_valid_without_the_results_that_it_quotes(installed: Installed):
    lesson = installed.folder / "aded" / "assets" / "lessons" / "puct.json"
    assert "no errors" in installed.run("aded", "lesson", "check", str(lesson))


@pytest.mark.model
def test_a_text_is_generated(installed: Installed):
    """Without compilation, because each folder compiles its own code: it saves seconds, and the tokens are the same."""
    printed = installed.run(
        *("aded", "generate", "--prompt", "Count to ten.", "--method", "plain", "--max-new-tokens", "4", "--json"),
        NUMBA_DISABLE_JIT="1",
    )
    assert len(json.loads(printed)["token_ids"]) == 4


def test_the_page_is_served_and_ends_at_a_signal(installed: Installed):
    port = free_port()
    server = installed.start("aded-explorer", "--port", str(port), "--no-browser")
    try:
        wait_for(f"http://127.0.0.1:{port}/", server)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            page = answer.read().decode()
        script = re.search(r'src="(files/[^"]+/app.js)"', page)
        assert script
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{script[1]}") as answer:
            assert b"window.AdedExplorer" in answer.read()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(HANG) == 0

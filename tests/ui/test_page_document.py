"""`docs/page.md` agrees with the repository: its rows name existing tests, its pictures exist and are small."""

from __future__ import annotations

import re

from conftest import ROOT

DOCUMENT = (ROOT / "docs" / "page.md").read_text("utf-8")
ROWS = 54
MAX_BYTES = 4_000_000  # of all pictures together


def test_every_row_occurs_once_in_order():
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", DOCUMENT, re.MULTILINE)] == list(range(1, ROWS + 1))


def test_every_row_names_tests_and_the_tests_of_scripts_exist():
    assert len(re.findall(r"`test_\w+\.py::\w+`", DOCUMENT)) > ROWS
    for file, sentence in re.findall(r"`(js/\w+\.test\.js)`: ([^|<]+?)(?=<br>| \|)", DOCUMENT):
        assert f'test("{sentence}"' in (ROOT / "tests" / file).read_text("utf-8"), sentence


def test_every_picture_that_is_shown_exists():
    shown = re.findall(r"\((img/[\w-]+\.webp)\)", DOCUMENT)
    assert shown
    assert all((ROOT / "docs" / name).is_file() for name in shown)
    assert sum(file.stat().st_size for file in (ROOT / "docs" / "img").iterdir()) < MAX_BYTES

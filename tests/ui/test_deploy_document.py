"""`docs/deploy.md` agrees with the code: every option with its variable and its default."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from ui import app

DOCUMENT = (ROOT / "docs" / "deploy.md").read_text("utf-8")
ROW = re.compile(r"^\| `(--[a-z-]+)` \| (?:`([A-Z_]+)`|–) \| ([^|]+) \|", re.MULTILINE)


def options(capsys: pytest.CaptureFixture[str]) -> set[str]:
    with pytest.raises(SystemExit):
        app.parse(["--help"])
    return set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))


def test_the_table_lists_exactly_the_options(capsys: pytest.CaptureFixture[str]):
    named = [option for option, _, _ in ROW.findall(DOCUMENT)]
    assert len(named) == len(set(named)) > 10
    assert set(named) == options(capsys) - {"--help"}


def test_every_variable_sets_its_option_and_every_default_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch):
    for option, variable, default in ROW.findall(DOCUMENT):
        name = option[2:].replace("-", "_")
        shown = default.strip().strip("`")
        if re.fullmatch(r"[\w.]+", shown) and shown not in ("none", "off"):
            assert str(getattr(app.parse([]), name)) == shown, option
        if variable:
            monkeypatch.setenv(variable, "7")
            assert getattr(app.parse([]), name) == "7", variable
            monkeypatch.delenv(variable)


def test_the_seconds_requested_from_zerogpu_are_those_of_the_code():
    from ui.serving.zerogpu import worker

    stated = re.search(r"asks for (\S+) s, and for each method (\S+) s and (\S+) s per token, (\S+) s at most", DOCUMENT)
    assert stated
    expected = (worker.START_SECONDS, worker.RUN_SECONDS, worker.TOKEN_SECONDS, worker.MAX_SECONDS)
    assert tuple(map(float, stated.groups())) == expected

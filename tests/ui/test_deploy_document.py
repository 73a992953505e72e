"""What `docs/deploy.md` says is so, every option with its variable and default."""

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


def test_every_option_is_in_the_table_and_no_other(capsys: pytest.CaptureFixture[str]):
    named = [option for option, _, _ in ROW.findall(DOCUMENT)]
    assert len(named) == len(set(named)) > 10
    assert set(named) == options(capsys) - {"--help"}


def test_every_variable_sets_its_option_and_every_default_is_the_one(monkeypatch: pytest.MonkeyPatch):
    for option, variable, default in ROW.findall(DOCUMENT):
        name = option[2:].replace("-", "_")
        shown = default.strip().strip("`")
        if re.fullmatch(r"[\w.]+", shown) and shown not in ("none", "off"):
            assert str(getattr(app.parse([]), name)) == shown, option
        if variable:
            monkeypatch.setenv(variable, "7")
            assert getattr(app.parse([]), name) == "7", variable
            monkeypatch.delenv(variable)


def test_the_times_that_zerogpu_is_asked_for_are_the_ones_in_the_code():
    from ui.serving import worker

    said = re.search(r"asks for (\S+) s, and for each lane (\S+) s and (\S+) s a token, (\S+) s at most", DOCUMENT)
    assert said
    given = (worker.START_SECONDS, worker.LANE_SECONDS, worker.TOKEN_SECONDS, worker.LONGEST_SECONDS)
    assert tuple(map(float, said.groups())) == given

"""The engine functions that a race uses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from aded.drafters.registry import METHODS
from ui.race.engine import Engine


def test_the_reason_why_a_method_cannot_run_contains_no_folders(monkeypatch: pytest.MonkeyPatch):
    for name in METHODS:
        monkeypatch.setitem(METHODS, name, replace(METHODS[name], missing=None))
    damaged = replace(METHODS["aded"], missing=lambda model: "damaged matrix /srv/aded/assets/x.safetensors; copy it again")
    monkeypatch.setitem(METHODS, "aded", damaged)
    assert Engine().unavailable(SimpleNamespace()) == {"aded": "damaged matrix x.safetensors; copy it again"}

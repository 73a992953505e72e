"""The engine's calls that a run makes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from aded.drafters.registry import METHODS
from ui.engine import Engine


def test_why_a_method_cannot_run_is_told_without_the_folders_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    for name in METHODS:
        monkeypatch.setitem(METHODS, name, replace(METHODS[name], missing=None))
    damaged = replace(METHODS["aded"], missing=lambda model: "damaged matrix /srv/aded/assets/x.safetensors; copy it again")
    monkeypatch.setitem(METHODS, "aded", damaged)
    assert Engine().unavailable(SimpleNamespace()) == {"aded": "damaged matrix x.safetensors; copy it again"}

"""The notebook of the docs runs from its first cell to its last."""

import json

import pytest
from conftest import ROOT

NOTEBOOK = ROOT / "docs" / "notebooks" / "library.ipynb"


def code_cells() -> list[str]:
    body = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (body["nbformat"], body["nbformat_minor"]) == (4, 5)
    assert all(not cell.get("outputs") for cell in body["cells"]), "outputs are made by the reader"
    return ["".join(cell["source"]) for cell in body["cells"] if cell["cell_type"] == "code"]


@pytest.mark.model
@pytest.mark.slow
def test_every_cell_runs(real_model, monkeypatch, capsys):
    from aded import TargetModel

    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *given: real_model))
    names: dict = {}
    for cell in code_cells():
        exec(compile(cell, str(NOTEBOOK), "exec"), names)
    printed = capsys.readouterr().out
    assert "plain: 1.00 tokens per step" in printed
    assert names["trace"].tokens_per_step > 1.2
    assert len(names["figure"].data) == 3


def test_it_has_fifteen_cells_of_code_or_fewer():
    assert 10 <= len(code_cells()) <= 15

"""One setting changed at a time: the rows, what they run on, and what is written."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from fakes import VOCAB, tiny_target

from aded.cli import main
from aded.core.errors import AdedError
from aded.data.records import Record
from aded.drafters.aded_options import AdedOptions
from aded.drafters.methods.aded import AdedDrafter
from aded.engine.target_model import TargetModel
from aded.evaluation import ablation
from aded.evaluation.ablation import BUDGET, SWEEPS, Variant, variants
from aded.evaluation.replay import replay
from aded.ngram.trigram import TrigramMatrix

MATRIX = next((ROOT / "assets").glob("*.trigram.safetensors"))


def quiet(message: str, fraction: float | None = None) -> None:
    pass


@pytest.fixture(scope="module")
def records() -> list[Record]:
    rng = np.random.default_rng(0)
    texts = [np.tile(rng.integers(3, VOCAB, 12), 6).astype(np.int32) for _ in range(3)]
    return [Record(text[:15], text[15:], category) for text, category in zip(texts, "aab")]


@pytest.fixture(scope="module")
def matrix() -> TrigramMatrix:
    return TrigramMatrix.build(
        np.random.default_rng(1).integers(0, VOCAB, 2000), separator=0, vocab_size=VOCAB, fingerprint="abc"
    )


@pytest.mark.parametrize(("model", "sampling"), [(False, False), (True, False), (True, True)])
def test_each_row_changes_one_setting_and_one_row_of_each_is_as_tuned(model: bool, sampling: bool) -> None:
    rows = variants(["small"], model=model, sampling=sampling)
    axes = [axis for axis in SWEEPS if sampling or axis != "coupling"]
    assert list(dict.fromkeys(row.axis for row in rows)) == axes
    for axis in axes:
        assert sum(row.tuned for row in rows if row.axis == axis) == 1, axis
    tuned = asdict(AdedOptions.tuned())
    for row in rows:
        changed = {name for name, value in asdict(row.options).items() if value != tuned[name]}
        changed |= {"budget"} if row.budget != BUDGET else set()
        changed |= {"corpus"} if row.matrix != "full" else set()
        changed -= {"feedback"} if row.axis == "adaptation" else set()
        if row.axis != "simulations":  # 36 is the automatic number (tuned: 0) at this budget
            assert changed == (set() if row.tuned or row.axis == "adaptation" else {row.axis})
    assert any(row.value == "small" for row in rows if row.axis == "corpus")
    assert model == any(row.value == ablation.NEEDS_MODEL for row in rows)


def test_the_tuned_number_of_simulations_is_that_of_the_drafter(matrix: TrigramMatrix, records: list[Record]) -> None:
    (row,) = (row for row in variants((), ["simulations"], model=False) if row.tuned)
    made = [replay(AdedDrafter(matrix, VOCAB, options), records, BUDGET).all for options in (AdedOptions.tuned(), row.options)]
    assert made[0].tokens == made[1].tokens
    assert made[0].steps == made[1].steps
    assert made[0].drafted == made[1].drafted


def test_rows_on_recorded_text_are_replays_of_the_changed_drafter(matrix: TrigramMatrix, records: list[Record]) -> None:
    rows = variants((), ["depth", "corpus"], model=False)
    found = ablation.on_records(rows, {"full": matrix}, VOCAB, records, quiet)
    for row, variant in zip(found, rows):
        base = None if variant.value == "none" else matrix
        options = replace(AdedOptions.tuned(), depth=variant.value) if variant.axis == "depth" else AdedOptions.tuned()
        expected = replay(AdedDrafter(base, VOCAB, options), records, BUDGET)
        assert row["tokens_per_step"] == pytest.approx(expected.all.tokens_per_step, abs=1e-4)
        assert row["categories"] == {k: pytest.approx(t.tokens_per_step, abs=1e-4) for k, t in expected.categories.items()}


def test_without_adaptation_nothing_is_learned_in_the_session(matrix: TrigramMatrix, records: list[Record]) -> None:
    """A repeating text is not drafted better, and every step has the draft of a new drafter."""
    none, text = variants((), ["adaptation"], model=False)
    assert (none.value, text.value) == ("none", "text")
    found = ablation.on_records([none, text], {"full": matrix}, VOCAB, records, quiet)
    assert found[0]["tokens_per_step"] < found[1]["tokens_per_step"]
    drafter = ablation.make_drafter(none, {"full": matrix}, VOCAB)
    from aded.drafters.base import Context

    trees = []
    for record in (records[0], Record(np.array([1], np.int32), np.array([2], np.int32))):
        drafter.start(record.prompt.tolist())
        context = Context(records[0].prompt, len(records[0].prompt))
        trees.append(drafter.propose(context, 32).tokens.tolist())
    assert trees[0] == trees[1]


def test_questions_are_answered_with_every_way_of_learning(tmp_path: Path, monkeypatch, capsys) -> None:
    target = tiny_target("llama")
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *a, **k: target))
    (tmp_path / "q.jsonl").write_text(json.dumps({"question_id": 1, "category": "x", "turns": ["hello there"]}) + "\n")
    arguments = [
        "ablate",
        "--questions",
        str(tmp_path / "q.jsonl"),
        "--settings",
        "adaptation",
        "--max-new-tokens",
        "40",
        "--json",
    ]
    assert main.main(arguments) == 0
    body = json.loads(capsys.readouterr().out)
    assert [row["value"] for row in body["rows"]] == ["none", "text", "text and rejected nodes"]
    assert [row["tuned"] for row in body["rows"]] == [False, False, True]
    assert all(row["tokens_per_step"] >= 1 for row in body["rows"])
    assert body["rows"][0]["categories"].keys() == {"x"}
    arguments[arguments.index("adaptation")] = "coupling"
    assert main.main([*arguments, "--temperature", "0.8"]) == 0
    off, on = json.loads(capsys.readouterr().out)["rows"]
    assert (off["value"], off["tuned"], on["value"], on["tuned"]) == ("off", False, "on", True)


def test_the_command_prints_a_table_and_writes_results(tmp_path: Path, capsys) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps({"prompt_ids": [5, 6, 7, 5, 6], "output_ids": [7, 5, 6, 7, 5, 6, 7]}) + "\n")
    TrigramMatrix.load(MATRIX).prune(rows=100).save(tmp_path / "small")
    out = tmp_path / "out"
    arguments = ["ablate", "--recorded", str(tmp_path / "r.jsonl"), "--settings", "corpus,search", "--out", str(out)]
    assert main.main([*arguments, "--matrix", f"small={tmp_path / 'small'}"]) == 0
    printed = capsys.readouterr().out
    assert printed == (out / "table.md").read_text() + "\n"
    assert "| corpus | **full** |" in printed and "| corpus | small |" in printed and "| search | full |" in printed
    body = json.loads((out / "results.json").read_text())
    assert len(body["rows"]) == 3 + len(SWEEPS["search"])
    if (out / "results.html").exists():
        assert "tokens per step" in (out / "results.html").read_text()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--recorded", "nowhere.jsonl"],
        ["--questions", "nowhere.jsonl"],
        ["--recorded", "r.jsonl", "--settings", "colour"],
        ["--recorded", "r.jsonl", "--settings", "coupling"],
        ["--recorded", "r.jsonl", "--matrix", "small"],
        ["--recorded", "r.jsonl", "--matrix", "full=small"],
        ["--recorded", "r.jsonl", "--matrix", "small=nowhere"],
        ["--recorded", "r.jsonl", "--limit", "0"],
        ["--recorded", "foreign.jsonl", "--settings", "depth"],
        ["--recorded", "r.jsonl", "--settings", "depth", "--out", "r.jsonl"],
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_status_2(wrong: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.jsonl").write_text(json.dumps({"prompt_ids": [5, 6], "output_ids": [7, 5]}) + "\n")
    Path("foreign.jsonl").write_text(json.dumps({"prompt_ids": [5, 10**7], "output_ids": [7, 5]}) + "\n")
    try:
        status = main.main(["ablate", *wrong])
    except SystemExit as stop:
        status = int(stop.code or 0)
    assert status == 2
    assert sum("error: " in line for line in capsys.readouterr().err.splitlines()) == 1


def test_a_row_of_a_setting_that_is_unknown_or_has_no_effect_is_refused() -> None:
    with pytest.raises(AdedError, match="known are search"):
        variants((), ["colour"], model=True)
    with pytest.raises(AdedError, match="add --questions FILE and --temperature T"):
        variants((), ["coupling"], model=True)
    assert Variant("budget", 8, False, budget=8).options == AdedOptions.tuned()

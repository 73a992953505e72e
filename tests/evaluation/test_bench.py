"""The benchmark: arithmetic on invented cells, order, resuming, peers on a tiny model, and the command."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import VOCAB, tiny_target

from aded.cli import main
from aded.core.errors import AdedError
from aded.decoding.decoder import GenerationSettings
from aded.engine.target_model import TargetModel
from aded.evaluation.bench import aggregate, chart, peers, results, step_cost, tables
from aded.evaluation.bench.cells import Cell, CellFile
from aded.evaluation.bench.measure import measure, schedule
from aded.evaluation.bench.output_diff import Difference, compare, first_difference, tie_check_of
from aded.evaluation.bench.questions import read_questions, spread_out
from aded.evaluation.bench.reference import reference_system
from aded.evaluation.bench.systems import System, Task, method_system
from aded.ngram.trigram import TrigramMatrix

PROMPT = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]
TASK = Task("q", "c", PROMPT)
SETTINGS = GenerationSettings(max_new_tokens=24, budget=16)


def cell(method: str, question: str = "1", repeat: int = 0, tokens: int = 10, seconds: float = 1.0, **more) -> Cell:
    body = {"category": "a", "steps": 5, "accepted": 5, "token_ids": list(range(10)), "seconds": seconds, **more}
    return Cell(question=question, method=method, repeat=repeat, tokens=tokens, **body)


def system(name: str, run=None, coupled: bool = True) -> System:
    return System(name, name.title(), True, coupled, run or (lambda task, settings: {}))


def stub(name: str, calls: list | None = None, stop_at: int = -1) -> System:
    """Writes its seed; interrupts at its ``stop_at``-th run."""

    def run(task: Task, seed: int) -> dict:
        if calls is not None:
            if len(calls) == stop_at:
                raise KeyboardInterrupt
            calls.append((task.id, name, seed))
        return {"tokens": 4, "steps": 2, "accepted": 2, "token_ids": [seed, len(name)], "seconds": 0.5, "draft_ms": [0.1, 0.2]}

    return system(name, run)


# --- arithmetic


def test_throughput_is_all_tokens_over_all_time_and_speedup_its_ratio_in_the_same_repeat() -> None:
    plain = [cell("plain", q, r, 10, s) for r, s in ((0, 1.0), (1, 2.0), (2, 4.0)) for q in "12"]
    fast = [cell("fast", q, r, 10, s) for r, s in ((0, 0.5), (1, 0.5), (2, 1.0)) for q in "12"]
    assert aggregate.throughputs(plain) == [10.0, 5.0, 2.5]
    row = aggregate.row_of(fast, plain)
    assert (row["tokens_per_second"], row["tokens_per_second_spread"]) == (20.0, [10.0, 20.0])
    assert (row["speedup"], row["speedup_spread"], row["verdict"]) == (4.0, [2.0, 4.0], "faster than plain")
    assert (row["tokens_per_step"], row["accepted_per_step"]) == (2.0, 1.0)
    assert (row["questions"], row["repeats"], row["tokens"]) == (2, 3, 60)


def test_a_method_that_is_not_faster_is_marked() -> None:
    assert aggregate.verdict([0.8]) == "slower than plain"
    assert aggregate.verdict([0.9, 1.0]) == "slower than plain"
    assert aggregate.verdict([0.9, 1.2]) == "not clearly faster than plain"
    assert aggregate.verdict([1.1, 1.2]) == "faster than plain"
    assert aggregate.verdict([]) is None
    assert aggregate.row_of([cell("plain")], [cell("plain")])["verdict"] is None
    row = {"speedup": 0.8, "speedup_spread": None, "verdict": "slower than plain"}
    assert tables.speedup(row) == "0.80×, slower than plain"


def test_intervals_contain_the_figure_and_shrink_with_more_questions():
    def made(count):
        rng = np.random.default_rng(1)
        fast = [cell("x", str(q), tokens=int(rng.integers(50, 90)), steps=20, seconds=1.0) for q in range(count)]
        return aggregate.row_of(fast, [cell("plain", str(q), tokens=40, steps=40, seconds=1.0) for q in range(count)])

    few, many = made(5), made(80)
    for row in (few, many):
        for name in ("speedup", "tokens_per_step"):
            low, high = row[f"{name}_interval"]
            assert low < row[name] < high
            assert f"[{low:.2f}, {high:.2f}]" in tables.interval(row, name)
    assert np.ptp(many["speedup_interval"]) < np.ptp(few["speedup_interval"]) / 2
    assert made(1)["speedup_interval"] is None
    assert tables.interval(made(1), "speedup") == tables.interval({}, "speedup") == ""


def test_medians_are_over_all_steps_and_host_time_is_outside_the_forward_pass() -> None:
    parts = {"draft_ms": [1.0, 3.0], "verify_ms": [10.0, 20.0], "commit_ms": [0.5, 0.5], "update_ms": [0.25, 0.25]}
    row = aggregate.row_of([cell("x", **parts, tree_nodes=[3, 5], prefill_ms=7.0), cell("x", "2", prefill_ms=9.0)], [])
    assert (row["draft_ms"], row["verify_ms"], row["host_ms"], row["prefill_ms"]) == (2.0, 15.0, 2.75, 8.0)
    assert (row["tree_nodes"], row["budget_nodes"], row["speedup"]) == (4.0, None, None)


def test_text_that_repeats_has_few_distinct_4_grams() -> None:
    assert aggregate.distinct_ngrams([[1, 2, 3, 4, 5]]) == 1.0
    assert aggregate.distinct_ngrams([[1] * 7]) == 0.25
    assert aggregate.distinct_ngrams([[1] * 7, [1, 2, 3, 4]]) == pytest.approx(2 / 5)
    assert aggregate.distinct_ngrams([[1, 2]]) is None


def test_there_is_a_row_for_each_method_and_category_and_for_all() -> None:
    cells = [cell(m, q, category=c, seconds=s) for m, s in (("plain", 2.0), ("b", 1.0)) for q, c in (("1", "x"), ("2", "y"))]
    compared = {cells[2].key: None, cells[3].key: Difference("2", 0, 3, 0.01, True)}
    rows = aggregate.rows_of(cells, [system("plain"), system("b")], {"1": [1] * 7}, compared)
    assert [(r["category"], r["method"]) for r in rows] == [(c, m) for c in ("all", "x", "y") for m in ("plain", "b")]
    assert [r["identical"] for r in rows] == [None, 1, None, 1, None, 0]
    assert [r["compared"] for r in rows] == [None, 2, None, 1, None, 1]
    assert rows[1]["first_difference"]["position"] == 3
    assert (rows[0]["distinct_4grams"], rows[4]["distinct_4grams"]) == (0.25, None)


# --- order and resuming


def test_every_question_is_run_by_all_methods_before_the_next_and_the_first_one_changes() -> None:
    order = list(schedule(2, 3, 2))
    assert order[:6] == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 1), (0, 1, 2), (0, 1, 0)]
    assert order[6:9] == [(1, 0, 1), (1, 0, 2), (1, 0, 0)]
    assert len(set(order)) == 12


def run_stubs(folder: Path | None, systems: list[System], settings: dict | None = None) -> list[Cell]:
    tasks = [Task(str(i), "ab"[i % 2], [1]) for i in range(4)]
    file = CellFile(folder, settings or {"seed": 1})
    return measure(tasks, systems, 2, lambda task, repeat: 10 * repeat + task, -1, file, lambda *_: None)


def test_an_interrupted_run_continues_and_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = run_stubs(None, [stub("plain"), stub("other")])
    first: list = []
    with pytest.raises(KeyboardInterrupt):
        run_stubs(tmp_path, [stub("plain", first, 9), stub("other", first, 9)])
    with (tmp_path / "cells.jsonl").open("a") as file:
        file.write('{"question": "1", "cat')  # killed while writing
    second: list = []
    assert run_stubs(tmp_path, [stub("plain", second), stub("other", second)]) == whole
    measured = [call for call in first + second if call[2] >= 0]
    assert len(measured) == len(set(measured)) == 16
    assert [call for call in first if call[2] < 0] == [("0", "plain", -1), ("0", "other", -1)]
    third: list = []
    assert run_stubs(tmp_path, [stub("plain", third), stub("other", third)]) == whole
    assert third == []


def test_other_settings_and_damaged_files_are_refused(tmp_path: Path) -> None:
    run_stubs(tmp_path, [stub("plain")], {"seed": 1, "limit": 3})
    with pytest.raises(AdedError, match=r"other settings \(limit\).*another --out"):
        run_stubs(tmp_path, [stub("plain")], {"seed": 1, "limit": 4})
    (tmp_path / "cells.jsonl").write_text("{}\n")
    with pytest.raises(AdedError, match="is damaged"):
        run_stubs(tmp_path, [stub("plain")])
    (tmp_path / "file").write_text("")
    with pytest.raises(AdedError, match="choose another --out"):
        CellFile(tmp_path / "file", {})


# --- differences from plain decoding


def test_outputs_diverge_at_the_first_different_token_or_at_an_end() -> None:
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2, 3], [1, 9, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2


def test_outputs_are_compared_with_plain_of_the_same_question_and_repeat() -> None:
    cells = [cell("plain", token_ids=[1, 2, 3]), cell("a", token_ids=[1, 2, 4]), cell("peer", token_ids=[1, 2, 3])]
    asked: list = []
    tie_check = lambda *given: asked.append(given) or (0.125, True)  # noqa: E731
    who = [system("plain"), system("a"), system("peer", coupled=False)]
    assert compare(cells, who, True, tie_check) == {cells[1].key: Difference("1", 0, 2, 0.125, True), cells[2].key: None}
    assert asked == [("1", [1, 2], 3, 4)]
    assert list(compare(cells, who, False, tie_check)) == [cells[1].key]


def test_a_tie_is_detected_by_the_gap_between_the_two_tokens() -> None:
    target = tiny_target()
    tie_check = tie_check_of(target, [TASK])
    logits = target.forward(torch.tensor([PROMPT]), None, None, None).logits[0, -1].double()
    best, other = logits.topk(2).indices.tolist()
    gap, tie = tie_check("q", [], best, other)
    assert gap == pytest.approx(float(logits[best] - logits[other]), abs=1e-5)
    assert not tie
    assert tie_check("q", [], best, best) == (0.0, True)


# --- systems on a tiny model


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def test_peers_write_the_text_of_plain_decoding(target) -> None:
    plain = method_system("plain", target).run(TASK, SETTINGS)
    assert len(plain["token_ids"]) == plain["tokens"] == plain["steps"]
    for make in (peers.generate_system, peers.prompt_lookup_system):
        found = make(target).run(TASK, SETTINGS)
        assert found["token_ids"] == plain["token_ids"]
        assert found["tokens"] <= len(found["token_ids"])
        assert found["tokens"] == found["steps"] + found["accepted"]
        assert len(found["step_ms"]) == found["steps"]
        assert found["seconds"] > 0
        assert found["prefill_ms"] > 0
        assert found["memory_mb"] > 0


def test_peers_sample_with_all_settings_and_a_seed(target) -> None:
    sampled = dataclasses.replace(SETTINGS, temperature=0.9, top_p=0.9)
    for make in (peers.generate_system, peers.prompt_lookup_system):
        texts = [make(target).run(TASK, dataclasses.replace(sampled, seed=s))["token_ids"] for s in (1, 1, 2)]
        assert texts[0] == texts[1] != texts[2]


def test_methods_take_options_and_agree_with_plain(target) -> None:
    plain = method_system("plain", target).run(TASK, SETTINGS)
    paper = method_system("aded:preset=paper:c1=16.5", target)
    assert paper.label == "ADED (preset paper, c1 16.5)"
    assert paper.run(TASK, SETTINGS)["token_ids"] == plain["token_ids"]
    for spec in ("aded:nothing=1", "aded:preset", "magic"):
        with pytest.raises(AdedError):
            method_system(spec, target)


def test_what_a_method_keeps_is_used_for_the_next_task_until_it_is_forgotten(target) -> None:
    steps = {}
    for spec in ("suffix:warm=false", "suffix:warm=false:keep=true"):
        system = method_system(spec, target)
        steps[spec] = [system.run(TASK, SETTINGS)["steps"] for _ in range(2)]
        system.forget()
        steps[spec].append(system.run(TASK, SETTINGS)["steps"])
    assert len(set(steps["suffix:warm=false"])) == 1
    first, second, forgotten = steps["suffix:warm=false:keep=true"]
    assert second < first == forgotten


def test_warming_up_teaches_a_method_nothing() -> None:
    calls: list = []
    run_stubs(None, [dataclasses.replace(stub("kept", calls), forget=lambda: calls.append("forget"))])
    assert calls[:2] == [("0", "kept", -1), "forget"]
    assert calls.count("forget") == 1


def test_the_published_draft_maker_runs_in_the_same_loop(target) -> None:
    pytest.importorskip("draftretriever")
    plain = method_system("plain", target).run(TASK, SETTINGS)
    text = np.array([*PROMPT, *plain["token_ids"]] * 3)
    matrix = TrigramMatrix.build(text, separator=0, vocab_size=VOCAB, fingerprint=target.fingerprint)
    found = reference_system(target, matrix).run(TASK, SETTINGS)
    assert found["token_ids"] == plain["token_ids"]
    assert found["accepted"] > 0
    assert max(found["tree_nodes"]) <= 16


def test_without_the_package_or_a_matrix_the_remedy_is_named(target, monkeypatch) -> None:
    with pytest.raises(AdedError, match="leave the peer out"):
        reference_system(target, None)
    monkeypatch.setitem(sys.modules, "draftretriever", None)
    with pytest.raises(AdedError, match="pip install draftretriever"):
        reference_system(target, None)


# --- questions


def test_questions_are_read_and_limited_evenly(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    lines = [{"question_id": i, "category": "x", "turns": [f"text {i}", "more"]} for i in range(6)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    questions = read_questions(path)
    assert (questions[1].id, questions[1].category, questions[1].text) == ("1", "x", "text 1")
    assert [q.id for q in spread_out(questions, 3)] == ["0", "2", "4"]
    assert len(spread_out(questions, 99)) == 6


# --- the command


@pytest.fixture
def tiny(monkeypatch, target):
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *a, **k: target))


@pytest.fixture
def question_file(tmp_path: Path) -> str:
    path = tmp_path / "questions.jsonl"
    texts = ["a b c a b c", "d e f d e f d", "g h"]
    path.write_text(
        "\n".join(json.dumps({"question_id": i, "category": "xyz"[i % 2], "turns": [t]}) for i, t in enumerate(texts))
    )
    return str(path)


@pytest.fixture
def recorded_file(tmp_path: Path) -> str:
    path = tmp_path / "recorded.jsonl"
    body = {"category": "x", "prompt_ids": [1, 504, 253, 3365], "output_ids": [504, 253, 3365, 282] * 6}
    path.write_text(json.dumps(body) + "\n" + json.dumps({**body, "category": "y"}) + "\n")
    return str(path)


def run(*arguments: str) -> int:
    try:
        return main.main(["bench", *arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


def test_only_json_is_printed_and_it_equals_the_file(tiny, capsys, tmp_path, question_file) -> None:
    out = tmp_path / "out"
    arguments = ["--questions", question_file, "--methods", "aded,prompt-lookup", "--peers", "hf-generate", "--json", "--no-html"]
    arguments += ["--budget", "8", "--max-new-tokens", "8", "--repeat", "2", "--out", str(out)]
    assert run(*arguments) == 0
    body = json.loads(capsys.readouterr().out)
    assert body == results.read(out / "results.json")
    assert {"device", "dtype", "model", "versions", "command", "commit", "settings", "rows"} <= set(body)
    rows = [row for row in body["rows"] if row["category"] == "all"]
    assert [row["method"] for row in rows] == ["plain", "aded", "prompt-lookup", "hf-generate"]
    assert [(row["identical"], row["compared"]) for row in rows[1:]] == [(6, 6)] * 3
    assert all(row["tokens_per_second"] > 0 and row["speedup"] > 0 and len(row["speedup_spread"]) == 2 for row in rows)
    assert {row["category"] for row in body["rows"]} == {"all", "x", "y"}
    assert sorted(file.name for file in out.iterdir()) == ["cells.jsonl", "results.json", "table.md"]
    before = (out / "cells.jsonl").read_bytes()
    assert run(*arguments) == 0  # all results exist: nothing is measured again
    assert (out / "cells.jsonl").read_bytes() == before
    assert json.loads(capsys.readouterr().out)["rows"] == body["rows"]
    assert run(*arguments, "--seed", "3") == 2
    assert "choose another --out" in capsys.readouterr().err


def test_sampled_methods_are_compared_and_peers_are_not(tiny, capsys, question_file) -> None:
    sampled = ["--temperature", "0.8", "--top-p", "0.95", "--budget", "8", "--max-new-tokens", "8", "--limit", "2"]
    assert run("--questions", question_file, "--methods", "aded", "--peers", "hf-generate", "--json", *sampled) == 0
    rows = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["category"] == "all"]
    assert [row["compared"] for row in rows] == [None, 2, None]
    assert rows[1]["identical"] == 2


def test_recorded_text_is_replayed_without_a_model(monkeypatch, capsys, tmp_path, recorded_file) -> None:
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *a, **k: pytest.fail("a model was loaded")))
    out = tmp_path / "out"
    assert run("--recorded", recorded_file, "--methods", "aded,prompt-lookup,plain", "--budget", "16", "--out", str(out)) == 0
    assert "replayed with no model" in capsys.readouterr().out
    body = results.read(out / "results.json")
    rows = {row["method"]: row for row in body["rows"] if row["category"] == "all"}
    assert rows["plain"]["tokens_per_step"] == 1.0
    assert rows["aded"]["tokens_per_step"] > 2
    assert rows["aded"]["tokens"] == 48
    assert rows["aded"]["tokens_per_second"] is None
    assert rows["aded"]["tree_nodes"] <= 16
    assert rows["aded"]["distinct_4grams"] == pytest.approx(4 / 21, rel=1e-4)
    assert (out / "results.html").stat().st_size > 1_000_000  # it contains Plotly
    if importlib.util.find_spec("draftretriever"):
        assert run("--recorded", recorded_file, "--methods", "aded", "--peers", "aded-reference", "--limit", "1", "--json") == 0
        assert [r["method"] for r in json.loads(capsys.readouterr().out)["rows"]] == ["aded", "aded-reference"] * 2


def test_methods_that_need_the_model_are_named(recorded_file, capsys) -> None:
    for method in ("medusa", "speculative"):
        assert run("--recorded", recorded_file, "--methods", f"aded,{method}") == 2
        assert f"error: {method} needs the model" in capsys.readouterr().err


def test_remedies_have_the_options_of_the_benchmark() -> None:
    from aded.drafters.registry import METHODS
    from aded.evaluation.bench.systems import _in_bench_syntax

    said = "make it with `train medusa --model SPEC`, or give --heads FILE; use --draft-model with another model"
    assert _in_bench_syntax(said, METHODS["medusa"]) == said.replace("--heads FILE", "medusa:heads=FILE")
    assert _in_bench_syntax(said, METHODS["specinfer"]) == said.replace("--draft-model", "specinfer:draft_model")
    with pytest.raises(AdedError, match="give medusa:heads=FILE"):
        method_system("medusa", tiny_target())


@pytest.mark.parametrize(("text", "numbers"), [("4+2", (4, 2)), ("4,2", (4, 2)), (4, (4,)), ("", ()), ([3, 1], (3, 1))])
def test_lists_of_numbers_are_read_in_every_form(text, numbers) -> None:
    from aded.drafters.trained import _numbers

    assert _numbers(text) == numbers


def test_steps_of_a_shape_are_timed_and_marked_as_cost_measurements(monkeypatch, capsys) -> None:
    monkeypatch.setattr(step_cost, "ROUNDS", 3)
    monkeypatch.setattr(step_cost, "COPY_BYTES", {"cpu": 1 << 20})
    assert run("--shape", "tiny", "--layers", "1", "--device", "cpu", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert [row["nodes"] for row in body["rows"]] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert body["rows"][0]["over_one_node"] == 1.0
    assert all(row["step_ms"] > 0 and row["over_measured_floor"] > 0 for row in body["rows"])
    assert body["bandwidth"]["copy_measured"] > 0
    assert body["weights"]["bytes_read_a_step"] == body["weights"]["bytes_held"]  # embeddings are shared
    assert "says nothing" in body["note"]
    text = tables.markdown(body)
    assert "| 128 |" in text
    assert "says nothing" in text
    assert "cost, not acceptance" in (chart.page(body) or "")


def test_kinds_of_attention_are_compared_on_one_model(monkeypatch, capsys, tmp_path) -> None:
    from aded.evaluation.bench import attention_cost

    monkeypatch.setattr(attention_cost, "CONTEXTS", (70, 128))
    monkeypatch.setattr(attention_cost, "SECONDS", 0.01)
    shape = ["--shape", "tiny", "--device", "cpu", "--json"]
    assert run(*shape, "--attention", "sdpa,sdpa") == 0
    body = json.loads(capsys.readouterr().out)
    assert [(row["context"], row["nodes"]) for row in body["rows"]] == [(c, n) for c in (70, 128) for n in (1, 16, 64)] * 2
    assert max(row["difference"] for row in body["rows"]) == 0
    body["settings"]["attention"] = ["triton", "sdpa"]
    body["rows"] = [
        {**row, "attention": "triton" if i < 6 else "sdpa", "step_ms": 1.0 + (i < 6)} for i, row in enumerate(body["rows"])
    ]
    assert "| 70 | 1 | 2.000 | **1.000** |" in tables.markdown(body)
    assert "Step time, ms, 128 tokens" in chart.page(body)
    for attention, message in (
        ("triton,sdpa", "does not run with --attention triton on cpu"),
        ("sdpa,flash", "attention is 'flash'"),
    ):
        assert run(*shape, "--attention", attention) == 2
        assert message in capsys.readouterr().err


def test_ratios_of_a_shape_are_over_one_node_and_over_the_floor() -> None:
    rows = step_cost.shape_rows({1: [0.004] * 3, 2: [0.006, 0.005, 0.007]}, {"measured": 0.002, "datasheet": None})
    assert rows[1]["step_ms"] == pytest.approx(6.0)
    assert rows[1]["over_one_node"] == pytest.approx(1.5)
    assert rows[1]["over_measured_floor"] == pytest.approx(3.0)
    assert rows[1]["over_datasheet_floor"] is None


def test_tables_are_embedded_between_markers(capsys, tmp_path, recorded_file) -> None:
    out, readme = tmp_path / "out", tmp_path / "README.md"
    assert run("--recorded", recorded_file, "--methods", "aded,prompt-lookup", "--out", str(out), "--no-html") == 0
    file = str(out / "results.json")
    capsys.readouterr()
    assert run("--table", file) == 0
    printed = capsys.readouterr().out
    assert printed == (out / "table.md").read_text()
    readme.write_text("before\n<!-- bench:one -->\nold\n<!-- /bench -->\nbetween\n<!-- bench:two -->\n<!-- /bench -->\nafter\n")
    for name in ("one", "two", "two"):
        assert run("--table", file, "--embed", str(readme), "--name", name) == 0
    text = readme.read_text()
    assert text.count(printed) == 2
    assert "old" not in text
    assert text.startswith("before\n") and text.endswith("after\n") and "between" in text
    for name, where in (("three", readme), ("one", tmp_path / "none.md")):
        assert run("--table", file, "--embed", str(where), "--name", name) == 2


@pytest.mark.parametrize("name", ["vllm-cpu", "vllm-cpu-batch-16"])
def test_the_document_on_vllm_has_the_tables_of_the_results(name) -> None:
    root = Path(__file__).resolve().parents[2]
    folder = root / "bench" / "results" / name
    table = tables.of_file(folder / "results.json")
    assert table == (folder / "table.md").read_text("utf-8")
    assert f"<!-- bench:{name} -->\n{table}<!-- /bench -->" in (root / "docs" / "vllm.md").read_text("utf-8")
    assert all(row["identical"] == row["questions"] for row in results.read(folder / "results.json")["rows"])


def test_commands_are_shown_without_folders() -> None:
    given = ["bench", "--questions", "/some/where/q.jsonl", "--out=/a/b", "--methods", "aded", "--model", "org/name"]
    assert results.command(given) == "python -m aded bench --questions q.jsonl --out=b --methods aded --model org/name"
    rows = [{"method": "eagle:head=/a/b/e.safetensors", "label": "EAGLE (head /a/b/e.safetensors, depth 1/2)", "speedup": 1.0}]
    assembled = results.assemble("live", None, {"methods": ["eagle:head=/e.gguf", "rest:corpus=org/name"]}, rows, {"device": "x"})
    assert assembled["rows"] == [
        {"method": "eagle:head=e.safetensors", "label": "EAGLE (head e.safetensors, depth 1/2)", "speedup": 1.0}
    ]
    assert assembled["settings"]["methods"] == ["eagle:head=e.gguf", "rest:corpus=org/name"]
    assert results.without_folders("see https://a.b/c/d and --out=e") == "see https://a.b/c/d and --out=e"


BAD_LINES = [
    *(json.dumps({"question_id": 1, "turns": ["a"], name: "\ud800"}) for name in ("question_id", "category")),
    '{"question_id": 1, "turns": ["\\ud800"]}',
    "{",
    "[]",
    "{}",
    '{"question_id": 1, "turns": []}',
    '{"question_id": 1, "turns": [" "]}',
    "",
    "[" * 5000,
]
BAD = {
    "nothing": [],
    "missing questions": ["--questions", "nowhere.jsonl"],
    "missing record": ["--recorded", "nowhere.jsonl"],
    "missing table": ["--table", "nowhere.json"],
    "two kinds": ["--questions", "Q", "--shape", "llama-7b"],
    "unknown shape": ["--shape", "huge"],
    "too many layers": ["--shape", "llama-1b", "--layers", "99"],
    "unknown method": ["--questions", "Q", "--methods", "magic"],
    "unknown option": ["--questions", "Q", "--methods", "aded:magic=1"],
    "empty method": ["--questions", "Q", "--methods", "aded,,plain"],
    "method twice": ["--questions", "Q", "--methods", "aded,aded"],
    "unknown peer": ["--questions", "Q", "--peers", "magic"],
    "peer without its model": ["--recorded", "R", "--peers", "hf-generate"],
    "no matrix": ["--questions", "Q", "--peers", "aded-reference"],
    "zero limit": ["--questions", "Q", "--limit", "0"],
    "zero repeats": ["--questions", "Q", "--repeat", "0"],
    "zero tokens": ["--questions", "Q", "--max-new-tokens", "0"],
    "bad temperature": ["--questions", "Q", "--temperature", "-1"],
    "bad budget": ["--questions", "Q", "--budget", "0"],
    "bad budget of a replay": ["--recorded", "R", "--budget", "1"],
    "methods of a shape": ["--shape", "tiny", "--methods", "plain"],
    "seed of a table": ["--table", "Q", "--seed", "1"],
    "temperature of a replay": ["--recorded", "R", "--temperature", "1"],
    "device of a replay": ["--recorded", "R", "--device", "cpu"],
    "empty peers": ["--recorded", "R", "--peers", ""],
    "branching of words": ["--questions", "Q", "--methods", "specinfer:branching=a+b"],
    "layers of no shape": ["--questions", "Q", "--layers", "2"],
    "embed without a name": ["--table", "Q", "--embed", "README.md"],
    "no results": ["--table", "Q"],
    "out is a file": ["--questions", "Q", "--out", "Q"],
    "questions as records": ["--recorded", "Q"],
    "records as questions": ["--questions", "R"],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(tiny, capsys, question_file, recorded_file, case) -> None:
    assert run(*[{"Q": question_file, "R": recorded_file}.get(word, word) for word in BAD[case]]) == 2
    one_error(capsys)


@pytest.mark.parametrize("line", BAD_LINES)
def test_damaged_questions_are_one_line_and_status_2(tiny, capsys, tmp_path, line) -> None:
    (tmp_path / "q").write_text(line)
    assert run("--questions", str(tmp_path / "q")) == 2
    one_error(capsys)


def test_a_question_twice_or_too_long_is_refused(tiny, capsys, tmp_path) -> None:
    line = json.dumps({"question_id": 1, "category": "", "turns": ["a " * 400]})
    for text in (line, f"{line}\n{line}"):
        (tmp_path / "q").write_text(text)
        assert run("--questions", str(tmp_path / "q")) == 2
        one_error(capsys)


def test_ids_of_another_model_are_refused(capsys, tmp_path) -> None:
    (tmp_path / "r").write_text(json.dumps({"prompt_ids": [1], "output_ids": [10**6]}))
    assert run("--recorded", str(tmp_path / "r")) == 2
    one_error(capsys)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("--questions", {"question_id": 1, "turns": ["a"], "category": "\ud800"}),
        ("--recorded", {"prompt_ids": [1], "output_ids": [2], "category": "\ud800"}),
        ("--recorded", {"prompt_ids": [1.7, 2], "output_ids": ["4", True]}),
    ],
)
def test_bad_lines_are_refused_before_anything_is_written(tiny, capsys, tmp_path, kind, line) -> None:
    (tmp_path / "lines").write_text(json.dumps(line))
    assert run(kind, str(tmp_path / "lines"), "--out", str(tmp_path / "out")) == 2
    one_error(capsys)
    assert not (tmp_path / "out").exists()


def one_error(capsys) -> None:
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if "error: " in line]
    assert len(lines) == 1
    assert captured.err.splitlines()[-1] == lines[0]

"""The command line: its options, its JSON output, one-line errors with exit status 2."""

import argparse
import io
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from command import run
from conftest import ROOT
from fakes import tiny_target
from ui_fakes import make_race
from waiting import HANG

from aded.cli import bench, generation_options, main, method_options, model_options
from aded.core import trace, validation
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.registry import METHODS
from aded.engine.target_model import TargetModel

KEYS = {
    "method",
    "model",
    "device",
    "text",
    "token_ids",
    "finish_reason",
    "steps",
    "tokens_per_step",
    "accepted_per_step",
    "prefill_seconds",
    "decode_seconds",
    "draft_seconds",
    "verify_seconds",
    "tokens_per_second",
    "lossless",
}


@pytest.fixture
def tiny(monkeypatch):
    """The command line on a tiny random model instead of the bundled one."""
    target = tiny_target("llama")
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *a, **k: target))
    return target


@pytest.mark.parametrize("method", ["plain", "aded", "prompt-lookup"])
def test_json_is_one_object_with_every_field(tiny, capsys, method):
    assert run("generate", "--prompt", "a b c a b c", "--method", method, "--max-new-tokens", "9", "--json") == 0
    out = capsys.readouterr().out
    body = json.loads(out)
    assert out.count("\n") == 1
    assert set(body) >= KEYS
    assert (body["method"], body["finish_reason"], len(body["token_ids"]), body["lossless"]) == (method, "length", 9, True)


@pytest.mark.parametrize("method", ["speculative", "specinfer"])
def test_a_draft_model_that_stops_drafting_is_reported_once(monkeypatch, tmp_path, capsys, method):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))  # costs of such a draft model are not kept
    monkeypatch.setattr("aded.drafters.compile_ahead.start", lambda: None)  # nor is the search compiled for this folder
    models = {"small": tiny_target("gpt2", n_positions=64)}
    target = tiny_target("gpt2")
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, spec="default", *a, **k: models.get(spec, target)))
    prompt = " ".join("abcde" * 20)
    assert run("generate", "--prompt", prompt, "--method", method, "--draft-model", "small", "--max-new-tokens", "6") == 0
    said = capsys.readouterr()
    assert said.err.count("note: gpt2 stops drafting: the text is longer than its context of 64 tokens\n") == 1


def test_methods_agree_and_seeds_matter(tiny, capsys):
    texts = {}
    for method in ("plain", "aded", "prompt-lookup"):
        for seed in "01":
            run(
                "generate",
                "--prompt",
                "a b c",
                "--method",
                method,
                "--temperature",
                "0.9",
                "--top-p",
                "0.95",
                "--top-k",
                "50",
                "--seed",
                seed,
                "--json",
            )
            texts[method, seed] = json.loads(capsys.readouterr().out)["token_ids"]
    assert texts["plain", "0"] == texts["aded", "0"] == texts["prompt-lookup", "0"]
    assert texts["plain", "0"] != texts["plain", "1"]


def test_text_and_table_are_printed_and_colour_follows_the_option(tiny, capsys):
    run("generate", "--prompt", "a b c a b c", "--max-new-tokens", "30", "--budget", "8", "--color", "always")
    coloured = capsys.readouterr().out
    run("generate", "--prompt", "a b c a b c", "--max-new-tokens", "30")
    bare = capsys.readouterr().out
    assert "tokens per second" in bare
    assert "\033[" in coloured
    assert "\033[" not in bare


def test_a_trace_is_written_and_replayed(tiny, capsys, tmp_path):
    file = str(tmp_path / "t.json")
    assert run("generate", "--prompt", "a b c", "--max-new-tokens", "9", "--trace", file, "--stop", "never this") == 0
    assert len(trace.load(file).lanes[0].token_ids) == 9
    capsys.readouterr()
    assert run("replay", file) == 0
    steps = len(trace.load(file).lanes[0].steps)
    numbers = [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert numbers == [f"step {number}" for number in range(1, steps + 1)]  # counted from 1, as on the page
    for number in (1, steps):
        assert run("replay", file, "--run", "1", "--step", str(number)) == 0
        assert f"\nstep {number}: drafted" in capsys.readouterr().out
    for wrong in (["--step", "0"], ["--step", str(steps + 1)], ["--run", "0"], ["--run", "2"]):
        assert run("replay", file, *wrong) == 2
        assert "counted from 1" in capsys.readouterr().err


def test_a_step_that_one_run_of_a_race_does_not_have_is_refused_before_a_run_is_printed(capsys, tmp_path):
    race = make_race()
    trace.save(race, tmp_path / "race.json")
    plain, aded = (len(one.steps) for one in race.lanes)
    assert run("replay", str(tmp_path / "race.json"), "--step", str(plain)) == 2
    assert capsys.readouterr() == ("", f"error: there is no step {plain}; run 2 has {aded}, counted from 1\n")


def test_methods_are_listed(capsys):
    assert run("methods", "--json") == 0
    assert [m["name"] for m in json.loads(capsys.readouterr().out)][:3] == ["plain", "aded", "prompt-lookup"]
    assert run("methods") == 0
    assert "lossless" in capsys.readouterr().out


def test_methods_lists_the_missing_prerequisites_of_another_model(tiny, capsys):
    assert run("methods", "--model", "another") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("unavailable: there are no Medusa heads for this model" in line and "aded prepare" in line for line in lines) == 4


def test_a_prompt_file_is_read(tiny, capsys, tmp_path):
    file = tmp_path / "p.txt"
    for encoding in ("utf-8", "utf-8-sig"):  # some editors write a byte order mark
        file.write_text("a b c", encoding=encoding)
        assert generation_options.prompt(argparse.Namespace(prompt=None, prompt_file=str(file))) == "a b c"
    assert run("generate", "--prompt-file", str(file), "--max-new-tokens", "2", "--json") == 0


BAD = {
    "no prompt": ["generate"],
    "empty prompt": ["generate", "--prompt", " "],
    "both prompts": ["generate", "--prompt", "a", "--prompt-file", "b"],
    "missing prompt file": ["generate", "--prompt-file", "nowhere.txt"],
    "long prompt": ["generate", "--prompt", "a " * 400],
    "unknown method": ["generate", "--prompt", "a", "--method", "magic"],
    "zero tokens": ["generate", "--prompt", "a", "--max-new-tokens", "0"],
    "negative tokens": ["generate", "--prompt", "a", "--max-new-tokens", "-5"],
    "no number": ["generate", "--prompt", "a", "--max-new-tokens", "many"],
    "zero budget": ["generate", "--prompt", "a", "--budget", "0"],
    "odd budget": ["generate", "--prompt", "a", "--budget", "much"],
    "bad temperature": ["generate", "--prompt", "a", "--temperature", "-1"],
    "nan temperature": ["generate", "--prompt", "a", "--temperature", "nan"],
    "bad top-p": ["generate", "--prompt", "a", "--top-p", "0"],
    "bad seed": ["generate", "--prompt", "a", "--seed", "-1"],
    "empty stop": ["generate", "--prompt", "a", "--stop", ""],
    "foreign option": ["generate", "--prompt", "a", "--method", "plain", "--c1", "2"],
    "bad preset": ["generate", "--prompt", "a", "--preset", "best"],
    "bad search": ["generate", "--prompt", "a", "--search", "random"],
    "bad simulations": ["generate", "--prompt", "a", "--simulations", "-1"],
    "missing matrix": ["generate", "--prompt", "a", "--matrix", "nowhere.safetensors"],
    "trace nowhere": ["generate", "--prompt", "a", "--trace", "no/such/folder/t.json"],
    "trace is a folder": ["generate", "--prompt", "a", "--trace", "."],
    "no command": [],
    "unknown command": ["dance"],
    "unknown option": ["generate", "--prompt", "a", "--fast"],
    "missing trace": ["replay", "nowhere.json"],
    "matrix of nothing": ["matrix", "show", "nowhere.safetensors"],
    "empty trace": ["generate", "--prompt", "a", "--trace", ""],
    "empty model": ["generate", "--prompt", "a", "--model", ""],
    "empty out of a build": ["matrix", "build", "--tokens", "a.npy", "--out", ""],
    "empty out of a merge": ["matrix", "merge", "a", "--out", ""],
    "empty out of a pruning": ["matrix", "prune", "a", "--rows", "1", "--out", ""],
    "empty out of a comparison": ["matrix", "compare", "a", "--recorded", "r", "--out", ""],
    "empty out of a datastore": ["datastore", "build", "--tokens", "a.npy", "--out", ""],
    "empty out of a benchmark": ["bench", "--recorded", "r", "--out", ""],
    "empty out of an ablation": ["ablate", "--recorded", "r", "--out", ""],
    "empty out of training": ["train", "medusa", "--out", ""],
    "empty settings": ["ablate", "--recorded", "r", "--settings", ""],
    "matrix that is not read": ["generate", "--prompt", "a", "--method", "token-recycling", "--matrix", "m", "--no-warm"],
    "datastore that is not read": ["generate", "--prompt", "a", "--method", "suffix", "--datastore", "d", "--no-warm"],
    "temperature of a replay": ["ablate", "--recorded", "r", "--temperature", "1"],
    "tokens of nothing": ["matrix", "build", "--tokens", "nowhere.npy", "--out", "x"],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(tiny, capsys, case):
    assert run(*BAD[case]) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.startswith("preparing")]
    assert captured.out == ""
    assert len(lines) == 1
    assert "error: " in lines[0]


@pytest.fixture
def no_model(monkeypatch):
    """The command line; loading a model or a tokenizer is an error."""
    refuse = lambda *a, **k: pytest.fail("a model was loaded")  # noqa: E731
    monkeypatch.setattr(TargetModel, "load", refuse)
    monkeypatch.setattr("aded.data.corpus.load_tokenizer", refuse)


OVERWRITTEN = {
    "prompt": ["generate", "--prompt-file", "a", "--trace", "a"],
    "matrix of a decode": ["generate", "--prompt", "a", "--matrix", "a", "--trace", "a"],
    "datastore of a decode": ["generate", "--prompt", "a", "--method", "rest", "--datastore", "a", "--trace", "a"],
    "heads of a decode": ["generate", "--prompt", "a", "--method", "medusa", "--heads", "a", "--trace", "a"],
    "draft of a decode": ["generate", "--prompt", "a", "--method", "speculative", "--draft", "a", "--trace", "a"],
    "model of a decode": ["generate", "--prompt", "a", "--model", "a", "--trace", "a"],
    "model folder of a decode": ["generate", "--prompt", "a", "--model", "folder", "--trace", "folder/config.json"],
    "weights of a decode": ["generate", "--prompt", "a", "--model", "~/folder", "--trace", "folder/model.safetensors"],
    "model in the home folder": ["generate", "--prompt", "a", "--model", "~/a", "--trace", "a"],
    "draft model of a decode": [
        *("generate", "--prompt", "a", "--method", "specinfer", "--draft-model", "folder", "--trace", "folder/tokenizer.json")
    ],
    "matrix that is pruned": ["matrix", "prune", "a", "--rows", "1", "--out", "a"],
    "matrix that is merged": ["matrix", "merge", "b", "a", "--out", "a"],
    "beginnings": ["matrix", "build", "--self-written", "9", "--beginnings", "a", "--out", "a"],
    "text of a matrix": ["matrix", "build", "--text", "a", "--out", "a"],
    "model of a matrix": ["matrix", "build", "--text", "b", "--model", "a", "--out", "a"],
    "model folder of a matrix": ["matrix", "build", "--text", "b", "--model", "folder", "--out", "folder/tokenizer.json"],
    "model whose text is kept": [
        *("matrix", "build", "--self-written", "9", "--model", "folder", "--keep-text", "folder/config.json", "--out", "c")
    ],
    "text of a datastore": ["datastore", "build", "--text", "a", "--out", "a"],
    "model of a datastore": ["datastore", "build", "--text", "b", "--model", "a", "--out", "a"],
    "model folder of a datastore": ["datastore", "build", "--text", "b", "--model", "folder", "--out", "folder/tokenizer.json"],
    "results": ["bench", "--table", "a", "--embed", "a", "--name", "x"],
    "questions": ["bench", "--questions", "out/results.json", "--out", "out"],
    "records": ["bench", "--recorded", "out/cells.jsonl", "--out", "out"],
    "records of an ablation": ["ablate", "--recorded", "out/table.md", "--out", "out"],
    "matrix of an ablation": ["ablate", "--questions", "a", "--matrix", "x=out/table.md", "--out", "out"],
    "matrix that is compared": ["matrix", "compare", "out/results.json", "--recorded", "a", "--out", "out"],
    "corpus": ["train", "medusa", "--corpus", "out/heads.md", "--out", "out"],
    "prompt of a race": ["race", "--prompt-file", "a", "--out", "a"],
    "matrix of a race": ["race", "--prompt", "a", "--methods", "aded", "--matrix", "a", "--out", "a"],
    "datastore of a race": ["race", "--prompt", "a", "--methods", "rest", "--datastore", "a", "--out", "a"],
    "heads of a race": ["race", "--prompt", "a", "--methods", "medusa", "--heads", "a", "--out", "a"],
    "draft of a race": ["race", "--prompt", "a", "--methods", "speculative", "--draft", "a", "--out", "a"],
    "model of a race": ["race", "--prompt", "a", "--methods", "plain", "--model", "a", "--out", "a"],
    "model folder of a race": ["race", "--prompt", "a", "--methods", "plain", "--model", "folder", "--out", "folder/config.json"],
    "held-out text": ["train", "draft", "--corpus", "self", "--held-out", "out/draft.md", "--out", "out"],
}


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_no_input_is_overwritten(no_model, capsys, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "out").mkdir()
    (tmp_path / "folder").mkdir()
    model = ("folder/config.json", "folder/model.safetensors", "folder/tokenizer.json")
    for name in ("a", "b", "out/results.json", "out/cells.jsonl", "out/table.md", "out/heads.md", "out/draft.md", *model):
        (tmp_path / name).write_text("what was there")
    assert run(*OVERWRITTEN[case]) == 2
    assert "which this command uses as" in capsys.readouterr().err
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"what was there"}


def test_an_earlier_output_in_a_model_s_folder_is_no_input(tmp_path):
    for name in ("config.json", "run.json", "my.trigram.safetensors"):
        (tmp_path / name).write_text("what was there")
    assert validation.model_files(str(tmp_path)) == [str(tmp_path / "config.json")]


RACES = {
    "list": [{"title": "list", "prompt": "a", "methods": ["plain"]}],
    "matrix": [{"title": "m", "prompt": "a", "methods": ["aded"], "options": {"matrix": "out/m.json"}}],
    "draft model": [{"title": "m", "prompt": "a", "methods": ["specinfer"], "options": {"draft_model": ["out/m.json"]}}],
}


@pytest.mark.parametrize("case", RACES)
def test_a_list_of_races_overwrites_no_input(no_model, capsys, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/m.json").write_text("what was there")
    (tmp_path / "out/list.json").write_text(json.dumps(RACES[case]))
    assert run("race", "--list", "out/list.json", "--out", "out") == 2
    assert "which this command uses as" in capsys.readouterr().err
    assert (tmp_path / "out/m.json").read_text() == "what was there"
    assert json.loads((tmp_path / "out/list.json").read_text()) == RACES[case]


GOOD_RACE = {"title": "a", "prompt": "a b", "methods": ["plain"]}
BAD_RACES = {
    "methods null": {"methods": None},
    "methods text": {"methods": "plain"},
    "methods nested": {"methods": [["plain"]]},
    "no methods": {"methods": []},
    "unknown method": {"methods": ["magic"]},
    "unknown option of a run": {"methods": ["aded:bogus=1"]},
    "settings null": {"settings": None},
    "settings list": {"settings": [1]},
    "unknown setting": {"settings": {"bogus": 1}},
    "setting out of range": {"settings": {"temperature": -1}},
    "setting of a wrong type": {"settings": {"stop": [5]}},
    "options list": {"options": [1]},
    "unknown option": {"options": {"bogus": 1}},
    "option of another method": {"options": {"depth": 3}},
    "file that is no text": {"methods": ["aded"], "options": {"matrix": 5}},
    "missing file": {"methods": ["aded"], "options": {"matrix": "nowhere"}},
    "file with NUL": {"methods": ["aded"], "options": {"matrix": "a\0b"}},
    "unknown field": {"bogus": 1},
    "prompt list": {"prompt": ["a"]},
    "blank prompt": {"prompt": " "},
    "title list": {"title": ["a"]},
    "title outside": {"title": "../escaped"},
    "title absolute": {"title": "/abs/path"},
    "title with a backslash": {"title": "a\\b"},
    "title empty": {"title": ""},
    "title hidden": {"title": ".a"},
    "title with NUL": {"title": "a\0b"},
    "title that is no Unicode": {"title": "\ud800"},
    "title too long": {"title": "a" * 300},
    "title of a folder": {"title": "folder"},
}


def check_refused_list(races, capsys, tmp_path, *more):
    (tmp_path / "races.json").write_text(json.dumps(races) if not isinstance(races, str) else races)
    before = sorted(tmp_path.rglob("*"))
    assert run("race", "--list", str(tmp_path / "races.json"), "--out", str(tmp_path / "out"), *more) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n"), captured.err[:7]) == ("", 1, "error: ")
    assert sorted(tmp_path.rglob("*")) == before
    return captured.err


@pytest.mark.parametrize("case", BAD_RACES)
def test_a_list_with_a_bad_race_is_refused_before_a_model_is_loaded(no_model, capsys, tmp_path, case):
    (tmp_path / "out" / "folder.json").mkdir(parents=True)
    check_refused_list([GOOD_RACE | {"title": "good"}, GOOD_RACE | BAD_RACES[case]], capsys, tmp_path)


@pytest.mark.parametrize("races", [[], {}, "", "[", "null", [1], [GOOD_RACE, GOOD_RACE | {"title": "A"}]], ids=str)
def test_a_file_that_is_no_list_of_different_races_is_refused(no_model, capsys, tmp_path, races):
    check_refused_list(races, capsys, tmp_path)


def test_the_field_of_a_list_that_is_wrong_is_named(no_model, capsys, tmp_path):
    assert "list[1].methods: Input should be a valid" in check_refused_list(
        [GOOD_RACE, GOOD_RACE | {"title": "b", "methods": None}], capsys, tmp_path
    )
    assert "race 'a': unknown setting 'bogus'" in check_refused_list([GOOD_RACE | {"settings": {"bogus": 1}}], capsys, tmp_path)


@pytest.mark.parametrize("more", [["--prompt", "x"], ["--prompt-file", "x"], ["--methods", "aded"], ["--depth", "3"]])
def test_options_that_a_list_of_races_would_ignore_are_refused(no_model, capsys, tmp_path, more):
    assert f"error: {more[0]}" in check_refused_list([GOOD_RACE], capsys, tmp_path, *more)


@pytest.mark.parametrize("more", [["--depth", "3"], ["--matrix", "nowhere"]])
def test_options_of_no_method_of_a_race_are_refused(no_model, capsys, tmp_path, more):
    assert run("race", "--prompt", "a", "--methods", "plain", *more, "--out", str(tmp_path / "t.json")) == 2
    assert f"error: {more[0]} is not a setting of these methods" in capsys.readouterr().err


@pytest.mark.parametrize(
    "methods", ["plain,plain", "plain,aded:depth=3,aded:depth=3", "plain,aded:c1=1:depth=3,aded:depth=3:c1=1"]
)
def test_a_method_that_is_given_twice_with_the_same_options_is_refused(no_model, capsys, tmp_path, methods):
    words = f"the method '{methods.split(',')[-1]}' is given twice; leave one out"
    assert run("race", "--prompt", "a", "--methods", methods, "--out", str(tmp_path / "t.json")) == 2
    assert words in capsys.readouterr().err
    assert words in check_refused_list([GOOD_RACE | {"methods": methods.split(",")}], capsys, tmp_path)


def test_two_runs_of_a_method_with_different_options_have_their_options_in_the_label(tiny, capsys, tmp_path):
    out = str(tmp_path / "t.json")
    assert (
        run("race", "--prompt", "a b", "--methods", "plain,aded:depth=2,aded:depth=3", "--max-new-tokens", "3", "--out", out) == 0
    )
    runs = trace.load(out).lanes
    assert [one.header.label for one in runs] == ["Plain decoding", "ADED (depth 2)", "ADED (depth 3)"]
    assert [one.header.method_settings.get("depth") for one in runs] == [None, 2, 3]
    assert run("race", "--prompt", "a", "--methods", "plain,aded:bogus=2", "--out", out) == 2
    assert "bogus" in capsys.readouterr().err


def test_races_of_a_list_are_recorded_with_their_settings(tiny, capsys, tmp_path):
    races = [GOOD_RACE, GOOD_RACE | {"title": "b", "methods": ["plain", "aded"], "settings": {"max_new_tokens": 3}}]
    races[1]["options"] = {"depth": 2}
    (tmp_path / "races.json").write_text(json.dumps(races), encoding="utf-8-sig")
    assert run("race", "--list", str(tmp_path / "races.json"), "--out", str(tmp_path / "out"), "--max-new-tokens", "2") == 0
    made = {file.stem: trace.load(file) for file in (tmp_path / "out").iterdir()}
    lengths = {name: [len(one.token_ids) for one in race.lanes] for name, race in made.items()}
    assert lengths == {"a": [2], "b": [3, 3]}
    assert made["b"].lanes[1].header.method_settings["depth"] == 2


def test_no_race_is_recorded_if_the_prompt_of_a_later_one_is_too_long(tiny, capsys, tmp_path):
    (tmp_path / "races.json").write_text(json.dumps([GOOD_RACE, GOOD_RACE | {"title": "b", "prompt": "a " * 400}]))
    assert run("race", "--list", str(tmp_path / "races.json"), "--out", str(tmp_path / "out")) == 2
    assert "error: the prompt has 400 tokens" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


LATE = {
    "blank prompt": ["generate", "--prompt", " \n"],
    "blank prompt file": ["generate", "--prompt-file", "blank"],
    "endless prompt file": ["generate", "--prompt-file", "/dev/zero"],
    "prompt that is no Unicode": ["generate", "--prompt", "\ud800"],
    "corpus": ["generate", "--prompt", "a", "--corpus", "half"],
    "preset": ["generate", "--prompt", "a", "--preset", "best"],
    "exploration": ["generate", "--prompt", "a", "--c1", "-1"],
    "missing matrix": ["generate", "--prompt", "a", "--matrix", "nowhere"],
    "missing datastore": ["generate", "--prompt", "a", "--method", "rest", "--datastore", "nowhere"],
    "missing heads": ["generate", "--prompt", "a", "--method", "medusa", "--heads", "nowhere"],
    "missing draft": ["generate", "--prompt", "a", "--method", "specinfer", "--draft", "nowhere"],
    "n-gram": ["generate", "--prompt", "a", "--method", "prompt-lookup", "--max-ngram", "0"],
    "window": ["generate", "--prompt", "a", "--method", "lookahead", "--window", "0"],
    "max-occurrences": ["generate", "--prompt", "a", "--method", "rest", "--max-occurrences", "0"],
    "factor": ["generate", "--prompt", "a", "--method", "suffix", "--factor", "nan"],
    "cold with a corpus": ["generate", "--prompt", "a", "--method", "suffix", "--datastore", "blank", "--no-warm"],
    "tree": ["generate", "--prompt", "a", "--method", "medusa", "--tree", "tall"],
    "epsilon": ["generate", "--prompt", "a", "--method", "medusa-typical", "--epsilon", "2"],
    "verification": ["generate", "--prompt", "a", "--method", "speculative", "--verification", "none"],
    "draft length": ["generate", "--prompt", "a", "--method", "speculative", "--draft-length", "-1"],
    "two drafts": ["generate", "--prompt", "a", "--method", "speculative", "--draft-model", "a", "--draft-model", "b"],
    "branching": ["generate", "--prompt", "a", "--method", "specinfer", "--branching", "0"],
    "branching of words": ["generate", "--prompt", "a", "--method", "specinfer", "--branching", "x"],
    "depth of a mixture": ["generate", "--prompt", "a", "--method", "aded-medusa", "--depth", "0"],
    "option of a benchmark": ["bench", "--questions", "q", "--methods", "aded:c1=-1"],
    "form of an option": ["bench", "--questions", "q", "--methods", "aded:c1"],
    "length of an answer": ["matrix", "compare", "m", "--questions", "q", "--max-new-tokens", "0"],
    "matrix of an ablation": ["ablate", "--questions", "q", "--matrix", "x=nowhere"],
    "missing beginnings": ["matrix", "build", "--self-written", "9", "--beginnings", "nowhere", "--out", "x"],
    "missing text": ["datastore", "build", "--text", "nowhere", "--out", "x"],
    "missing matrix to show": ["matrix", "show", "nowhere", "--model", "a"],
}


@pytest.mark.parametrize("case", LATE)
def test_errors_are_reported_before_a_model_is_loaded(no_model, capsys, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank").write_text(" \n\u2028")
    (tmp_path / "q").write_text(json.dumps({"question_id": 1, "turns": ["a"]}))
    assert run(*LATE[case]) == 2
    assert capsys.readouterr().err.count("error: ") == 1


@pytest.mark.parametrize("command", [["bench", "--methods", "plain"], ["ablate"], ["matrix", "compare", "m"]])
def test_questions_longer_than_the_context_are_reported_before_the_first_is_answered(
    tiny, capsys, tmp_path, monkeypatch, command
):
    monkeypatch.setattr("aded.ngram.trigram.TrigramMatrix.load", lambda *a, **k: None)
    monkeypatch.setattr(Decoder, "next_step", lambda self: pytest.fail("a question was answered"))
    questions = [{"question_id": 1, "turns": ["a"]}, {"question_id": 2, "turns": ["a " * 400]}]
    (tmp_path / "q").write_text("\n".join(map(json.dumps, questions)))
    assert run(*command, "--questions", str(tmp_path / "q"), "--device", "cpu") == 2
    assert "error: question 2: the prompt has 400 tokens" in capsys.readouterr().err


def test_remedies_name_the_given_model(monkeypatch, capsys, tmp_path):
    target = tiny_target("llama")
    target.spec = "my models/one"
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *a, **k: target))
    (tmp_path / "x").write_text("no matrix")
    for more, command in (
        (["--method", "medusa"], "make what is missing with `python -m aded prepare 'my models/one'`, or give --heads FILE"),
        (["--method", "specinfer"], "`python -m aded prepare 'my models/one'`, or give --draft FILE"),
        (["--method", "rest"], "`python -m aded prepare 'my models/one'`, or give --datastore FILE"),
        (["--matrix", str(tmp_path / "x")], "matrix build --model 'my models/one' --text FILE --out FILE`"),
    ):
        assert run("generate", "--prompt", "a", "--model", "my models/one", *more) == 2
        said = capsys.readouterr().err
        assert command in said
        assert "SPEC" not in said
    assert run("matrix", "prune", str(tmp_path / "x"), "--rows", "1", "--out", str(tmp_path / "y")) == 2
    assert "`python -m aded matrix build --text FILE --out FILE`" in capsys.readouterr().err


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_option_of_a_method_has_a_flag(method):
    parser = argparse.ArgumentParser()
    method_options.add(parser)
    assert set(method.options) <= set(vars(parser.parse_args([])))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_help_of_an_option_names_every_method_that_has_it(method):
    parser = argparse.ArgumentParser(formatter_class=lambda prog: argparse.HelpFormatter(prog, width=500))
    method_options.add(parser)
    for line in parser.format_help().splitlines():
        if ": " in line and line.lstrip().startswith("--"):
            name = line.split()[0].strip(",").removeprefix("--").replace("-", "_")
            assert (name in method.options) == (method.name in line.split(": ")[0].replace(",", " ").split()), line


def test_model_options_are_those_that_the_parser_has():
    parser = main.Parser()
    model_options.add_model_options(parser)
    assert set(vars(parser.parse_args([]))) == set(model_options.MODEL_OPTIONS)


@pytest.mark.parametrize("method", ["suffix", pytest.param("token-recycling", marks=pytest.mark.slow)])
def test_methods_without_a_corpus_start_without_counts(tiny, capsys, method):
    assert run("generate", "--prompt", "a b", "--method", method, "--no-warm", "--max-new-tokens", "3", "--json") == 0


@pytest.mark.parametrize(
    "command", [["ablate", "--recorded", "r"], ["bench", "--recorded", "r"], ["matrix", "compare", "m", "--recorded", "r"]]
)
def test_folders_for_results_are_checked_before_the_work(capsys, tmp_path, command):
    (tmp_path / "file").write_text("")
    assert run(*command, "--out", str(tmp_path / "file" / "below")) == 2
    assert "choose another --out" in capsys.readouterr().err


def test_a_matrix_of_another_tokenizer_is_refused(tiny, capsys):
    matrix = next((ROOT / "assets").glob("*.trigram.safetensors"))
    assert run("generate", "--prompt", "a", "--matrix", str(matrix)) == 2
    assert "matrix" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"{}", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", b"not a matrix at all"])
def test_damaged_files_are_refused(tiny, capsys, tmp_path, content):
    file = tmp_path / "broken"
    file.write_bytes(content)
    assert run("generate", "--prompt", "a", "--matrix", str(file)) == 2
    assert "; build one for this model with" in capsys.readouterr().err
    assert run("replay", str(file)) == 2
    assert run("matrix", "build", "--tokens", str(file), "--out", str(tmp_path / "x")) == 2


def test_unknown_models_name_the_known_kinds(capsys):
    assert run("generate", "--prompt", "a", "--model", "./nowhere") == 2
    assert "default" in capsys.readouterr().err


def test_ctrl_c_keeps_the_text_so_far(tiny, capsys, tmp_path, monkeypatch):
    steps = Decoder.next_step

    def interrupted(self):
        if len(self._steps) == 3:
            raise KeyboardInterrupt
        return steps(self)

    monkeypatch.setattr(Decoder, "next_step", interrupted)
    file = tmp_path / "t.json"
    assert run("generate", "--prompt", "a b c", "--json", "--trace", str(file)) == 130
    body = json.loads(capsys.readouterr().out)
    assert (body["finish_reason"], body["steps"]) == ("cancelled", 3)
    assert trace.load(file).lanes[0].finish_reason == "cancelled"


def test_the_engine_is_usable_without_gradio():
    blocked = "import sys; sys.modules['gradio'] = sys.modules['plotly'] = None"
    code = f"{blocked}; import aded.decoding.decoder, aded.decoding.race, aded.cli.main"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_help_loads_no_model_library():
    loaded = "{'torch', 'transformers', 'gradio'} & set(sys.modules)"
    code = f"import sys; from aded.cli import main; main.build_parser(); assert not {loaded}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.slow
def test_settings_reach_the_decoding_loop(tiny):
    decoder = Decoder(tiny, "aded", GenerationSettings(budget=5), {"preset": "paper", "simulations": 7})
    assert decoder.drafter.settings()["simulations"] == 7


def test_a_trace_cannot_send_control_sequences_to_the_terminal(tiny, capsys, tmp_path):
    file = tmp_path / "t.json"
    run("generate", "--prompt", "a b c", "--max-new-tokens", "5", "--trace", str(file))
    body = json.loads(file.read_text())
    body["header"]["label"] = body["header"]["model"] = "\x1b]0;title\x07\x1b[31m\n"
    body["steps"][0]["note"] = body["steps"][0]["budget"]["why"] = "\x1b[2J"
    file.write_text(json.dumps(body))
    capsys.readouterr()
    assert run("replay", str(file)) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_ctrl_c_while_the_prompt_is_read_is_a_clean_stop(tiny, capsys, monkeypatch):
    def interrupted(self, ids, layers):
        raise KeyboardInterrupt

    monkeypatch.setattr("aded.engine.session.TargetSession.prefill_chunks", interrupted)
    assert run("generate", "--prompt", "a b c") == 130
    assert "Traceback" not in capsys.readouterr().err


def process(*arguments: str, code: str = "", **streams) -> subprocess.CompletedProcess[str]:
    """The command line in another process, after ``code``; Ctrl-C ends it even if the tests run in the background of a shell."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}\nfrom aded.__main__ import program; sys.exit(program())"
    command = [sys.executable, "-c", program, *arguments]
    interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    options = {"stderr": subprocess.PIPE, "text": True, "timeout": HANG, "check": False, "preexec_fn": interruptible}
    return subprocess.run(command, **options, **streams)


class Closed(io.StringIO):
    """An output whose reader has ended."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def fileno(self) -> int:
        return os.dup(1)


def test_an_output_that_is_closed_loses_no_file(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdout", Closed())
    file = tmp_path / "run.json"
    assert run("generate", "--prompt", "a b c", "--max-new-tokens", "5", "--trace", str(file)) == 0
    assert len(trace.load(file).lanes[0].steps) == 1
    (tmp_path / "q.jsonl").write_text('{"question_id": 1, "turns": ["a b"]}')
    bench = (
        "bench",
        "--questions",
        str(tmp_path / "q.jsonl"),
        "--methods",
        "prompt-lookup",
        "--max-new-tokens",
        "2",
        "--no-html",
    )
    assert run(*bench, "--out", str(tmp_path / "out")) == 0
    assert (tmp_path / "out" / "results.json").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "command", [["--help"], pytest.param(["race", "--help"], marks=pytest.mark.slow), ["methods", "--json"]], ids=" ".join
)
def test_an_output_that_cannot_be_written_is_one_line_and_status_2(command):
    with open("/dev/full", "w") as full:
        ended = process(*command, stdout=full)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "error: cannot write the output: No space left on device" in ended.stderr


CLOSED = "import os; [os.close(fd) for fd in (0, 1)]; sys.stdin = sys.stdout = None"


@pytest.mark.slow
def test_closed_streams_are_empty_and_discard_what_is_written(tmp_path):
    trace.save(make_race(), tmp_path / "race.json")
    for command in (["replay", "--pause", str(tmp_path / "race.json")], ["--help"]):
        ended = process(*command, code=CLOSED)
        assert (ended.returncode, ended.stderr) == (0, "")
    ended = process("generate", "--prompt-file", "-", code=CLOSED)
    assert (ended.returncode, ended.stderr) == (2, "error: the prompt is blank; write some text\n")


def test_the_end_of_the_input_continues_a_paused_replay(capsys, tmp_path, monkeypatch):
    def ended(*_):
        raise EOFError

    monkeypatch.setattr("builtins.input", ended)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    trace.save(make_race(), tmp_path / "race.json")
    assert run("replay", "--pause", str(tmp_path / "race.json")) == 0
    assert "tokens per second" in capsys.readouterr().out


INTERRUPTED = """
import os, signal
class Interrupting:
    def find_spec(self, name, *more):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                if {swallowed}:
                    return
                raise
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("module", ["aded.cli.main", "aded.cli.race", "numba", "pydantic"])
@pytest.mark.parametrize("swallowed", [False, True])
def test_ctrl_c_while_the_options_are_read_ends_the_program_without_a_traceback(module, swallowed):
    ended = process("methods", code=INTERRUPTED.format(module=module, swallowed=swallowed), stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_while_a_command_runs_is_one_line(tmp_path):
    code = INTERRUPTED.format(module="aded.evaluation.bench.recorded", swallowed=False)
    ended = process("methods", code=code, stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


def test_a_bench_that_is_interrupted_names_saved_measurements_only_if_there_are_some(capsys, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_measure", interrupted)
    hint = f"finished measurements are saved in {tmp_path}; the same command resumes the run\n"
    for printed in ("", hint):
        assert run("bench", "--questions", str(tmp_path / "q.jsonl"), "--out", str(tmp_path)) == 130
        assert capsys.readouterr().err == f"{printed}stopped\n"
        (tmp_path / "cells.jsonl").write_text("")


@pytest.mark.parametrize("command", [["matrix", "show"], ["datastore", "show"], ["matrix", "build", "--out", "x", "--tokens"]])
def test_a_pipe_in_place_of_a_file_is_named_as_such(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    reader, writer = os.pipe()
    os.write(writer, bytes(100))
    os.close(writer)
    assert run(*command, f"/dev/fd/{reader}") == 2
    os.close(reader)
    assert "it is a pipe or a device; save its content as a file" in capsys.readouterr().err


def test_a_race_without_runs_is_refused(capsys, tmp_path):
    (tmp_path / "t.json").write_text('{"format": "aded-race", "version": 4, "lanes": []}')
    assert run("replay", str(tmp_path / "t.json")) == 2
    assert "damaged trace: race.lanes: " in capsys.readouterr().err


BROKEN_CONFIGS = ["{}", "not json", '{"model_type": "llama", "vocab_size": 97}']


@pytest.mark.parametrize("config", BROKEN_CONFIGS)
@pytest.mark.parametrize("command", [["datastore", "build", "--out", "x", "--text"], ["matrix", "build", "--out", "x", "--text"]])
def test_a_broken_model_folder_is_one_line_where_only_its_tokenizer_is_used(capsys, tmp_path, monkeypatch, config, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(config)
    (tmp_path / "text").write_text("hello")
    assert run(*command, "text", "--model", "model") == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "error: cannot load the model 'model' (" in said) == (1, True)
    assert "from one of:)" not in said
    assert not (tmp_path / "x").exists()

"""The command line: its options, its JSON output, one-line errors with exit status 2."""

import argparse
import json
import subprocess
import sys

import pytest
from conftest import ROOT
from fakes import tiny_target

from aded.cli import main, method_options, model_options
from aded.core import trace
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


def run(*arguments: str) -> int:
    try:
        return main.main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


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
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
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
    assert "step 0: drafted" in capsys.readouterr().out
    assert run("replay", file, "--step", "1") == 0
    assert run("replay", file, "--step", "99") == 2


def test_methods_are_listed(capsys):
    assert run("methods", "--json") == 0
    assert [m["name"] for m in json.loads(capsys.readouterr().out)][:3] == ["plain", "aded", "prompt-lookup"]
    assert run("methods") == 0
    assert "lossless" in capsys.readouterr().out


def test_methods_lists_the_missing_prerequisites_of_another_model(tiny, capsys):
    assert run("methods", "--model", "another") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("unavailable: there are no Medusa heads for this model" in line and "train medusa" in line for line in lines) == 3


def test_a_prompt_file_is_read(tiny, capsys, tmp_path):
    (tmp_path / "p.txt").write_text("a b c", encoding="utf-8")
    assert run("generate", "--prompt-file", str(tmp_path / "p.txt"), "--max-new-tokens", "2", "--json") == 0


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
    "matrix that is pruned": ["matrix", "prune", "a", "--rows", "1", "--out", "a"],
    "matrix that is merged": ["matrix", "merge", "b", "a", "--out", "a"],
    "beginnings": ["matrix", "build", "--self-written", "9", "--beginnings", "a", "--out", "a"],
    "text of a matrix": ["matrix", "build", "--text", "a", "--out", "a"],
    "model of a matrix": ["matrix", "build", "--text", "b", "--model", "a", "--out", "a"],
    "text of a datastore": ["datastore", "build", "--text", "a", "--out", "a"],
    "model of a datastore": ["datastore", "build", "--text", "b", "--model", "a", "--out", "a"],
    "results": ["bench", "--table", "a", "--embed", "a", "--name", "x"],
    "questions": ["bench", "--questions", "out/results.json", "--out", "out"],
    "records": ["bench", "--recorded", "out/cells.jsonl", "--out", "out"],
    "records of an ablation": ["ablate", "--recorded", "out/table.md", "--out", "out"],
    "matrix of an ablation": ["ablate", "--questions", "a", "--matrix", "x=out/table.md", "--out", "out"],
    "matrix that is compared": ["matrix", "compare", "out/results.json", "--recorded", "a", "--out", "out"],
    "corpus": ["train", "medusa", "--corpus", "out/heads.md", "--out", "out"],
    "held-out text": ["train", "draft", "--corpus", "self", "--held-out", "out/draft.md", "--out", "out"],
}


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_no_input_is_overwritten(no_model, capsys, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    for name in ("a", "b", "out/results.json", "out/cells.jsonl", "out/table.md", "out/heads.md", "out/draft.md"):
        (tmp_path / name).write_text("what was there")
    assert run(*OVERWRITTEN[case]) == 2
    assert "which this command uses as" in capsys.readouterr().err
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"what was there"}


LATE = {
    "blank prompt": ["generate", "--prompt", " \n"],
    "blank prompt file": ["generate", "--prompt-file", "blank"],
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
    monkeypatch.setattr(Decoder, "step", lambda self: pytest.fail("a question was answered"))
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
        (["--method", "medusa"], "train medusa --model 'my models/one'`"),
        (["--method", "specinfer"], "train draft --model 'my models/one'`"),
        (["--method", "rest"], "datastore build --model 'my models/one' --text FILE"),
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


@pytest.mark.parametrize("method", ["suffix", "token-recycling"])
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
    assert run("replay", str(file)) == 2
    assert run("matrix", "build", "--tokens", str(file), "--out", str(tmp_path / "x")) == 2


def test_unknown_models_name_the_known_kinds(capsys):
    assert run("generate", "--prompt", "a", "--model", "./nowhere") == 2
    assert "default" in capsys.readouterr().err


def test_ctrl_c_keeps_the_text_so_far(tiny, capsys, tmp_path, monkeypatch):
    steps = Decoder.step

    def interrupted(self):
        if len(self._steps) == 3:
            raise KeyboardInterrupt
        return steps(self)

    monkeypatch.setattr(Decoder, "step", interrupted)
    file = tmp_path / "t.json"
    assert run("generate", "--prompt", "a b c", "--json", "--trace", str(file)) == 130
    body = json.loads(capsys.readouterr().out)
    assert (body["finish_reason"], body["steps"]) == ("cancelled", 3)
    assert trace.load(file).lanes[0].finish_reason == "cancelled"


def test_the_engine_is_usable_without_gradio():
    blocked = "import sys; sys.modules['gradio'] = sys.modules['plotly'] = None"
    code = f"{blocked}; import aded.decoding.decoder, aded.decoding.lockstep, aded.cli.main"
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

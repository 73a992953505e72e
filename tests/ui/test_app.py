"""The command line of the app: invalid arguments end it with one line and status 2."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from conftest import ROOT
from waiting import HANG

from ui import app


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "seven"], "give a number"),
        (["--port", "70000"], "give a number"),
        (["--model", "./no/such/folder"], "there is no model at"),
        (["--model", "nothing.gguf"], "there is no model at"),
        (["--model", str(ROOT / "tests")], "has no config.json; give a folder"),
        (["--model", str(ROOT / "app.py")], "is not a model; give a .gguf file"),
        (["--allow-models", "../.."], "../.. has no config.json"),
        (["--device", "tpu"], "unknown device"),
        (["--dtype", "float8"], "unknown dtype"),
        (["--host", "no.such.host.invalid"], "cannot listen on"),
        (["--host", "fe80::1%lo"], "give an address without a zone"),
        (["--host", "[::1"], "cannot listen on"),
        (["--queue-size", "many"], "queue size is 'many'; give a whole number from 0"),
        (["--queue-size", "-1"], "queue size"),
        (["--at-once", "0"], "give a whole number from 1"),
        (["--max-new-tokens", "0"], "max new tokens is '0'"),
        (["--max-new-tokens", "9999999"], "to 1000000"),
        (["--run-seconds", "1.5"], "run seconds is '1.5'"),
        (["--session-limit", "x"], "session limit is 'x'"),
        (["--max-prompt", ""], "max prompt is ''"),
        (["--keep-races", "-1"], "keep races is '-1'"),
        (["--keep-conversations", "x"], "keep conversations is 'x'"),
        (["--allow-models", "default,./no/such/folder"], "there is no model at './no/such/folder'"),
        (["--frame-ancestors", "*"], "'*' is not a site"),
        (["--embed", "maybe"], "give on or off"),
        (["--root-path", "aded"], "root path is 'aded'; give a path such as /aded"),
        (["--root-path", "/a b"], "root path"),
        (["--root-path", "/.."], "root path is '/..'"),
        (["--root-path", "https://a.org/b/../c"], "root path"),
        (["--frame-ancestors", "https://a.org; script-src *"], "is not a site"),
    ],
)
def test_bad_arguments_end_with_one_line_and_status_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]):
    assert app.main([*arguments, "--no-browser"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error


def test_a_missing_gpu_is_reported_at_the_start(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert app.main(["--device", "cuda", "--no-browser"]) == 2
    assert "no CUDA GPU was found; use --device cpu or auto" in capsys.readouterr().err


def test_a_port_in_use_is_reported(capsys: pytest.CaptureFixture[str]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert app.main(["--port", str(taken.getsockname()[1]), "--no-browser"]) == 2
    assert "another --port" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "found"), [("::", "::"), ("::1", "::1"), ("[::1]", "::1"), ("example.org", "example.org")])
def test_brackets_around_an_address_are_removed(host: str, found: str):
    assert app.host_of(app.parse(["--host", host])) == found


def test_an_unknown_argument_ends_with_status_2():
    with pytest.raises(SystemExit) as end:
        app.main(["--colour", "blue"])
    assert end.value.code == 2


def test_the_environment_sets_address_and_port(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    monkeypatch.setenv("GRADIO_SERVER_PORT", "7999")
    options = app.parse([])
    assert (options.host, options.port) == ("0.0.0.0", "7999")


def test_the_environment_sets_limits_and_a_space_may_be_framed_by_its_host(monkeypatch: pytest.MonkeyPatch):
    assert app.frames_of(app.parse([])) == []
    monkeypatch.setenv("ADED_QUEUE_SIZE", "7")
    monkeypatch.setenv("ADED_MAX_NEW_TOKENS", "99")
    monkeypatch.setenv("ADED_ALLOW_MODELS", "a/b, c/d")
    monkeypatch.setenv("SPACE_ID", "someone/explorer")
    limits = app.limits_of(app.parse(["--max-new-tokens", "50"]))
    assert (limits["queue_size"], limits["max_new_tokens"]) == (7, 50)
    assert app.models_of(app.parse([])) == ["default", "a/b", "c/d"]
    assert app.frames_of(app.parse([])) == [app.hub()]


def test_no_option_allows_code_of_a_model_to_run():
    with pytest.raises(SystemExit):
        app.parse(["--trust-remote-code"])


def test_the_page_is_built_without_the_engine():
    code = (
        "import sys; from ui.page import build; from ui.serving.service import Service; build(Service());"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG)
    assert done.stdout.strip() == "[]", done.stderr[-2000:]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "²"],
        ["--port", "9" * 5000],
        ["--host", "a..b"],
        ["--host", "x" * 80],
        ["--model", ""],
        ["--device", "cuda:²"],
        ["--what"],
    ],
)
def test_unusual_values_are_refused_in_one_line_too(arguments, capsys):
    try:
        status = app.main([*arguments, "--no-browser"])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1

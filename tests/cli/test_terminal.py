"""Replay of a trace in a terminal: the output is limited for every tree."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
from contextlib import suppress
from dataclasses import replace

import pytest
from ui_fakes import make_trace

from aded.cli import main, terminal
from aded.core import trace
from aded.core.trace import Step, TreeRecord


def step_of(parents: list[int], verdict: str = "accepted", text: str = "x") -> Step:
    """A step with a tree of this form; all nodes except the root have the same verdict, and all are emitted."""
    n = len(parents)
    tree = TreeRecord(
        tokens=list(range(n)),
        parents=parents,
        texts=[text] * n,
        columns={},
        probability=[None] * n,
        rank=[None] * n,
        verdict=["root", *[verdict] * (n - 1)],  # type: ignore[list-item]
        reason=["root", *["target chose it"] * (n - 1)],  # type: ignore[list-item]
    )
    step = make_trace("aded").steps[0]
    return replace(step, tree=tree, path=[0], emitted=list(range(n)), texts=[text] * n, origins=["draft"] * n)  # type: ignore[arg-type]


CHAIN = [-1, *range(5000)]
STAR = [-1, *[0] * 5000]


@pytest.mark.parametrize("parents", [CHAIN, STAR], ids=["chain", "star"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_tree_of_any_size_is_printed_in_limited_lines_and_the_rest_is_counted(parents: list[int], whole: bool):
    lines = terminal.tree_lines(step_of(parents), color=False, whole=whole)
    assert len(lines) == terminal.MAX_SHOWN + 1
    assert lines[-1] == f"… and {5000 - terminal.MAX_SHOWN} more nodes"
    assert max(map(len, lines)) < 100


def test_the_nodes_not_reached_are_neither_printed_nor_counted():
    assert terminal.tree_lines(step_of(CHAIN, "unreached"), color=False, whole=False) == []
    assert len(terminal.tree_lines(step_of(CHAIN, "unreached"), color=False, whole=True)) == terminal.MAX_SHOWN + 1


def test_deep_nodes_show_their_depth_and_others_are_indented():
    lines = terminal.tree_lines(step_of([-1, *range(20)]), color=False, whole=True)
    assert len(lines) == 20
    assert lines[2].startswith("    ✓")
    assert lines[19].startswith(f"{'  ' * terminal.MAX_INDENT}(depth 20) ✓")


def test_replaying_a_trace_of_long_texts_and_chains_prints_little(tmp_path, capsys):
    record = make_trace("aded")
    step = step_of(CHAIN, text="y" * 1000)
    record = replace(record, steps=[step], token_ids=step.emitted)
    trace.save(record, tmp_path / "t.json")
    for more in ([], ["--step", "1"]):
        assert main.main(["replay", str(tmp_path / "t.json"), *more]) == 0
        out = capsys.readouterr().out
        assert len(out) < 100_000
        assert f"… and {5001 - terminal.MAX_SHOWN} more" in out
        assert f"… and {5000 - terminal.MAX_SHOWN} more nodes" in out


def test_progress_fits_the_width_of_the_terminal_and_leaves_nothing_behind(monkeypatch):
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("4H", 20, 60, 0, 0))
    with open(writer, "w", encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with terminal.Progress() as progress:
            progress("loading")
            for share in (0.0, 0.5, 1.0):
                progress("counting: 2,000 tokens, 200 per second", share)
            progress("a message that is longer than the terminal is wide: " + "x" * 60, 0.5)
            progress("saved")
    written = b""
    with suppress(OSError):  # at the end
        while data := os.read(reader, 1 << 16):
            written += data
    os.close(reader)
    lines = [line.strip() for line in written.decode().split("\r")]
    assert b"\n" not in written and max(map(len, lines)) < 60
    assert "loading" in lines and "saved" in lines
    assert [line[-4:] for line in lines if "counting" in line] == ["  0%", " 50%", "100%"]
    assert lines[-2:] == ["", ""]


def test_progress_prints_each_subject_once_where_there_is_no_terminal(capsys):
    with terminal.Progress() as progress:
        for message in ("loading", "counting: 1 token", "counting: 2 tokens", "saved"):
            progress(message, 0.5)
    assert capsys.readouterr().err == "loading\ncounting: 1 token\nsaved\n"


def test_the_phases_of_a_step_have_the_names_of_the_field():
    assert ", KV-cache compaction 0.40, update " in terminal.summary_table(make_trace("aded"))
    assert "commit" not in terminal.summary_table(make_trace("aded"))

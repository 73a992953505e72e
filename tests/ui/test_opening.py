"""Opening a saved race in the browser: the scripts accept and refuse the same files as Python, and make the same JSON lines."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_fuzz import damaged, edited
from ui_fakes import make_race, make_step, make_trace
from waiting import HANG

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.trace import Race, TraceError
from ui.browser.files import title_of
from ui.browser.trace_format import trace_format
from ui.browser.wire import check_drawable, to_lines
from ui.page import COLOURS
from ui.theme import ASSETS

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

FILES = int(os.environ.get("ADED_FUZZ_FILES") or 100)
NOT_ALIKE = re.compile(rb"1e\+308|10{399}")
"""Numbers that JavaScript reads as an integer, or not at all, unlike Python."""
SCRIPT = """
import { readFileSync } from "node:fs";
import { read } from "ROOT/assets/page/shell/openfile.js";
import { setFormat } from "ROOT/assets/page/record/traceformat.js";
const { format, files } = JSON.parse(readFileSync(0, "utf-8"));
setFormat(format);
for (const path of files) {
  let lines = null;
  const messages = await read(new File([readFileSync(path)], path.split("/").pop()), (text) => (lines = text));
  console.log(JSON.stringify({ lines, messages }));
}
""".replace("ROOT", ROOT.as_uri())


def opened(files: list[Path]) -> list[dict[str, Any]]:
    """What the scripts make of files: the lines, or messages."""
    asked = json.dumps({"format": trace_format(), "files": [str(file) for file in files]})
    command = ["node", "--input-type=module", "--eval", SCRIPT]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def events(lines: str) -> list[dict[str, Any]]:
    """The lines without the id of the race, with numbers as in JavaScript."""
    made = [json.loads(line, parse_int=float) for line in lines.split("\n") if line]
    return [{key: value for key, value in event.items() if key != "id"} for event in made]


def written(race: Race, path: Path) -> Path:
    trace.save(race, path)
    return path


def test_the_bundled_races_have_the_same_lines_and_layouts_as_in_python():
    files = sorted((ASSETS / "traces").glob("*.json"))
    assert len(files) > 5
    for file, found in zip(files, opened(files), strict=True):
        assert events(found["lines"]) == events(to_lines(trace.load(file), COLOURS, "file", file.name)), title_of(file)


@pytest.mark.slow
def test_large_trees_and_several_runs_of_one_method_have_the_same_lines_as_in_python(tmp_path: Path):
    rng = random.Random(1)
    step = make_step(0, ["a", "b", "c"], [1, 2, 3], 2, rng, 900)
    large = make_trace("aded", ["a", "b", "c"])
    files = [
        written(Race([trace.Trace(large.header, [step], 0.1, "abc", [1, 2, 3], "length")]), tmp_path / "large.json"),
    ]
    for count in range(1, 9):
        files.append(written(Race([make_trace(n) for n in ["plain", *["aded"] * count]]), tmp_path / f"{count}.json"))
    for file, found in zip(files, opened(files), strict=True):
        assert events(found["lines"]) == events(to_lines(trace.load(file), COLOURS, "file", file.name)), file.name


def verdict(data: bytes) -> str | None:
    """Why Python refuses a file; None if it can be drawn."""
    try:
        found = trace.loads(data)
        check_drawable(found)
    except TraceError as error:
        return error.kind
    except AdedError:
        return "damaged"
    return None


def test_damaged_files_are_refused_for_the_same_reason_as_in_python(tmp_path: Path):
    body, text = trace.to_json(make_race(["a", " b", " c", "\n"])), trace.dumps(make_race(["a", " b", " c", "\n"])).encode()
    contents = {}
    for seed in range(FILES):
        rng = random.Random(seed)
        content = damaged(text, rng) if rng.random() < 0.2 else json.dumps(edited(body, rng)).encode()
        if not NOT_ALIKE.search(content):
            contents[seed] = content
            (tmp_path / f"{seed}.json").write_bytes(content)
    refused = 0
    files = [tmp_path / f"{seed}.json" for seed in contents]
    for (seed, content), found in zip(contents.items(), opened(files), strict=True):
        reason = verdict(content)
        kinds = [key.removeprefix("file.") for key, _ in found["messages"]]
        assert kinds[:1] == ([] if reason is None else [reason]), (seed, found["messages"])
        if reason is None:
            assert events(found["lines"]) == events(to_lines(trace.loads(content), COLOURS, "file", f"{seed}.json")), seed
        refused += reason is not None
    assert FILES // 3 < refused < len(contents)


@pytest.mark.parametrize(
    "change",
    [
        lambda lens: lens["layers"].reverse(),
        lambda lens: lens["layers"].clear(),
        lambda lens: lens["eagle"].append(3),
        lambda lens: lens["positions"].pop(),
        lambda lens: lens["positions"][0]["texts"].pop(),
        lambda lens: lens["positions"][0]["ranks"].__setitem__(0, 0),
        lambda lens: lens["positions"][0]["chosen"].__setitem__(0, 1.5),
        lambda lens: lens["positions"][0]["probabilities"].__setitem__(0, -0.5),
        lambda lens: lens["positions"][0].pop("tokens"),
    ],
)
def test_a_damaged_logit_lens_is_refused_as_in_python(tmp_path: Path, change: Any):
    body = trace.to_json(make_race(["a", " b"]))
    change(body["lanes"][1]["steps"][0]["lens"])
    (tmp_path / "race.json").write_text(json.dumps(body))
    assert [key for key, _ in opened([tmp_path / "race.json"])[0]["messages"]][:1] == ["file.damaged"]
    assert verdict(json.dumps(body).encode()) == "damaged"


@pytest.mark.parametrize("field", ["index", "position"])
def test_numbers_below_zero_are_refused_as_in_python(tmp_path: Path, field: str):
    body = trace.to_json(make_race(["a", " b"]))
    body["lanes"][0]["steps"][0][field] = -1
    (tmp_path / "race.json").write_text(json.dumps(body))
    assert [key for key, _ in opened([tmp_path / "race.json"])[0]["messages"]][:1] == ["file.damaged"]
    with pytest.raises(TraceError, match=rf"steps\[0\]\.{field}"):
        trace.loads(json.dumps(body))

"""Lessons: every error is named with its place, measured numbers are those of their sources, the document is complete."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from aded.__main__ import program
from aded.core.errors import AdedError
from aded.lessons import checks, format
from aded.lessons.template import template

DOCUMENT = (ROOT / "docs" / "lessons.md").read_text("utf-8")
BODY: dict[str, Any] = json.loads(template("mine"))


def faults(path: Path, change: Callable[[Any], object] = lambda body: None) -> list[tuple[str, str]]:
    """Place and kind of each fault of the template with a change."""
    body = copy.deepcopy(BODY)
    change(body)
    path.write_text(json.dumps(body), "utf-8")
    _, found = checks.check(path)
    assert all(checks.sentence(fault) for fault in found)
    return [(fault.where, fault.key) for fault in found]


# The bundled lessons


@pytest.mark.parametrize("path", checks.bundled(), ids=lambda path: path.stem)
def test_a_bundled_lesson_has_no_faults_and_all_its_numbers_have_a_source_here(path: Path):
    body, found = checks.check(path)
    assert body is not None and [checks.sentence(fault) for fault in found] == []
    assert body["name"] == path.stem
    assert sorted(body["title"]) == ["en", "zh"]
    for name, fact in body["facts"].items():
        assert "source" not in fact or checks.written(fact["source"]) == fact["value"], name
    assert sum("exercise" in part for part in body["parts"]) >= 2
    assert any(part.get("reading") for part in body["parts"])


@pytest.mark.parametrize("path", checks.bundled(), ids=lambda path: path.stem)
def test_no_answer_of_a_bundled_lesson_is_typed(path: Path):
    body = json.loads(path.read_text("utf-8"))
    assert not any(isinstance(part.get("exercise", {}).get("answer"), (int, float)) for part in body["parts"])


# The command


def test_a_new_lesson_passes_the_check_and_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "My first lesson.json"
    assert program(["lesson", "new", str(file)]) == 0
    assert json.loads(file.read_text("utf-8"))["name"] == "my-first-lesson"
    assert program(["lesson", "check", str(file)]) == 0
    assert "no errors; 4 parts, 3 exercises, 5 minutes (en, zh)" in capsys.readouterr().out
    assert program(["lesson", "new", str(file)]) == 2
    assert program(["lesson", "new", str(tmp_path / "lesson.txt")]) == 2
    assert "ends with .json" in capsys.readouterr().err


def test_the_check_says_every_error_with_its_place_and_its_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    body = copy.deepcopy(BODY)
    del body["minutes"]
    body["colour"] = "red"
    body["parts"][1]["exercise"]["kind"] = "essay"
    (tmp_path / "mine.json").write_text(json.dumps(body), "utf-8")
    assert program(["lesson", "check", str(tmp_path / "mine.json")]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["minutes", "parts[1].exercise.kind", "colour"]
    assert all("docs/lessons.md" in line or "remove it" in line for line in lines)


DEEP = b'{"format": "aded-lesson", "version": 1, "parts": ' + b"[" * 700 + b"]" * 700 + b"}"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"format": "aded-race"}', b'{"format": "aded-lesson"}', DEEP])
def test_a_file_that_is_no_lesson_is_refused_in_one_line(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mine.json").write_bytes(content)
    assert program(["lesson", "check", str(tmp_path / "mine.json")]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_steps_of_a_race_and_the_nodes_of_a_step_are_listed_as_lessons_count_them(capsys: pytest.CaptureFixture[str]):
    assert program(["lesson", "race", "A maths teacher"]) == 0
    steps = capsys.readouterr().out.splitlines()
    assert len(steps) == 32
    assert steps[3] == "step 4: 23 drafted, 2 accepted after ' probability': ' distribution is a'"
    assert program(["lesson", "race", "A maths teacher", "--step", "4"]) == 0
    nodes = capsys.readouterr().out.splitlines()
    assert nodes[2].startswith("node 2 (parent 0) ' of' rejected: prior 0.2001, visits 4")
    assert program(["lesson", "race", "A maths teacher", "--step", "33"]) == 2
    assert program(["lesson", "race", "A maths teacher", "--method", "rest"]) == 2
    assert "it has plain, aded, medusa" in capsys.readouterr().err


def test_a_missing_file_is_reported_with_the_command_that_makes_one(tmp_path: Path):
    with pytest.raises(AdedError, match="lesson new"):
        checks.check(tmp_path / "none.json")


def step(number: int) -> Callable[[Any], object]:
    return lambda body: body["parts"][0]["show"].update(step=number)


@pytest.mark.parametrize(
    ("where", "key", "change"),
    [
        ("parts[0].text[0]", "fact", lambda body: body["facts"].pop("per-step")),
        ("parts[0].text[0]", "term", lambda body: body["parts"][0]["text"][0].update(en="[x](term:none)")),
        ("parts[0].text[0]", "decimal", lambda body: body["parts"][0]["text"][0].update(en="about 3.14")),
        ("about", "languages", lambda body: body.update(about={"en": "x"})),
        ("parts[0].show.race", "race", lambda body: body["parts"][0]["show"].update(race="None")),
        ("parts[0].show", "which", lambda body: body["parts"][0]["show"].pop("race")),
        ("parts[0].show.method", "method", lambda body: body["parts"][0]["show"].update(method="rest")),
        ("parts[0].show.step", "step", step(33)),
        ("parts[0].show.node", "node", lambda body: body["parts"][0]["show"].update(node=24)),
        ("parts[2].exercise", "needs", lambda body: body["parts"][2]["exercise"].pop("answer")),
        ("parts[3].figure", "figure", lambda body: body["parts"][3]["figure"].pop("bars")),
        ("facts.greedy", "differs", lambda body: body["facts"]["greedy"].update(value=3.01)),
        ("facts.greedy.source", "nosource", lambda body: body["facts"]["greedy"]["source"].update(row={"setting": "search"})),
        ("facts.idle", "unused", lambda body: body["facts"].update(idle={"value": {"record": "steps"}})),
        ("facts.per-step.value", "place", lambda body: body["facts"]["per-step"].update(value={"record": "prior"})),
        ("facts.greedy", "unsourced", lambda body: body["facts"]["greedy"].pop("source")),
        ("facts.per-step", "circle", lambda body: body["facts"]["per-step"].update(value="per-step")),
        (
            "parts[1].exercise.options[0].value",
            "node",
            lambda body: body["parts"][1]["exercise"].update(
                options=[{"text": {"en": "a", "zh": "a"}, "value": {"record": "prior", "node": 99}}]
            ),
        ),
    ],
)
def test_a_fault_is_found_at_its_place(where: str, key: str, change: Callable[[Any], object], tmp_path: Path):
    found = faults(tmp_path / "mine.json", change)
    assert (where if key != "node" or "options" not in where else f"{where}.node", key) in found


def test_a_race_beside_the_lesson_is_checked_too(tmp_path: Path):
    def own(body: Any) -> None:
        del body["parts"][0]["show"]["race"]
        body["parts"][0]["show"]["file"] = "run.json"

    assert faults(tmp_path / "mine.json", own)[0] == ("parts[0].show.file", "file")
    (tmp_path / "run.json").write_bytes((checks.race_files()["A maths teacher"]).read_bytes())
    checks._load.cache_clear()
    assert faults(tmp_path / "mine.json", own) == []


# The documents


def test_the_document_names_every_field_kind_and_value():
    for record in (
        format.Lesson,
        format.Part,
        format.Show,
        format.Exercise,
        format.Figure,
        format.Fact,
        format.Source,
        format.Which,
    ):
        for field in dataclasses.fields(record):
            assert f"`{field.name}`" in DOCUMENT, (record.__name__, field.name)
    for name in (*format.RECORD, *format.COMPUTE, *format.KINDS):
        assert f"`{name}`" in DOCUMENT, name


def test_the_example_of_the_document_has_no_faults(tmp_path: Path):
    (example,) = [block for block in re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL) if '"format"' in block]
    (tmp_path / "my-lesson.json").write_text(example, "utf-8")
    _, found = checks.check(tmp_path / "my-lesson.json")
    assert [checks.sentence(fault) for fault in found] == []


def test_the_document_lists_the_glossary():
    for name in checks.terms():
        assert f"`{name}`" in DOCUMENT, name

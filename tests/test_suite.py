"""The tests themselves: which of them may read a clock, and how long they wait."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TIMED = {"test_load.py", "test_gpu_app.py", "test_restart.py", "test_server.py", "test_drafters_aded.py"}
"""Files whose tests marked ``timing`` measure time."""
EXEMPT = {"waiting.py", "test_suite.py", "audit.py", "screenshots.py"}


def file_named(name: str) -> Path:
    """The file of this name, in whatever folder."""
    (file,) = TESTS.rglob(name)
    return file


def found(pattern: str, *excluded: str) -> list[str]:
    """Matches of the pattern in the tests, with file and line; not in the excluded files and those of ``EXEMPT``."""
    files = [file for file in sorted(TESTS.rglob("*.py")) if file.name not in EXEMPT | {*excluded}]
    lines = [(file.name, number, line) for file in files for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)]
    return [f"{name}:{number}: {line.strip()}" for name, number, line in lines if re.search(pattern, line)]


def test_only_tests_marked_timing_read_a_clock():
    assert found(r"perf_counter\(|monotonic\(|process_time\(|time\.time\(", *TIMED) == []
    assert [name for name in TIMED if "pytest.mark.timing" not in file_named(name).read_text("utf-8")] == []


def test_tests_wait_for_events_and_one_constant_limits_every_wait():
    assert found(r"wait_for_timeout\(") == []
    assert found(r"timeout=\d|\.(wait|join)\(\d|wait_for\(.*, [\d.]+\)", "test_load.py", "browsing.py") == []
    after_5_s = r"(?<!\w)Client\((?!.*HANG)|\bhttpx\.(get|post|stream|request|head)\((?!.*HANG)"
    assert found(after_5_s) == []


OTHER_WORDS = (
    r"\bsights?\b(?!\")|\bpairs?: |\b(be|not) had\b|[Ww]hoever|\bof (its|his|her|their|one's) own\b|\ball the room\b"
    r"|\b(tokens?|value|\}) a (step|second|pass|line)\b(?! emits)"
    r"|\b(session|an|full|the) overlay\b|\boverlay of\b|\bthe base (gives|and)\b"
    r"|(?<!LLM )\brepresentative('s|s| and| from)\b"
)
"""Words that have a term of the field, which is used instead."""


def test_the_terms_of_the_field_are_used():
    root = TESTS.parent
    files = [*root.glob("*.md"), *(file for folder in ("aded", "docs", "ui") for file in (root / folder).rglob("*.[mp][dy]"))]
    lines = [(file, number, line) for file in files for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)]
    assert [f"{file}:{number}: {line.strip()}" for file, number, line in lines if re.search(OTHER_WORDS, line)] == []


@pytest.mark.parametrize("document", ["docs/promises.md", "docs/page.md"])
def test_every_test_that_a_document_names_exists(document: str):
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", (TESTS.parent / document).read_text("utf-8"))
    assert len(named) > 20
    for file, name in named:
        assert not name or re.search(rf"^(async )?def {name}\(", file_named(file).read_text("utf-8"), re.MULTILINE), (file, name)

"""A full disk while a file is saved or written, and clocks that are set."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import ROOT
from ui_fakes import make_race
from waiting import HANG

from aded.core import trace
from aded.core.errors import AdedError
from ui import site, space

resource = pytest.importorskip("resource", reason="limits of a process are a matter of Unix")
CAPACITY = 200_000
"""Bytes of the largest file that still fits."""


@contextmanager
def full_disk(capacity: int = CAPACITY) -> Iterator[None]:
    """No file grows beyond ``capacity``: writing further fails as on a full disk (Python ignores the signal)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (capacity, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_race_on_a_full_disk_is_not_partly_saved(tmp_path: Path):
    path = tmp_path / "race.json"
    trace.save(make_race([" before"]), path)
    before = path.read_bytes()
    with full_disk(20_000), pytest.raises(AdedError, match="cannot write"):
        trace.save(make_race(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_site_on_a_full_disk_is_an_error_and_has_no_page(tmp_path: Path):
    trace.save(make_race(), tmp_path / "01-a-race.json")
    with full_disk(), pytest.raises(AdedError, match="cannot write"):
        site.export(tmp_path / "out", [tmp_path / "01-a-race.json"])
    assert not (tmp_path / "out" / "index.html").exists()
    site.export(tmp_path / "again", [tmp_path / "01-a-race.json"])
    assert (tmp_path / "again" / "index.html").exists()


@pytest.mark.slow
def test_the_export_command_reports_a_full_disk_in_one_line_with_status_2(tmp_path: Path):
    trace.save(make_race(), tmp_path / "01-a-race.json")
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({CAPACITY}, -1))\n"
        f"from aded.__main__ import program; sys.exit(program(['export', 'site', '--out', {str(tmp_path / 'out')!r}, "
        f"'--traces', {str(tmp_path / '01-a-race.json')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "cannot write" in done.stderr


def test_the_folder_of_a_space_on_a_full_disk_is_an_error(tmp_path: Path):
    with full_disk(), pytest.raises(AdedError, match="give another --out"):
        space.assemble(tmp_path / "space")


def test_the_server_uses_no_clock_that_can_be_set():
    """Limits, waiting times and ages use the monotonic clock (``test_scheduler.py`` sets the other one).

    The files of kept races outlive the process, so the file system's times say which were used last; if the clock is set, another
    race is dropped first, and nothing else changes. A response in OpenAI's format has a date, which the server does not use. The
    command that packs the benchmark results dates them.
    """
    settable = re.compile(r"\btime\.time\(|\bdatetime\b|\btime\.(local|gm)time\(|st_[acm]time")
    files = [ROOT / "app.py", *(ROOT / "ui").rglob("*.py")]
    assert len(files) > 20
    found = [
        f"{file.name}: {match[0].rstrip(chr(40))}"
        for file in sorted(files)
        if (match := settable.search(file.read_text("utf-8")))
    ]
    assert found == ["bench_results.py: datetime", "kept.py: st_mtime", "answers.py: time.time"]

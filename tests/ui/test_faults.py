"""Faults of the machine: a full disk while a file is kept, sent or written, and clocks that jump."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import ROOT
from serving_fakes import fake_service, serving
from ui_fakes import make_race
from waiting import HANG, http

from aded.core import trace
from aded.core.errors import AdedError
from ui import site, space

resource = pytest.importorskip("resource", reason="limits of a process are a matter of Unix")
ROOM = 200_000
"""Bytes of the largest file that still fits."""


@contextmanager
def full_disk(room: int = ROOM) -> Iterator[None]:
    """No file grows beyond ``room``: writing further fails as on a full disk (Python ignores the signal)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_upload_that_finds_no_room_is_said_leaves_nothing_and_the_next_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    with serving(fake_service()) as address:
        upload, large = f"{address}/gradio_api/upload", {"files": ("a.json", b" " * (4 * ROOM))}
        with full_disk():
            answer = http.post(upload, files=large)
            assert (answer.status_code, answer.json()["reason"]) == (507, "disk")
            assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
            assert 'aded_refusals_total{reason="disk"} 1.0' in http.get(f"{address}/metrics").text
        assert http.post(upload, files=large).status_code == 200


def test_a_race_that_finds_no_room_is_not_half_saved(tmp_path: Path):
    path = tmp_path / "race.json"
    trace.save(make_race([" before"]), path)
    before = path.read_bytes()
    with full_disk(20_000), pytest.raises(AdedError, match="cannot write"):
        trace.save(make_race(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_site_that_finds_no_room_is_said_and_holds_no_page(tmp_path: Path):
    trace.save(make_race(), tmp_path / "01-a-race.json")
    with full_disk(), pytest.raises(AdedError, match="cannot write"):
        site.export(tmp_path / "out", [tmp_path / "01-a-race.json"])
    assert not (tmp_path / "out" / "index.html").exists()
    site.export(tmp_path / "again", [tmp_path / "01-a-race.json"])
    assert (tmp_path / "again" / "index.html").exists()


def test_the_export_command_says_a_full_disk_in_one_line_with_status_2(tmp_path: Path):
    trace.save(make_race(), tmp_path / "01-a-race.json")
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({ROOM}, -1))\n"
        f"from aded.__main__ import program; sys.exit(program(['export', 'site', '--out', {str(tmp_path / 'out')!r}, "
        f"'--traces', {str(tmp_path / '01-a-race.json')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "cannot write" in done.stderr


def test_a_space_s_folder_that_finds_no_room_is_said(tmp_path: Path):
    with full_disk(), pytest.raises(AdedError, match="give another --out"):
        space.assemble(tmp_path / "space")


def test_no_part_of_the_server_goes_by_a_clock_that_can_be_set():
    """Limits, waits and ages are of the monotonic clock, which nobody sets (``test_scheduler.py`` jumps the other one)."""
    settable = re.compile(r"\btime\.time\(|\bdatetime\b|\btime\.(local|gm)time\(|st_[acm]time")
    files = [ROOT / "app.py", *(ROOT / "ui").rglob("*.py")]
    assert len(files) > 20
    assert [f"{file.name}: {found[0]}" for file in files if (found := settable.search(file.read_text("utf-8")))] == []

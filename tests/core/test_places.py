"""Folders for files: without a writable cache, files go to a temporary folder or are not kept, and one note says so."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT
from waiting import HANG

from aded.core import paths
from aded.core.errors import AdedError
from aded.engine.loading import weights

FOLDERS = ("ADED_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR", *paths.LIBRARY_FOLDERS)


@pytest.fixture
def no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that cannot be created, because its parent is a file. Home is below that file too, temporary files are not."""
    (tmp_path / "file").write_text("")
    for name in FOLDERS:
        monkeypatch.setenv(name, "")  # restores the variable after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "file" / "cache"


def own(folder: Path) -> Path:
    return folder / f"aded-{os.getuid()}"


def test_a_cache_that_is_not_writable_is_replaced_by_a_temporary_folder_and_that_is_reported_once(
    no_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ADED_CACHE", str(no_folder))
    assert [paths.cache_folder(), paths.cache_folder()] == [own(tmp_path)] * 2
    assert own(tmp_path).stat().st_mode & 0o777 == 0o700
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{no_folder} cannot be written to, so files are kept in {own(tmp_path)}; set ADED_CACHE to a folder" in said


def test_without_a_home_folder_files_are_temporary(
    no_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    paths.writable.cache_clear()
    assert paths.cache_folder() == own(tmp_path)
    assert "there is no home folder, so files are kept in" in capsys.readouterr().err


def test_if_nothing_is_writable_the_cache_is_at_the_given_place(
    no_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ADED_CACHE", str(no_folder / "other"))
    monkeypatch.setattr(tempfile, "tempdir", str(no_folder))
    assert paths.cache_folder() == no_folder / "other"
    assert "so nothing is kept; set ADED_CACHE" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["open to others", "link", "file"])
def test_a_temporary_folder_that_others_can_write_to_is_not_used(no_folder: Path, tmp_path: Path, kind: str):
    """Compiled code that is loaded from it would run."""
    if kind == "file":
        own(tmp_path).write_text("")
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir()
        own(tmp_path).symlink_to(tmp_path / "elsewhere")
    else:
        own(tmp_path).mkdir()
        own(tmp_path).chmod(0o777)
    assert paths.temporary_folder() is None


def test_files_in_a_read_only_cache_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked, instead = tmp_path / "asked", tmp_path / "instead"
    (asked / "model").mkdir(parents=True)
    (instead / "later").mkdir(parents=True)
    monkeypatch.setenv("ADED_CACHE", str(asked))
    monkeypatch.setattr(paths, "writable", lambda folder, variable: instead)
    assert paths.in_cache("model") == asked / "model"
    assert paths.in_cache("new") == instead / "new"
    assert paths.cached("*") == [asked / "model", instead / "later"]


def test_libraries_keep_their_files_in_the_cache_if_home_is_not_writable(
    no_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(no_folder))
    paths.prepare()
    assert os.environ["GRADIO_TEMP_DIR"] == str(own(tmp_path) / "gradio_temp_dir")
    for name in paths.LIBRARY_FOLDERS[1:]:
        assert os.environ[name] == str(tmp_path / "cache" / name.lower())


def test_libraries_keep_their_files_in_the_usual_place_if_it_is_writable(
    no_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "mine"))
    paths.prepare()
    assert {name: os.environ.get(name) for name in FOLDERS} == dict.fromkeys(FOLDERS) | {
        "TRITON_CACHE_DIR": str(tmp_path / "mine")
    }


@pytest.mark.parametrize("shared_memory", ["made", pytest.param("missing", marks=pytest.mark.slow)])
def test_the_command_line_works_without_a_folder_for_temporary_files(no_folder: Path, tmp_path: Path, shared_memory: str):
    """Torch needs such a folder when it is imported."""
    place = tmp_path if shared_memory == "made" else no_folder
    code = (
        "import sys, tempfile; tempfile._candidate_tempdir_list = lambda: [*filter(None, [__import__('os').getenv('TMPDIR')])]\n"
        f"from aded.cli.main import main; from aded.core import paths; paths.SHARED_MEMORY = paths.Path({str(place)!r}); "
        "sys.exit(main(['methods']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    assert "unavailable" not in done.stdout
    assert done.stderr.count("\n") == 1
    assert f"so files are kept in {own(tmp_path)};" in done.stderr or (place == no_folder and "nothing is kept" in done.stderr)


def test_the_page_reports_that_it_needs_a_folder_for_temporary_files(no_folder: Path, monkeypatch: pytest.MonkeyPatch):
    from ui.serving.server import check_temporary_folder

    monkeypatch.setenv("GRADIO_TEMP_DIR", str(no_folder))
    with pytest.raises(AdedError, match="is not writable; set GRADIO_TEMP_DIR"):
        check_temporary_folder()


def test_the_home_folder_of_an_unknown_user_is_no_model():
    with pytest.raises(AdedError, match="no such model: ~nobody-of-this-name/model"):
        weights.resolve("~nobody-of-this-name/model")

"""The exported site: small, complete, reproducible; it overwrites no files of others."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest
from browsing import HOSTILE
from ui_fakes import make_race

from aded.__main__ import program
from aded.core import trace
from aded.core.errors import AdedError
from ui import site, words


def unpacked(script: str) -> tuple[str, str]:
    name, data = re.fullmatch(r"AdedExplorer\.takeFile\((.*?), (.*)\);\n", script).groups()
    return json.loads(name), gzip.decompress(base64.b64decode(json.loads(data))).decode()


def test_the_site_has_all_bundled_races_and_is_small(tmp_path: Path) -> None:
    files = site.export(tmp_path / "site")
    bundled = [file for folder in ("traces", "lessons/runs") for file in (site.theme.ASSETS / folder).glob("*.json")]
    races = [file for file in files if file.parent.name == "traces"]
    assert len(races) == len(bundled) >= 6
    assert sum(file.stat().st_size for file in files) < 8_000_000
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    for file in races:
        name, lines = unpacked(file.read_text("utf-8"))
        assert name == f"traces/{file.name}"
        assert f'"{name}"' in page
        assert json.loads(lines.splitlines()[0])["source"] == "recorded"
    for code, table in words.tables().items():
        name, text = unpacked((tmp_path / "site" / "languages" / f"{code}.js").read_text("utf-8"))
        assert f'"{name}"' in page
        assert json.loads(text) == table
        assert table["page.tag"] not in page


def test_equal_texts_make_equal_scripts(tmp_path: Path) -> None:
    assert site.script_of("a", "text") == site.script_of("a", "text")
    assert unpacked(site.script_of("a", "é漢<\u2028")) == ("a", "é漢<\u2028")


def test_titles_and_tokens_are_never_markup(tmp_path: Path) -> None:
    race = make_race(HOSTILE)
    file = tmp_path / "01-<script>alert(1)</script>.json".replace("/", "∕")
    trace.save(race, file)
    written = site.export(tmp_path / "site", [file])
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert all(re.fullmatch(r"[\w./-]+", str(path.relative_to(tmp_path))) for path in written)


def test_a_site_is_overwritten_and_other_folders_are_not(tmp_path: Path) -> None:
    race = make_race(["a", "b"])
    trace.save(race, tmp_path / "01-one.json")
    trace.save(race, tmp_path / "02-two.json")
    site.export(tmp_path / "site", [tmp_path / "01-one.json", tmp_path / "02-two.json"])
    site.export(tmp_path / "site", [tmp_path / "02-two.json"])
    assert [file.name for file in (tmp_path / "site" / "traces").iterdir()] == ["01-two.js"]
    (tmp_path / "site" / "index.html").unlink()  # as after an export on a full disk
    site.export(tmp_path / "site", [tmp_path / "01-one.json"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    with pytest.raises(AdedError, match="contains other files"):
        site.export(tmp_path / "mine", [tmp_path / "01-one.json"])
    assert (tmp_path / "mine" / "index.html").read_text() == "mine"
    with pytest.raises(AdedError, match="give another --out"):
        site.export(tmp_path / "01-one.json" / "below", [tmp_path / "01-one.json"])


@pytest.mark.parametrize("file", ["README.md", "lessons.js", "lessons/mine.js", "traces/01-one.js"])
def test_files_of_others_are_kept_whatever_their_names_are(tmp_path: Path, file: str) -> None:
    trace.save(make_race(["a", "b"]), tmp_path / "01-one.json")
    (tmp_path / "mine" / file).parent.mkdir(parents=True)
    (tmp_path / "mine" / file).write_text("mine")
    with pytest.raises(AdedError, match=f"contains other files, such as {file}; give --out"):
        site.export(tmp_path / "mine", [tmp_path / "01-one.json"])
    assert (tmp_path / "mine" / file).read_text() == "mine"


def test_two_races_with_the_same_title_get_different_names(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        trace.save(make_race([folder]), tmp_path / folder / "same.json")
    assert list(site.read([tmp_path / "a" / "same.json", tmp_path / "b" / "same.json"])) == ["Same", "Same (2)"]


def test_a_damaged_race_is_refused_by_name_before_anything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text("{}")
    assert program(["export", "site", "--out", str(tmp_path / "site"), "--traces", str(tmp_path / "bad.json")]) == 2
    error = capsys.readouterr().err
    assert "bad.json" in error
    assert "or name the other races with --traces" in error
    assert not (tmp_path / "site").exists()


def test_a_missing_race_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(AdedError) as raised:
        site.read([tmp_path / "nope.json"])
    assert str(raised.value).count("nope.json") == 1

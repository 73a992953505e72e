"""The folder of a Space: complete, large files in Git LFS, and errors found before the hub refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aded.core.errors import AdedError
from ui import space


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An assembled Space with small files in place of its content."""
    root = tmp_path / "root"
    for name in ("aded", "ui", "assets", "docs"):
        (root / name / "__pycache__").mkdir(parents=True)
        (root / name / "__pycache__" / "x.pyc").write_text("")
        (root / name / "file").write_text(name)
    for name in ("LICENSE", "app.py"):
        (root / name).write_text(name)
    for name in ("README.md", "requirements.txt"):
        (root / name).write_bytes((space.ROOT / name).read_bytes())
    (root / "assets" / "large").write_bytes(bytes(space.LARGE + 1))
    space.assemble(tmp_path / "out", root)
    return tmp_path / "out"


def test_the_folder_has_only_what_the_space_needs(folder: Path) -> None:
    assert not list(folder.rglob("*.pyc"))
    assert {path.name for path in folder.iterdir()} == {*space.CONTENT, ".gitattributes"}
    assert (folder / ".gitattributes").read_text() == "assets/large filter=lfs diff=lfs merge=lfs -text\n"
    with pytest.raises(AdedError, match="not empty; give --out"):
        space.assemble(folder)


def test_the_settings_and_requirements_of_this_project_have_no_errors(folder: Path) -> None:
    settings = space.front_matter((folder / "README.md").read_text("utf-8"))
    assert space.errors_of_settings(settings, folder) == []
    assert space.errors_of_requirements(folder) == []


def test_the_folder_requires_a_torch_that_a_space_with_shared_gpus_has(folder: Path) -> None:
    required = dict(line.split(">=", 1) for line in space.requirements(folder) if line.startswith("torch"))
    assert required == {"torch": "2.8.0,<=2.11.0"}
    assert len(space.requirements(folder)) == len(space.requirements(space.ROOT))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"sdk": "docker"}, "sdk is not gradio"),
        ({"sdk_version": "4.0.0"}, "sdk_version is outside requirements.txt"),
        ({"python_version": 3.12}, "python_version is not '3.12' (in quotes)"),
        ({"app_file": "main.py"}, "app_file is not there"),
        ({"colorFrom": "mauve"}, "colorFrom or colorTo is no colour of the hub"),
        ({"short_description": "x" * 61}, "short_description is longer than 60 characters"),
        ({"license": None}, "license is missing"),
    ],
)
def test_settings_that_the_hub_would_refuse_are_found(folder: Path, wrong: dict[str, object], error: str) -> None:
    settings = space.front_matter((folder / "README.md").read_text("utf-8"))
    assert space.errors_of_settings({**settings, **wrong}, folder) == [error]


def test_requirements_that_exclude_a_torch_of_the_spaces_are_found(folder: Path) -> None:
    (folder / "requirements.txt").write_text("torch>=2.9,<2.11  # a comment\n")
    assert space.errors_of_requirements(folder) == [f"requirements.txt excludes torch {v}" for v in ("2.8.0", "2.11.0")]
    (folder / "requirements.txt").write_text("numpy\n")
    assert space.errors_of_requirements(folder) == ["requirements.txt does not name torch"]
    settings = space.front_matter((folder / "README.md").read_text("utf-8"))
    assert space.errors_of_settings(settings, folder) == ["requirements.txt does not name gradio"]


def test_other_packages_whose_names_begin_with_torch_stay(folder: Path) -> None:
    (folder / "requirements.txt").write_text("torch-geometric>=2\ntorch>=2.5\ntorchvision\n")
    space.limit_torch(folder)
    assert space.requirements(folder) == ["torch-geometric>=2", "torch>=2.8.0,<=2.11.0", "torchvision"]


@pytest.mark.parametrize("readme", ["# no settings", "---\n: : :\n---\n", "---\n- a\n---\n"])
def test_a_readme_without_settings_is_refused(readme: str) -> None:
    with pytest.raises(AdedError, match="no front matter"):
        space.front_matter(readme)


def test_the_command_names_large_files_and_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert space.main(["--out", str(tmp_path / "space"), "--quick"]) == 0
    assert "through Git LFS" in capsys.readouterr().out
    assert space.main(["--out", str(tmp_path / "space"), "--quick"]) == 2
    assert "not empty" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_can_be_built_in_the_running_environment_from_the_folder_alone(tmp_path: Path) -> None:
    """As on a Space: the working folder is that of the Space, and the checkout is not on the path."""
    import subprocess
    import sys

    space.assemble(tmp_path / "space")
    code = f"{space.BUILD}; import ui; print(ui.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "space", capture_output=True, text=True, check=True)
    assert str(tmp_path / "space") in done.stdout


@pytest.mark.parametrize(
    ("script", "runs"), [("#!/bin/sh\nexit 0", True), ("#!/bin/sh\nexit 127", False), ("#!/no/such/shell", False)]
)
def test_an_interpreter_that_does_not_run_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, runs: bool
) -> None:
    """For example a shim of a version manager in which this version is not selected."""
    shim = tmp_path / f"python{space.PYTHON}"
    shim.write_text(script)
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert space.python_of_spaces() == (str(shim) if runs else None)

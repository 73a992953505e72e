"""The cache of compiled code is never stale, never prevents a start, and has a maximum size."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from waiting import HANG

from aded.core.compilation import jit
from aded.core.compilation.code_folder import code_folder
from aded.core.paths import PACKAGE

MODULES = (
    "__init__",
    "core/__init__",
    *(f"core/{name}" for name in ("environment", "errors", "paths", "validation")),
    *(f"core/compilation/{name}" for name in ("__init__", "code_folder", "jit")),
)
"""Modules that a package with compiled functions needs."""
INNER = """
from aded.core.compilation.jit import njit

CONSTANT = 1

@njit(cache=True, inline="always")
def inlined():
    return 10

@njit(cache=True)
def called():
    return 100
"""
OUTER = """
from aded.inner import CONSTANT, called, inlined
from aded.core.compilation.jit import njit

@njit(cache=True)
def result():
    return CONSTANT + inlined() + called()
"""
SHOW = "from aded.outer import result; value = result(); print(value, sum(result.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package with a compiled function, and another one inlined into it from another file."""
    folder = tmp_path / "aded"
    for name in MODULES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PACKAGE / f"{name}.py", folder / f"{name}.py")
    (folder / "inner.py").write_text(INNER)
    (folder / "outer.py").write_text(OUTER)
    return folder


def printed(package: Path, code: str = SHOW) -> str:
    """Output of code that imports the package."""
    environment = {**os.environ, "ADED_CACHE": str(package.parent / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=package.parent, env=environment, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def kept(package: Path) -> list[Path]:
    return sorted(file for file in (package.parent / "cache").rglob("*.nb?"))


def test_compiled_code_is_reused_until_one_of_its_source_files_changes(package: Path):
    assert [printed(package), printed(package)] == ["111 0", "111 1"]
    inner = package / "inner.py"
    inner.write_text(INNER.replace("return 100", "return 200").replace("return 10\n", "return 20\n").replace("= 1\n", "= 2\n"))
    assert printed(package) == "222 0"


def test_damaged_files_of_compiled_code_cost_a_compilation(package: Path):
    assert printed(package) == "111 0"
    for file in kept(package):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert printed(package) == "111 0"


def test_a_full_disk_costs_the_next_compilation(package: Path):
    pytest.importorskip("resource", reason="limits of a process are a matter of Unix")
    assert printed(package, f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); {SHOW}") == "111 0"
    assert kept(package) == []


def test_a_folder_that_cannot_be_made_costs_the_next_compilation(package: Path):
    (package.parent / "cache").write_text("a file where the folder would be")
    assert printed(package) == "111 0"
    assert not list(package.rglob("*.nb?"))


def test_the_folders_of_the_newest_versions_alone_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for age, name in enumerate(["other", *(f"aded-{n}" for n in range(6))]):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (10_000 - age, 10_000 - age))
    own = code_folder()
    assert own is not None
    assert {folder.name for folder in tmp_path.iterdir()} == {"other", own.name, "aded-0", "aded-1", "aded-2"}


def test_functions_of_other_programs_are_kept_where_numba_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from numba import config

    monkeypatch.setattr(jit, "FOLDER", tmp_path / "own")
    before = config.CACHE_DIR
    jit.njit(cache=True)(kept)
    assert (tmp_path / "own").is_dir()
    assert before == config.CACHE_DIR


@pytest.mark.parametrize("shape", [(7, 3), (7, 2, 2)])
def test_compiled_code_can_prefetch_rows(shape: tuple[int, ...]):
    def highest(array):
        best = array[0]
        for row in range(len(array)):
            jit.prefetch(array, min(row + 1, len(array) - 1))
            if array[row].sum() > best.sum():
                best = array[row]
        return best

    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 11
    assert np.array_equal(jit.njit()(highest)(array), highest(array))


def compiled_sources() -> Iterator[tuple[Path, ast.Module]]:
    """The files that are in the hash."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if "njit" in (text := file.read_text("utf-8")) and file.stem not in ("jit", "code_folder"):
            yield file, ast.parse(text)


def test_functions_inlined_from_other_files_are_in_the_hash():
    hashed = {file for file, _ in compiled_sources()} | {PACKAGE / "core" / "compilation" / "jit.py"}
    assert len(hashed) > 10
    for file, tree in compiled_sources():
        foreign = set()
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aded"):
                path = PACKAGE.parent.joinpath(*str(node.module).split("."))
                for name in node.names:
                    source = path / f"{name.name}.py" if path.is_dir() else path.with_suffix(".py")
                    foreign |= set() if source in hashed else {name.asname or name.name}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(d) for d in node.decorator_list):
                taken = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
                assert not taken & foreign, f"{file.name}: {node.name} takes {taken & foreign} from a file that is not hashed"


def test_every_function_is_compiled_by_the_njit_with_the_hash():
    of_numba = re.compile(r"^\s*(import|from) numba", re.MULTILINE)
    assert [file.name for file in PACKAGE.rglob("*.py") if of_numba.search(file.read_text("utf-8"))] == ["jit.py"]

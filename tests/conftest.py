"""Shared fixtures: the bundled model once per run, and development data if it is present."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import aded  # noqa: F401  (before PyTorch is loaded: aded.core.environment)

TESTS = Path(__file__).parent
sys.path[:0] = [
    str(TESTS),
    *(str(folder) for folder in sorted(TESTS.iterdir()) if folder.is_dir()),
]  # helpers are imported by name

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
NAMED_ONLY = ("slow", "long", "timing")
PROMPTS = (
    "Write a short poem about the sea.",
    "Explain in three sentences why the sky is blue.",
    "List the numbers from one to twenty, one per line.",
    "Write a Python function that returns the n-th Fibonacci number.",
)


def pytest_configure(config: pytest.Config) -> None:
    """Divide the cores among the test processes and the servers that they start."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def pytest_addoption(parser: pytest.Parser) -> None:
    marks = ", ".join(NAMED_ONLY)
    parser.addoption("--all", action="store_true", help=f"also run the tests marked {marks}, which otherwise run only if named")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--all``, tests of ``NAMED_ONLY`` run only if their file or mark is named; tests for a GPU need one."""
    asked = f"{config.option.markexpr} {' '.join(config.args)}"

    def wanted(item: pytest.Item) -> bool:
        marks = [mark for mark in NAMED_ONLY if mark in item.keywords]
        return config.option.all or not marks or item.path.name in asked or any(mark in asked for mark in marks)

    if left := [item for item in items if not wanted(item)]:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if wanted(item)]
    if on_gpu := [item for item in items if "gpu" in item.keywords]:
        import torch

        if not torch.cuda.is_available():
            for item in on_gpu:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


@pytest.fixture(scope="session")
def real_model():
    """The bundled model in float32 on the CPU."""
    from aded.engine.target_model import TargetModel

    return TargetModel.load("default", "cpu", "float32")


@pytest.fixture(scope="session")
def questions() -> list[str]:
    """Development questions if they are present, else a few fixed prompts."""
    path = DATA / "questions.jsonl"
    if not path.is_file():
        return list(PROMPTS)
    return [json.loads(line)["turns"][0] for line in path.read_text().splitlines()]


@pytest.fixture
def real_tokenizer_folder(tmp_path: Path) -> Path:
    """A folder with a small real tokenizer, in which a model can be saved."""
    from fakes import save_tokenizer

    save_tokenizer(tmp_path)
    return tmp_path

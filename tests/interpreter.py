"""Triton kernels on the CPU: a program in another process, in which Triton interprets them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import ROOT

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton, which comes with builds of PyTorch for CUDA")


def interpret(program: str) -> None:
    """Run a program, which may import the tests of the engine by name."""
    folders = [ROOT, ROOT / "tests", ROOT / "tests" / "engine"]
    paths = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

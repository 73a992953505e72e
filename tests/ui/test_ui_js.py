"""The page's modules in node's own test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TESTS
from waiting import HANG


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("file", sorted((TESTS / "js").glob("*.test.js")), ids=lambda file: file.name.split(".")[0])
def test_the_modules_keep_their_promises(file: Path):
    environment = {**os.environ, "ADED_PYTHON": sys.executable}
    done = subprocess.run(["node", str(file)], capture_output=True, text=True, timeout=HANG, env=environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

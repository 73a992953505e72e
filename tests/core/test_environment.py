"""OpenMP variables are set before PyTorch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from waiting import HANG

from aded.core.environment import WAIT_VARIABLES, prepare


@pytest.mark.parametrize("module", ["aded", "aded.cli.main", "app"])
def test_openmp_variables_are_set_before_torch_is_loaded(module: str):
    code = f"import os, sys; import {module}; print('torch' in sys.modules, os.environ.get('OMP_WAIT_POLICY'))"
    clean = {name: value for name, value in os.environ.items() if name not in WAIT_VARIABLES}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=clean, capture_output=True, text=True, timeout=HANG)
    assert done.stdout == "False passive\n", done.stderr


@pytest.mark.parametrize("name", WAIT_VARIABLES)
def test_variables_of_the_user_are_kept(name: str):
    environment = {name: "7"}
    prepare(environment)
    assert environment == {name: "7"}

"""Environment variables that must be set before PyTorch is loaded. Imports the standard library only."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables that set how idle OpenMP threads wait for work."""


def prepare(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make idle OpenMP threads sleep, unless the user has set one of ``WAIT_VARIABLES``.

    By default each thread of PyTorch spins for milliseconds after every operation, which keeps its core from other
    processes. OpenMP reads the variables once, when PyTorch loads it; a later call has no effect.
    """
    if not any(name in environment for name in WAIT_VARIABLES):
        environment["OMP_WAIT_POLICY"] = "passive"

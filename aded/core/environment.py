"""The process's environment, as it has to be before the libraries that read it are loaded. Imports nothing that is large."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables that say how OpenMP's threads wait for work."""


def prepare(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP's threads sleep while they wait, unless the user has said how they wait.

    By default each thread of PyTorch spins on its core for milliseconds after every operation, which takes the core from
    other processes. The variables are read once, when PyTorch loads OpenMP: after that a call changes nothing.
    """
    if not any(name in environment for name in WAITING):
        environment["OMP_WAIT_POLICY"] = "passive"

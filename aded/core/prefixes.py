"""Common prefixes of texts as token ids."""

from __future__ import annotations

import numpy as np


def common_prefix(first: np.ndarray, second: np.ndarray) -> int:
    """Number of tokens at the start that are equal; integers ``[n]`` and ``[m]``."""
    n = min(len(first), len(second))
    different = first[:n] != second[:n]
    return int(different.argmax()) if different.any() else n

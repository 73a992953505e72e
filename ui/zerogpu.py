"""Whether this is a ZeroGPU Space, where only workers have a GPU. Must be imported before anything that uses CUDA."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ui.race.engine import Engine
    from ui.race.models import Models

ON = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
"""The same test as in the package ``spaces``, which is installed in every Gradio Space, and nowhere else."""

if ON:
    import spaces


def backend(specs: Sequence[str], device: str, dtype: str) -> tuple[Models, Engine]:
    """Models in host memory, of which the page's starts to load, and the engine that runs races in workers."""
    from ui.race.models import Models
    from ui.serving.zerogpu.worker import load_to_host
    from ui.serving.zerogpu.zero import ZeroEngine

    models = Models(specs, device, dtype, load_to_host)
    models.first.start()
    return models, ZeroEngine(spaces.GPU, device, dtype)

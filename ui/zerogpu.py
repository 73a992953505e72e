"""Whether this is a ZeroGPU Space, whose card belongs to workers alone. Imported before anything that could touch CUDA."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ui.engine import Engine
    from ui.models import Models

ON = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
"""What the package ``spaces`` itself goes by. It is part of every Space with Gradio, and of no other place."""

if ON:
    import spaces


def parts(specs: Sequence[str], device: str, dtype: str) -> tuple[Models, Engine]:
    """Models that the server holds and workers move to the card, the page's own from now on, and the engine that asks them."""
    from ui.models import Models
    from ui.serving.worker import park
    from ui.serving.zero import ZeroEngine

    models = Models(specs, device, dtype, park)
    models.first.start()
    return models, ZeroEngine(spaces.GPU, device, dtype)

"""Adaptive draft-verification decoding (ADED) and the methods it is compared with, in one decoding loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aded.core import environment

if TYPE_CHECKING:
    from aded.core.tree import DraftTree
    from aded.decoding.decoder import Decoder, GenerationSettings
    from aded.drafters.base import Drafter
    from aded.engine.target_model import TargetModel

__version__ = "0.1.0"
__all__ = ["Decoder", "DraftTree", "Drafter", "GenerationSettings", "TargetModel"]

environment.prepare()  # before PyTorch is loaded

_MODULES = {
    "Decoder": "aded.decoding.decoder",
    "DraftTree": "aded.core.tree",
    "Drafter": "aded.drafters.base",
    "GenerationSettings": "aded.decoding.decoder",
    "TargetModel": "aded.engine.target_model",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``aded --help`` does not load PyTorch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'aded' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)

"""The artifacts that ``prepare`` makes, the methods that use each, and the files that exist for a model.

On the command line and in the report, the artifacts are called parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from aded.core.errors import AdedError
from aded.draft_models import checkpoints
from aded.draft_models.checkpoints import MISSING, Kind
from aded.drafters.artifacts import find_datastore, find_matrix
from aded.drafters.registry import METHODS

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

PARTS = ("matrix", "datastore", "medusa", "draft", "eagle", "mtp", "glide")
"""All artifacts, in the order in which they are made."""
TRAINED: tuple[Kind, ...] = get_args(Kind)
"""The artifacts that are trained."""
FOLDERS = {"matrix": "trigram"}
"""Folders of artifacts (see ``aded.core.paths.artifacts``) with another name than in ``PARTS``."""


def chosen(names: str | None) -> list[str]:
    """The artifacts in a comma-separated list, in the order in which they are made; all of them for None.

    Raises:
        AdedError: an artifact is unknown.
    """
    given = list(PARTS) if names is None else [name.strip() for name in names.split(",")]
    if unknown := [name for name in given if name not in PARTS]:
        raise AdedError(f"unknown part '{unknown[0]}'; known are {', '.join(PARTS)}")
    return [part for part in PARTS if part in given]


def methods_of(part: str) -> list[str]:
    """The methods that use an artifact. One-layer heads share an option; for these, the name of the method decides."""
    option = next((option for kind, (_, option) in MISSING.items() if kind == part), part)
    users = [method.name for method in METHODS.values() if option in method.options]
    return [name for name in users if option != "head" or name.endswith(part)]


def existing(part: str, target: TargetModel) -> Path | None:
    """The file of an artifact that methods find for a model, made by the user or bundled; None if there is none.

    Raises:
        AdedError: a file is damaged.
    """
    if part == "matrix":
        return find_matrix(target)
    if part == "datastore":
        return find_datastore(target)
    return checkpoints.find(part, target)  # type: ignore[arg-type]

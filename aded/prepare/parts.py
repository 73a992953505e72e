"""The parts of a run, which are the artifacts that methods need: which methods use each, and the files that exist for a model."""

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
"""All parts, in the order in which they are made."""
TRAINED: tuple[Kind, ...] = get_args(Kind)
FOLDERS = {"matrix": "trigram"}
"""Kinds of artifacts (see ``aded.core.paths.artifacts``) whose name is not the part's."""


def chosen(names: str | None) -> list[str]:
    """The parts in a list separated by commas, in the order in which they are made; all of them for None.

    Raises:
        AdedError: an unknown part.
    """
    given = list(PARTS) if names is None else [name.strip() for name in names.split(",")]
    if unknown := [name for name in given if name not in PARTS]:
        raise AdedError(f"unknown part '{unknown[0]}'; known are {', '.join(PARTS)}")
    return [part for part in PARTS if part in given]


def methods_of(part: str) -> list[str]:
    """The methods that use a part. Heads of one layer share an option, so there the method's name decides."""
    option = next((option for kind, (_, option) in MISSING.items() if kind == part), part)
    users = [method.name for method in METHODS.values() if option in method.options]
    return [name for name in users if option != "head" or name.endswith(part)]


def existing(part: str, target: TargetModel) -> Path | None:
    """The file of a part that methods find for a model, made by the user or bundled; None if there is none.

    Raises:
        AdedError: a file is damaged.
    """
    if part == "matrix":
        return find_matrix(target)
    if part == "datastore":
        return find_datastore(target)
    return checkpoints.find(part, target)  # type: ignore[arg-type]

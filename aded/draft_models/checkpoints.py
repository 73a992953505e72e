"""Checkpoint files of Medusa heads and draft models: safetensors with a header that identifies the target model.

A checkpoint fits every model with the same tokenizer (fingerprint) and hidden size. With a model that it was not trained for,
decoding is still lossless, but the acceptance rate is lower.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from aded.core import tensor_file
from aded.core.errors import AdedError, first_line
from aded.core.paths import artifacts
from aded.core.trace import write_atomically

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

Kind = Literal["medusa", "draft"]
VERSION = "1"


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint.

    Attributes:
        tensors: by name, on the CPU.
        header: ``format``, ``version``, ``fingerprint``, ``hidden_size``, ``model``, ``training`` (JSON), and others by kind.
    """

    tensors: dict[str, torch.Tensor]
    header: dict[str, str]


def command(kind: Kind, model: str) -> str:
    """The command that trains such a checkpoint for a model."""
    return f"`python -m aded train {kind} --model {shlex.quote(model)}`"


def find(kind: Kind, target: TargetModel) -> Path | None:
    """The user's or the bundled checkpoint of this kind for a target, or None; reads only the headers.

    Raises:
        AdedError: a file is damaged.
    """
    return next((file for file in artifacts(kind, target) if _fits(file, kind, target)), None)


def missing(kind: Kind, target: TargetModel) -> str | None:
    """Why a method that needs such a checkpoint cannot run on a target, and the command that creates it; None if it exists.

    Raises:
        AdedError: as ``find``.
    """
    if find(kind, target) is not None:
        return None
    reason, option = ("there are no Medusa heads", "heads") if kind == "medusa" else ("there is no draft model", "draft")
    return f"{reason} for this model; make what is missing with {command(kind, target.spec)}, or give --{option} FILE"


def _fits(path: Path, kind: Kind, target: TargetModel) -> bool:
    header = _header(path)
    return header.get("format") == kind and header.get("version") == VERSION and _matches_target(header, target)


def _matches_target(header: Mapping[str, str], target: TargetModel) -> bool:
    """Whether tokenizer and hidden size are the target's; a target without ``config`` is checked by its tokenizer only."""
    config = vars(target).get("config")
    hidden_size = header.get("hidden_size") if config is None else str(config.hidden_size)
    return (header.get("fingerprint"), header.get("hidden_size")) == (target.fingerprint, hidden_size)


def read(path: str | Path, kind: Kind, target: TargetModel) -> Checkpoint:
    """Read a checkpoint for a target.

    Raises:
        AdedError: the file is missing, damaged, of another kind or version, or made for another model.
    """
    from safetensors.torch import load_file

    header = _header(Path(path))
    if header.get("format") != kind or header.get("version") != VERSION:
        raise AdedError(f"{path} holds no {kind} checkpoint of version {VERSION}; make one with {command(kind, target.spec)}")
    if not _matches_target(header, target):
        raise AdedError(f"{path} was made for another model ({header.get('model')}); make one with {command(kind, target.spec)}")
    try:
        tensors = load_file(path)
    except Exception as error:  # safetensors raises many types of exceptions for damaged files
        raise AdedError(f"{path} is damaged ({first_line(error)[:120]}); copy or train it again") from None
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise AdedError(f"{path} holds values that are not finite; copy or train it again")
    return Checkpoint(tensors, header)


def _header(path: Path) -> dict[str, str]:
    try:
        return tensor_file.read_header(path).metadata
    except FileNotFoundError:
        raise AdedError(f"there is no file {path}; give the path of a .safetensors file that `aded train` wrote") from None
    except AdedError:
        raise
    except OSError as error:
        raise AdedError(f"cannot read {path}: {error.strerror}; give the path of a .safetensors file") from None
    except (ValueError, RecursionError) as error:
        raise AdedError(f"{path} is damaged ({first_line(error)[:120]}); copy or train it again") from None


def write(path: Path, kind: Kind, target: TargetModel, tensors: Mapping[str, torch.Tensor], **more: Any) -> None:
    """Write a checkpoint atomically; ``more``: further header entries, written as JSON.

    Raises:
        AdedError: the file cannot be written.
    """
    from safetensors.torch import save

    header = {"format": kind, "version": VERSION, "fingerprint": target.fingerprint, "model": target.label}
    header |= {"hidden_size": str(target.config.hidden_size)} | {name: json.dumps(value) for name, value in more.items()}
    body = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, tensor_file.with_sorted_header(save(body, header)))

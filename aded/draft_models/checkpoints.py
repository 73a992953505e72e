"""Checkpoint files of draft heads and draft models: safetensors with a header that identifies the target model.

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
from aded.core.errors import AdedError, first_line, remedy_for_missing
from aded.core.paths import artifacts
from aded.core.trace import write_atomically

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

Kind = Literal["medusa", "eagle", "mtp", "glide", "draft"]
VERSION = "1"
MISSING: dict[Kind, tuple[str, str]] = {
    "medusa": ("there are no Medusa heads", "heads"),
    "eagle": ("there is no EAGLE head", "head"),
    "mtp": ("there is no MTP head", "head"),
    "glide": ("there is no GliDe head", "head"),
    "draft": ("there is no draft model", "draft"),
}
"""What is missing, and the option that names a file instead."""
SCALE = ".scale"
"""Suffix of the name of the scales of a matrix in 8 bits."""


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
    reason, option = MISSING[kind]
    return f"{reason} for this model; {remedy_for_missing(target.spec, option)}"


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
    except ValueError as error:
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


def in_8_bits(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors with every matrix as int8 and one float32 scale per row; the others in float32."""
    stored = {}
    for name, tensor in tensors.items():
        values = tensor.detach().float()
        if values.dim() == 2:
            scale = values.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / 127
            stored[name + SCALE] = scale
            values = (values / scale[:, None]).round().to(torch.int8)
        stored[name] = values
    return stored


def from_8_bits(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors that ``in_8_bits`` stored, float32; others as they are."""
    tensors = {name: tensor for name, tensor in stored.items() if not name.endswith(SCALE)}
    for name, tensor in tensors.items():
        if (scale := stored.get(name + SCALE)) is not None:
            tensors[name] = tensor.float() * scale[:, None]
    return tensors

"""Files of trained parts: safetensors with a header that says which model they were trained for.

A part belongs to a tokenizer (its fingerprint) and to a width: another model with both may use it, as losslessly, if with less
success.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from aded.core.errors import AdedError, first_line
from aded.core.paths import artifacts
from aded.core.trace import write_atomically

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

Kind = Literal["medusa", "draft"]
VERSION = "1"


@dataclass(frozen=True)
class Part:
    """A trained part as read.

    Attributes:
        tensors: by name, on the CPU.
        header: ``format``, ``version``, ``fingerprint``, ``hidden_size``, ``model``, ``training`` (JSON), and what the kind adds.
    """

    tensors: dict[str, torch.Tensor]
    header: dict[str, str]


def command(kind: Kind, model: str) -> str:
    """What makes such a part for a model."""
    return f"`python -m aded train {kind} --model {shlex.quote(model)}`"


def find(kind: Kind, target: TargetModel) -> Path | None:
    """The user's own or the bundled part of this kind for a target, or None; reads headers alone.

    Raises:
        AdedError: one is damaged.
    """
    return next((f for f in artifacts(kind, target) if _belongs(f, kind, target)), None)


def missing(kind: Kind, target: TargetModel) -> str | None:
    """Why a method that needs such a part cannot run on a target, and the command that makes it; None if it is there.

    Raises:
        AdedError: as ``find``.
    """
    if find(kind, target) is not None:
        return None
    what, option = ("there are no Medusa heads", "heads") if kind == "medusa" else ("there is no draft model", "draft")
    return f"{what} for this model; make what is missing with {command(kind, target.spec)}, or give --{option} FILE"


def _belongs(path: Path, kind: Kind, target: TargetModel) -> bool:
    header = _header(path)
    return header.get("format") == kind and header.get("version") == VERSION and _is_for(header, target)


def _is_for(header: Mapping[str, str], target: TargetModel) -> bool:
    """Whether tokenizer and width are the target's; what only knows its tokenizer is not asked for its width."""
    config = vars(target).get("config")
    width = header.get("hidden_size") if config is None else str(config.hidden_size)
    return (header.get("fingerprint"), header.get("hidden_size")) == (target.fingerprint, width)


def read(path: str | Path, kind: Kind, target: TargetModel) -> Part:
    """Read a part for a target.

    Raises:
        AdedError: the file is missing, damaged, of another kind or version, or made for another model.
    """
    from safetensors.torch import load_file

    header = _header(Path(path))
    if header.get("format") != kind or header.get("version") != VERSION:
        raise AdedError(f"{path} holds no {kind} part of version {VERSION}; make one with {command(kind, target.spec)}")
    if not _is_for(header, target):
        raise AdedError(f"{path} was made for another model ({header.get('model')}); make one with {command(kind, target.spec)}")
    try:
        tensors = load_file(path)
    except Exception as error:  # the parser of safetensors has its own exception type for every kind of damage
        raise AdedError(f"{path} is damaged ({first_line(error)[:120]}); copy or train it again") from None
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise AdedError(f"{path} holds values that are no numbers; copy or train it again")
    return Part(tensors, header)


def _header(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    try:
        with safe_open(str(path), "pt") as file:
            return dict(file.metadata() or {})
    except FileNotFoundError:
        raise AdedError(f"there is no file {path}; give the path of a .safetensors file that `aded train` wrote") from None
    except Exception as error:  # as above
        raise AdedError(f"{path} is damaged ({first_line(error)[:120]}); copy or train it again") from None


def write(path: Path, kind: Kind, target: TargetModel, tensors: Mapping[str, torch.Tensor], **more: Any) -> None:
    """Write a part, atomically; ``more``: further entries of the header, which are written as JSON.

    Raises:
        AdedError: the file cannot be written.
    """
    from safetensors.torch import save

    header = {"format": kind, "version": VERSION, "fingerprint": target.fingerprint, "model": target.label}
    header |= {"hidden_size": str(target.config.hidden_size)} | {name: json.dumps(value) for name, value in more.items()}
    body = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, _ordered(save(body, header)))


def _ordered(data: bytes) -> bytes:
    """A safetensors file with its header in one order: the library writes metadata in a different one every time."""
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]

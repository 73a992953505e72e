"""A folder with a draft head in a format published by others: ``config.json`` and one file of tensors.

Such a folder names no tokenizer, so whether it fits a target is checked by its sizes. What does not fit raises ``ValueError``
with the reason; the caller adds the folder and the remedy.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from aded.core.errors import AdedError, first_line, shown
from aded.core.limits import is_whole
from aded.core.validation import check_ordinary

MAX_DIFFERENCE = 0.1
"""Largest difference of a copy of the target's weights, relative to their norm: more than rounding and quantization."""
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
DEFAULTS = {"hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32_000}
"""Values of Transformers' ``LlamaConfig``: a configuration may contain only those that differ from them."""
RMS_NORM_EPS, ROPE_THETA = 1e-6, 10_000.0
"""The same for the epsilon of the RMS norms and the base of the rotary embedding."""


class ForeignFolder:
    """A folder in a published format.

    Attributes:
        config: the contents of ``config.json``, those of ``transformer_layer_config`` among them.
        tensors: those that ``read`` has read and ``take`` has not taken, by name, on the CPU.

    Raises:
        AdedError: ``config.json`` is missing, damaged or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.tensors: dict[str, torch.Tensor] = {}
        config = self._read("config.json", lambda file: json.loads(file.read_text("utf-8-sig")))
        if not isinstance(config, dict) or not isinstance(config.get("transformer_layer_config", {}), dict):
            raise AdedError(f"{path / 'config.json'} holds no settings by name; copy the folder again")
        self.config: dict[str, Any] = {**config, **config.get("transformer_layer_config", {})}

    def read(self, names: Sequence[str], renamed: Mapping[str, str] = MappingProxyType({})) -> None:
        """Read the tensors.

        Args:
            names: names that their file may have; the first one that exists is read.
            renamed: regular expressions for the start of a name, and what replaces it.

        Raises:
            AdedError: the file is missing, damaged or cannot be read.
        """
        file = next((name for name in names if (self._path / name).exists()), None)
        if file is None:
            raise AdedError(f"{self._path} holds none of {', '.join(names)}; copy the whole folder of the head")
        tensors = self._read(file, _tensors_of)
        if not isinstance(tensors, Mapping) or not all(map(_is_dense, tensors.values())):
            raise AdedError(f"{self._path / file} does not hold dense tensors by name; copy the folder again")
        for name, tensor in tensors.items():
            pattern = next((pattern for pattern in renamed if re.match(pattern, str(name))), None)
            self.tensors[str(name) if pattern is None else re.sub(pattern, renamed[pattern], name, count=1)] = tensor

    def _read(self, name: str, read: Callable[[Path], Any]) -> Any:
        file = self._path / name
        try:
            check_ordinary(file)
            file.open("rb").close()
        except FileNotFoundError:
            raise AdedError(
                f"{self._path} holds no {name}; give the folder of a published head, or a file that `aded train` wrote"
            ) from None
        except OSError as error:
            raise AdedError(f"cannot read {file}: {error.strerror or error}; make it a readable file") from None
        try:
            return read(file)
        except Exception as error:  # torch and safetensors raise many types of exceptions for damaged files
            raise AdedError(f"{file} is damaged ({first_line(error)[:120]}); copy the folder again") from None

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number above 0 from the configuration; without it ``default``, or that of ``DEFAULTS``."""
        value: Any = self.config.get(name)
        if value is None:
            value = DEFAULTS[name] if default is None else default
        if not is_whole(value) or value < 1:
            raise ValueError(f"its {name} is {shown(value)}")
        return int(value)

    def number(self, name: str, default: float) -> float:
        """A number above 0 from the configuration."""
        return _positive(name, self.config.get(name), default)

    def plain_rope_theta(self) -> float:
        """The base of the rotary embedding.

        Raises:
            ValueError: its frequencies are scaled or it covers a part of each head.
        """
        rope = self.config.get("rope_parameters") or self.config.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise ValueError(f"its rotary embedding is {shown(rope)}")
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default" or {**self.config, **rope}.get("partial_rotary_factor") not in (None, 1):
            raise ValueError(f"its rotary embedding is of the type {shown(kind)} or partial, and only a plain one is supported")
        return _positive("rope_theta", rope.get("rope_theta"), self.number("rope_theta", ROPE_THETA))

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Remove a tensor of this shape from ``tensors`` and return it."""
        tensor = self.tensors.pop(name, None)
        if tensor is None:
            raise ValueError(f"it lacks the tensor {name}")
        if tensor.shape != shape:
            raise ValueError(f"its {name} has the shape {list(tensor.shape)} instead of {list(shape)}")
        if tensor.dtype not in FLOATS:
            raise ValueError(
                f"its {name} is of {str(tensor.dtype).removeprefix('torch.')}, and quantized heads are not supported"
            )
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"its {name} holds values that are not finite")
        return tensor

    def rows(self, name: str) -> int:
        """Number of rows of a tensor."""
        if name not in self.tensors or self.tensors[name].dim() != 2:
            raise ValueError(f"it lacks the matrix {name}")
        return len(self.tensors[name])

    def drop_copy(self, name: str, weight: torch.Tensor) -> None:
        """Remove a copy of the target's weights, ``[rows, columns]``, if there is one.

        Raises:
            ValueError: it differs from them.
        """
        copy = self.tensors.pop(name, None)
        if copy is None:
            return
        if copy.shape != weight.shape:
            raise ValueError(f"its {name} has the shape {list(copy.shape)}, and this model's has {list(weight.shape)}")
        chunks = zip(copy.split(4096), weight.detach().split(4096))
        parts = [((ours := b.float().cpu()).square().sum(), (a.float() - ours).square().sum()) for a, b in chunks]
        whole, difference = (float(sum(values)) for values in zip(*parts))
        if not difference <= MAX_DIFFERENCE**2 * whole:
            raise ValueError(f"its {name} differs from this model's, so the head belongs to another model or changed it")

    def check_empty(self, ignored: Iterable[str] = ()) -> None:
        """Check that all tensors were taken.

        Args:
            ignored: ends of the names of tensors that have no effect.

        Raises:
            ValueError: one was not, so the head is of a kind that is not supported.
        """
        left = sorted(name for name in self.tensors if not name.endswith(tuple(ignored)))
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise ValueError(f"it holds the tensor {shown(left[0])}{more}, which heads of the supported formats do not have")


def _positive(name: str, value: Any, default: float) -> float:
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise ValueError(f"its {name} is {shown(value)}")
    return float(value)


def _tensors_of(file: Path) -> Any:
    """The contents of a file of tensors; nothing but tensors and containers is unpickled."""
    from safetensors.torch import load_file

    if os.fspath(file).endswith(".safetensors"):
        return load_file(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception:  # of many types, with messages on the options of torch.load
        raise ValueError("it is no file of tensors, or it holds other objects too, which are not read") from None


def _is_dense(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.device.type == "cpu"

"""Deterministic writing and memory-mapped reading of safetensors files.

Equal contents give equal bytes; the safetensors library does not fix the order of the header's metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

DTYPES: dict[np.dtype[Any], str] = {np.dtype(np.int32): "I32", np.dtype(np.uint16): "U16", np.dtype(np.uint32): "U32"}


def to_bytes(metadata: Mapping[str, str], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Contents of a safetensors file. Arrays of the widest dtype come first, so that each array is aligned.

    Args:
        metadata: text entries of the header.
        arrays: by name, of a dtype in ``DTYPES``.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    chunks, end = [], 0
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
        chunks.append(data)
        end += len(data)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *chunks])


def map_file(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and memory-mapped, read-only arrays of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is damaged.
    """
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        length = os.fstat(file.fileno()).st_size
        if not 2 <= size <= length - 8:
            raise ValueError("the file is truncated")
        header = json.loads(file.read(size))
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__"), dict):
        raise ValueError("the header is not a safetensors header")
    metadata = header.pop("__metadata__")
    return metadata, {name: _mapped(path, entry, 8 + size, length) for name, entry in header.items()}


def _mapped(path: str | os.PathLike[str], entry: Any, base: int, length: int) -> np.ndarray:
    try:
        dtype = next(dtype for dtype, name in DTYPES.items() if name == entry["dtype"])
        begin, end = (base + int(offset) for offset in entry["data_offsets"])
        shape = tuple(map(int, entry["shape"]))
    except (KeyError, TypeError, ValueError, StopIteration):
        raise ValueError("the header entry of an array is damaged") from None
    if not base <= begin <= end <= length or min(shape, default=0) < 0 or np.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError("an array extends beyond the file")
    if begin == end:
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(path, dtype.newbyteorder("<"), "r", begin, shape))

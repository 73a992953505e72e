"""Arrays with a text header in one safetensors file: equal contents are equal bytes, and arrays can be mapped, not read.

(The library's own writer leaves the header's order to chance.)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

DTYPES: dict[np.dtype[Any], str] = {np.dtype(np.int32): "I32", np.dtype(np.uint16): "U16", np.dtype(np.uint32): "U32"}


def to_bytes(metadata: Mapping[str, str], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The file; arrays of the widest type come first, so that each is aligned."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    parts, end = [], 0
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
        parts.append(data)
        end += len(data)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def map_file(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata, and the arrays as read-only views of the file: what is never touched is never read.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        length = os.fstat(file.fileno()).st_size
        if not 2 <= size <= length - 8:
            raise ValueError("the file is cut short")
        header = json.loads(file.read(size))
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__"), dict):
        raise ValueError("its header is no safetensors header")
    metadata = header.pop("__metadata__")
    return metadata, {name: _mapped(path, entry, 8 + size, length) for name, entry in header.items()}


def _mapped(path: str | os.PathLike[str], entry: Any, base: int, length: int) -> np.ndarray:
    try:
        dtype = next(dtype for dtype, name in DTYPES.items() if name == entry["dtype"])
        begin, end = (base + int(offset) for offset in entry["data_offsets"])
        shape = tuple(map(int, entry["shape"]))
    except (KeyError, TypeError, ValueError, StopIteration):
        raise ValueError("an array's description is damaged") from None
    if not base <= begin <= end <= length or min(shape, default=0) < 0 or np.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError("an array lies outside the file")
    if begin == end:
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(path, dtype.newbyteorder("<"), "r", begin, shape))

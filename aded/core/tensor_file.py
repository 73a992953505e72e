"""Safetensors files: checked headers, memory-mapped arrays, and deterministic writing (equal contents give equal bytes).

The safetensors library writes the metadata of the header in no fixed order, so headers are sorted here.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from operator import index
from typing import Any, NamedTuple

import numpy as np

from aded.core.validation import check_ordinary

DTYPES: dict[np.dtype[Any], str] = {
    np.dtype(np.float32): "F32",
    np.dtype(np.int64): "I64",
    np.dtype(np.int32): "I32",
    np.dtype(np.uint16): "U16",
    np.dtype(np.uint32): "U32",
}
"""The dtypes of arrays that are mapped and written, with their safetensors names."""


class Entry(NamedTuple):
    """An array in a file: the safetensors name of its dtype, its shape, and the byte offsets in the file at which its data begins
    and ends."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """The header of a file: its metadata, and its arrays by name."""

    metadata: dict[str, str]
    entries: dict[str, Entry]


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read and check the header of a file; its arrays may have any dtype.

    Raises:
        AdedError: the path is a pipe or a device.
        OSError: the file cannot be read.
        ValueError: the file is truncated, or its header is not valid.
    """
    check_ordinary(path)
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        length = os.fstat(file.fileno()).st_size
        if not 2 <= size <= length - 8:
            raise ValueError("the file is truncated, or no safetensors file")
        try:
            header = json.loads(file.read(size))
        except RecursionError:
            raise ValueError("the header is nested too deeply") from None
    metadata = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("the header is not a safetensors header")
    return Header(metadata, {name: _entry(entry, 8 + size, length) for name, entry in header.items()})


def _entry(entry: Any, base: int, length: int) -> Entry:
    try:
        begin, end = (base + index(offset) for offset in entry["data_offsets"])
        shape = tuple(map(index, entry["shape"]))
        dtype = str(entry["dtype"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError("the header entry of an array is damaged") from None
    if not base <= begin <= end <= length or min(shape, default=0) < 0:
        raise ValueError("an array extends beyond the file")
    return Entry(dtype, shape, begin, end)


def map_arrays(path: str | os.PathLike[str], header: Header) -> dict[str, np.ndarray]:
    """Map the arrays of a file into memory, read-only.

    Args:
        header: from ``read_header`` of the same file.

    Returns:
        The arrays by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: the dtype of an array is not in ``DTYPES``, or its number of bytes does not match its shape.
    """
    return {name: _mapped(path, entry) for name, entry in header.entries.items()}


def _mapped(path: str | os.PathLike[str], entry: Entry) -> np.ndarray:
    dtype = next((dtype for dtype, name in DTYPES.items() if name == entry.dtype), None)
    if dtype is None:
        raise ValueError(f"an array is of dtype {entry.dtype}, not one of {', '.join(DTYPES.values())}")
    if math.prod(entry.shape) * dtype.itemsize != entry.end - entry.begin:
        raise ValueError("an array does not have the size of its shape")
    if entry.begin == entry.end:
        return np.zeros(entry.shape, dtype)
    return np.asarray(np.memmap(path, dtype.newbyteorder("<"), "r", entry.begin, entry.shape))


def to_bytes(metadata: Mapping[str, str], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file. Arrays with the widest dtype come first, so that each array is aligned.

    Args:
        metadata: entries of the header's metadata.
        arrays: arrays by name; their dtypes are in ``DTYPES``.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    chunks, end = [], 0
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
        chunks.append(data)
        end += len(data)
    return _with_header(header, b"".join(chunks))


def with_sorted_header(data: bytes) -> bytes:
    """The bytes of a file that the safetensors library wrote, with its header sorted, so that equal contents give equal bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    return _with_header(json.loads(data[8:end]), data[end:])


def _with_header(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data

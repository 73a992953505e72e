"""Safetensors files: the one reader of headers, memory-mapped arrays, and writing with equal bytes for equal contents.

The safetensors library does not fix the order of the header's metadata.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
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


class Entry(NamedTuple):
    """An array in a file: its dtype by safetensors' name, its shape, and where its data begins and ends, in bytes."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """The header of a file: its metadata, and its arrays by name."""

    metadata: dict[str, str]
    entries: dict[str, Entry]


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read and check the header of a file, of any dtypes.

    Raises:
        AdedError: it is a pipe or a device.
        OSError: the file cannot be read.
        ValueError: the file is damaged.
    """
    check_ordinary(path)
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        length = os.fstat(file.fileno()).st_size
        if not 2 <= size <= length - 8:
            raise ValueError("the file is truncated, or no safetensors file")
        header = json.loads(file.read(size))
    metadata = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("the header is not a safetensors header")
    return Header(metadata, {name: _entry(entry, 8 + size, length) for name, entry in header.items()})


def _entry(entry: Any, base: int, length: int) -> Entry:
    try:
        begin, end = (base + int(offset) for offset in entry["data_offsets"])
        shape = tuple(map(int, entry["shape"]))
        dtype = str(entry["dtype"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError("the header entry of an array is damaged") from None
    if not base <= begin <= end <= length or min(shape, default=0) < 0:
        raise ValueError("an array extends beyond the file")
    return Entry(dtype, shape, begin, end)


def map_arrays(path: str | os.PathLike[str], header: Header) -> dict[str, np.ndarray]:
    """Memory-mapped, read-only arrays of a file of the dtypes in ``DTYPES``, by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: an array is of another dtype or size.
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
    return _with_header(header, b"".join(chunks))


def with_sorted_header(data: bytes) -> bytes:
    """The contents of a file that the safetensors library wrote, with a sorted header: equal contents then give equal bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    return _with_header(json.loads(data[8:end]), data[end:])


def _with_header(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data

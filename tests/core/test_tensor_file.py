"""Headers of safetensors files: damaged ones are refused, and equal contents give equal bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from aded.core import tensor_file
from aded.core.errors import AdedError

ARRAYS = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.array([7], dtype=np.uint16), "c": np.zeros(0, dtype=np.uint32)}


def test_a_written_file_is_read_back_and_mapped(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(tensor_file.to_bytes({"format": "x"}, ARRAYS))
    header = tensor_file.read_header(tmp_path / "f")
    assert header.metadata == {"format": "x"}
    mapped = tensor_file.map_arrays(tmp_path / "f", header)
    assert mapped.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(mapped[name], array, strict=True)


def test_a_file_of_the_library_has_a_header_but_not_every_dtype_is_mapped(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"w": np.ones((2, 2), dtype=np.float64)}, tmp_path / "f")
    header = tensor_file.read_header(tmp_path / "f")
    assert header.metadata == {}
    assert header.entries["w"][:2] == ("F64", (2, 2))
    with pytest.raises(ValueError, match="dtype F64"):
        tensor_file.map_arrays(tmp_path / "f", header)


def test_a_sorted_header_makes_the_bytes_independent_of_the_order_of_the_metadata(tmp_path: Path) -> None:
    files = [safetensors.numpy.save(ARRAYS, dict(pairs)) for pairs in ([("x", "1"), ("y", "2")], [("y", "2"), ("x", "1")])]
    first, second = map(tensor_file.with_sorted_header, files)
    assert first == second
    np.testing.assert_array_equal(safetensors.numpy.load(first)["a"], ARRAYS["a"])


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"__metadata__": None},
        {"__metadata__": {"format": 1}},
        {"a": None},
        {"a": {"dtype": "I32", "shape": [1]}},
        {"a": {"dtype": "I32", "shape": ["x"], "data_offsets": [0, 4]}},
        {"a": {"dtype": "I32", "shape": [-1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "I32", "shape": [1], "data_offsets": [4, 0]}},
        {"a": {"dtype": "I32", "shape": [1], "data_offsets": [-4, 0]}},
        {"a": {"dtype": "I32", "shape": [9], "data_offsets": [0, 36]}},
        {"a": {"dtype": "I32", "shape": [1], "data_offsets": [0, 1e999]}},
        {"a": {"dtype": "I32", "shape": [1], "data_offsets": [0.5, 4.5]}},
    ],
    ids=str,
)
def test_a_damaged_header_is_refused(tmp_path: Path, header: object) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(ValueError, match="header|extends beyond the file"):
        tensor_file.read_header(tmp_path / "f")


def test_a_header_of_deeply_nested_lists_is_refused(tmp_path: Path) -> None:
    text = b"[" * 100_000
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(ValueError, match="header is nested too deeply"):
        tensor_file.read_header(tmp_path / "f")


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AdedError, match="is a pipe"):
        tensor_file.read_header(tmp_path / "pipe")


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    data = tensor_file.to_bytes({"format": "x"}, ARRAYS)
    for end in range(len(data)):
        (tmp_path / "f").write_bytes(data[:end])
        with pytest.raises(ValueError, match="truncated|extends beyond the file"):
            tensor_file.read_header(tmp_path / "f")

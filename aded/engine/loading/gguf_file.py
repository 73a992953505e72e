"""Reading GGUF files with Transformers in a fraction of its time, with progress messages.

Transformers parses the whole file three times (configuration, tokenizer, weights), through a memory map that is slow for a
million small reads, and computes the table of tensor names once per module. Here the file is parsed once, and the table
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np


@contextmanager
def reading_gguf(progress: Callable[[str, float | None], None]) -> Iterator[None]:
    """Context in which Transformers reads GGUF files; ``progress`` gets a message and the completed fraction at each tensor."""
    import gguf
    import transformers.modeling_gguf_pytorch_utils as module

    class Reader(gguf.GGUFReader):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if name == "data" else value)

    def counted(items: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        total = len(items)
        for i, item in enumerate(items):
            progress(f"converting the model, once: tensor {i + 1} of {total}", i / max(total, 1))
            yield item

    replaced: list[tuple[Any, str, Any]] = [
        (gguf, "GGUFReader", cache(Reader)),
        (gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)),
        (module, "tqdm", counted),
    ]
    before = [getattr(owner, name) for owner, name, _ in replaced]
    progress("reading the file, once", None)
    try:
        for owner, name, value in replaced:
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name, _), value in zip(replaced, before):
            setattr(owner, name, value)

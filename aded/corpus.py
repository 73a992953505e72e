"""Base matrices from files of token ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aded import weights
from aded.errors import AdedError
from aded.trigram import TrigramMatrix

LARGEST_ID = 2**31 - 1


def read_tokens(path: str) -> np.ndarray:
    """A flat array of token ids from a ``.npy`` file, int64 ``[length]``.

    Raises:
        AdedError: the file is missing, damaged, or not a flat array of non-negative whole numbers.
    """
    try:
        tokens = np.load(path, allow_pickle=False)
    except OSError as error:
        raise AdedError(f"cannot read {path}: {error.strerror or error}; give a .npy file of token ids") from None
    except (ValueError, EOFError):
        raise AdedError(f"{path} is no array of numbers; write it with numpy.save") from None
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not len(tokens):
        raise AdedError(f"{path} is not a flat array of token ids; write a one-dimensional array of whole numbers")
    if tokens.min() < 0 or tokens.max() > LARGEST_ID:
        raise AdedError(f"{path} holds numbers that are no token ids; they must be 0 to {LARGEST_ID}")
    return tokens.astype(np.int64)


def build_from_tokens(path: str, separator: int, model: str, out: str) -> str:
    """Count a file of token ids and save the matrix; returns a sentence on what was made.

    Raises:
        AdedError: the ids are not of this model's tokenizer, or a file cannot be read or written.
    """
    from transformers import AutoConfig, AutoTokenizer

    from aded.tokens import tokenizer_fingerprint

    tokens = read_tokens(path)
    name = weights.resolve(model)
    vocab_size = int(AutoConfig.from_pretrained(name).get_text_config().vocab_size)
    if tokens.max() >= vocab_size:
        raise AdedError(
            f"{path} holds token id {tokens.max()}, the model {model} has {vocab_size}; give the model that wrote the ids"
        )
    fingerprint = tokenizer_fingerprint(AutoTokenizer.from_pretrained(name))
    matrix = TrigramMatrix.build(tokens.astype(np.int32), separator=separator, fingerprint=fingerprint, vocab_size=vocab_size)
    matrix.save(out)
    return f"{out}: {len(matrix)} rows from {len(tokens)} tokens, {Path(out).stat().st_size / 1e6:.1f} MB"

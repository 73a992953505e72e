"""Loads a stock model and tokenizer from Transformers, on an available device and in a supported dtype."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast, get_args

import torch

from aded.core.errors import AdedError, first_line
from aded.core.limits import check_choice

AttentionKind = Literal["triton", "flex", "sdpa"]
"""Tree attention: our Triton kernels, PyTorch's FlexAttention, or scaled dot-product attention with an additive mask."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str) -> torch.device:
    """The device for ``auto``, ``cpu`` or ``cuda[:N]``.

    Raises:
        AdedError: the name is unknown or the device is not available.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        chosen = None
    if chosen is None or chosen.type not in ("cpu", "cuda"):
        raise AdedError(f"unknown device '{device}'; use auto, cpu or cuda")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise AdedError("no CUDA GPU was found; use --device cpu or auto")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise AdedError(f"there is no {device}; this machine has {torch.cuda.device_count()} CUDA GPUs, counted from 0")
    return chosen


def choose_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """The dtype for a name in ``DTYPES``; ``auto``: bfloat16 or float16 on CUDA, float32 on the CPU.

    Raises:
        AdedError: the name is unknown.
    """
    if dtype == "auto":
        if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        return torch.float32
    if dtype not in DTYPES:
        raise AdedError(f"unknown dtype '{dtype}'; use auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def choose_attention(attention: str, device: torch.device) -> AttentionKind:
    """The kind of tree attention with this name; on the CPU *triton* is replaced by *sdpa* later.

    Raises:
        AdedError: the name is unknown, or it is *flex* without a GPU.
    """
    check_choice("attention", attention, get_args(AttentionKind))
    if attention == "flex" and device.type != "cuda":
        raise AdedError("--attention flex is compiled for a GPU; leave it out, or use --device cuda")
    return cast(AttentionKind, attention)


def load_stock(name: str, spec: str, dtype: torch.dtype, placement: dict[str, Any]) -> tuple[Any, Any]:
    """Load a model and its tokenizer.

    Args:
        name: hub id or folder; spec: the model as the user named it, for error messages.
        placement: further arguments of ``from_pretrained``.

    Raises:
        AdedError: the model or the tokenizer cannot be loaded.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # weights load in a second; downloads have separate bars
    with loading(spec):
        tokenizer = AutoTokenizer.from_pretrained(name)
        try:
            model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, attn_implementation="sdpa", **placement)
        except ValueError as error:
            if "attention" not in str(error):
                raise
            model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, attn_implementation="eager", **placement)
    return model, tokenizer


@contextmanager
def loading(spec: str) -> Iterator[None]:
    """Turn errors of Transformers inside the context into an ``AdedError`` that names the model."""
    try:
        yield
    except Exception as error:  # hub, configuration, tokenizer and weights raise different types
        raise AdedError(
            f"cannot load the model '{spec}' ({first_line(error)[:200]}); "
            "give 'default', a folder, a .gguf file, or a hub id (needs a network)"
        ) from None


def non_finite(dtype: torch.dtype) -> str:
    """The end of a message on logits that are not finite: the possible causes and remedies in this dtype."""
    remedy = "get them again" if dtype == torch.float32 else "get them again, or use --dtype float32"
    return f"not finite (NaN or infinity); the weights are damaged or overflow in {str(dtype).removeprefix('torch.')}: {remedy}"


def eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """End-of-text token ids from the generation configuration, the model configuration and the tokenizer."""
    values = [
        getattr(model.generation_config, "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
        getattr(tokenizer, "eos_token_id", None),
    ]
    ids: set[int] = set()
    for value in values:
        ids.update(value if isinstance(value, (list, tuple)) else [] if value is None else [value])
    return frozenset(int(i) for i in ids)


def context_limit(config: Any) -> tuple[int, str | None]:
    """Maximum number of tokens in one text, and a notice or None.

    If the rotary embedding changes at some length (dynamic and longrope scaling), that length is the limit.
    """
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "seq_length")
    limit = next((int(v) for v in (getattr(config, name, None) for name in names) if v), 4096)
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope"):
        original = rope.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
        if original and int(original) < limit:
            return int(original), f"the context is held to {original} tokens, where this model's rotary embedding changes"
    return limit, None

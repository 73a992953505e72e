"""`datastore build`: a datastore from texts, token ids or self-generated conversations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.paths import artifact_folder
from aded.engine.loading.weights import label_of
from aded.retrieval.suffix_array import Datastore


def build_file(
    tokens: str | None,
    texts: Sequence[str] | None,
    separator: int | None,
    model: str,
    out: str | None,
    compact: bool = False,
    max_tokens: int | None = None,
) -> str:
    """Build a datastore from a file of token ids, or else from text files, and save it; returns a one-line summary.

    Of conversations in this model's chat template only the answers are kept, because decoding generates only answers.

    Args:
        tokens: a ``.npy`` file of token ids; None to read ``texts``.
        texts: text files, see `aded.data.corpus.read_texts`.
        separator: the id that ends each text; None: 0 for a file of token ids, the tokenizer's end-of-text id for text files.
        model: the model whose tokenizer the ids belong to.
        out: the output file; None: the model's artifact folder, where methods look for it.
        compact: see ``Datastore.save``.
        max_tokens: maximum number of tokens, from the start of the text; None for all.

    Raises:
        AdedError: there is no text, ``max_tokens`` is below 1, an id is out of range, or a file cannot be read or written.
    """
    from aded.data import corpus
    from aded.engine.loading.tokenizer import tokenizer_fingerprint

    if max_tokens is not None and max_tokens < 1:
        raise AdedError(f"--max-tokens is {max_tokens}; give 1 or more")
    tokenizer, vocab_size = corpus.load_tokenizer(model)
    end_id = corpus.separator_for(separator, 0 if tokens else tokenizer.eos_token_id, vocab_size)
    ids = _answers(corpus.read_tokens(tokens), tokenizer, end_id) if tokens else _tokenized(texts or (), tokenizer, end_id)
    ids = ids[:max_tokens]
    if (ids == end_id).all():
        raise AdedError(f"there is no text in {tokens or ', '.join(texts or ())}; give a file with more than separators")
    store = Datastore.build(ids, separator=end_id, vocab_size=vocab_size, fingerprint=tokenizer_fingerprint(tokenizer))
    path = Path(out) if out else artifact_folder("datastore", label_of(model), store.fingerprint) / "datastore.safetensors"
    store.save(path, compact)
    return f"{path}: {len(store)} tokens, {path.stat().st_size / 1e6:.1f} MB"


def _answers(ids: np.ndarray, tokenizer: Any, separator: int) -> np.ndarray:
    """The answers of the conversations in ``ids``, each followed by the separator; ``ids`` itself if it has no conversations."""
    from aded.data.self_generation import answers_in

    kept = answers_in(ids, tokenizer)
    if kept.all():
        return ids
    ends = np.flatnonzero(kept & ~np.append(kept[1:], False))
    return np.insert(ids[kept], np.cumsum(kept)[ends], separator)


def _tokenized(paths: Sequence[str], tokenizer: Any, separator: int) -> np.ndarray:
    from aded.data.corpus import read_texts

    texts = (text for path in paths for text in read_texts(path))
    ids = [(*tokenizer(text, add_special_tokens=False)["input_ids"], separator) for text in texts]
    return np.concatenate([np.zeros(0, np.int64), *ids])

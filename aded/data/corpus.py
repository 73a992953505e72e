"""Reading texts and token ids from files; merging, pruning and describing base matrices.

``aded.data.build_matrix`` builds them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from aded.core.errors import AdedError, check_text
from aded.core.lines import numbered_lines
from aded.core.paths import cached
from aded.core.validation import check_ordinary
from aded.data.records import LARGEST_ID
from aded.engine.loading import weights
from aded.engine.loading.tokenizer import TokenTexts, tokenizer_fingerprint
from aded.ngram.trigram import TrigramMatrix

EXAMPLES = 8
"""Number of bigrams of each kind that `describe` lists."""
OLD_NAME = "pairs"
"""Name of ``bigrams`` in earlier versions, kept in JSON."""
EVIDENCE = 2
"""Added to a bigram's occurrences when certainty is computed: one occurrence is less evidence than a hundred."""


def open_tokens(path: str) -> np.ndarray:
    """A flat array of token ids in a ``.npy`` file, any integer type ``[length]``, memory-mapped.

    Raises:
        AdedError: the file is missing, damaged, or not a flat array of integers.
    """
    check_ordinary(path)
    try:
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise AdedError(f"cannot read {path}: {error.strerror or error}; give a .npy file of token ids") from None
    except Exception:  # NumPy evaluates the header as Python and may raise many exceptions
        raise AdedError(f"{path} is not an array of numbers; write it with numpy.save") from None
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not len(tokens):
        raise AdedError(f"{path} is not a flat array of token ids; write a one-dimensional array of integers")
    return tokens


def read_tokens(path: str) -> np.ndarray:
    """A flat array of token ids from a ``.npy`` file of any integer type, int64 ``[length]``.

    Raises:
        AdedError: the file is missing, damaged, or not a flat array of token ids.
    """
    tokens = open_tokens(path)
    if tokens.min() < 0 or tokens.max() > LARGEST_ID:
        raise AdedError(f"{path} holds numbers that are not token ids; they must be 0 to {LARGEST_ID}")
    return tokens.astype(np.int64)


def read_texts(path: str) -> list[str]:
    """The texts of a file: one or more per line of a JSON Lines file (``.jsonl``); the whole content of any other file.

    A line is a string, an object with the string ``text``, or an object with ``turns``, a list of strings.

    Raises:
        AdedError: the file is missing or not UTF-8, or a line has another form.
    """
    return [text for text, _ in stream_texts(path)]


def stream_texts(path: str, block: int = -1) -> Iterator[tuple[str, bool]]:
    """The texts of `read_texts` as (text, whether the text ends here); longer ones are split into blocks.

    A block has about ``block`` characters (-1: no splitting) and ends between two words or lines, where tokenizers split too.
    Texts in JSON Lines are not split.
    """
    if Path(path).suffix == ".jsonl":
        for number, line in numbered_lines(path, "give a file of texts, one JSON value per line"):
            yield from ((text, True) for text in _texts(path, number, line))
        return
    try:
        with open(path, encoding="utf-8-sig") as file:
            yield from _blocks(file, block)
    except OSError as error:
        raise AdedError(f"cannot read {path}: {error.strerror or error}; give a text file") from None
    except UnicodeDecodeError:
        raise AdedError(f"{path} is not UTF-8 text; save it as such") from None


def _blocks(file: TextIO, block: int) -> Iterator[tuple[str, bool]]:
    buffer, split = "", False
    while more := file.read(block):
        buffer += more
        if block > 0 and len(buffer) >= block and (end := _split_point(buffer)):
            yield buffer[:end], False
            buffer, split = buffer[end:], True
    if split or buffer.strip():
        yield buffer, True


def _split_point(text: str) -> int:
    """The last index between two lines, else between two words, without other white space around it; 0 if there is none."""
    for space, offset in (("\n", 1), (" ", 0)):
        at = text.rfind(space)
        while at > 0:
            if not text[at - 1].isspace() and text[at + 1 : at + 2].strip():
                return at + offset
            at = text.rfind(space, 0, at)
    return 0


def _texts(path: str, number: int, line: str) -> list[str]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        raise AdedError(f"{path}, line {number} is not JSON; correct it or leave it out") from None
    if isinstance(body, dict):
        text = body.get("text")
        body = body.get("turns") if text is None else text
    texts = body if isinstance(body, list) else [body]
    if not all(isinstance(text, str) for text in texts):
        raise AdedError(f"{path}, line {number} holds no text; write a string, or an object with 'text' or a list 'turns'")
    for text in texts:
        check_text(text, f"{path}, line {number}")
    return texts


def merge(paths: Sequence[str], out: str) -> str:
    """Add up the counts of matrices of the same tokenizer and save the sum; returns a one-line summary.

    Raises:
        AdedError: a file cannot be read or written, is damaged, or belongs to a different tokenizer than the first.
    """
    first = TrigramMatrix.load(paths[0])
    others = [TrigramMatrix.load(path, fingerprint=first.fingerprint, vocab_size=first.vocab_size) for path in paths[1:]]
    return _saved(TrigramMatrix.merge([first, *others]), out)


def prune(path: str, rows: int | None, successors: int | None, size: int | None, out: str) -> str:
    """Prune a matrix and save it (see `TrigramMatrix.prune`); returns a one-line summary.

    Raises:
        AdedError: no bound is given, a bound is out of range, or a file cannot be read or written.
    """
    if rows is successors is size is None:
        raise AdedError("no bound to prune to; give --rows, --successors or --bytes")
    return _saved(TrigramMatrix.load(path).prune(rows=rows, successors=successors, size=size), out)


def _saved(matrix: TrigramMatrix, out: str) -> str:
    matrix.save(out)
    return f"{out}: {len(matrix)} rows from {matrix.corpus_tokens} tokens, {Path(out).stat().st_size / 1e6:.1f} MB"


def load_tokenizer(model: str) -> tuple[Any, int]:
    """A model's tokenizer and the size of its vocabulary, without its weights.

    Raises:
        AdedError: there is no such model, or its configuration or tokenizer is damaged.
    """
    from transformers import AutoConfig, AutoTokenizer

    from aded.engine.loading.loader import loading

    name = weights.resolve(model)
    with loading(model):
        return AutoTokenizer.from_pretrained(name), int(AutoConfig.from_pretrained(name).get_text_config().vocab_size)


def separator_for(given: int | None, default: int | None, vocab_size: int) -> int:
    """The id that ends each text: ``given`` (``--separator``) if set, else ``default``.

    Raises:
        AdedError: both are None, or the id is outside the vocabulary.
    """
    separator = default if given is None else given
    if separator is None:
        raise AdedError("the model's tokenizer has no end-of-text token; give an id with --separator")
    if not 0 <= separator < vocab_size:
        raise AdedError(f"--separator is {separator}; give a token id of the model, 0 to {vocab_size - 1}")
    return separator


def cached_tokenizer(fingerprint: str) -> Any | None:
    """The tokenizer with this fingerprint in the cache folder, or None; downloads nothing."""
    from transformers import AutoTokenizer

    for file in cached("*/tokenizer.json"):
        try:
            tokenizer = AutoTokenizer.from_pretrained(file.parent)
        except Exception:  # an incomplete folder, or one of another program
            continue
        if tokenizer_fingerprint(tokenizer) == fingerprint:
            return tokenizer
    return None


def describe(path: str, model: str | None = None) -> dict[str, Any]:
    """The contents of a matrix file as JSON values: summary, file size, and its most certain and most uncertain bigrams.

    Token texts come from ``model``'s tokenizer, else from one in the cache folder; without a tokenizer only ids are given.

    Raises:
        AdedError: the file is missing or damaged, or belongs to a different tokenizer than ``model``'s.
    """
    if model is None:
        matrix = TrigramMatrix.load(path)
        tokenizer = cached_tokenizer(matrix.fingerprint)
    else:
        tokenizer, vocab_size = load_tokenizer(model)
        matrix = TrigramMatrix.load(path, fingerprint=tokenizer_fingerprint(tokenizer), vocab_size=vocab_size)
    text_of = TokenTexts(tokenizer) if tokenizer is not None else None
    certain, uncertain = _extremes(matrix)
    return {
        **matrix.summary(),
        OLD_NAME: matrix.summary()["bigrams"],
        "bytes": Path(path).stat().st_size,
        "certain": [_bigram_summary(matrix, row, text_of) for row in certain],
        "uncertain": [_bigram_summary(matrix, row, text_of) for row in uncertain],
    }


def _extremes(matrix: TrigramMatrix) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the most certain and the most uncertain bigrams, int64 ``[EXAMPLES]`` each.

    Certainty is the count of the most frequent successor divided by all occurrences plus `EVIDENCE`; uncertainty is the
    entropy of the successors (see `entropies`).
    """
    bigrams = np.flatnonzero(matrix.contexts[:, 0] >= 0)
    certainty = matrix.counts[matrix.starts[bigrams]] / (matrix.totals[bigrams].astype(np.float64) + EVIDENCE)
    uncertainty = entropies(matrix)[bigrams]
    first, last = (np.argsort(-values, kind="stable")[:EXAMPLES] for values in (certainty, uncertainty))
    return bigrams[first], bigrams[last]


def entropies(matrix: TrigramMatrix) -> np.ndarray:
    """Entropy of each row's successors in bits, float64 ``[rows]``; each pruned occurrence counts as a distinct successor."""
    if not len(matrix):
        return np.zeros(0)
    totals = matrix.totals.astype(np.float64)
    kept = np.add.reduceat(matrix.counts.astype(np.float64), matrix.starts[:-1])
    shares = matrix.counts / np.repeat(totals, np.diff(matrix.starts))
    rest = 1 - kept / totals
    bits = np.add.reduceat(-shares * np.log2(shares), matrix.starts[:-1])
    return bits + rest * np.log2(totals)


def _bigram_summary(matrix: TrigramMatrix, row: int, text_of: Callable[[int], str] | None) -> dict[str, Any]:
    start, end = int(matrix.starts[row]), int(matrix.starts[row + 1])
    bigram, tokens = matrix.contexts[row].tolist(), matrix.successors[start:end].tolist()
    counts = matrix.counts[start:end].tolist()
    occurrences = int(matrix.totals[row])
    body = {"bigram": bigram, "occurrences": occurrences, "successors": tokens, "counts": counts}
    body |= {"pair": bigram, "sights": occurrences}  # names in earlier versions
    return body if text_of is None else {**body, "texts": [*map(text_of, bigram)], "successor_texts": [*map(text_of, tokens)]}


def description(body: dict[str, Any]) -> str:
    """The result of `describe` as readable text."""
    return "\n".join(_description(body))


def _description(body: dict[str, Any]) -> Iterator[str]:
    kinds = ("certain", "uncertain")
    yield from (f"{name}: {value}" for name, value in body.items() if name not in (*kinds, OLD_NAME))
    for kind in kinds:
        yield f"most {kind} bigrams (occurrences: successors, counts):"
        for bigram in body[kind]:
            texts = [*map(repr, bigram.get("texts", bigram["bigram"]))]
            successors = zip(bigram.get("successor_texts", bigram["successors"]), bigram["counts"])
            shown = ", ".join(f"{token!r} {count}" for token, count in list(successors)[:4])
            yield f"  {' '.join(texts)} ({bigram['occurrences']}): {shown}"

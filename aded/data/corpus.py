"""Texts and token ids from files, and what is done with base matrices: merged, pruned, shown. (Made: see
``aded.data.build_matrix``.)"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from aded.core.errors import AdedError, check_text
from aded.core.lines import numbered_lines
from aded.core.paths import cached
from aded.engine import weights
from aded.engine.tokenizer import TokenTexts, tokenizer_fingerprint
from aded.ngram.trigram import TrigramMatrix

LARGEST_ID = 2**31 - 1
EXAMPLES = 8
"""Pairs that `describe` names of each kind."""
EVIDENCE = 2
"""Sights that a certain pair is short of: one that was seen once is less certain than one seen a hundred times."""


def open_tokens(path: str) -> np.ndarray:
    """A flat array of token ids in a ``.npy`` file, of any integer type ``[length]``, left on disk until it is read.

    Raises:
        AdedError: the file is missing, damaged, or no flat array of whole numbers.
    """
    try:
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise AdedError(f"cannot read {path}: {error.strerror or error}; give a .npy file of token ids") from None
    except Exception:  # the head of the file is parsed as Python, which has many ways to fail
        raise AdedError(f"{path} is no array of numbers; write it with numpy.save") from None
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not len(tokens):
        raise AdedError(f"{path} is not a flat array of token ids; write a one-dimensional array of whole numbers")
    return tokens


def read_tokens(path: str) -> np.ndarray:
    """A flat array of token ids from a ``.npy`` file of any integer type, int64 ``[length]``.

    Raises:
        AdedError: the file is missing, damaged, or not a flat array of non-negative whole numbers.
    """
    tokens = open_tokens(path)
    if tokens.min() < 0 or tokens.max() > LARGEST_ID:
        raise AdedError(f"{path} holds numbers that are no token ids; they must be 0 to {LARGEST_ID}")
    return tokens.astype(np.int64)


def read_texts(path: str) -> list[str]:
    """The texts of a file: of JSON lines (``.jsonl``), one a line; of any other file, all of it.

    A line is a text, or an object with a ``text``, or with ``turns``, a list of texts.

    Raises:
        AdedError: the file is missing, not UTF-8, or a line is none of these.
    """
    return [text for text, _ in stream_texts(path)]


def stream_texts(path: str, block: int = -1) -> Iterator[tuple[str, bool]]:
    """The texts of `read_texts` one by one, each with True; one longer than ``block`` characters in parts, the last with True.

    A part ends between words or lines, where tokenizers divide text too. JSON lines are not parted.
    """
    if Path(path).suffix == ".jsonl":
        for number, line in numbered_lines(path, "give a file of texts, one JSON value a line"):
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
    held, parted = "", False
    while more := file.read(block):
        held += more
        if block > 0 and len(held) >= block and (border := _border(held)):
            yield held[:border], False
            held, parted = held[border:], True
    if parted or held.strip():
        yield held, True


def _border(text: str) -> int:
    """The last place between two lines, else between two words, with no other white space around; 0 if there is none."""
    for mark, after in (("\n", 1), (" ", 0)):
        at = text.rfind(mark)
        while at > 0:
            if not text[at - 1].isspace() and text[at + 1 : at + 2].strip():
                return at + after
            at = text.rfind(mark, 0, at)
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
        raise AdedError(f"{path}, line {number} holds no text; write a text, or an object with 'text' or with a list 'turns'")
    for text in texts:
        check_text(text, f"{path}, line {number}")
    return texts


def merge(paths: Sequence[str], out: str) -> str:
    """Add up the counts of matrices of one tokenizer and save the sum.

    Raises:
        AdedError: a file cannot be read or written, is damaged, or belongs to another tokenizer than the first.
    """
    first = TrigramMatrix.load(paths[0])
    others = [TrigramMatrix.load(path, fingerprint=first.fingerprint, vocab_size=first.vocab_size) for path in paths[1:]]
    return _saved(TrigramMatrix.merge([first, *others]), out)


def prune(path: str, rows: int | None, successors: int | None, size: int | None, out: str) -> str:
    """Cut a matrix down and save what is left; see `TrigramMatrix.prune`.

    Raises:
        AdedError: no bound or one out of range, or a file that cannot be read or written.
    """
    if rows is successors is size is None:
        raise AdedError("nothing is to be pruned; give --rows, --successors or --bytes")
    return _saved(TrigramMatrix.load(path).prune(rows=rows, successors=successors, size=size), out)


def _saved(matrix: TrigramMatrix, out: str) -> str:
    matrix.save(out)
    return f"{out}: {len(matrix)} rows from {matrix.corpus_tokens} tokens, {Path(out).stat().st_size / 1e6:.1f} MB"


def load_tokenizer(model: str) -> tuple[Any, int]:
    """A model's tokenizer and the size of its vocabulary, without its weights.

    Raises:
        AdedError: there is no such model.
    """
    from transformers import AutoConfig, AutoTokenizer

    name = weights.resolve(model)
    return AutoTokenizer.from_pretrained(name), int(AutoConfig.from_pretrained(name).get_text_config().vocab_size)


def separator_for(given: int | None, usual: int | None, vocab_size: int) -> int:
    """The id that ends each text: the ``given`` one (``--separator``), else the ``usual`` one.

    Raises:
        AdedError: there is neither, or the vocabulary does not hold it.
    """
    separator = usual if given is None else given
    if separator is None:
        raise AdedError("the model's tokenizer has no token that ends a text; give its id with --separator")
    if not 0 <= separator < vocab_size:
        raise AdedError(f"--separator is {separator}; give a token id of the model's, 0 to {vocab_size - 1}")
    return separator


def tokenizer_at_hand(fingerprint: str) -> Any | None:
    """A tokenizer of this fingerprint in the cache folder; nothing is fetched."""
    from transformers import AutoTokenizer

    for file in cached("*/tokenizer.json"):
        try:
            tokenizer = AutoTokenizer.from_pretrained(file.parent)
        except Exception:  # half a folder, or one of another program: as good as none
            continue
        if tokenizer_fingerprint(tokenizer) == fingerprint:
            return tokenizer
    return None


def describe(path: str, model: str | None = None) -> dict[str, Any]:
    """What a matrix file holds, as JSON values: its summary, its size, the pairs it is most and least certain about.

    Token texts are those of ``model``'s tokenizer, else of one in the cache folder; where there is none, ids stand alone.

    Raises:
        AdedError: the file is missing or damaged, or belongs to another tokenizer than ``model``'s.
    """
    if model is None:
        matrix = TrigramMatrix.load(path)
        tokenizer = tokenizer_at_hand(matrix.fingerprint)
    else:
        tokenizer, vocab_size = load_tokenizer(model)
        matrix = TrigramMatrix.load(path, fingerprint=tokenizer_fingerprint(tokenizer), vocab_size=vocab_size)
    text_of = TokenTexts(tokenizer) if tokenizer is not None else None
    certain, uncertain = _extremes(matrix)
    return {
        **matrix.summary(),
        "bytes": Path(path).stat().st_size,
        "certain": [_pair(matrix, row, text_of) for row in certain],
        "uncertain": [_pair(matrix, row, text_of) for row in uncertain],
    }


def _extremes(matrix: TrigramMatrix) -> tuple[np.ndarray, np.ndarray]:
    """Rows of pairs: the most certain (first successor's count over all sights and `EVIDENCE` more) and the most uncertain.

    Uncertainty is the entropy of the successors, as `entropies` estimates it.
    """
    pairs = np.flatnonzero(matrix.contexts[:, 0] >= 0)
    certainty = matrix.counts[matrix.starts[pairs]] / (matrix.totals[pairs].astype(np.float64) + EVIDENCE)
    return pairs[np.argsort(-certainty, kind="stable")[:EXAMPLES]], pairs[
        np.argsort(-entropies(matrix)[pairs], kind="stable")[:EXAMPLES]
    ]


def entropies(matrix: TrigramMatrix) -> np.ndarray:
    """Bits of each row's distribution, float64 ``[rows]``; every pruned sight counts as a successor of its own."""
    if not len(matrix):
        return np.zeros(0)
    totals = matrix.totals.astype(np.float64)
    kept = np.add.reduceat(matrix.counts.astype(np.float64), matrix.starts[:-1])
    shares = matrix.counts / np.repeat(totals, np.diff(matrix.starts))
    rest = 1 - kept / totals
    bits = np.add.reduceat(-shares * np.log2(shares), matrix.starts[:-1])
    return bits + rest * np.log2(totals)


def _pair(matrix: TrigramMatrix, row: int, text_of: Callable[[int], str] | None) -> dict[str, Any]:
    start, end = int(matrix.starts[row]), int(matrix.starts[row + 1])
    pair, tokens = matrix.contexts[row].tolist(), matrix.successors[start:end].tolist()
    counts = matrix.counts[start:end].tolist()
    body = {"pair": pair, "sights": int(matrix.totals[row]), "successors": tokens, "counts": counts}
    return body if text_of is None else {**body, "texts": [*map(text_of, pair)], "successor_texts": [*map(text_of, tokens)]}


def description(body: dict[str, Any]) -> str:
    """What `describe` found, for reading."""
    return "\n".join(_description(body))


def _description(body: dict[str, Any]) -> Iterator[str]:
    kinds = ("certain", "uncertain")
    yield from (f"{name}: {value}" for name, value in body.items() if name not in kinds)
    for kind in kinds:
        yield f"most {kind} pairs (sights: successors, times):"
        for pair in body[kind]:
            texts = [*map(repr, pair.get("texts", pair["pair"]))]
            found = zip(pair.get("successor_texts", pair["successors"]), pair["counts"])
            shown = ", ".join(f"{token!r} {count}" for token, count in list(found)[:4])
            yield f"  {' '.join(texts)} ({pair['sights']}): {shown}"

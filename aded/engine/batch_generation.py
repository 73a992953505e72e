"""Batch generation of conversations on one model: each step adds one token to every row, as one CUDA graph.

All rows of a batch start together and are at the same position: keys and values are written to one slot, one mask serves all
rows, and no row is padded. Every row follows the same script: a question that the model writes; the tokens of the chat
template between question and answer; the answer. Finished rows are idle until the batch is compacted to the running rows.

The alternative is continuous batching, which refills a row as soon as it ends. It keeps all rows busy, but every step is as
expensive as its longest row (attention reads ``rows * keys`` keys and values, most of a step's time), and each row needs a
separate slot and mask. Compaction reads only what is used, with less code.

On CUDA, a shape (rows, visible keys) is captured when it is used for the second time; the first, eager step is its warm-up.
On other devices every step runs eagerly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AttentionInterface

from aded.core.compilation.cuda_graph import capture_graph, warm_up
from aded.engine.kv_cache import KVCache, KVCacheLayer
from aded.engine.load_check import TOLERANCE
from aded.sampling.rng import exponentials, key_of, signed

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

ATTENTION = "aded_rows"
"""Name of ``grouped_query_attention`` in Transformers' registry."""
QUESTION_TEMPERATURE, ANSWER_TEMPERATURE = 1.0, 0.9
TOP_K, TOP_P = 50, 0.95
"""Top-k, then top-p (nucleus sampling, arXiv 1904.09751); so the vocabulary need not be sorted."""
KEYS_MULTIPLE = 64
"""The number of keys that attention sees is a multiple of this."""
COMPACTION_FRACTIONS = 8
"""After compaction, the number of rows is a multiple of this fraction of the batch (1/8)."""
FREE = -1
"""Marks positions whose token the model chooses."""
ROW, KEY, GREEDY, STAGE, CLOSED, LENGTH = range(6)
"""Rows of the state tensor, one column per conversation: its number, the key of its random numbers, whether its answer is
greedy, how many closing tokens it has, the position of the first of them (0: none), its final length (0: still running)."""


@dataclass(frozen=True)
class Script:
    """The fixed part of every conversation.

    Attributes:
        opening: token ids before the question.
        closing: token ids between question and answer; the first is the token with which the model ends a question.
        longest_question, longest_answer: maximum number of tokens of each.
    """

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    longest_question: int = 96
    longest_answer: int = 320

    @property
    def capacity(self) -> int:
        """Maximum number of tokens of a conversation."""
        return len(self.opening) + self.longest_question + len(self.closing) + self.longest_answer


@dataclass(frozen=True)
class FinishedRow:
    """A finished row of a batch.

    Attributes:
        row: its number in the batch.
        ids: all of its token ids, int64.
        closed: position of the first token after its question; 0: the question did not end.
        greedy: whether its answer was decoded greedily.
    """

    row: int
    ids: np.ndarray
    closed: int
    greedy: bool


class ConversationBatch:
    """A batch of conversations that are generated together; call ``begin`` to start.

    Attributes:
        batch: number of rows at the beginning; ``rows``: number of rows still computed.
        position: position of the newest token of all rows, whose keys and values are not computed yet.
        notice: a message about limitations for the user, or None.
    """

    def __init__(self, target: TargetModel, script: Script, batch: int, opening_cache: KVCache, eos: Sequence[int]) -> None:
        """Allocate the batch.

        Args:
            target: the model; script: the fixed part of the conversations; batch: number of rows.
            opening_cache: KV cache of one row that holds the opening; eos: end-of-text token ids.
        """
        device = target.device
        self.target, self.script, self.batch, self.rows = target, script, batch, batch
        self.capacity = min(script.capacity, target.context_limit)
        self.position = 0
        self.notice: str | None = None
        self._cache = _repeat_rows(opening_cache, batch, len(script.opening), self.capacity)
        self._tokens = torch.zeros(batch, self.capacity, dtype=torch.int64, device=device)
        self._prefix_tokens = torch.full_like(self._tokens, FREE)  # first tokens of the questions
        self._state = torch.zeros(6, batch, dtype=torch.int64, device=device)
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self._position_seeds = torch.zeros(self.capacity, dtype=torch.int64, device=device)  # random-number key of each position
        self._key_indices = torch.arange(self.capacity, device=device)
        self._single_token_ancestors = torch.ones(1, 1, dtype=torch.bool, device=device)
        self._zero_depth = torch.zeros(1, dtype=torch.int64, device=device)
        self._closing = torch.tensor([*script.closing, 0], device=device)
        self._eos = torch.tensor(sorted(eos), dtype=torch.int64, device=device)
        self._captures = device.type == "cuda" and not (target.tensor_parallel or target.multi_device)
        self._graphs: dict[tuple[int, int], Any] = {}
        self._graph_memory: Any = None
        AttentionInterface.register(ATTENTION, grouped_query_attention)
        stock = target.config._attn_implementation
        self._attention = ATTENTION if self._attention_is_correct(stock) else stock

    @torch.inference_mode()
    def begin(self, seed: int, greedy: np.ndarray, beginnings: Sequence[Sequence[int]] = ()) -> None:
        """Set all rows to the end of the opening.

        Args:
            seed: seed of all random numbers.
            greedy: which rows answer greedily, bool ``[batch]``.
            beginnings: token ids that the questions start with, assigned to the rows cyclically; empty: the model chooses all.
        """
        self.rows, self.position = self.batch, len(self.script.opening) - 1
        self._tokens.zero_()
        self._tokens[:, : self.position + 1] = torch.tensor(self.script.opening, device=self._tokens.device)
        self._prefix_tokens.copy_(torch.from_numpy(self._prefixes(beginnings)))
        state = np.zeros((6, self.batch), dtype=np.int64)
        state[ROW] = np.arange(self.batch)
        state[KEY] = [signed(key_of(seed, row)) for row in range(self.batch)]
        state[GREEDY] = greedy
        self._state.copy_(torch.from_numpy(state))
        # Keys of rows and positions are combined by XOR, so they come from different seeds.
        self._position_seeds.copy_(torch.tensor([signed(key_of(key_of(seed, self.batch), p)) for p in range(self.capacity)]))
        self._position.fill_(self.position)

    def _prefixes(self, beginnings: Sequence[Sequence[int]]) -> np.ndarray:
        """Given first tokens of every row's question, int64 ``[batch, capacity]``; ``FREE`` elsewhere."""
        given = np.full(self._prefix_tokens.shape, FREE, dtype=np.int64)
        start, max_tokens = len(self.script.opening), self.script.longest_question
        for row, ids in zip(range(self.batch), itertools.cycle(beginnings)):
            prefix = ids[: min(max_tokens, self.capacity - start)]
            given[row, start : start + len(prefix)] = prefix
        return given

    @property
    def at_end(self) -> bool:
        """Whether the capacity is used up."""
        return self.position + 1 >= self.capacity

    def advance(self, steps: int) -> None:
        """Add ``steps`` tokens to every row, limited by the capacity."""
        with use_attention(self.target.config, self._attention):
            for _ in range(min(steps, self.capacity - 1 - self.position)):
                self._step()
                self.position += 1

    def running(self) -> np.ndarray:
        """Which rows are still running, bool ``[rows]``; synchronises with the device."""
        return (self._state[LENGTH, : self.rows] == 0).cpu().numpy()

    @torch.inference_mode()
    def compact(self, running: np.ndarray) -> list[FinishedRow]:
        """Drop finished rows, as far as the row count can shrink; returns the dropped rows.

        Args:
            running: from ``running``.
        """
        multiple = max(1, self.batch // COMPACTION_FRACTIONS)
        rows = max(multiple, -(-int(running.sum()) // multiple) * multiple)
        if rows >= self.rows:
            return []
        order = np.argsort(~running, kind="stable")
        removed = self.collect(np.sort(order[rows:]))
        kept = torch.from_numpy(np.sort(order[:rows])).to(self._state.device)
        for tensor in (self._tokens, self._prefix_tokens):
            tensor[:rows] = tensor.index_select(0, kept)
        self._state[:, :rows] = self._state.index_select(1, kept)
        for layer in self._cache.layers:
            for tensor in (layer.keys, layer.values):  # type: ignore[union-attr,unused-ignore]
                tensor[:rows, :, : self.position] = tensor[:, :, : self.position].index_select(0, kept)
        self.rows = rows
        return removed

    @torch.inference_mode()
    def collect(self, rows: np.ndarray | None = None) -> list[FinishedRow]:
        """The conversations of these rows (None: all); those still running are cut at the current position."""
        which = torch.from_numpy(np.arange(self.rows) if rows is None else rows).to(self._state.device)
        tokens, state = self._tokens[which].cpu().numpy(), self._state[:, which].cpu().numpy()
        lengths = np.where(state[LENGTH] > 0, state[LENGTH], self.position + 1)
        return [
            FinishedRow(int(state[ROW, i]), tokens[i, :n], int(state[CLOSED, i]), bool(state[GREEDY, i]))
            for i, n in enumerate(lengths.tolist())
        ]

    def _step(self) -> None:
        n_keys = min(-(-(self.position + 1) // KEYS_MULTIPLE) * KEYS_MULTIPLE, self.capacity)
        shape = (self.rows, n_keys)
        if not self._captures:
            self._body(*shape)
        elif shape not in self._graphs:
            self._graphs[shape] = None
            warm_up(lambda: self._body(*shape), self.target.device, runs=1)
        else:
            graph = self._graphs[shape] = self._graphs[shape] or self._capture(shape)
            graph.replay() if graph is not None else self._body(*shape)

    def _capture(self, shape: tuple[int, int]) -> Any:
        """Capture the step as a CUDA graph; if that fails, returns None and disables capturing."""
        self._graph_memory = self._graph_memory or torch.cuda.graph_pool_handle()
        try:
            return capture_graph(lambda: self._body(*shape), self.target.device, self._graph_memory)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # some models do what a CUDA graph cannot capture
            self._captures, self.notice = False, "steps of this model cannot be captured: they run one operation at a time"
            return None

    @torch.inference_mode()
    def _body(self, rows: int, n_keys: int) -> None:
        """Add one token to the first ``rows`` rows, with ``n_keys`` keys. No synchronisation, no data-dependent shapes."""
        self._write(self._logits(rows, n_keys), rows)
        self._position.add_(1)

    def _logits(self, rows: int, n_keys: int) -> torch.Tensor:
        """Logits after the newest token, ``[rows, vocab]``."""
        cache, position = _first_rows(self._cache, rows), self._position
        ids = self._tokens[:rows].index_select(1, position)
        masks = self.target.masks.fixed(self._single_token_ancestors, self._zero_depth, position, self._key_indices[:n_keys])
        with cache.fixed_shape(position, n_keys):
            return self.target.forward(ids, position[None], masks, cache, keep=1).logits[:, -1]

    def _write(self, logits: torch.Tensor, rows: int) -> None:
        """Choose the next token of every row according to the script and update the state."""
        script, state, column = self.script, self._state[:, :rows], self._position + 1
        running, stage = state[LENGTH] == 0, state[STAGE]
        in_question, in_answer = running & (stage == 0), running & (stage == len(script.closing))
        forced = running & ~in_question & ~in_answer
        token = torch.where(forced, self._closing[stage], self._choose(logits, in_question, state))
        given = self._prefix_tokens[:rows].index_select(1, column)[:, 0]
        token = torch.where(in_question & (given != FREE), given, token)
        question_ends, ends = in_question & (token == self._closing[0]), (token[:, None] == self._eos).any(1)
        question_too_long = column - len(script.opening) >= script.longest_question
        answer_too_long = column - state[CLOSED] - len(script.closing) >= script.longest_answer - 1
        finished = (in_question & ~question_ends & (ends | question_too_long)) | (in_answer & (ends | answer_too_long))
        state[LENGTH].add_(finished * (column + 1))
        state[CLOSED].add_(question_ends * column)
        state[STAGE].add_(question_ends | forced)
        self._tokens[:rows].index_copy_(1, column, token[:, None])

    def _choose(self, logits: torch.Tensor, in_question: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The model's choice in every row, int64 ``[rows]``: sampled, or the arg max in answers of greedy rows."""
        best = logits.topk(min(TOP_K, logits.shape[-1]))
        temperature = ANSWER_TEMPERATURE + (QUESTION_TEMPERATURE - ANSWER_TEMPERATURE) * in_question.float()
        probabilities = (best.values.float() / temperature[:, None]).softmax(-1)
        probabilities = probabilities.masked_fill(probabilities.cumsum(-1) - probabilities >= TOP_P, 0.0).double()
        keys = state[KEY] ^ self._position_seeds.index_select(0, self._position)
        index = (exponentials(keys, probabilities.shape[-1]) / probabilities).argmin(-1, keepdim=True)
        drawn = best.indices.gather(1, index)[:, 0]
        return torch.where((state[GREEDY] > 0) & ~in_question, logits.argmax(-1), drawn)

    @torch.inference_mode()
    def _attention_is_correct(self, stock: str) -> bool:
        """Whether ``grouped_query_attention`` gives the logits of the stock attention after the opening."""
        self.begin(0, np.zeros(self.batch, bool))
        rows, n_keys = min(2, self.batch), min(KEYS_MULTIPLE * (1 + self.position // KEYS_MULTIPLE), self.capacity)
        logits = []
        try:
            for name in (stock, ATTENTION):
                with use_attention(self.target.config, name):
                    logits.append(self._logits(rows, n_keys).float())
        except torch.OutOfMemoryError:
            raise
        except Exception:  # unsupported layers raise an error
            return False
        error = (logits[1] - logits[0]).square().mean().sqrt() / logits[0].std().clamp_min(1e-6)
        return bool(error <= TOLERANCE[self.target.dtype])


def grouped_query_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one query per row in two batched products; grouped query heads read the same keys without a copy.

    Args:
        query: ``[rows, heads, 1, dim]``; key, value: ``[rows, key_heads, n_keys, dim]``, views of a cache.
        attention_mask: additive, ``[1, 1, 1, n_keys]``.

    Returns:
        ``[rows, 1, heads, dim]``. The softmax accumulates in float32 for every dtype.

    Raises:
        NotImplementedError: the layer uses softcap, a position bias or attention sinks.
    """
    if any(kwargs.get(name) is not None for name in ("softcap", "position_bias", "s_aux")):
        raise NotImplementedError
    rows, heads, _, dim = query.shape
    scale = dim**-0.5 if scaling is None else scaling
    grouped = (query * scale).reshape(rows * key.shape[1], heads // key.shape[1], dim)
    scores = torch.baddbmm(attention_mask[0], grouped, key.flatten(0, 1).transpose(1, 2))
    return torch.bmm(scores.softmax(-1), value.flatten(0, 1)).view(rows, 1, heads, value.shape[-1]), None


@contextmanager
def use_attention(config: Any, name: str) -> Iterator[None]:
    """Context in which the model's layers use this attention."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def bytes_per_row(opening_cache: KVCache, capacity: int) -> int:
    """Memory of one row with ``capacity`` slots in bytes; opening_cache: a cache of one row of the same model."""
    slots = [t[:, :, :1] for layer in opening_cache.layers for t in (layer.keys, layer.values)]  # type: ignore[union-attr,unused-ignore]
    return capacity * sum(t.numel() * t.element_size() for t in slots)


def _repeat_rows(opening_cache: KVCache, rows: int, length: int, capacity: int) -> KVCache:
    """A cache of ``rows`` rows, each a copy of the first ``length`` positions of a cache of one row."""

    def repeated(tensor: torch.Tensor) -> torch.Tensor:
        new = tensor.new_zeros(rows, tensor.shape[1], capacity, tensor.shape[3])
        new[:, :, :length] = tensor[:, :, :length]
        return new

    return _cache_of([(repeated(layer.keys), repeated(layer.values)) for layer in opening_cache.layers], capacity)  # type: ignore[union-attr,unused-ignore]


def _first_rows(cache: KVCache, rows: int) -> KVCache:
    """A view of the first rows of a cache."""
    return _cache_of([(layer.keys[:rows], layer.values[:rows]) for layer in cache.layers], cache.capacity)  # type: ignore[union-attr,unused-ignore]


def _cache_of(tensor: Sequence[tuple[torch.Tensor, torch.Tensor]], capacity: int) -> KVCache:
    cache = KVCache(capacity)
    for keys, values in tensor:
        layer = KVCacheLayer(cache)
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        cache.layers.append(layer)
    return cache

"""Many conversations at once on one model, a token each a step: the step as one CUDA graph.

A *wave* is a batch of rows that start together, so all rows stand at one position: keys and values are written at one slot,
attention needs one mask for all, and no row is padded. Every row goes through the same script: a question, which the model
writes itself; the tokens of the chat template that close it and open the answer; the answer. Rows that have ended idle
until the wave is compacted to those that still run. The alternative, refilling a row as soon as it ends, keeps all
rows busy but makes every step as dear as its longest row (attention reads ``rows * keys`` bytes, most of a step's time), and
needs slots and masks a row. Compacted waves read only what is used, with less code.

On CUDA a shape (rows, keys seen) is captured the second time it is met: the first step of a shape runs as it is, which is
its warm-up. Elsewhere every step runs as it is.
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

from aded.core.cuda_graph import capture_graph, warm_up
from aded.engine.kv_cache import KVCache, SlotLayer
from aded.engine.load_check import TOLERANCE
from aded.sampling.rng import exponentials, key_of, signed

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

ATTENTION = "aded_rows"
"""Under which Transformers knows the attention of one query a row."""
QUESTION_TEMPERATURE, ANSWER_TEMPERATURE = 1.0, 0.9
TOP_K, TOP_P = 50, 0.95
"""Tokens are drawn from the nucleus (arXiv 1904.09751) of the most probable ones, whose order needs no sort of a vocabulary."""
SEEN_GRAIN = 64
"""Keys that attention sees: a multiple of this."""
ROWS_GRAIN = 8
"""Rows are compacted to eighths of the batch."""
FREE = -1
"""Stands where no beginning says which token a question has."""
ROW, KEY, GREEDY, STAGE, CLOSED, LENGTH = range(6)
"""Columns of a row's state: its number, the key of its random numbers, whether its answer is greedy, how many tokens of the
closing it holds, the position of the first of them (0: none), its length when it has ended (0: it runs)."""


@dataclass(frozen=True)
class Script:
    """What every conversation holds beside the model's own words.

    Attributes:
        opening: token ids before the question.
        closing: token ids after it, up to where the answer begins; the first of them, written by the model, ends a question.
        longest_question, longest_answer: most tokens of each.
    """

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    longest_question: int = 96
    longest_answer: int = 320

    @property
    def capacity(self) -> int:
        """Most tokens of a conversation."""
        return len(self.opening) + self.longest_question + len(self.closing) + self.longest_answer


@dataclass(frozen=True)
class Ended:
    """A row of a wave that has ended.

    Attributes:
        row: its number in the wave.
        ids: all of its token ids, int64.
        closed: the position of the first token after its question; 0: the question did not end.
        greedy: whether its answer was written greedily.
    """

    row: int
    ids: np.ndarray
    closed: int
    greedy: bool


class Wave:
    """Rows that are written together; ``begin`` starts them anew.

    Attributes:
        batch: rows at the beginning; ``rows``: those that are still computed.
        position: where all of them stand: the place of the newest token, whose keys and values are not computed yet.
        notice: what the user should know of how it runs, or None.
    """

    def __init__(self, target: TargetModel, script: Script, batch: int, opened: KVCache, eos: Sequence[int]) -> None:
        """opened: keys and values of the opening, of one row."""
        device = target.device
        self.target, self.script, self.batch, self.rows = target, script, batch, batch
        self.capacity = min(script.capacity, target.context_limit)
        self.position = 0
        self.notice: str | None = None
        self._cache = _repeated(opened, batch, len(script.opening), self.capacity)
        self._tokens = torch.zeros(batch, self.capacity, dtype=torch.int64, device=device)
        self._given = torch.full_like(self._tokens, FREE)  # what questions begin with
        self._state = torch.zeros(6, batch, dtype=torch.int64, device=device)
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self._draws = torch.zeros(self.capacity, dtype=torch.int64, device=device)  # a key for every position
        self._keys = torch.arange(self.capacity, device=device)
        self._alone = torch.ones(1, 1, dtype=torch.bool, device=device)
        self._zero = torch.zeros(1, dtype=torch.int64, device=device)
        self._closing = torch.tensor([*script.closing, 0], device=device)
        self._eos = torch.tensor(sorted(eos), dtype=torch.int64, device=device)
        self._captures = device.type == "cuda" and not (target.shared or target.spread)
        self._graphs: dict[tuple[int, int], Any] = {}
        self._memory: Any = None
        AttentionInterface.register(ATTENTION, attention_of_rows)
        stock = target.config._attn_implementation
        self._attention = ATTENTION if self._agrees(stock) else stock

    @torch.inference_mode()
    def begin(self, seed: int, greedy: np.ndarray, beginnings: Sequence[Sequence[int]] = ()) -> None:
        """Put all rows to the end of the opening.

        Args:
            seed: of all that is drawn.
            greedy: which rows answer greedily, bool ``[batch]``.
            beginnings: token ids that the questions begin with: rows take them in turn; none leaves all to the model.
        """
        self.rows, self.position = self.batch, len(self.script.opening) - 1
        self._tokens.zero_()
        self._tokens[:, : self.position + 1] = torch.tensor(self.script.opening, device=self._tokens.device)
        self._given.copy_(torch.from_numpy(self._laid(beginnings)))
        state = np.zeros((6, self.batch), dtype=np.int64)
        state[ROW] = np.arange(self.batch)
        state[KEY] = [signed(key_of(seed, row)) for row in range(self.batch)]
        state[GREEDY] = greedy
        self._state.copy_(torch.from_numpy(state))
        # Keys of positions come from another seed: a row's key and a position's meet in an exclusive or.
        self._draws.copy_(torch.tensor([signed(key_of(key_of(seed, self.batch), p)) for p in range(self.capacity)]))
        self._position.fill_(self.position)

    def _laid(self, beginnings: Sequence[Sequence[int]]) -> np.ndarray:
        """Every row's beginning at its place, int64 ``[batch, capacity]``, ``FREE`` where the model writes."""
        given = np.full(self._given.shape, FREE, dtype=np.int64)
        start, room = len(self.script.opening), self.script.longest_question
        for row, ids in zip(range(self.batch), itertools.cycle(beginnings)):
            laid = ids[: min(room, self.capacity - start)]
            given[row, start : start + len(laid)] = laid
        return given

    @property
    def at_end(self) -> bool:
        """Whether there is no room for another token."""
        return self.position + 1 >= self.capacity

    def advance(self, steps: int) -> None:
        """Write so many tokens more in every row, as far as there is room."""
        with using_attention(self.target.config, self._attention):
            for _ in range(min(steps, self.capacity - 1 - self.position)):
                self._step()
                self.position += 1

    def running(self) -> np.ndarray:
        """Which of the computed rows still run, bool ``[rows]``; waits for the device."""
        return (self._state[LENGTH, : self.rows] == 0).cpu().numpy()

    @torch.inference_mode()
    def compact(self, running: np.ndarray) -> list[Ended]:
        """Compute only as many rows from now on as are needed; returns what is no longer held."""
        grain = max(1, self.batch // ROWS_GRAIN)
        rows = max(grain, -(-int(running.sum()) // grain) * grain)
        if rows >= self.rows:
            return []
        order = np.argsort(~running, kind="stable")
        gone = self.collect(np.sort(order[rows:]))
        kept = torch.from_numpy(np.sort(order[:rows])).to(self._state.device)
        for held in (self._tokens, self._given):
            held[:rows] = held.index_select(0, kept)
        self._state[:, :rows] = self._state.index_select(1, kept)
        for layer in self._cache.layers:
            for held in (layer.keys, layer.values):  # type: ignore[union-attr,unused-ignore]
                held[:rows, :, : self.position] = held[:, :, : self.position].index_select(0, kept)
        self.rows = rows
        return gone

    @torch.inference_mode()
    def collect(self, rows: np.ndarray | None = None) -> list[Ended]:
        """What these rows (None: all computed ones) hold; one that still runs is cut here."""
        which = torch.from_numpy(np.arange(self.rows) if rows is None else rows).to(self._state.device)
        tokens, state = self._tokens[which].cpu().numpy(), self._state[:, which].cpu().numpy()
        lengths = np.where(state[LENGTH] > 0, state[LENGTH], self.position + 1)
        return [
            Ended(int(state[ROW, i]), tokens[i, :n], int(state[CLOSED, i]), bool(state[GREEDY, i]))
            for i, n in enumerate(lengths.tolist())
        ]

    def _step(self) -> None:
        seen = min(-(-(self.position + 1) // SEEN_GRAIN) * SEEN_GRAIN, self.capacity)
        shape = (self.rows, seen)
        if not self._captures:
            self._body(*shape)
        elif shape not in self._graphs:
            self._graphs[shape] = None
            warm_up(lambda: self._body(*shape), self.target.device, runs=1)
        else:
            graph = self._graphs[shape] = self._graphs[shape] or self._captured(shape)
            graph.replay() if graph is not None else self._body(*shape)

    def _captured(self, shape: tuple[int, int]) -> Any:
        """The step as a graph; None, and no more are captured, where that goes wrong."""
        self._memory = self._memory or torch.cuda.graph_pool_handle()
        try:
            return capture_graph(lambda: self._body(*shape), self.target.device, self._memory)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # a family may do what a graph cannot hold
            self._captures, self.notice = False, "steps of this model cannot be captured: they run one operation at a time"
            return None

    @torch.inference_mode()
    def _body(self, rows: int, seen: int) -> None:
        """One token more in the first ``rows`` rows, from ``seen`` keys; nothing is read back, no shape depends on data."""
        self._write(self._logits(rows, seen), rows)
        self._position.add_(1)

    def _logits(self, rows: int, seen: int) -> torch.Tensor:
        """What the model says after the newest token, ``[rows, vocab]``."""
        cache, position = _first(self._cache, rows), self._position
        given = self._tokens[:rows].index_select(1, position)
        masks = self.target.masks.fixed(self._alone, self._zero, position, self._keys[:seen])
        with cache.fixed_pass(position, seen):
            return self.target.run(given, position[None], masks, cache, keep=1).logits[:, -1]

    def _write(self, logits: torch.Tensor, rows: int) -> None:
        """The script: the next token of every row, and what it means for the row."""
        script, state, column = self.script, self._state[:, :rows], self._position + 1
        running, stage = state[LENGTH] == 0, state[STAGE]
        asking, answering = running & (stage == 0), running & (stage == len(script.closing))
        forced = running & ~asking & ~answering
        token = torch.where(forced, self._closing[stage], self._chosen(logits, asking, state))
        given = self._given[:rows].index_select(1, column)[:, 0]
        token = torch.where(asking & (given != FREE), given, token)
        closes, ends = asking & (token == self._closing[0]), (token[:, None] == self._eos).any(1)
        rambles = column - len(script.opening) >= script.longest_question
        spent = column - state[CLOSED] - len(script.closing) >= script.longest_answer - 1
        over = (asking & ~closes & (ends | rambles)) | (answering & (ends | spent))
        state[LENGTH].add_(over * (column + 1))
        state[CLOSED].add_(closes * column)
        state[STAGE].add_(closes | forced)
        self._tokens[:rows].index_copy_(1, column, token[:, None])

    def _chosen(self, logits: torch.Tensor, asking: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The model's own choice in every row, int64 ``[rows]``: drawn, or in greedy rows' answers its arg max."""
        best = logits.topk(min(TOP_K, logits.shape[-1]))
        heat = ANSWER_TEMPERATURE + (QUESTION_TEMPERATURE - ANSWER_TEMPERATURE) * asking.float()
        likely = (best.values.float() / heat[:, None]).softmax(-1)
        likely = likely.masked_fill(likely.cumsum(-1) - likely >= TOP_P, 0.0).double()
        keys = state[KEY] ^ self._draws.index_select(0, self._position)
        rank = (exponentials(keys, likely.shape[-1]) / likely).argmin(-1, keepdim=True)
        drawn = best.indices.gather(1, rank)[:, 0]
        return torch.where((state[GREEDY] > 0) & ~asking, logits.argmax(-1), drawn)

    @torch.inference_mode()
    def _agrees(self, stock: str) -> bool:
        """Whether the attention of rows says what the model's own says, on the opening."""
        self.begin(0, np.zeros(self.batch, bool))
        rows, seen = min(2, self.batch), min(SEEN_GRAIN * (1 + self.position // SEEN_GRAIN), self.capacity)
        said = []
        try:
            for name in (stock, ATTENTION):
                with using_attention(self.target.config, name):
                    said.append(self._logits(rows, seen).float())
        except torch.OutOfMemoryError:
            raise
        except Exception:  # a layer that wants more than this raises, or says something else
            return False
        error = (said[1] - said[0]).square().mean().sqrt() / said[0].std().clamp_min(1e-6)
        return bool(error <= TOLERANCE[self.target.dtype])


def attention_of_rows(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one query a row, whose grouped heads read the same keys with no copy: two batched products.

    Args:
        query: ``[rows, heads, 1, dim]``; key, value: ``[rows, key_heads, seen, dim]``, views of a cache.
        attention_mask: additive, ``[1, 1, 1, seen]``.

    Returns:
        ``[rows, 1, heads, dim]``. The softmax is computed in float32 whatever the dtype.

    Raises:
        NotImplementedError: the layer wants more than scaled products and a mask.
    """
    if any(kwargs.get(name) is not None for name in ("softcap", "position_bias", "s_aux")):
        raise NotImplementedError
    rows, heads, _, dim = query.shape
    scale = dim**-0.5 if scaling is None else scaling
    grouped = (query * scale).reshape(rows * key.shape[1], heads // key.shape[1], dim)
    scores = torch.baddbmm(attention_mask[0], grouped, key.flatten(0, 1).transpose(1, 2))
    return torch.bmm(scores.softmax(-1), value.flatten(0, 1)).view(rows, 1, heads, value.shape[-1]), None


@contextmanager
def using_attention(config: Any, name: str) -> Iterator[None]:
    """The model's layers use this attention inside."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def bytes_per_row(opened: KVCache, capacity: int) -> int:
    """What a row of a cache takes that is like this one of one row."""
    slots = [t[:, :, :1] for layer in opened.layers for t in (layer.keys, layer.values)]  # type: ignore[union-attr,unused-ignore]
    return capacity * sum(t.numel() * t.element_size() for t in slots)


def _repeated(opened: KVCache, rows: int, length: int, capacity: int) -> KVCache:
    """A cache of ``rows`` rows that all hold the first ``length`` positions of a cache of one row."""

    def repeated(held: torch.Tensor) -> torch.Tensor:
        new = held.new_zeros(rows, held.shape[1], capacity, held.shape[3])
        new[:, :, :length] = held[:, :, :length]
        return new

    return _with_layers([(repeated(layer.keys), repeated(layer.values)) for layer in opened.layers], capacity)  # type: ignore[union-attr,unused-ignore]


def _first(cache: KVCache, rows: int) -> KVCache:
    """The first rows of a cache, as a cache on the same memory."""
    return _with_layers([(layer.keys[:rows], layer.values[:rows]) for layer in cache.layers], cache.capacity)  # type: ignore[union-attr,unused-ignore]


def _with_layers(held: Sequence[tuple[torch.Tensor, torch.Tensor]], capacity: int) -> KVCache:
    cache = KVCache(capacity)
    for keys, values in held:
        layer = SlotLayer(cache)
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        cache.layers.append(layer)
    return cache

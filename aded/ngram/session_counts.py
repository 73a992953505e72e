"""Session counts (learned from prompt and output), and the successors that a tree search gets from base and session counts.

Session counts have rows like those of `aded.ngram.trigram.TrigramMatrix`, in a set-associative table of fixed size; a new row
evicts the least useful one of its set. There are two update rules:

* *mixture*: rows for contexts of one token, of two (bigrams) and longer. A row holds counts of successors observed in the
  text, which decay, and successors observed from the target's top-k, at accepted and rejected draft nodes alike; the newest
  top-k replaces the previous one. The probability of a successor is a mixture over all rows whose context is a suffix of the
  text: longest context first, counts before top-k, base counts last (interpolated back-off). The weight of each kind of row
  is learned online, with one step of expectation maximization per token.
* *published*: rows for bigrams only, copied from the base counts when the bigram first occurs. An occurrence adds 0.04 to a
  successor, up to 3.0; the weights are not normalized (arXiv 2407.12021 and the code published with it).

Compiled code takes base and session counts as `MatrixArrays` (``base``) and `SessionArrays` (``session``) and reads without
bounds checks: callers must check token ids first. Each function first unpacks these tuples into local variables, and functions
of the innermost loop are inlined: otherwise the reference counting of arrays takes as long as the computation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from aded.core.compilation.jit import njit, prefetch
from aded.core.tree import DraftTree
from aded.ngram.higher_orders import LENGTHS
from aded.ngram.trigram import (
    EMPTY,
    SUCCESSORS_LIMIT,
    MatrixArrays,
    TrigramMatrix,
    context_key,
    extend_key,
    find_row,
    first_slot,
    unpack_row,
)

ORDERS = (1, 2, 3, 4, 6)
"""Context lengths of the mixture's rows; 2 is the bigram of the tri-gram matrix."""
ROWS = 1 << 15
"""Capacity of the session counts in rows. A token of the text adds at most one row per order: about 6,500 tokens fit."""
SLOTS = 8
"""Maximum number of successors in a mixture row; less frequent ones are too improbable for a draft."""
OBSERVED_TOP_K = 8
"""The k of the target's top-k: requested at each node, and stored in a row."""
TARGET_ORDERS = 3
"""Number of context lengths (shortest first) that store the target's top-k; longer contexts of rejected nodes rarely recur."""
TARGET_AGE = 2000
"""For eviction, storing a top-k makes its context as recent as one that was last seen this many tokens ago."""
DECAY = 0.8
"""Factor on a row's weights when its context occurs again, so that recent successors weigh more."""
TRUST_SESSION = 0.3
TRUST_UNIGRAM = 0.35
TRUST_BIGRAM = 0.5
TRUST_HIGHER = 0.6
TRUST_TARGET = 0.5
"""Initial weights of rows: session counts of the text, base counts of a single token, of a bigram and of higher order, the
target's top-k."""
TRUST_EVIDENCE = 20.0
"""Pseudo-count of the initial weights: the number of observations that they are worth."""
MIN_REST = 0.01
"""A mixture skips the remaining rows (shorter contexts) once their total weight is below this."""
INCREMENT, MAX_WEIGHT = 0.04, 3.0
"""Published rule: the increment per occurrence of a successor, and its maximum weight."""

CACHE_LINE = 64  # bytes
WAYS = 8  # rows of the table that one context can occupy (set-associative)
OCCURRENCE_VALUE = 256  # for eviction, each occurrence counts as much as being last seen this many tokens later,
VALUED_OCCURRENCES = 16  # up to this many occurrences
UNKNOWN_PROBABILITY = 1e-6  # probability of a successor that is in no row
UNIGRAM, BIGRAM, HIGHER = 0, 1, 2  # levels of base counts: one token, two, and each context length of higher order
HIGHER_ORDERS = tuple(ORDERS.index(length) for length in LENGTHS)
TARGET_ROWS, TEXT_ROWS = HIGHER + len(LENGTHS), HIGHER + len(LENGTHS) + 1  # then per order the target's top-k and counts
LEVELS = TARGET_ROWS + 2 * len(ORDERS)
BUFFER_SIZE = 2 * SUCCESSORS_LIMIT + 256  # upper bound of the successors in all rows of a mixture: two of base counts, all others
KINDS = 18  # maximum number of kinds of rows per level; each kind has its own learned weight


class SessionArrays(NamedTuple):
    """The arrays of session counts, for compiled code."""

    keys: np.ndarray  # hash of each row's context, int64 [rows]
    successors: np.ndarray  # int32 [rows, slots]
    weights: np.ndarray  # of the successors, 0 in a free slot, float32 [rows, slots]
    counts: np.ndarray  # occurrences of the context in the text, int32 [rows]
    last_seen: np.ndarray  # value of the token counter ``now`` at the last occurrence, int32 [rows]
    trust: np.ndarray  # expected hits and number of uses of each kind of row, float64 [LEVELS, KINDS, 2]; weight: their ratio
    orders: np.ndarray  # context lengths, ascending, int64
    published: bool  # whether rows follow the published rule
    target_top: np.ndarray  # the target's top-k: token, probability (0 in a free slot), float32 [rows, top_k, 2]


class Lookup(NamedTuple):
    """The counts, and the buffers that compiled code needs to look up successors and to learn.

    Attributes:
        base, session: base counts and session counts.
        tokens, probabilities: the successors found, int32 and float64 ``[BUFFER_SIZE]``.
        rows: row of each level, -1 for none, int64 ``[LEVELS]``.
        trust: weight of each level's row, float64 ``[LEVELS]``.
        keys: key of the context of each order, int64 ``[LEVELS]``.
        sorted_tokens, sorted_probabilities: buffers for sorting, int32 and float64 ``[BUFFER_SIZE]``.
    """

    base: MatrixArrays
    session: SessionArrays
    tokens: np.ndarray
    probabilities: np.ndarray
    rows: np.ndarray
    trust: np.ndarray
    keys: np.ndarray
    sorted_tokens: np.ndarray
    sorted_probabilities: np.ndarray


class SessionCounts:
    """The session counts, in arrays of fixed size.

    Args:
        published: use the published rule instead of the mixture.
        slots: successors in a row.
        rows: capacity in rows, a power of two and at least ``WAYS``.
        top_k: how many of the target's top-k a row stores (mixture only), at least 1.

    Attributes:
        arrays: the counts and learned weights, for compiled code.
        max_context: length of the longest context in tokens.
        now: number of tokens learned so far.
    """

    def __init__(self, *, published: bool = False, slots: int = SLOTS, rows: int = ROWS, top_k: int = OBSERVED_TOP_K) -> None:
        assert rows >= WAYS, f"rows is less than {WAYS}"
        assert rows & (rows - 1) == 0, "rows is not a power of two"
        orders = np.array((2,) if published else ORDERS)
        self.max_context = int(orders[-1])
        self.arrays = SessionArrays(
            keys=_zeros(rows, np.int64),
            successors=_zeros((rows, slots), np.int32),
            weights=_zeros((rows, slots), np.float32),
            counts=_zeros(rows, np.int32),
            last_seen=_zeros(rows, np.int32),
            trust=np.empty((LEVELS, KINDS, 2)),
            orders=orders,
            published=published,
            target_top=_zeros((1 if published else rows, top_k, 2), np.float32),
        )
        self.clear()

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays if isinstance(array, np.ndarray))

    def clear(self) -> None:
        """Delete all counts and reset the learned weights."""
        self.now = 0
        self.arrays.keys.fill(EMPTY)
        trust = self.arrays.trust
        trust[:, :, 1] = TRUST_EVIDENCE
        trust[UNIGRAM, :, 0] = TRUST_EVIDENCE * TRUST_UNIGRAM
        trust[BIGRAM, :, 0] = TRUST_EVIDENCE * TRUST_BIGRAM
        trust[HIGHER:TARGET_ROWS, :, 0] = TRUST_EVIDENCE * TRUST_HIGHER
        trust[TARGET_ROWS::2, :, 0] = TRUST_EVIDENCE * TRUST_TARGET
        trust[TEXT_ROWS::2, :, 0] = TRUST_EVIDENCE * TRUST_SESSION

    def state_dict(self) -> dict[str, np.ndarray]:
        """A copy of the learned state."""
        return {"now": np.array(self.now), **{name: array.copy() for name, array in self._learned_arrays().items()}}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Replace the learned state by the result of `state_dict` of session counts with the same arguments."""
        self.now = int(state["now"])
        for name, array in self._learned_arrays().items():
            np.copyto(array, state[name])

    def _learned_arrays(self) -> dict[str, np.ndarray]:
        """The arrays that learning changes."""
        return {name: array for name, array in self.arrays._asdict().items() if name not in ("orders", "published")}

    def learn(self, base: TrigramMatrix, text: np.ndarray, start: int) -> None:
        """Count ``text[start:]``, each token as the successor of the contexts before it.

        Args:
            base: the base counts.
            text: token ids within the vocabulary, int32 ``[length]``.
            start: index of the first new token; earlier tokens are only context.
        """
        self.now = learn(base.arrays, self.arrays, text, start, self.now)

    def observe_top_k(self, text: np.ndarray, tree: DraftTree, tokens: np.ndarray, probabilities: np.ndarray) -> None:
        """Store the target's top-k at each node of a draft (mixture only).

        Args:
            text: a suffix of the committed tokens, the root last, int32 ``[length]``, ``length >= 1``.
            tree: the draft, ``n`` nodes.
            tokens: the target's top-k token ids at each node, within the vocabulary, int32 ``[n, k]``.
            probabilities: their probabilities, highest first, float32 ``[n, k]``; a node whose first is 0 is skipped.
        """
        assert not self.arrays.published, "the published rule learns from the text alone"
        _store_target_top(self.arrays, text, tree.tokens, tree.parents, tokens, probabilities, self.now)

    def has_counts(self, bigram: np.ndarray) -> bool:
        """Whether there are session counts for a bigram, int32 ``[2]``; False for fewer than two tokens."""
        if len(bigram) < 2:
            return False
        row = _find(self.arrays.keys, extend_key(extend_key(np.int64(0), bigram[1]), bigram[0]))
        return bool(row >= 0 and self.arrays.counts[row] > 0)

    def successors(self, base: TrigramMatrix, context: np.ndarray, keep: int) -> tuple[np.ndarray, np.ndarray]:
        """The successors of ``context`` that a tree search uses, most probable first.

        Args:
            base: the base counts.
            context: token ids, int32 ``[length]``, ``length >= 1``; only the last ``max_context`` tokens are read.
            keep: maximum number of successors.

        Returns:
            Token ids, int32 ``[k]``, and probabilities (published rule: weights that are not normalized), float64 ``[k]``.
        """
        lookup = new_lookup(base.arrays, self.arrays)
        count = successors(lookup, context, len(context), keep)
        return lookup.tokens[:count], lookup.probabilities[:count]


def _zeros(shape: int | tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Like ``np.zeros``, but aligned to a cache line, so that a set of keys, or a row of up to 64 bytes, is in one line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


@njit(cache=True)
def within(tokens, vocab_size):
    """Whether all token ids are within the vocabulary."""
    for token in tokens:  # noqa: SIM110 -- a loop compiles to faster code
        if not 0 <= token < vocab_size:
            return False
    return True


@njit(cache=True)
def new_lookup(base, session):
    """Allocate a `Lookup`."""
    return Lookup(
        base,
        session,
        np.empty(BUFFER_SIZE, np.int32),
        np.empty(BUFFER_SIZE),
        np.empty(LEVELS, np.int64),
        np.empty(LEVELS),
        np.empty(LEVELS, np.int64),
        np.empty(BUFFER_SIZE, np.int32),
        np.empty(BUFFER_SIZE),
    )


@njit(cache=True)
def successors(lookup, context, length, keep):
    """The successors of ``context[:length]``, at most ``keep``, most probable first, ties by lower id.

    Args:
        lookup: from `new_lookup`; ``tokens`` and ``probabilities`` receive the successors.
        context: token ids, int32.

    Returns:
        Number of successors.
    """
    return inlined_successors(lookup, context, length, keep)


@njit(cache=True, inline="always")
def inlined_successors(lookup, context, length, keep):
    """As ``successors``, for an innermost loop: faster, but every use is compiled anew."""
    if lookup.session.published:
        count = _published_successors(lookup, context, length)
    else:
        count = mixture_successors(lookup, context, length)
    return keep_best(lookup, count, keep)


@njit(cache=True, inline="always")
def keep_best(lookup, count, keep):
    """Sort the ``count`` successors in ``lookup`` and keep the best ``keep``, ties by lower id; returns their number."""
    tokens, weights = lookup.tokens, lookup.probabilities
    sorted_tokens, sorted_weights = lookup.sorted_tokens, lookup.sorted_probabilities
    kept = 0
    for i in range(count):  # insertion sort: few elements, nearly sorted
        kept = insert(sorted_tokens, sorted_weights, kept, keep, tokens[i], weights[i])
    tokens[:kept] = sorted_tokens[:kept]
    weights[:kept] = sorted_weights[:kept]
    return kept


@njit(cache=True)
def insert(tokens, weights, count, keep, token, weight):
    """Insert a token into a list of at most ``keep``, highest weight first, ties by lower id; returns the new length."""
    position = min(count, keep - 1)
    if count == keep and not _ranks_before(weight, token, weights[position], tokens[position]):
        return count
    while position > 0 and _ranks_before(weight, token, weights[position - 1], tokens[position - 1]):
        tokens[position], weights[position] = tokens[position - 1], weights[position - 1]
        position -= 1
    tokens[position], weights[position] = token, weight
    return min(count + 1, keep)


@njit(cache=True)
def _ranks_before(weight, token, other_weight, other_token):
    return weight > other_weight or (weight == other_weight and token < other_token)


@njit(cache=True)
def learn(base, session, text, start, now):
    """As `SessionCounts.learn`; returns the position ``now``, increased by one per token."""
    lookup = new_lookup(base, session)
    for at in range(start, len(text)):
        now += 1
        if session.published:
            _learn_published(base, session, text, at, now)
        elif at > 0:
            n_orders = _find_levels(lookup, text, at)
            _learn_trust(lookup, text[at])
            for i in range(n_orders):
                _count_occurrence(session, lookup.keys[i], text[at], now)
    return now


@njit(cache=True)
def _store_target_top(session, text, tokens, parents, top_tokens, top_probabilities, now):
    """As `SessionCounts.observe_top_k`."""
    last_seen, orders, target_top = session.last_seen, session.orders, session.target_top
    kept = min(top_tokens.shape[1], target_top.shape[1])
    for node in range(len(tokens)):
        if not top_probabilities[node, 0] > 0:
            continue
        key, key_length, path_node, position = np.int64(0), 0, node, len(text) - 1
        for i in range(min(TARGET_ORDERS, len(orders))):
            while key_length < orders[i] and position >= 0:
                if path_node > 0:
                    key, path_node = extend_key(key, tokens[path_node]), parents[path_node]
                else:
                    key, position = extend_key(key, text[position]), position - 1
                key_length += 1
            if key_length < orders[i]:
                break
            row = _find(session.keys, key)
            if row < 0:
                row = _insert_row(session, key)
                last_seen[row] = now - TARGET_AGE
            last_seen[row] = max(last_seen[row], now - TARGET_AGE)
            target_top[row, kept:, 1] = 0
            for slot in range(kept):
                target_top[row, slot, 0], target_top[row, slot, 1] = top_tokens[node, slot], top_probabilities[node, slot]


@njit(cache=True, inline="always")
def mixture_successors(lookup, context, length):
    """Write successors and their probabilities by interpolated back-off, unsorted; returns their number."""
    session, index, entries = lookup.session, lookup.base.row_index, lookup.base.entries
    higher_index, higher_entries = lookup.base.higher_index, lookup.base.higher_entries
    row_keys, row_tokens, row_weights, occurrences = session.keys, session.successors, session.weights, session.counts
    target_top, trust = session.target_top, session.trust
    tokens, weights, keys, base_rows = lookup.tokens, lookup.probabilities, lookup.keys, lookup.rows
    rest, count, seen, n_orders = 1.0, 0, np.uint64(0), _context_keys(session.orders, context, length, keys)
    _prefetch_base_rows(index, higher_index, context, length, keys, n_orders)
    for i in range(n_orders - 1, -1, -1):
        row = _find(row_keys, keys[i])
        if row < 0:
            continue
        if occurrences[row] > 0:
            share = rest * _trust_of(trust, TEXT_ROWS + 2 * i, _kind_of_text_row(occurrences[row], row_weights, row))
            rest -= share
            share /= _sum_row(row_weights, row)
            for slot in range(row_weights.shape[1]):
                if row_weights[row, slot] > 0:
                    count, seen = _add(tokens, weights, count, seen, row_tokens[row, slot], share * row_weights[row, slot])
            if rest < MIN_REST:
                return count
        if target_top[row, 0, 1] > 0:
            share = rest * _trust_of(trust, TARGET_ROWS + 2 * i, _kind_of_target_row(target_top, row))
            rest -= share
            for slot in range(target_top.shape[1]):
                if target_top[row, slot, 1] > 0:
                    token, probability = np.int32(target_top[row, slot, 0]), target_top[row, slot, 1]
                    count, seen = _add(tokens, weights, count, seen, token, share * probability)
            if rest < MIN_REST:
                return count
    _find_base_rows(index, higher_index, context, length, keys, n_orders, base_rows)
    for level in range(TARGET_ROWS):
        if base_rows[level] >= 0:
            prefetch(entries if level <= BIGRAM else higher_entries, unpack_row(base_rows[level])[0])
    for level in range(TARGET_ROWS - 1, -1, -1):
        row = base_rows[level]
        if row >= 0:
            row_entries = entries if level <= BIGRAM else higher_entries
            share = rest * _trust_of(trust, level, _kind_of_base_row(row, row_entries))
            rest -= share
            start, end, _ = unpack_row(row)
            for i in range(start, end):
                count, seen = _add(tokens, weights, count, seen, np.int32(row_entries[i, 0]), share * row_entries[i, 1])
            if rest < MIN_REST:
                return count
    return count


@njit(cache=True)
def _trust_of(trust, level, kind):
    return trust[level, kind, 0] / trust[level, kind, 1]


@njit(cache=True)
def _sum_row(weights, row):
    total = 0.0
    for slot in range(weights.shape[1]):
        total += weights[row, slot]
    return total


@njit(cache=True)
def add(tokens, weights, count, token, weight):
    """Add ``weight`` to ``token`` among the first ``count`` entries, or append it; returns the new number of entries."""
    for i in range(count):
        if tokens[i] == token:
            weights[i] += weight
            return count
    tokens[count] = token
    weights[count] = weight
    return count + 1


@njit(cache=True, inline="always")
def _add(tokens, weights, count, seen, token, weight):
    """As ``add``; ``seen`` is a filter: one bit per value of a token's lowest six bits saves most searches for new tokens."""
    bit = np.uint64(1) << np.uint64(token & 63)
    if seen & bit:
        return add(tokens, weights, count, token, weight), seen
    tokens[count] = token
    weights[count] = weight
    return count + 1, seen | bit


@njit(cache=True)
def _context_keys(orders, text, length, keys):
    """Write the key of the suffix of ``text[:length]`` of each order; returns the number of orders that fit."""
    key, key_length = np.int64(0), 0
    for i in range(len(orders)):
        if orders[i] > length:
            return i
        while key_length < orders[i]:
            key_length += 1
            key = extend_key(key, text[length - key_length])
        keys[i] = key
    return len(orders)


@njit(cache=True)
def _prefetch_base_rows(index, higher_index, text, length, keys, n_orders):
    """Prefetch what ``_find_base_rows`` reads: most of it is in no CPU cache."""
    if length >= 2:
        prefetch(index, first_slot(context_key(text[length - 2], text[length - 1]), len(index) - 1))
    for order in HIGHER_ORDERS:
        if order < n_orders:
            prefetch(higher_index, first_slot(keys[order], len(higher_index) - 1))


@njit(cache=True)
def _find_base_rows(index, higher_index, text, length, keys, n_orders, rows):
    """Write the row of each level of base counts, -1 for none.

    ``keys``: the key of the context of each order; ``HIGHER_ORDERS`` are the indices of the contexts of higher order. Such a
    context has a row only if the shorter ones have, so the search ends at the first one without a row.
    """
    rows[:TARGET_ROWS] = -1
    if length >= 1:
        rows[UNIGRAM] = find_row(index, context_key(-1, text[length - 1]))
    if length >= 2:
        rows[BIGRAM] = find_row(index, context_key(text[length - 2], text[length - 1]))
    for i, order in enumerate(HIGHER_ORDERS):
        if order < n_orders:
            rows[HIGHER + i] = row = find_row(higher_index, keys[order])
            if row < 0:
                break


@njit(cache=True)
def _find_levels(lookup, text, length):
    """Write each level's row (or -1) and weight, and each order's key; returns the number of orders that fit ``length``."""
    session, rows, level_trust, keys = lookup.session, lookup.rows, lookup.trust, lookup.keys
    row_keys, weights, occurrences = session.keys, session.weights, session.counts
    target_top, trust = session.target_top, session.trust
    index, entries = lookup.base.row_index, lookup.base.entries
    higher_index, higher_entries = lookup.base.higher_index, lookup.base.higher_entries
    rows[:] = -1
    n_orders = _context_keys(session.orders, text, length, keys)
    _find_base_rows(index, higher_index, text, length, keys, n_orders, rows)
    for level in range(TARGET_ROWS):
        row = rows[level]
        if row >= 0:
            row_entries = entries if level <= BIGRAM else higher_entries
            level_trust[level] = _trust_of(trust, level, _kind_of_base_row(row, row_entries))
    for i in range(n_orders):
        row = _find(row_keys, keys[i])
        if row >= 0 and target_top[row, 0, 1] > 0:
            level = TARGET_ROWS + 2 * i
            rows[level], level_trust[level] = row, _trust_of(trust, level, _kind_of_target_row(target_top, row))
        if row >= 0 and occurrences[row] > 0:
            level, kind = TEXT_ROWS + 2 * i, _kind_of_text_row(occurrences[row], weights, row)
            rows[level], level_trust[level] = row, _trust_of(trust, level, kind)
    return n_orders


@njit(cache=True)
def _learn_trust(lookup, token):
    """One step of expectation maximization for the weights.

    The kind of each row is credited with the row's share of the probability of ``token`` in the mixture without longer contexts.
    """
    session = lookup.session
    row_tokens, row_weights, occurrences = session.successors, session.weights, session.counts
    target_top, trust = session.target_top, session.trust
    entries, higher_entries, rows, level_trust = lookup.base.entries, lookup.base.higher_entries, lookup.rows, lookup.trust
    before = UNKNOWN_PROBABILITY
    for level in range(LEVELS):
        row = rows[level]
        if row < 0:
            continue
        probability = 0.0
        if level < TARGET_ROWS:
            row_entries = entries if level <= BIGRAM else higher_entries
            kind = _kind_of_base_row(row, row_entries)
            start, end, _ = unpack_row(row)
            for i in range(start, end):
                if row_entries[i, 0] == token:
                    probability = float(row_entries[i, 1])
        elif (level - TARGET_ROWS) % 2 == 0:
            kind = _kind_of_target_row(target_top, row)
            for slot in range(target_top.shape[1]):
                if target_top[row, slot, 1] > 0 and target_top[row, slot, 0] == token:
                    probability = float(target_top[row, slot, 1])
        else:
            kind = _kind_of_text_row(occurrences[row], row_weights, row)
            for slot in range(row_weights.shape[1]):
                if row_weights[row, slot] > 0 and row_tokens[row, slot] == token:
                    probability = row_weights[row, slot] / _sum_row(row_weights, row)
        share = level_trust[level]
        mixed = share * probability + (1 - share) * before
        trust[level, kind, 0] += share * probability / mixed
        trust[level, kind, 1] += 1
        before = mixed


@njit(cache=True)
def _count_occurrence(session, key, token, now):
    """Count one occurrence of ``token`` in the mixture row of ``key``; inserts the row if it is missing."""
    row_keys, tokens, weights = session.keys, session.successors, session.weights
    occurrences, last_seen = session.counts, session.last_seen
    row = _find(row_keys, key)
    if row < 0:
        row = _insert_row(session, key)
    weights[row, :] *= DECAY
    _increment(tokens[row], weights[row], token, 1.0)
    occurrences[row] += 1
    last_seen[row] = now


@njit(cache=True)
def _increment(tokens, weights, token, step):
    """Add ``step`` to ``token`` in a row; a new token replaces the successor of lowest weight. Returns the slot."""
    position = 0
    for slot in range(len(weights)):
        if weights[slot] > 0 and tokens[slot] == token:
            weights[slot] += step
            return slot
        if weights[slot] < weights[position]:
            position = slot
    tokens[position] = token
    weights[position] = step
    return position


@njit(cache=True, inline="always")
def _published_successors(lookup, context, length):
    """Write the successors of the last bigram and their weights, unsorted and not normalised; returns their number."""
    base, session, tokens, probabilities = lookup.base, lookup.session, lookup.tokens, lookup.probabilities
    row_keys, row_tokens, row_weights = session.keys, session.successors, session.weights
    if length < 2:
        return 0
    row = _find(row_keys, extend_key(extend_key(np.int64(0), context[length - 1]), context[length - 2]))
    if row < 0:
        return copy_base_row(base, context[length - 2], context[length - 1], tokens, probabilities)
    count = 0
    for slot in range(row_weights.shape[1]):
        if row_weights[row, slot] > 0:
            tokens[count], probabilities[count] = row_tokens[row, slot], row_weights[row, slot]
            count += 1
    return count


@njit(cache=True)
def _learn_published(base, session, text, at, now):
    """Count the tri-gram that ends at ``text[at]``."""
    row_keys, tokens, weights = session.keys, session.successors, session.weights
    occurrences, last_seen = session.counts, session.last_seen
    if at < 2:
        return
    key = extend_key(extend_key(np.int64(0), text[at - 1]), text[at - 2])
    row = _find(row_keys, key)
    if row < 0:
        row = _insert_row(session, key)
        copy_base_row(base, text[at - 2], text[at - 1], tokens[row], weights[row])
    slot = _increment(tokens[row], weights[row], text[at], INCREMENT)
    weights[row, slot] = min(weights[row, slot], MAX_WEIGHT)
    occurrences[row] += 1
    last_seen[row] = now


@njit(cache=True, inline="always")
def copy_base_row(base, first, second, tokens, weights):
    """Copy the successors of a bigram in the base counts, and their probabilities, as many as fit; returns their number."""
    index, entries = base.row_index, base.entries
    row = find_row(index, context_key(first, second))
    if row < 0:
        return 0
    start, end, _ = unpack_row(row)
    count = min(end - start, len(weights))
    for i in range(count):
        tokens[i], weights[i] = np.int32(entries[start + i, 0]), entries[start + i, 1]
    return count


@njit(cache=True)
def _first_way(row_keys, key):
    return ((key ^ (key >> 17)) & (len(row_keys) // WAYS - 1)) * WAYS


@njit(cache=True)
def _find(row_keys, key):
    first = _first_way(row_keys, key)
    for row in range(first, first + WAYS):
        if row_keys[row] == key:
            return row
    return -1


@njit(cache=True)
def _insert_row(session, key):
    """Insert a row for a new key: a free row of its set, or else the least useful one, which is evicted; returns the row."""
    keys, occurrences, last_seen = session.keys, session.counts, session.last_seen
    weights, target_top, published = session.weights, session.target_top, session.published
    first = _first_way(keys, key)
    victim, lowest = first, np.int64(1) << 62
    for row in range(first, first + WAYS):
        if keys[row] == EMPTY:
            victim = row
            break
        usefulness = last_seen[row] + OCCURRENCE_VALUE * min(occurrences[row], VALUED_OCCURRENCES)
        if usefulness < lowest:
            victim, lowest = row, usefulness
    keys[victim], occurrences[victim] = key, 0
    weights[victim, :] = 0
    if not published:
        target_top[victim, :, 1] = 0
    return victim


@njit(cache=True)
def _kind_of_text_row(occurrences, weights, row):
    """The kind of a row of counts, 0 to 14: by occurrences (1, 2, 3, 4 to 7, more) and number of successors (1, 2, more)."""
    successors_known = 0
    for slot in range(weights.shape[1]):
        if weights[row, slot] > 0:
            successors_known += 1
    evidence = occurrences - 1 if occurrences < 4 else 3 if occurrences < 8 else 4
    return evidence * 3 + min(successors_known, 3) - 1


@njit(cache=True)
def _kind_of_target_row(target_top, row):
    """The kind of a row of the target's top-k, 0 to 5: by the highest probability."""
    top = target_top[row, 0, 1]
    return 0 if top > 0.95 else 1 if top > 0.8 else 2 if top > 0.6 else 3 if top > 0.4 else 4 if top > 0.2 else 5


@njit(cache=True)
def _kind_of_base_row(row, entries):
    """The kind of a base row, 0 to 17: by occurrences (1, 2, 3 to 5, 6 to 15, 16 to 63, more) and the highest probability."""
    start, _, total = unpack_row(row)
    top = entries[start, 1]
    evidence = 0 if total == 1 else 1 if total == 2 else 2 if total < 6 else 3 if total < 16 else 4 if total < 64 else 5
    return evidence * 3 + (0 if top > 0.8 else 1 if top > 0.4 else 2)

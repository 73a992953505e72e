"""What a session learns of its own text, and the successors that a search draws: base matrix and overlay together.

The overlay keeps rows like those of `aded.trigram.TrigramMatrix` in a table of fixed size, least useful row out first.
There are two rules:

* *mixture*: rows for single tokens, pairs and longer contexts. A successor's probability is a mixture over all rows
  whose context ends at the same token, longest context first (interpolated back-off). How far each kind of row is
  trusted is learned along, by one step of expectation maximisation a token.
* *published*: rows for pairs only, copied from the base at first sight; a sight adds 0.04 up to 3.0, and what results
  is used as it stands, not normalised (arXiv 2407.12021, and the draft maker published with it).

Compiled code takes both parts as plain tuples of arrays (``base``, ``overlay``) and reads without bounds checks: token
ids must have been checked before. (Longer than most modules: both rules share the table, and compiled code shares no
classes. Numba renews its cache by the caller's file: after a change here, remove the package's ``__pycache__``.)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.trigram import EMPTY, MOST_SUCCESSORS, TrigramMatrix, find_row, pair_key, unpack_row

ORDERS = (1, 2, 3, 4, 6)
"""Context lengths of the mixture's overlay rows; pairs (2) are the tri-gram matrix proper."""
ROWS = 1 << 15
"""Rows an overlay holds: with five orders, the contexts of the newest 6 500 tokens or more."""
SLOTS = 8
"""Successors of a mixture row; more are never worth a place in a draft."""
FADE = 0.8
"""How much of a row's weights is left when the context is seen again: the newest successors count most."""
TRUST_OVERLAY = 0.3
TRUST_SINGLE = 0.35
TRUST_PAIR = 0.5
"""First guesses at the weight of an overlay row, and of the base's rows for a single token and for a pair."""
TRUST_EVIDENCE = 20.0
"""How many sights a first guess is worth against what the session shows."""
ENOUGH = 0.01
"""A mixture leaves out shorter contexts once they share no more than this."""
STEP, CAP = 0.04, 3.0
"""Published rule: what a sight adds to a successor, and the most it may reach."""

WAYS = 8  # places that a context may take in the table
USEFUL_SIGHT = 256  # a row seen once more is as useful as one seen that many tokens later,
USEFUL_SIGHTS = 16  # up to this many sights
UNKNOWN = 1e-6  # probability of a successor that no row knows
BASE_LEVELS = 2  # base rows of a single token, of a pair
LEVELS = BASE_LEVELS + len(ORDERS)
ROOM = 2 * MOST_SUCCESSORS + 128  # successors of one context before the best are kept: two base rows and the overlay's
BUCKETS = 18  # kinds of row whose trust is learned apart, per level


class Overlay:
    """The rows of one session, in arrays of fixed size.

    Args:
        published: use the published rule instead of the mixture.
        slots: successors a row holds.
        rows: how many rows it holds, a power of two.
    """

    def __init__(self, *, published: bool = False, slots: int = SLOTS, rows: int = ROWS) -> None:
        assert rows >= WAYS, "rows is a power of two"
        assert rows & (rows - 1) == 0, "rows is a power of two"
        orders = np.array((2,) if published else ORDERS)
        self.longest = int(orders[-1])
        self.arrays = (
            np.empty(rows, dtype=np.int64),  # keys: hash of the context
            np.zeros((rows, slots), dtype=np.int32),  # successors
            np.zeros((rows, slots), dtype=np.float32),  # weights, 0 in a free slot
            np.zeros(rows, dtype=np.int32),  # sights of the context
            np.zeros(rows, dtype=np.int32),  # when it was last seen, in tokens
            np.empty((BASE_LEVELS + len(orders), BUCKETS, 2)),  # trust: how often a kind of row was right, and asked
            orders,
            published,
        )
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.now = 0
        self.arrays[0].fill(EMPTY)
        trust = self.arrays[5]
        trust[:, :, 1] = TRUST_EVIDENCE
        trust[:, :, 0] = TRUST_EVIDENCE * TRUST_OVERLAY
        trust[0, :, 0] = TRUST_EVIDENCE * TRUST_SINGLE
        trust[1, :, 0] = TRUST_EVIDENCE * TRUST_PAIR

    def learn(self, base: TrigramMatrix, text: np.ndarray, start: int) -> None:
        """Count ``text[start:]``, each token as the successor of the contexts before it.

        Args:
            base: the matrix it is mixed with.
            text: token ids within the vocabulary, int32 ``[length]``.
            start: the first new token; the ones before it are context only.
        """
        self.now = learn(base.arrays, self.arrays, text, start, self.now)

    def successors(self, base: TrigramMatrix, context: np.ndarray, keep: int) -> tuple[np.ndarray, np.ndarray]:
        """The successors of ``context`` as a search sees them, most probable first.

        Args:
            base: the matrix it is mixed with.
            context: token ids, int32 ``[length]``, ``length >= 1``; only the newest ones matter.
            keep: at most that many.

        Returns:
            Token ids, int32 ``[k]``, and probabilities, float64 ``[k]``.
        """
        room = make_room()
        count = successors(base.arrays, self.arrays, context, len(context), keep, room)
        return room[0][:count], room[1][:count]


@njit(cache=True)
def within(tokens, vocab_size):
    """Whether every id is one of the vocabulary."""
    for token in tokens:  # noqa: SIM110 -- a loop compiles to faster code
        if not 0 <= token < vocab_size:
            return False
    return True


@njit(cache=True)
def make_room():
    """What `successors` writes in: tokens int32 and probabilities float64, each level's row, trust and key, and room to sort."""
    rows, trusts, keys = np.empty(LEVELS, np.int64), np.empty(LEVELS), np.empty(LEVELS, np.int64)
    return np.empty(ROOM, np.int32), np.empty(ROOM), rows, trusts, keys, np.empty(ROOM, np.int32), np.empty(ROOM)


@njit(cache=True)
def successors(base, overlay, context, length, keep, room):
    """The successors of ``context[:length]``, at most ``keep``, most probable first, lower id first among equals.

    Args:
        room: from `make_room`; they are written to its first two arrays.

    Returns:
        Their number.
    """
    tokens, weights, _, _, _, sorted_tokens, sorted_weights = room
    if overlay[7]:
        count = _published(base, overlay, context, length, tokens, weights)
    else:
        count = _mixture(base, overlay, context, length, room)
    for i in range(count):  # sorting by counting who stands before: few are kept of few, and no branch is mispredicted
        token, weight, place = tokens[i], weights[i], 0
        for j in range(count):
            place += (weights[j] > weight) | ((weights[j] == weight) & (tokens[j] < token))
        sorted_tokens[place], sorted_weights[place] = token, weight
    kept = min(keep, count)
    tokens[:kept] = sorted_tokens[:kept]
    weights[:kept] = sorted_weights[:kept]
    return kept


@njit(cache=True)
def learn(base, overlay, text, start, now):
    """As `Overlay.learn`; returns the clock ``now`` moved on by one a token."""
    levels = BASE_LEVELS + len(overlay[6])
    _, _, rows, trusts, keys, _, _ = make_room()
    for at in range(start, len(text)):
        now += 1
        if overlay[7]:
            _learn_published(base, overlay, text, at, now)
        elif at > 0:
            _find_levels(base, overlay, text, at, rows, trusts, keys)
            _learn_trust(base, overlay, rows, trusts, text[at])
            for level in range(BASE_LEVELS, levels):
                if at >= overlay[6][level - BASE_LEVELS]:
                    _count(overlay, rows[level], keys[level], text[at], now)
    return now


@njit(cache=True)
def _mixture(base, overlay, context, length, room):
    """Unsorted successors and their probabilities by interpolated back-off, longest context first."""
    _, seen_tokens, seen_weights, _, _, _, orders, _ = overlay
    entries = base[1]
    tokens, weights, rows, trusts, keys, _, _ = room
    _find_levels(base, overlay, context, length, rows, trusts, keys)
    rest, count = 1.0, 0
    for level in range(BASE_LEVELS + len(orders) - 1, -1, -1):
        row = rows[level]
        if row < 0:
            continue
        share = rest * trusts[level]
        rest -= share
        if level >= BASE_LEVELS:
            share /= _total(seen_weights, row)
            for slot in range(seen_weights.shape[1]):
                if seen_weights[row, slot] > 0:
                    count = _add(tokens, weights, count, seen_tokens[row, slot], share * seen_weights[row, slot])
        else:
            start, end, _ = unpack_row(row)
            for i in range(start, end):
                count = _add(tokens, weights, count, np.int32(entries[i, 0]), share * entries[i, 1])
        if rest < ENOUGH:
            break
    return count


@njit(cache=True)
def _total(weights, row):
    total = 0.0
    for slot in range(weights.shape[1]):
        total += weights[row, slot]
    return total


@njit(cache=True)
def _add(tokens, weights, count, token, weight):
    for i in range(count):
        if tokens[i] == token:
            weights[i] += weight
            return count
    tokens[count] = token
    weights[count] = weight
    return count + 1


@njit(cache=True)
def _find_levels(base, overlay, text, length, rows, trusts, keys):
    """For the context ``text[:length]``: each level's row or -1, its trust, and its key in the overlay.

    Levels 0 and 1 are the base's rows of the last token and of the last pair, then comes one for each overlay order.
    """
    table, _, weights, sights, _, trust, orders, _ = overlay
    index, entries = base
    for level in range(BASE_LEVELS):
        rows[level] = -1
        if length > level:
            first = text[length - 2] if level == 1 else -1
            rows[level] = row = find_row(index, pair_key(first, text[length - 1]))
            if row >= 0:
                kind = _kind_of_base_row(row, entries)
                trusts[level] = trust[level, kind, 0] / trust[level, kind, 1]
    key, hashed = np.int64(0), 0
    for i in range(len(orders)):
        level = BASE_LEVELS + i
        rows[level] = -1
        if length >= orders[i]:
            while hashed < orders[i]:
                hashed += 1
                key = extend_key(key, text[length - hashed])
            keys[level] = key
            rows[level] = row = _find(table, key)
            if row >= 0:
                kind = _kind_of_row(sights[row], weights, row)
                trusts[level] = trust[level, kind, 0] / trust[level, kind, 1]


@njit(cache=True)
def _learn_trust(base, overlay, rows, trusts, token):
    """Move each found row's kind towards its part in having foreseen ``token`` (shortest context first)."""
    _, seen_tokens, seen_weights, sights, _, trust, _, _ = overlay
    entries = base[1]
    before = UNKNOWN
    for level in range(BASE_LEVELS + len(overlay[6])):
        row = rows[level]
        if row < 0:
            continue
        own = 0.0
        if level >= BASE_LEVELS:
            kind = _kind_of_row(sights[row], seen_weights, row)
            for slot in range(seen_weights.shape[1]):
                if seen_weights[row, slot] > 0 and seen_tokens[row, slot] == token:
                    own = seen_weights[row, slot] / _total(seen_weights, row)
        else:
            kind = _kind_of_base_row(row, entries)
            start, end, _ = unpack_row(row)
            for i in range(start, end):
                if entries[i, 0] == token:
                    own = float(entries[i, 1])
        mixed = trusts[level] * own + (1 - trusts[level]) * before
        trust[level, kind, 0] += trusts[level] * own / mixed
        trust[level, kind, 1] += 1
        before = mixed


@njit(cache=True)
def _count(overlay, row, key, token, now):
    """Count one sight of ``token`` in the mixture row of ``key``, which is claimed when ``row`` is -1."""
    table, tokens, weights, sights, stamps, _, _, _ = overlay
    if row < 0:
        row = _claim(table, sights, stamps, key)
        weights[row, :] = 0
        sights[row] = 0
    weights[row, :] *= FADE
    _bump(tokens[row], weights[row], token, 1.0)
    sights[row] += 1
    stamps[row] = now


@njit(cache=True)
def _bump(tokens, weights, token, step):
    """Add ``step`` to ``token`` in a row's slots; a newcomer takes the slot of the least weight."""
    place = 0
    for slot in range(len(weights)):
        if weights[slot] > 0 and tokens[slot] == token:
            weights[slot] += step
            return slot
        if weights[slot] < weights[place]:
            place = slot
    tokens[place] = token
    weights[place] = step
    return place


@njit(cache=True)
def _published(base, overlay, context, length, tokens, weights):
    """Unsorted successors of the last pair and their weights, not normalised."""
    table, seen_tokens, seen_weights, _, _, _, _, _ = overlay
    index, entries = base
    if length < 2:
        return 0
    count = 0
    row = _find(table, extend_key(extend_key(np.int64(0), context[length - 1]), context[length - 2]))
    if row >= 0:
        for slot in range(seen_weights.shape[1]):
            if seen_weights[row, slot] > 0:
                tokens[count] = seen_tokens[row, slot]
                weights[count] = seen_weights[row, slot]
                count += 1
        return count
    row = find_row(index, pair_key(context[length - 2], context[length - 1]))
    if row >= 0:
        start, end, _ = unpack_row(row)
        for i in range(start, end):
            tokens[count] = np.int32(entries[i, 0])
            weights[count] = entries[i, 1]
            count += 1
    return count


@njit(cache=True)
def _learn_published(base, overlay, text, at, now):
    """One sight of the trigram that ends at ``text[at]``."""
    table, tokens, weights, sights, stamps, _, _, _ = overlay
    index, entries = base
    if at < 2:
        return
    key = extend_key(extend_key(np.int64(0), text[at - 1]), text[at - 2])
    row = _find(table, key)
    if row < 0:
        row = _claim(table, sights, stamps, key)
        weights[row, :] = 0
        sights[row] = 0
        copied = find_row(index, pair_key(text[at - 2], text[at - 1]))
        if copied >= 0:
            start, end, _ = unpack_row(copied)
            for slot in range(min(end - start, weights.shape[1])):
                tokens[row, slot] = np.int32(entries[start + slot, 0])
                weights[row, slot] = entries[start + slot, 1]
    slot = _bump(tokens[row], weights[row], text[at], STEP)
    weights[row, slot] = min(weights[row, slot], CAP)
    sights[row] += 1
    stamps[row] = now


@njit(cache=True)
def extend_key(key, token):
    """The table's key of a context that is one token longer (tokens from the newest back; 0 is the empty context)."""
    key = (key ^ (token + 1)) * 0x2545F4914F6CDD1D
    key ^= (key >> 32) & 0xFFFFFFFF
    return key if key != EMPTY else np.int64(0)


@njit(cache=True)
def _first_place(table, key):
    return ((key ^ (key >> 17)) & (len(table) // WAYS - 1)) * WAYS


@njit(cache=True)
def _find(table, key):
    first = _first_place(table, key)
    for row in range(first, first + WAYS):
        if table[row] == key:
            return row
    return -1


@njit(cache=True)
def _claim(table, sights, stamps, key):
    """A row for a new key: a free one of its places, or else the least useful one."""
    first = _first_place(table, key)
    victim, least = first, np.int64(1) << 62
    for row in range(first, first + WAYS):
        if table[row] == EMPTY:
            victim = row
            break
        useful = stamps[row] + USEFUL_SIGHT * min(sights[row], USEFUL_SIGHTS)
        if useful < least:
            victim, least = row, useful
    table[victim] = key
    return victim


@njit(cache=True)
def _kind_of_row(sights, weights, row):
    """Rows of one kind are trusted alike: by sights (1, 2, 3, 4 to 7, more) and successors (1, 2, more)."""
    successors_known = 0
    for slot in range(weights.shape[1]):
        if weights[row, slot] > 0:
            successors_known += 1
    evidence = sights - 1 if sights < 4 else 3 if sights < 8 else 4
    return evidence * 3 + min(successors_known, 3) - 1


@njit(cache=True)
def _kind_of_base_row(row, entries):
    """As `_kind_of_row`, by sights (1, 2, to 5, to 15, to 63, more) and the most probable successor's probability."""
    start, _, total = unpack_row(row)
    top = entries[start, 1]
    evidence = 0 if total == 1 else 1 if total == 2 else 2 if total < 6 else 3 if total < 16 else 4 if total < 64 else 5
    return evidence * 3 + (0 if top > 0.8 else 1 if top > 0.4 else 2)

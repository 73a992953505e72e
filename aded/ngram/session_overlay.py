"""What a session learns of its own text, and the successors that a search draws: base matrix and overlay together.

The overlay keeps rows like those of `aded.ngram.trigram.TrigramMatrix` in a table of fixed size, least useful row out first.
There are two rules:

* *mixture*: rows for single tokens, pairs and longer contexts. A row holds what the text went on with (counts that fade)
  and what the target said would follow (its most probable tokens there, at accepted and rejected nodes of a draft alike;
  the newest answer replaces the one before). A successor's probability is a mixture over all rows whose context ends at
  the same token, longest context first, counts before answers, the base last (interpolated back-off). How far each
  kind of row is trusted is learned along, by one step of expectation maximisation a token.
* *published*: rows for pairs only, copied from the base at first sight; a sight adds 0.04 up to 3.0, and what results
  is used as it stands, not normalised (arXiv 2407.12021, and the draft maker published with it).

Compiled code takes both parts as plain tuples of arrays (``base``, ``overlay``) and reads without bounds checks: token
ids must have been checked before. What runs in the innermost loop is inlined: counting the references of the arrays that
a call passes on takes as long as its work. (Longer than most modules: both rules share the table, and compiled code shares
no classes. Numba renews its cache by the caller's file: after a change here, remove the package's ``__pycache__``.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.jit import njit
from aded.core.tree import DraftTree
from aded.ngram.trigram import EMPTY, MOST_SUCCESSORS, TrigramMatrix, find_row, pair_key, unpack_row

ORDERS = (1, 2, 3, 4, 6)
"""Context lengths of the mixture's overlay rows; pairs (2) are the tri-gram matrix proper."""
ROWS = 1 << 15
"""Rows an overlay holds: with five orders, the contexts of the newest 6 500 tokens or more."""
SLOTS = 8
"""Successors of a mixture row; more are never worth a place in a draft."""
TOLD = 8
"""The target's most probable tokens that a row holds, and how many are asked of it at every node."""
TOLD_ORDERS = 3
"""Context lengths that its answers are kept under, shortest first: longer contexts of rejected nodes hardly come again."""
TOLD_AGE = 2000
"""A context that the target answered in is worth keeping as long as one that the text held so many tokens ago."""
FADE = 0.8
"""How much of a row's weights is left when the context is seen again: the newest successors count most."""
TRUST_OVERLAY = 0.3
TRUST_SINGLE = 0.35
TRUST_PAIR = 0.5
TRUST_TOLD = 0.5
"""First guesses at the weight of an overlay row, of the base's for a token and for a pair, and of the target's answers."""
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
SINGLE, PAIR, TOLD_ROWS, SEEN_ROWS = 0, 1, 2, 3  # levels: the base's rows, then answers and counts of each order in turn
LEVELS = 2 + 2 * len(ORDERS)
ROOM = 2 * MOST_SUCCESSORS + 256  # successors of one context before the best are kept: two base rows and the overlay's
BUCKETS = 18  # kinds of row whose trust is learned apart, per level


class OverlayArrays(NamedTuple):
    """The rows of an overlay as compiled code takes them."""

    keys: np.ndarray  # hash of each row's context, int64 [rows]
    successors: np.ndarray  # int32 [rows, slots]
    weights: np.ndarray  # theirs, 0 in a free slot, float32 [rows, slots]
    counts: np.ndarray  # occurrences of the context in the text, int32 [rows]
    last_seen: np.ndarray  # position in the text of the newest one, int32 [rows]
    trust: np.ndarray  # how often a kind of row was right, and asked, float64 [LEVELS, BUCKETS, 2]
    orders: np.ndarray  # context lengths, ascending, int64
    published: bool  # whether rows follow the published rule
    target_top: np.ndarray  # the target's most probable tokens and their probabilities, 0 if free, float32 [rows, TOLD, 2]


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
        self.arrays = OverlayArrays(
            keys=np.empty(rows, dtype=np.int64),
            successors=np.zeros((rows, slots), dtype=np.int32),
            weights=np.zeros((rows, slots), dtype=np.float32),
            counts=np.zeros(rows, dtype=np.int32),
            last_seen=np.zeros(rows, dtype=np.int32),
            trust=np.empty((LEVELS, BUCKETS, 2)),
            orders=orders,
            published=published,
            target_top=np.zeros((1 if published else rows, TOLD, 2), dtype=np.float32),
        )
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.now = 0
        self.arrays.keys.fill(EMPTY)
        trust = self.arrays.trust
        trust[:, :, 1] = TRUST_EVIDENCE
        trust[SINGLE, :, 0] = TRUST_EVIDENCE * TRUST_SINGLE
        trust[PAIR, :, 0] = TRUST_EVIDENCE * TRUST_PAIR
        trust[TOLD_ROWS::2, :, 0] = TRUST_EVIDENCE * TRUST_TOLD
        trust[SEEN_ROWS::2, :, 0] = TRUST_EVIDENCE * TRUST_OVERLAY

    def knowledge(self) -> dict[str, np.ndarray]:
        """A copy of everything that was learned."""
        return {"now": np.array(self.now), **{name: array.copy() for name, array in self._taught().items()}}

    def recall(self, knowledge: dict[str, np.ndarray]) -> None:
        """Put what an overlay of the same settings has learned in the place of what this one has."""
        self.now = int(knowledge["now"])
        for name, array in self._taught().items():
            np.copyto(array, knowledge[name])

    def _taught(self) -> dict[str, np.ndarray]:
        """The arrays that learning changes; the others are settings."""
        return {name: array for name, array in self.arrays._asdict().items() if name not in ("orders", "published")}

    def learn(self, base: TrigramMatrix, text: np.ndarray, start: int) -> None:
        """Count ``text[start:]``, each token as the successor of the contexts before it.

        Args:
            base: the matrix it is mixed with.
            text: token ids within the vocabulary, int32 ``[length]``.
            start: the first new token; the ones before it are context only.
        """
        self.now = learn(base.arrays, self.arrays, text, start, self.now)

    def tell(self, text: np.ndarray, tree: DraftTree, tokens: np.ndarray, probabilities: np.ndarray) -> None:
        """Keep what the target said would follow at each node of a draft (mixture only).

        Args:
            text: the newest committed tokens, the root last, int32 ``[length]``, ``length >= 1``.
            tree: the draft, ``n`` nodes.
            tokens: the target's most probable tokens at each node, ids within the vocabulary, int32 ``[n, k]``.
            probabilities: theirs, highest first, float32 ``[n, k]``; a node whose first is 0 is left out.
        """
        assert not self.arrays.published, "the published rule learns from the text alone"
        tell(self.arrays, text, tree.tokens, tree.parents, tokens, probabilities, self.now)

    def knows(self, pair: np.ndarray) -> bool:
        """Whether the session's text went on after this pair of tokens, int32 ``[2]``; False for anything shorter."""
        if len(pair) < 2:
            return False
        row = _find(self.arrays.keys, extend_key(extend_key(np.int64(0), pair[1]), pair[0]))
        return bool(row >= 0 and self.arrays.counts[row] > 0)

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
    if overlay.published:
        count = _published(base, overlay, context, length, room[0], room[1])
    else:
        count = _mixture(base, overlay, context, length, room)
    return keep_best(room, count, keep)


@njit(cache=True, inline="always")
def keep_best(room, count, keep):
    """Keep the best ``keep`` of ``count`` successors in ``room``, sorted, lower id first among equals; their number."""
    tokens, weights, _, _, _, sorted_tokens, sorted_weights = room
    kept = 0
    for i in range(count):  # few are kept of few, and they come nearly sorted
        token, weight = tokens[i], weights[i]
        place = min(kept, keep - 1)
        if kept == keep and not _ahead(weight, token, sorted_weights[place], sorted_tokens[place]):
            continue
        while place > 0 and _ahead(weight, token, sorted_weights[place - 1], sorted_tokens[place - 1]):
            sorted_tokens[place], sorted_weights[place] = sorted_tokens[place - 1], sorted_weights[place - 1]
            place -= 1
        sorted_tokens[place], sorted_weights[place] = token, weight
        kept = min(kept + 1, keep)
    tokens[:kept] = sorted_tokens[:kept]
    weights[:kept] = sorted_weights[:kept]
    return kept


@njit(cache=True)
def _ahead(weight, token, other_weight, other_token):
    return weight > other_weight or (weight == other_weight and token < other_token)


@njit(cache=True)
def learn(base, overlay, text, start, now):
    """As `Overlay.learn`; returns the clock ``now`` moved on by one a token."""
    _, _, rows, trusts, keys, _, _ = make_room()
    for at in range(start, len(text)):
        now += 1
        if overlay.published:
            _learn_published(base, overlay, text, at, now)
        elif at > 0:
            known = _find_levels(base, overlay, text, at, rows, trusts, keys)
            _learn_trust(base, overlay, rows, trusts, text[at])
            for i in range(known):
                _count(overlay, keys[i], text[at], now)
    return now


@njit(cache=True)
def tell(overlay, text, tokens, parents, top_tokens, top_probabilities, now):
    """As `Overlay.tell`."""
    stamps, orders, told = overlay.last_seen, overlay.orders, overlay.target_top
    kept = min(top_tokens.shape[1], told.shape[1])
    for node in range(len(tokens)):
        if not top_probabilities[node, 0] > 0:
            continue
        key, hashed, above, back = np.int64(0), 0, node, len(text) - 1
        for i in range(min(TOLD_ORDERS, len(orders))):
            while hashed < orders[i] and back >= 0:
                if above > 0:
                    key, above = extend_key(key, tokens[above]), parents[above]
                else:
                    key, back = extend_key(key, text[back]), back - 1
                hashed += 1
            if hashed < orders[i]:
                break
            row = _find(overlay.keys, key)
            if row < 0:
                row = _claim(overlay, key)
                stamps[row] = now - TOLD_AGE
            stamps[row] = max(stamps[row], now - TOLD_AGE)
            told[row, kept:, 1] = 0
            for slot in range(kept):
                told[row, slot, 0], told[row, slot, 1] = top_tokens[node, slot], top_probabilities[node, slot]


@njit(cache=True, inline="always")
def _mixture(base, overlay, context, length, room):
    """Unsorted successors and their probabilities by interpolated back-off, longest context first."""
    table, seen_tokens, seen_weights, sights, trust, orders, told = (
        overlay.keys,
        overlay.successors,
        overlay.weights,
        overlay.counts,
        overlay.trust,
        overlay.orders,
        overlay.target_top,
    )
    index, entries = base
    tokens, weights, _, _, keys, _, _ = room
    rest, count = 1.0, 0
    for i in range(_hash_contexts(orders, context, length, keys) - 1, -1, -1):
        row = _find(table, keys[i])
        if row < 0:
            continue
        if sights[row] > 0:
            share = rest * _trust_in(trust, SEEN_ROWS + 2 * i, _kind_of_row(sights[row], seen_weights, row))
            rest -= share
            share /= _total(seen_weights, row)
            for slot in range(seen_weights.shape[1]):
                if seen_weights[row, slot] > 0:
                    count = add(tokens, weights, count, seen_tokens[row, slot], share * seen_weights[row, slot])
            if rest < ENOUGH:
                return count
        if told[row, 0, 1] > 0:
            share = rest * _trust_in(trust, TOLD_ROWS + 2 * i, _kind_of_answer(told, row))
            rest -= share
            for slot in range(told.shape[1]):
                if told[row, slot, 1] > 0:
                    count = add(tokens, weights, count, np.int32(told[row, slot, 0]), share * told[row, slot, 1])
            if rest < ENOUGH:
                return count
    for level in range(PAIR, -1, -1):
        row = _find_base_row(index, context, length, level)
        if row >= 0:
            share = rest * _trust_in(trust, level, _kind_of_base_row(row, entries))
            rest -= share
            start, end, _ = unpack_row(row)
            for i in range(start, end):
                count = add(tokens, weights, count, np.int32(entries[i, 0]), share * entries[i, 1])
            if rest < ENOUGH:
                return count
    return count


@njit(cache=True)
def _trust_in(trust, level, kind):
    return trust[level, kind, 0] / trust[level, kind, 1]


@njit(cache=True)
def _total(weights, row):
    total = 0.0
    for slot in range(weights.shape[1]):
        total += weights[row, slot]
    return total


@njit(cache=True)
def add(tokens, weights, count, token, weight):
    for i in range(count):
        if tokens[i] == token:
            weights[i] += weight
            return count
    tokens[count] = token
    weights[count] = weight
    return count + 1


@njit(cache=True)
def _hash_contexts(orders, text, length, keys):
    """Write the overlay's key of each order's context of ``text[:length]``; the number of orders that it is long enough for."""
    key, hashed = np.int64(0), 0
    for i in range(len(orders)):
        if orders[i] > length:
            return i
        while hashed < orders[i]:
            hashed += 1
            key = extend_key(key, text[length - hashed])
        keys[i] = key
    return len(orders)


@njit(cache=True)
def _find_base_row(index, text, length, level):
    if length <= level:
        return -1
    return find_row(index, pair_key(text[length - 2] if level == PAIR else -1, text[length - 1]))


@njit(cache=True)
def _find_levels(base, overlay, text, length, rows, trusts, keys):
    """For the context ``text[:length]``: each level's row or -1, its trust, and each order's key; how many orders apply."""
    table, weights, sights, trust, orders, told = (
        overlay.keys,
        overlay.weights,
        overlay.counts,
        overlay.trust,
        overlay.orders,
        overlay.target_top,
    )
    index, entries = base
    rows[:] = -1
    for level in (SINGLE, PAIR):
        rows[level] = row = _find_base_row(index, text, length, level)
        if row >= 0:
            trusts[level] = _trust_in(trust, level, _kind_of_base_row(row, entries))
    known = _hash_contexts(orders, text, length, keys)
    for i in range(known):
        row = _find(table, keys[i])
        if row >= 0 and told[row, 0, 1] > 0:
            rows[TOLD_ROWS + 2 * i] = row
            trusts[TOLD_ROWS + 2 * i] = _trust_in(trust, TOLD_ROWS + 2 * i, _kind_of_answer(told, row))
        if row >= 0 and sights[row] > 0:
            rows[SEEN_ROWS + 2 * i] = row
            trusts[SEEN_ROWS + 2 * i] = _trust_in(trust, SEEN_ROWS + 2 * i, _kind_of_row(sights[row], weights, row))
    return known


@njit(cache=True)
def _learn_trust(base, overlay, rows, trusts, token):
    """Move each found row's kind towards its part in having foreseen ``token`` (shortest context first)."""
    seen_tokens, seen_weights, sights, trust, told = (
        overlay.successors,
        overlay.weights,
        overlay.counts,
        overlay.trust,
        overlay.target_top,
    )
    entries = base[1]
    before = UNKNOWN
    for level in range(LEVELS):
        row = rows[level]
        if row < 0:
            continue
        own = 0.0
        if level <= PAIR:
            kind = _kind_of_base_row(row, entries)
            start, end, _ = unpack_row(row)
            for i in range(start, end):
                if entries[i, 0] == token:
                    own = float(entries[i, 1])
        elif (level - TOLD_ROWS) % 2 == 0:
            kind = _kind_of_answer(told, row)
            for slot in range(told.shape[1]):
                if told[row, slot, 1] > 0 and told[row, slot, 0] == token:
                    own = float(told[row, slot, 1])
        else:
            kind = _kind_of_row(sights[row], seen_weights, row)
            for slot in range(seen_weights.shape[1]):
                if seen_weights[row, slot] > 0 and seen_tokens[row, slot] == token:
                    own = seen_weights[row, slot] / _total(seen_weights, row)
        mixed = trusts[level] * own + (1 - trusts[level]) * before
        trust[level, kind, 0] += trusts[level] * own / mixed
        trust[level, kind, 1] += 1
        before = mixed


@njit(cache=True)
def _count(overlay, key, token, now):
    """Count one sight of ``token`` in the mixture row of ``key``, which is claimed where there is none."""
    table, tokens, weights, sights, stamps = overlay.keys, overlay.successors, overlay.weights, overlay.counts, overlay.last_seen
    row = _find(table, key)
    if row < 0:
        row = _claim(overlay, key)
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


@njit(cache=True, inline="always")
def _published(base, overlay, context, length, tokens, weights):
    """Unsorted successors of the last pair and their weights, not normalised."""
    table, seen_tokens, seen_weights = overlay.keys, overlay.successors, overlay.weights
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
    table, tokens, weights, sights, stamps = overlay.keys, overlay.successors, overlay.weights, overlay.counts, overlay.last_seen
    index, entries = base
    if at < 2:
        return
    key = extend_key(extend_key(np.int64(0), text[at - 1]), text[at - 2])
    row = _find(table, key)
    if row < 0:
        row = _claim(overlay, key)
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
def _claim(overlay, key):
    """An empty row for a new key: a free one of its places, or else the least useful one."""
    table, weights, sights, stamps, published, told = (
        overlay.keys,
        overlay.weights,
        overlay.counts,
        overlay.last_seen,
        overlay.published,
        overlay.target_top,
    )
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
    weights[victim, :] = 0
    sights[victim] = 0
    if not published:
        told[victim, :, 1] = 0
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
def _kind_of_answer(told, row):
    """As `_kind_of_row`, by the most probable token's probability."""
    top = told[row, 0, 1]
    return 0 if top > 0.95 else 1 if top > 0.8 else 2 if top > 0.6 else 3 if top > 0.4 else 4 if top > 0.2 else 5


@njit(cache=True)
def _kind_of_base_row(row, entries):
    """As `_kind_of_row`, by sights (1, 2, to 5, to 15, to 63, more) and the most probable successor's probability."""
    start, _, total = unpack_row(row)
    top = entries[start, 1]
    evidence = 0 if total == 1 else 1 if total == 2 else 2 if total < 6 else 3 if total < 16 else 4 if total < 64 else 5
    return evidence * 3 + (0 if top > 0.8 else 1 if top > 0.4 else 2)

"""Base and learned shares of the session's probabilities, compared with rows counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from aded.core.paths import ASSETS
from aded.core.tree import DraftTree
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.aded import AdedDrafter
from aded.ngram.representative import MAX_CONTEXT, rows, session_size
from aded.ngram.session_counts import INCREMENT, MAX_WEIGHT, SessionCounts
from aded.ngram.trigram import TrigramMatrix

VOCAB = 40


@pytest.fixture(scope="module")
def matrix() -> TrigramMatrix:
    """After the bigram 1 2: twice 3, once 4, once 5."""
    text = np.array([1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 5, 0], dtype=np.int32)
    return TrigramMatrix.build(text, separator=0, vocab_size=VOCAB, fingerprint="abc")


def learned_probabilities(
    matrix: TrigramMatrix, session: SessionCounts, bigram: tuple[int, int]
) -> dict[int, tuple[float, float]]:
    """Maps each token to its probability and the learned share of it."""
    (row,) = rows(matrix, session, np.array([bigram], dtype=np.int32), 12)
    tokens, given = session.successors(matrix, np.array(bigram, dtype=np.int32), 12)
    assert (row.key, row.tokens, row.probabilities) == (bigram, tuple(tokens.tolist()), tuple(given.tolist()))
    return dict(zip(row.tokens, zip(row.probabilities, row.learned)))


def session_of(matrix: TrigramMatrix, text: list[int], **settings: bool) -> SessionCounts:
    session = SessionCounts(**settings)
    session.learn(matrix, np.array(text, dtype=np.int32), 0)
    return session


@pytest.mark.parametrize("published", [False, True])
def test_without_learned_counts_all_probabilities_come_from_the_base(matrix: TrigramMatrix, published: bool):
    found = learned_probabilities(matrix, SessionCounts(published=published), (1, 2))
    assert set(found) == {3, 4, 5}
    assert [part for _, part in found.values()] == [0.0] * 3


def test_a_successor_missing_in_the_base_is_learned_and_the_rest_keeps_the_proportions_of_the_base(matrix: TrigramMatrix):
    found = learned_probabilities(matrix, session_of(matrix, [9, 1, 2, 7]), (1, 2))
    given, part = found[7]
    assert part > 0
    assert part == pytest.approx(given)
    rest = {token: given - part for token, (given, part) in found.items() if token != 7}
    assert rest[3] == pytest.approx(2 * rest[4]) == pytest.approx(2 * rest[5])
    assert [found[token][1] for token in (4, 5)] == [0.0, 0.0]


def test_a_successor_in_base_counts_and_session_counts_is_partly_learned(matrix: TrigramMatrix):
    given, part = learned_probabilities(matrix, session_of(matrix, [9, 1, 2, 3]), (1, 2))[3]
    assert 0 < part < given


def test_by_the_published_rule_the_learned_share_is_the_sum_of_increments(matrix: TrigramMatrix):
    found = learned_probabilities(matrix, session_of(matrix, [1, 2, 3, 1, 2, 3, 1, 2, 8], published=True), (1, 2))
    assert found[3] == pytest.approx((0.5 + 2 * INCREMENT, 2 * INCREMENT))
    assert found[8] == pytest.approx((INCREMENT, INCREMENT))
    assert found[4] == pytest.approx((0.25, 0.0))
    assert max(given for given, _ in found.values()) < MAX_WEIGHT


def test_without_a_base_all_probabilities_are_learned():
    empty = TrigramMatrix.empty(VOCAB)
    found = learned_probabilities(empty, session_of(empty, [1, 2, 3, 1, 2, 4]), (1, 2))
    assert set(found) == {3, 4}
    assert all(part == pytest.approx(given) for given, part in found.values())


def test_the_size_of_session_counts_includes_only_rows_in_use(matrix: TrigramMatrix):
    session = SessionCounts()
    assert session_size(session) == (0, 0)
    session.learn(matrix, np.array([1, 2, 3], dtype=np.int32), 0)
    rows, used = session_size(session)
    assert rows == 3  # after 1, after 2, after 1 2
    by_row = (0, 1, 2, 3, 4, 8)
    assert used == rows * sum(session.arrays[i].nbytes for i in by_row) // len(session.arrays[0])


def test_the_size_of_a_drafter_grows_while_it_learns(matrix: TrigramMatrix):
    drafter = AdedDrafter(matrix, VOCAB, AdedOptions.tuned())
    drafter.start([1, 2, 3])
    before = drafter.matrix_size()
    context = Context(np.array([1, 2, 3], dtype=np.int32), 3)
    drafter.observe(Outcome(DraftTree.root_only(3), np.array([0]), context, np.array([4, 5], dtype=np.int32)))
    after = drafter.matrix_size()
    assert (before.base_rows, before.base_bytes) == (after.base_rows, after.base_bytes)
    assert before.base_rows == len(matrix)
    assert after.overlay_rows > before.overlay_rows > 0
    assert after.overlay_bytes / after.overlay_rows == pytest.approx(before.overlay_bytes / before.overlay_rows, rel=0.01)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_names_the_context_that_is_compared_with_the_target(language: str):
    words = json.loads((ASSETS / "cards" / "learned" / f"{language}.json").read_text("utf-8"))
    assert all(str(MAX_CONTEXT) in words[f"change.{kind}"] for kind in ("same", "nearer", "farther"))

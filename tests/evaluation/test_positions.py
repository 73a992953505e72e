"""Acceptance by draft position, counted by hand."""

import pytest

from aded.evaluation.positions import PositionCounts


def test_a_position_is_reached_if_the_tokens_before_it_were_accepted_and_one_was_drafted_there():
    counts = PositionCounts()
    counts.add([-1, 0, 0, 1, 3], [0, 1, 3])  # two accepted, the third rejected
    counts.add([-1, 0, 1], [0, 1, 2])  # the whole chain accepted: nothing is drafted at the third position
    counts.add([-1, 0, 0], [0])  # rejected at the first
    counts.add([-1], [0])  # nothing drafted
    assert (counts.reached, counts.accepted) == ([3, 2, 1], [2, 2])
    assert counts.rates(4) == [pytest.approx(2 / 3), 1.0, 0.0, None]


def test_counts_of_different_depth_are_added():
    one, other = PositionCounts([4, 2], [2, 1]), PositionCounts([6], [3])
    other.add_counts(one.reached, one.accepted)
    assert (other.reached, other.accepted) == ([10, 2], [5, 1])
    assert PositionCounts().rates(2) == [None, None]

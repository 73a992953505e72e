"""Prompt lookup against a search through the whole text."""

from __future__ import annotations

import numpy as np
import pytest

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.prompt_lookup import NO_MATCH, PromptLookupDrafter


def context_of(tokens: list[int]) -> Context:
    return Context(np.array(tokens, dtype=np.int32), len(tokens))


def slow_lookup(text: list[int], max_ngram: int, length: int, most_recent: bool) -> list[int]:
    for size in range(min(max_ngram, len(text)), 0, -1):
        begins = [b for b in range(len(text) - size) if text[b : b + size] == text[-size:]]
        if begins:
            begin = begins[-1 if most_recent else 0] + size
            return text[begin : begin + length]
    return []


@pytest.mark.parametrize("most_recent", [True, False])
@pytest.mark.parametrize("max_ngram", [1, 2, 3, 5])
def test_drafts_are_those_of_a_search_through_the_whole_text(max_ngram: int, most_recent: bool) -> None:
    text = np.random.default_rng(max_ngram).integers(0, 6, 400).tolist()
    drafter = PromptLookupDrafter(max_ngram, 10, most_recent)
    drafter.start(text[:20])
    for at in range(20, 397, 3):
        tree = drafter.propose(context_of(text[:at]), 64)
        assert tree.is_chain
        assert tree.tokens.tolist() == [text[at - 1], *slow_lookup(text[:at], max_ngram, 10, most_recent)]
        drafter.observe(Outcome(tree, np.array([0]), context_of(text[:at]), np.array(text[at : at + 3])))


@pytest.mark.parametrize("budget", [1, 2, 4, 64])
def test_the_budget_limits_the_chain(budget: int) -> None:
    drafter, text = PromptLookupDrafter(), list(range(30)) + [0, 1]
    drafter.start(text)
    assert len(drafter.propose(context_of(text), budget)) == min(budget, 11)


def test_without_a_match_nothing_is_drafted_and_the_reason_is_given() -> None:
    drafter = PromptLookupDrafter()
    drafter.start([1, 2, 3])
    assert len(drafter.propose(context_of([1, 2, 3]), 64)) == 1
    assert drafter.explain(context_of([1, 2, 3]), 64).note == NO_MATCH
    drafter.start([1, 2, 1])
    assert drafter.explain(context_of([1, 2, 1]), 64).note is None


def test_a_new_decode_starts_without_the_last_text() -> None:
    drafter = PromptLookupDrafter()
    drafter.start([1, 2, 3, 4, 1])
    drafter.start([9, 1])
    assert drafter.propose(context_of([9, 1]), 64).drafted == 0


def test_a_suffix_of_one_token_is_enough() -> None:
    drafter = PromptLookupDrafter()
    drafter.start([7])
    assert isinstance(drafter.propose(context_of([7]), 64), DraftTree)
    assert drafter.settings() == {"max_ngram": 3, "draft_length": 10, "most_recent": True}


@pytest.mark.parametrize("name", ["max_ngram", "draft_length"])
def test_lengths_below_one_are_refused_with_name_and_value_of_the_option(name: str) -> None:
    with pytest.raises(AdedError, match=f"^{name.replace('_', ' ')} is -2; give a whole number from 1 to "):
        PromptLookupDrafter(**{name: -2})

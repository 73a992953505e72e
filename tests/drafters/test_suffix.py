"""Suffix decoding: the draft compared with the paper's rule; sources and sessions; output compared with plain decoding."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fakes import VOCAB, alone, tiny_target

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.suffix import NO_MATCH, SuffixDrafter
from aded.retrieval.suffix_array import Datastore

KNOWN = {"separator": 0, "vocab_size": VOCAB, "fingerprint": "f"}


def context_of(tokens: list[int]) -> Context:
    return Context(np.array(tokens, dtype=np.int32), len(tokens))


def slow_score(text: list[int], begin: int, pattern: list[int], depth: int, nodes: int, least: float) -> float:
    """The sum of the ``nodes`` highest probabilities of continuations of a pattern in ``text[begin:]``."""
    size = len(pattern)
    places = [i for i in range(begin + size, len(text)) if text[i - size : i] == pattern]
    counts: Counter = Counter()
    for place in places:
        for end in range(place + 1, min(place + depth, len(text)) + 1):
            counts[tuple(text[place:end])] += 1
    shares = sorted((count / len(places) for count in counts.values()), reverse=True)
    return sum(share for share in shares[:nodes] if share >= least)


def expected(tree: DraftTree) -> float:
    """The sum of the nodes' probabilities."""
    prior, joint = tree.columns.get("prior"), [1.0]
    for node in range(1, len(tree)):
        joint.append(joint[tree.parents[node]] * prior[node])
    return sum(joint[1:])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("factor", "least", "budget"), [(1.0, 0.1, 64), (4.0, 0.0, 64), (32.0, 0.3, 9)])
def test_the_draft_is_the_best_tree_of_all_suffixes(seed: int, factor: float, least: float, budget: int) -> None:
    text = np.random.default_rng(seed).integers(0, 4, 200).tolist()
    drafter = SuffixDrafter(VOCAB, None, max_suffix=5, draft_length=6, factor=factor, min_probability=least)
    drafter.start(text[:20])
    for at in range(20, 190, 7):
        tree = drafter.propose(context_of(text[:at]), budget)
        scores = [slow_score(text[:at], 0, text[at - n : at], 6, min(budget - 1, int(factor * n)), least) for n in range(1, 6)]
        assert expected(tree) == pytest.approx(max(scores))
        drafter.observe(Outcome(tree, np.array([0]), context_of(text[:at]), np.array(text[at : at + 7])))


def test_a_certain_continuation_in_the_text_is_copied() -> None:
    drafter, text = SuffixDrafter(VOCAB), [1, 2, 3, 4, 5, 6, 7, 1, 2]
    drafter.start(text)
    assert drafter.propose(context_of(text), 64).tokens.tolist() == [2, 3, 4, 5, 6, 7, 1, 2]
    assert "this text" in drafter.explain(context_of(text), 64).note


def test_drafts_from_the_corpus_end_at_the_ends_of_its_texts() -> None:
    corpus = Datastore.build(np.array([1, 2, 3, 4, 0, 9, 9, 0]), **KNOWN)
    drafter, text = SuffixDrafter(VOCAB, corpus), [8, 1, 2]
    drafter.start(text)
    assert drafter.propose(context_of(text), 64).tokens.tolist() == [2, 3, 4, 0]
    assert "the corpus" in drafter.explain(context_of(text), 64).note


@pytest.mark.parametrize("keep", [False, True])
def test_earlier_texts_are_drafted_from_only_if_kept(keep: bool) -> None:
    drafter = SuffixDrafter(VOCAB, keep=keep)
    drafter.start([1, 2, 3, 4])
    drafter.start([7, 1, 2])
    tree = drafter.propose(context_of([7, 1, 2]), 64)
    assert tree.tokens.tolist() == ([2, 3, 4] if keep else [2])
    drafter.start([7, 4])
    assert drafter.propose(context_of([7, 4]), 64).drafted == 0, "nothing is drafted across the end of a text"
    assert drafter.explain(context_of([7, 4]), 64).note == NO_MATCH


def test_the_memory_of_a_session_is_limited(monkeypatch) -> None:
    monkeypatch.setattr("aded.drafters.methods.suffix.MAX_KEPT", 500)
    drafter = SuffixDrafter(VOCAB, keep=True)
    for seed in range(20):
        drafter.start(np.random.default_rng(seed).integers(3, 90, 300).tolist())
        assert drafter._begin <= 500
    assert len(drafter._text) <= 2048


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8, "top_p": 0.95, "seed": 5}], ids=["greedy", "sampled"])
def test_the_text_equals_plain_decoding(settings: dict) -> None:
    from aded.sampling.logits_pipeline import Rule

    target, prompt = tiny_target(), [5, 17, 40, 8]
    truth = alone(target, prompt, 60, Rule(GenerationSettings(**settings).sampling))
    for budget in (1, 8, 64):
        record = Decoder(target, "suffix", GenerationSettings(max_new_tokens=60, budget=budget, **settings)).run(prompt)
        assert record.token_ids == truth


@pytest.mark.parametrize("wrong", [{"max_suffix": 0}, {"draft_length": 1.5}, {"factor": 0}, {"min_probability": 2}])
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(AdedError, match="give a (whole )?number"):
        SuffixDrafter(VOCAB, **wrong)

"""REST: the published draft compared with a plain search through the corpus; back-off; output compared with plain decoding."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fakes import VOCAB, alone, tiny_target

from aded.core.errors import AdedError
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.base import Context
from aded.drafters.methods.rest import NO_MATCH, RestDrafter
from aded.drafters.registry import METHODS
from aded.retrieval.suffix_array import Datastore

KNOWN = {"separator": 0, "vocab_size": VOCAB, "fingerprint": "f"}


def context_of(tokens: list[int]) -> Context:
    return Context(np.array(tokens, dtype=np.int32), len(tokens))


def slow_counts(corpus: list[int], text: list[int], longest: int, length: int) -> Counter:
    """Prefixes of the continuations of the longest matching suffix, of two tokens or more, up to the separator."""
    for size in range(min(longest, len(text)), 1, -1):
        begins = [i + size for i in range(len(corpus) - size + 1) if corpus[i : i + size] == text[-size:]]
        if not begins:
            continue
        counts: Counter = Counter()
        for begin in begins:
            for end in range(begin + 1, min(begin + length, len(corpus)) + 1):
                counts[tuple(corpus[begin:end])] += 1
                if corpus[end - 1] == 0:
                    break
        return counts
    return Counter()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("budget", [2, 10, 64])
def test_the_published_draft_is_the_most_frequent_part_of_the_continuations(seed: int, budget: int) -> None:
    rng = np.random.default_rng(seed)
    corpus = rng.integers(0, 5, 500).tolist()
    drafter = RestDrafter(Datastore.build(np.array(corpus), **KNOWN), max_suffix=6, draft_length=5, backoff=False)
    for _ in range(25):
        text = rng.integers(0, 6, 12).tolist()
        tree = drafter.propose(context_of(text), budget)
        counts = slow_counts(corpus, text, 6, 5)
        paths = [tuple(tree.tokens[tree.path_to(node)[1:]].tolist()) for node in range(1, len(tree))]
        assert len(tree) == min(budget, len(counts) + 1)
        assert sorted((counts[path] for path in paths), reverse=True) == sorted(counts.values(), reverse=True)[: budget - 1]
        note = drafter.explain(context_of(text), budget).note or ""
        assert (note == NO_MATCH) == (not counts)


def test_back_off_fills_the_draft_from_shorter_suffixes_and_puts_the_longest_first() -> None:
    corpus = [1, 2, 3, 4, 0, 2, 3, 5, 0, 3, 6, 0, 3, 6, 0]
    store = Datastore.build(np.array(corpus), **KNOWN)
    published = RestDrafter(store, backoff=False).propose(context_of([9, 1, 2, 3]), 64)
    assert published.tokens.tolist() == [3, 4, 0]
    tree = RestDrafter(store).propose(context_of([9, 1, 2, 3]), 64)
    children = tree.tokens[tree.parents == 0]
    assert set(children.tolist()) == {4, 5, 6}
    prior = dict(zip(children.tolist(), tree.columns["prior"][tree.parents == 0].tolist()))
    assert prior[4] > prior[5], "a longer end counts for more"
    assert sum(prior.values()) < 1


@pytest.mark.parametrize("budget", [1, 2, 64])
def test_without_a_match_nothing_is_drafted(budget: int) -> None:
    drafter = RestDrafter(Datastore.build(np.array([1, 2, 3, 0]), **KNOWN))
    assert drafter.propose(context_of([50, 60]), budget).drafted == 0
    assert drafter.propose(context_of([50]), budget).drafted == 0


def test_nothing_is_drafted_past_the_end_of_a_text() -> None:
    drafter = RestDrafter(Datastore.build(np.array([1, 2, 0, 7, 8, 0]), **KNOWN), backoff=False)
    assert drafter.propose(context_of([9, 1, 2]), 64).tokens.tolist() == [2, 0]
    assert drafter.propose(context_of([5, 1, 2, 0]), 64).tokens.tolist()[0] == 0


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8, "top_p": 0.95, "seed": 5}], ids=["greedy", "sampled"])
def test_the_text_equals_plain_decoding_and_drafts_are_accepted(tmp_path, settings: dict) -> None:
    from aded.sampling.logits_pipeline import Rule

    target, prompt = tiny_target(), [5, 17, 40, 8]
    truth = alone(target, prompt, 60, Rule(GenerationSettings(**settings).sampling))
    store = Datastore.build(np.array(truth[10:50] + [0]), separator=0, vocab_size=VOCAB, fingerprint=target.fingerprint)
    store.save(tmp_path / "d")
    settings_ = GenerationSettings(max_new_tokens=60, budget=32, **settings)
    record = Decoder(target, "rest", settings_, {"datastore": str(tmp_path / "d")}).run(prompt)
    assert record.token_ids == truth
    assert len(record.steps) < len(truth) - 10


def test_a_missing_datastore_is_reported_with_the_command() -> None:
    target = tiny_target()
    assert "`python -m aded prepare llama`" in METHODS["rest"].unavailable(target)
    with pytest.raises(AdedError, match="or give --datastore FILE"):
        Decoder(target, "rest")


@pytest.mark.parametrize("wrong", [{"max_suffix": 0}, {"max_occurrences": 5001}, {"draft_length": 1.5}])
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(AdedError, match="give a whole number"):
        RestDrafter(Datastore.build(np.array([1, 2, 0]), **KNOWN), **wrong)

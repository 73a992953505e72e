"""Ouroboros: lossless; the chain is the draft model's text; what enters the pool, and when it is kept."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import VOCAB, alone, tiny_target
from pairwise import pairwise

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.lookahead_runner import LookaheadRunner
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.ouroboros import OuroborosDrafter
from aded.drafters.registry import METHODS
from aded.ngram import lookahead
from aded.ngram.lookahead import Lookahead, NgramPool
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings

PROMPT = [5, 17, 40, 8, 63, 21, 5, 17, 40, 9, 70, 6]
SAMPLING = [{}, {"temperature": 0.8, "top_p": 0.95, "seed": 5}]


def runner(draft=None, ngram=4, window=5, guesses=5):
    return LookaheadRunner(draft or tiny_target(seed=1), VOCAB, Lookahead(ngram, window, guesses, seed=0))


def drafter(draft=None, **options):
    return OuroborosDrafter(runner(draft), **options)


@pytest.mark.parametrize(
    ("model", "settings", "fixed"),
    pairwise(["same model", "other model"], [*SAMPLING, {"repetition_penalty": 1.3}], [False, True]),
)
def test_output_equals_plain_decoding(model, settings, fixed):
    target, draft = tiny_target(), tiny_target(seed=int(model == "other model"))
    if fixed:
        target.use_fixed_shapes()
        draft.use_fixed_shapes()
    generation = GenerationSettings(max_new_tokens=32, budget=24, **settings)
    truth = alone(target, PROMPT, 32, Rule(generation.sampling))
    for pool in ("cold", "warm"):
        made = drafter(draft, pool=pool)
        for _ in range(2):  # the second decode of the warm one begins with a pool
            record = Decoder(target, made, generation).run(PROMPT)
            assert record.token_ids == truth
    if model == "same model" and "repetition_penalty" not in settings:
        assert record.tokens_per_step > 5, "the draft model is the target, so its whole chain is accepted"


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("settings", SAMPLING, ids=str)
def test_the_chain_is_the_text_of_the_draft_model(settings, fixed):
    """After accepted and rejected drafts, and after steps without a draft."""
    draft, sampling, text = tiny_target(seed=3), SamplingSettings(**settings), list(PROMPT)
    if fixed:
        draft.use_fixed_shapes()
    made = runner(draft)
    made.start(text)
    for length, accepted, others in ((4, 4, 1), (4, 2, 1), (6, 0, 1), (3, 3, 5), (1, 1, 1), (8, 5, 40)):
        context = np.array(text, dtype=np.int32)
        made.prepare_chain(context)
        tokens, probabilities = made.chain(context, length, sampling)
        expected = alone(draft, text, length, Rule(sampling))
        assert tokens.tolist()[: len(expected)] == expected
        assert len(tokens) == len(probabilities) == length
        assert ((probabilities > 0) & (probabilities <= 1.001)).all()
        text += tokens.tolist()[:accepted] + [7] * others


def test_a_draft_model_writes_a_repeating_text_in_fewer_forward_passes_than_tokens():
    made, calls = runner(), 0
    made.start(PROMPT)
    run = made._run

    def counted(*arguments):
        nonlocal calls
        calls += 1
        return run(*arguments)

    made._run = counted
    context = np.array(PROMPT, dtype=np.int32)
    first, _ = made.chain(context, 12, SamplingSettings())
    made.lookahead.pool.add_all([PROMPT[-1], *first.tolist()], 4)
    calls = 0
    again, _ = made.chain(context, 12, SamplingSettings())
    assert again.tolist() == first.tolist()
    assert calls <= 6


def test_a_draft_is_the_chain_and_phrases_at_its_last_token():
    made = drafter(draft_length=3, phrases=2, phrases_at="last")
    made.start(PROMPT)
    context = Context(np.array(PROMPT, dtype=np.int32), len(PROMPT))
    chain = made.propose(context, 4).tokens[1:].tolist()
    pool = made._runner.lookahead.pool
    pool.clear()
    for phrase in ([90, 91, 92], [93, 94, 95], [93, 96, 95]):
        pool.add([chain[-1], *phrase])
    tree = made.propose(context, 64)
    leaves = {tuple(tree.tokens[tree.path_to(leaf)[1:]].tolist()) for leaf in tree.leaves}
    known = pool.beginning_with(chain[-1])[:2]
    assert leaves == {(*chain, *phrase) for phrase in known}
    assert (93, 96, 95) in known
    assert tree.parents[1:4].tolist() == [0, 1, 2]
    assert np.isfinite(tree.columns["prior"][1:4]).all()
    assert np.isnan(tree.columns["prior"][4:]).all()
    assert [len(made.propose(context, budget)) for budget in (1, 2, 4, 6)] == [1, 2, 4, 6]


def test_phrases_continue_the_root_and_every_token_of_the_chain_the_first_ones_first():
    made = drafter(draft_length=3, phrases=1)
    made.start(PROMPT)
    context = Context(np.array(PROMPT, dtype=np.int32), len(PROMPT))
    chain, pool = [30, 31, 32], made._runner.lookahead.pool
    made._runner.chain = lambda context, length, settings: (np.array(chain), np.ones(3))
    pool.clear()
    text, added = [PROMPT[-1], *chain], [90, 91, 92, 93]
    for token, other in zip(text, added):
        pool.add([token, other, 96])
    expected = [chain, *([*chain[:at], other, 96] for at, other in enumerate(added))]
    paths = [tuple(path) for path in expected]
    tree = made.propose(context, 64)
    assert {tuple(tree.tokens[tree.path_to(leaf)[1:]].tolist()) for leaf in tree.leaves} == {*paths[1:]}
    cut = made.propose(context, 6)
    assert {tuple(cut.tokens[cut.path_to(leaf)[1:]].tolist()) for leaf in cut.leaves} == {*paths[:2]}


def test_an_accepted_phrase_in_place_of_the_chain_is_learned_from():
    """The target rejects the chain after 2 and follows the phrase 7 8; then it writes 9."""
    made = drafter()
    made._chain, made._drafted = [2, 3, 4, 5], [(1, (7, 8, 6))]
    tree = DraftTree.from_paths(1, [[2, 3, 4, 5], [2, 7, 8, 6]])
    top = np.array([2, 7, 40, 50, 60, 8, 9, 99], dtype=np.int32)[:, None]  # at 1 2 3 4 5 7 8 6
    context = Context(np.array([50, 51, 52, 1], dtype=np.int32), 2)
    path, emitted = np.array([0, 1, 5, 6]), np.array([2, 7, 8, 9], dtype=np.int32)
    made.observe(Outcome(tree, path, context, emitted, top, np.ones_like(top)))
    text = [51, 52, 1, 2, 7, 8, 9, 60]
    assert set(made._runner.lookahead.pool) == {(2, 7, 8, 9), (3, 4, 5), *(tuple(text[i : i + 4]) for i in range(5))}


def observed(made, chain, phrases, answers, accepted):
    """The pool after a step with phrases after the chain; ``answers``: the target's prediction at each node."""
    made._chain, made._drafted = chain, [(len(chain), phrase) for phrase in phrases]
    tree = DraftTree.from_paths(1, [chain, *([*chain, *phrase] for phrase in phrases)])
    context = Context(np.array([50, 51, 52, 1], dtype=np.int32), 2)
    top = np.array(answers, dtype=np.int32)[:, None]
    path = np.arange(accepted + 1)
    emitted = np.array([*chain[:accepted], answers[accepted]], dtype=np.int32)
    made.observe(Outcome(tree, path, context, emitted, top, np.ones_like(top)))
    return set(made._runner.lookahead.pool)


def test_rejected_draft_tokens_and_predictions_enter_the_pool():
    """The chain 2 3 4 5; the target writes 2, then 30, and predicts 40, 50, 60 after the rejected tokens."""
    found = observed(drafter(), [2, 3, 4, 5], [], [2, 30, 40, 50, 60], accepted=1)
    assert (3, 4, 5) in found, "the rejected tokens"
    text = [51, 52, 1, 2, 30, 40, 50, 60]
    assert found == {(3, 4, 5), *(tuple(text[i : i + 4]) for i in range(5))}


def test_a_verified_phrase_is_replaced_by_the_target_s_predictions():
    made = drafter()
    made._runner.lookahead.pool.add([3, 7, 8, 9])
    found = observed(made, [2, 3], [(7, 8, 9)], [2, 3, 7, 80, 90, 99], accepted=2)
    assert (3, 7, 8, 9) not in found
    assert (3, 7, 80, 90) in found


def test_a_draft_cut_by_the_budget_is_learned_from_too():
    made = drafter()
    made._chain = [2, 3, 4, 5]
    tree = DraftTree.chain(1, [2, 3])
    top = np.array([[2], [3], [9]], dtype=np.int32)
    context = Context(np.array([50, 51, 52, 1], dtype=np.int32), 2)
    emitted = np.array([2, 3, 9], dtype=np.int32)
    made.observe(Outcome(tree, np.arange(3), context, emitted, top, np.ones_like(top)))
    assert set(made._runner.lookahead.pool) == {(51, 52, 1, 2), (52, 1, 2, 3), (1, 2, 3, 9)}


def test_a_cold_pool_is_emptied_for_each_prompt_and_a_warm_one_kept():
    for pool, kept in (("cold", 0), ("warm", 1)):
        made = drafter(pool=pool, pool_from_prompt=False)
        made._runner.lookahead.pool.add([1, 2, 3])
        made.start(PROMPT)
        assert len(made._runner.lookahead.pool) == kept
        made.pool_from_prompt = True
        made.start(PROMPT)
        assert set(made._runner.lookahead.pool) > {(5, 17, 40, 8), (5, 17, 40, 9)}
        assert METHODS["ouroboros"].keeps({"pool": pool}) == bool(kept)
    assert not METHODS["ouroboros"].keeps({})


def test_the_pool_can_be_saved_and_loaded():
    made, new = drafter(pool="warm"), drafter(pool="warm")
    for ngram in ([1, 2, 3, 4], [1, 5], [6, 7, 8, 9]):
        made._runner.lookahead.pool.add(ngram)
    state = made.state_dict()
    assert state["ngrams"].shape == (3, 4)
    new.load_state_dict(state)
    assert list(new._runner.lookahead.pool) == list(made._runner.lookahead.pool) == [(1, 2, 3, 4), (1, 5), (6, 7, 8, 9)]


def test_a_pool_keeps_the_latest_n_grams_and_first_tokens(monkeypatch):
    monkeypatch.setattr(lookahead, "MAX_FIRST_TOKENS", 2)
    pool = NgramPool(2)
    for ngram in ([1, 2], [1, 3], [1, 2], [1, 4], [2, 5], [3, 6]):
        pool.add(ngram)
    assert sorted(pool) == [(2, 5), (3, 6)]
    pool.add([2, 7])
    pool.add([2, 5])
    pool.add([2, 8])
    assert pool.beginning_with(2) == [(8,), (5,)]
    pool.discard([2, 8])
    pool.discard([9, 9])
    assert (len(pool), pool.beginning_with(9)) == (2, [])


def test_a_draft_model_that_cannot_read_the_text_stops_with_a_notice():
    target = tiny_target()
    record = Decoder(
        target, drafter(tiny_target(max_position_embeddings=20)), GenerationSettings(max_new_tokens=24, budget=24)
    ).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 24)
    assert "stops drafting" in record.header.notice


@pytest.mark.parametrize("seed", [3, 5])
def test_tokens_outside_the_target_s_vocabulary_are_not_drafted(seed):
    """The draft model's vocabulary is larger than the target's."""
    draft = tiny_target(seed=seed, vocab_size=2 * VOCAB)
    made = LookaheadRunner(draft, VOCAB, Lookahead(4, 5, 5, seed=0))
    made.start(PROMPT)
    tokens, _ = made.chain(np.array(PROMPT, dtype=np.int32), 12, SamplingSettings())
    assert (tokens < VOCAB).all()
    target = tiny_target()
    record = Decoder(target, OuroborosDrafter(made), GenerationSettings(max_new_tokens=24, budget=24)).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 24)


@pytest.mark.parametrize("method", ["ouroboros", "lookahead"])
def test_the_pool_is_recorded(method, monkeypatch):
    monkeypatch.setattr("aded.drafters.trained.draft_model.draft_for", lambda model, path=None: tiny_target(seed=1))
    monkeypatch.setattr("aded.drafters.trained.checkpoints.missing", lambda kind, model: None)
    record = Decoder(tiny_target(), method, GenerationSettings(max_new_tokens=40, budget=64)).run(PROMPT)
    drafted = 0
    for step in (step for step in record.steps if step.position < len(PROMPT) + 26):  # later ones are cut
        tree, pool = step.tree, step.pool
        children = {(parent, token): node for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens))}
        for phrase in pool.phrases[: pool.drafted]:
            node = 0
            assert tree.tokens[node] == pool.token
            for token in phrase:
                node = children[node, token]
        drafted += pool.drafted
        assert len(pool.phrases) <= pool.size
    assert drafted > 0
    assert trace.loads(trace.dumps(record)).lanes == [record]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "hot"}, "pool is 'hot'; choose one of cold, warm"),
        ({"draft_length": 0}, "draft length is 0; give a whole number from 1 to 64"),
        ({"phrases_at": "first"}, "phrases at is 'first'; choose one of all, last"),
        ({"phrases": -1}, "phrases is -1; give a whole number from 0 to 64"),
        ({"ngram": 1}, "ngram is 1; give a whole number from 2 to 16"),
        ({"draft": "a", "draft_model": ["b"]}, "ouroboros takes one draft model"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(AdedError, match=message):
        METHODS["ouroboros"].check(options)

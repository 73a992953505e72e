"""The recorded logits: those of stock forward passes, enough for every distribution of the run, and bounds for others."""

import math

import numpy as np
import pytest
import torch
from fakes import VOCAB, OracleDrafter, alone, cost, near, tiny_target

from aded.core.trace import TEMPERATURES
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.decoding.target_scores import MAX_LOGITS, MIN_LOGITS
from aded.draft_models.chain_runner import ChainRunner
from aded.drafters.methods.speculative import SpeculativeDrafter

PROMPT = [5, 9, 14, 3, 20]
SETTINGS = [
    {},
    {"temperature": 0.8},
    {"temperature": 1.3, "top_k": 50, "top_p": 0.9},
    {"temperature": 0.7, "repetition_penalty": 1.4},
    {"repetition_penalty": 1.4},
]


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def choices(run):
    """Every choice of a run, with the token ids before it."""
    ids = list(PROMPT)
    for step in run.steps:
        for i, choice in enumerate(step.choices):
            yield choice, ids + step.emitted[:i]
        ids += step.emitted


def stock(target, ids, penalty):
    """Log-probabilities from a forward pass without KV cache, after the repetition penalty, float64 ``[vocab]``."""
    with torch.inference_mode():
        logits = target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].double()
        seen = logits[sorted(set(ids))]
        logits[sorted(set(ids))] = torch.where(seen < 0, seen * penalty, seen / penalty)
        return logits.log_softmax(-1).numpy()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_recorded_log_probabilities_are_those_before_temperature_top_k_and_top_p(target, settings):
    drafter = OracleDrafter(alone(target, PROMPT, 60))
    run = Decoder(target, drafter, GenerationSettings(max_new_tokens=30, budget=16, **settings)).run(PROMPT)
    count = max(MIN_LOGITS, settings.get("top_k", 0))
    for choice, ids in choices(run):
        record, expected = choice.logits, stock(target, ids, settings.get("repetition_penalty", 1.0))
        assert record.ranked == count
        assert record.values == pytest.approx(expected[record.tokens], rel=1e-4, abs=1e-4)
        assert record.values[:count] == sorted(record.values, reverse=True)[:count]
        assert min(expected[record.tokens[:count]]) >= np.sort(expected)[-count] - 1e-4
        assert set(record.tokens[count:]) <= {choice.token}
        assert choice.token in record.tokens
        assert record.texts == [f"<{token}>" if token < 3 else f"w{token} " for token in record.tokens]
        weights = [
            np.exp(np.delete(expected, record.tokens) / t).sum() for t in (*TEMPERATURES, settings.get("temperature", 0) or 1)
        ]
        assert record.others == pytest.approx(weights, rel=1e-3)


@pytest.mark.parametrize(("top_k", "count"), [(0, MIN_LOGITS), (10, MIN_LOGITS), (40, 40), (90, MAX_LOGITS)])
def test_as_many_logits_are_recorded_as_top_k_keeps_within_limits(target, top_k, count):
    run = Decoder(target, "plain", GenerationSettings(max_new_tokens=4, temperature=0.9, top_k=top_k)).run(PROMPT)
    assert {choice.logits.ranked for choice, _ in choices(run)} == {count}


def test_an_excluded_token_has_no_logit(target):
    def only_three(ids, scores):
        return scores.index_fill(-1, torch.tensor([i for i in range(VOCAB) if i not in (7, 30, 55)]), -math.inf)

    settings = GenerationSettings(max_new_tokens=6, temperature=1.0)
    run = Decoder(target, "plain", settings, processors=[only_three]).run(PROMPT)
    for choice, _ in choices(run):
        assert sorted(choice.logits.tokens) == [7, 30, 55]
        assert np.exp(choice.logits.values).sum() == pytest.approx(1, abs=1e-4)
        assert set(choice.logits.others) == {0}


def test_rejection_sampling_records_q_of_the_same_tokens_and_the_logits_of_tried_children(target):
    drafter = SpeculativeDrafter(ChainRunner(near(target, 0.8), VOCAB), cost(1.0), lambda greedy: 0.1, "rejection", 4)
    settings = [GenerationSettings(max_new_tokens=40, temperature=0.8, seed=seed) for seed in range(4)]
    made = [choice for one in settings for choice, _ in choices(Decoder(target, drafter, one).run(PROMPT)) if choice.rejection]
    tried = [(choice, trial) for choice in made for trial in choice.rejection.trials]
    for choice, trial in tried:
        q = dict(zip(choice.logits.tokens, trial.logits_q, strict=True))
        assert q[trial.token] == pytest.approx(trial.q, rel=1e-4)
        both = [(q[token], value) for token, value in zip(choice.rejection.tokens, trial.top_q) if token in q]
        assert [a for a, _ in both] == pytest.approx([b for _, b in both], rel=1e-4)
    assert len(tried) > 20
    assert any(len(choice.logits.tokens) > choice.logits.ranked for choice, _ in tried)

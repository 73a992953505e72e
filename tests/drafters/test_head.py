"""What EAGLE and GliDe share: steps without a draft, and a head whose logits are not finite."""

import numpy as np
import pytest
from fakes import alone, tiny_target
from feature_head_fakes import accuracy, random_head

from aded import Decoder, GenerationSettings
from aded.draft_models.feature_heads import LoadedHead
from aded.drafters.head import NOT_FINITE
from aded.drafters.methods.eagle import NO_FEATURES, EagleDrafter
from aded.drafters.methods.glide import NO_TEXT, GlideDrafter

PROMPT = [5, 9, 14, 3, 20, 31]
SETTINGS = GenerationSettings(max_new_tokens=12, budget=16)


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(params=["eagle", "glide"])
def drafter(request, target):
    made = {"eagle": EagleDrafter, "glide": GlideDrafter}[request.param]
    return made(LoadedHead(random_head(target, request.param), np.array(accuracy())))


def test_a_prompt_of_one_token_and_budget_one_are_plain_steps(target, drafter):
    trace = Decoder(target, drafter, SETTINGS).run([5])
    assert len(trace.steps[0].tree.tokens) == 1
    assert trace.steps[0].note in (NO_FEATURES, NO_TEXT)
    assert len(trace.steps[1].tree.tokens) == 16
    assert trace.token_ids == alone(target, [5], 12)
    plain = Decoder(target, drafter, GenerationSettings(max_new_tokens=12, budget=1)).run(PROMPT)
    assert len(plain.steps) == 12
    assert plain.token_ids == alone(target, PROMPT, 12)


def test_logits_that_are_not_finite_stop_drafting_with_a_notice(target, drafter):
    drafter.head.vocabulary_weight.fill_(float("nan"))
    trace = Decoder(target, drafter, SETTINGS).run(PROMPT)
    assert trace.token_ids == alone(target, PROMPT, 12)
    assert NOT_FINITE in trace.header.notice

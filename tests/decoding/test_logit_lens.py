"""The logit lens: its numbers are those of stock hidden states, and recording it changes no token."""

from weakref import ref

import numpy as np
import pytest
import torch
from fakes import OracleDrafter, alone, table_target, tiny_target
from feature_head_fakes import accuracy, random_head

from aded.decoding.decoder import Decoder, GenerationSettings
from aded.decoding.logit_lens import MOST_LAYERS, LogitLens, selected_layers
from aded.draft_models.feature_heads import LoadedHead, three_layers
from aded.drafters.methods.eagle import EagleDrafter
from aded.sampling.logits_pipeline import Rule

PROMPT = [5, 9, 14, 3, 20]
LAYERS = 14
ROUNDED = 5.1e-3
"""Relative error of numbers with three significant digits."""


@pytest.fixture(scope="module")
def target():
    return tiny_target(num_hidden_layers=LAYERS, scale=3.0)


@torch.inference_mode()
def stock(target, ids, layer):
    """The distribution after a text by norm and LM head from the hidden state of a layer, without KV cache, ``[vocab]``."""
    states = target.model(input_ids=torch.tensor([ids]), use_cache=False, output_hidden_states=True).hidden_states
    state = states[layer][0, -1]
    return target.model.lm_head(state if layer == LAYERS else target.model.model.norm(state)).double().softmax(-1)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8, "seed": 2, "repetition_penalty": 1.3}], ids=["greedy", "sampled"])
def test_the_numbers_are_those_of_stock_hidden_states(target, settings):
    generation = GenerationSettings(max_new_tokens=12, budget=12, **settings)
    run = Decoder(target, OracleDrafter(alone(target, PROMPT, 30, Rule(generation.sampling))), generation).run(PROMPT)
    ids, nodes = list(PROMPT), 0
    for step in run.steps:
        assert tuple(step.lens.layers) == selected_layers(LAYERS)
        assert step.lens.eagle == [2, 7, 11]
        for at, choice in zip(step.lens.positions, step.choices, strict=True):
            for k, layer in enumerate(step.lens.layers):
                expected = stock(target, ids, layer)
                assert at.probabilities[k] == pytest.approx(float(expected.max()), rel=ROUNDED)
                assert expected[at.tokens[k]] == pytest.approx(float(expected.max()), rel=1e-4)
                assert at.chosen[k] == pytest.approx(float(expected[choice.token]), rel=ROUNDED)
                assert at.ranks[k] == 1 + int((expected > expected[choice.token]).sum())
            ids.append(choice.token)
            nodes += 1
    assert nodes == 12 > len(run.steps)


@pytest.mark.parametrize("fixed", [False, True], ids=["dynamic", "fixed shapes"])
@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "top_p": 0.9, "seed": 3}], ids=["greedy", "sampled"])
def test_recording_it_changes_no_token_and_no_feature_that_a_drafter_reads(fixed, settings):
    target = tiny_target()
    if fixed:
        target.use_fixed_shapes()
    generation = GenerationSettings(max_new_tokens=30, budget=12, **settings)
    drafters = {
        "oracle": lambda: OracleDrafter(alone(target, PROMPT, 40)),
        "eagle": lambda: EagleDrafter(LoadedHead(random_head(target), np.array(accuracy()))),
    }
    for make in drafters.values():
        recorded, quiet = (Decoder(target, make(), generation, record=record).run(PROMPT) for record in (True, False))
        assert recorded.token_ids == quiet.token_ids
        assert [step.tree.tokens for step in recorded.steps] == [step.tree.tokens for step in quiet.steps]
        assert all(step.lens for step in recorded.steps)
        assert not any(step.lens for step in quiet.steps)


@pytest.mark.parametrize("layers", range(1, 100))
def test_the_selected_layers_are_few_and_include_those_of_eagle_and_the_last(layers):
    chosen = selected_layers(layers)
    assert list(chosen) == sorted(set(chosen))
    assert {*three_layers(layers), layers} <= {*chosen}
    assert len(chosen) <= MOST_LAYERS + (layers <= 3)
    assert len(chosen) == MOST_LAYERS or layers < MOST_LAYERS


def test_a_model_whose_logits_are_not_those_of_norm_and_head_has_none():
    assert LogitLens.of(tiny_target("gemma2_sliding")) is None  # soft-capped
    assert LogitLens.of(tiny_target("gpt2")) is not None
    target = table_target(torch.full((5, 5), 0.2).tolist())
    assert LogitLens.of(target) is None
    assert not any(step.lens for step in Decoder(target, "plain", GenerationSettings(max_new_tokens=3)).run([1, 2]).steps)


def test_a_closed_model_keeps_neither_norm_nor_head():
    target = tiny_target()
    Decoder(target, "plain", GenerationSettings(max_new_tokens=2)).run(PROMPT)
    head = ref(target.model.get_output_embeddings())
    target.close()
    assert head() is None

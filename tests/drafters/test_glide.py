"""GliDe's head is lossless with and without CaPE, and heads that do not fit a model are refused."""

import numpy as np
import pytest
from fakes import alone, tiny_target
from feature_head_fakes import accuracy, random_head, trained_head
from pairwise import pairwise

from aded import Decoder, GenerationSettings
from aded.core.errors import AdedError
from aded.draft_models import feature_heads
from aded.draft_models.feature_heads import LoadedHead
from aded.draft_models.feature_network import Children
from aded.drafters.methods.glide import SHOWN_SLOTS, GlideDrafter, cape_tree
from aded.drafters.registry import METHODS
from aded.sampling.logits_pipeline import Rule

PROMPT = [5, 9, 14, 3, 20, 31]


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def drafter(target, head=None, **options):
    return GlideDrafter(LoadedHead(head or random_head(target, "glide"), np.array(accuracy())), **options)


@pytest.mark.parametrize(
    ("family", "cape", "settings"),
    pairwise(["llama", "gpt2", "gemma3_sliding"], ["on", "off"], [{}, {"temperature": 1.0, "top_p": 0.9, "seed": 3}]),
)
def test_the_output_is_the_targets(family, cape, settings):
    target = tiny_target(family)
    generation = GenerationSettings(max_new_tokens=40, budget=24, **settings)
    one = drafter(target, cape=cape)
    for _ in range(2):  # the second decode uses the network of the first
        trace = Decoder(target, one, generation).run(PROMPT)
        assert trace.token_ids == alone(target, PROMPT, 40, Rule(generation.sampling))
    assert max(len(step.tree.tokens) for step in trace.steps) == (24 if cape == "on" else 9)


@pytest.mark.slow
def test_a_head_trained_on_a_text_drafts_it(target):
    """A head that knows the text has most of its chain accepted: positions, tokens and the target's cache belong together."""
    texts = [[*PROMPT[: 3 + i], *alone(target, PROMPT[: 3 + i], 60)] for i in range(4)]
    length = min(map(len, texts))
    head = trained_head(target, "glide", [text[:length] for text in texts])
    generation = GenerationSettings(max_new_tokens=length - 3, budget=9)
    trace = Decoder(target, drafter(target, head, cape="off"), generation).run(PROMPT[:3])
    assert trace.token_ids == alone(target, PROMPT[:3], length - 3)
    assert trace.tokens_per_step > 2.5


def test_the_siblings_are_as_many_as_the_confidence_asks_for():
    """Probability 0.95 has 2 siblings, 0.55 has 6, 0.05 has 8; with fewer to spare, the most probable candidates stay."""
    tops = (0.95, 0.55, 0.05)
    levels = [
        Children(np.arange(10)[None] + 10 * i, np.array([[top, *np.linspace(0.04, 0.01, 9)]])) for i, top in enumerate(tops)
    ]
    tree = cape_tree(7, levels, 60)
    assert np.bincount(tree.parents[1:]).tolist() == [3, 7, *[0] * 2, 9]
    assert [tree.tokens[node] for node in tree.path_to(len(tree) - 9)] == [7, 0, 10, 20]
    assert tree.columns["prior"][1:4].tolist() == pytest.approx([0.95, 0.04, 0.04 - 0.03 / 8])
    few = cape_tree(7, levels, 3)
    assert few.tokens.tolist() == [7, 0, 1, 2, 10, 11, 20]
    assert cape_tree(7, levels, 0).parents.tolist() == [-1, 0, 1, 2]


def test_every_budget_is_kept(target):
    for budget in (2, 3, 9, 64, 200):
        trace = Decoder(target, drafter(target), GenerationSettings(max_new_tokens=12, budget=budget)).run(PROMPT)
        sizes = [len(step.tree.tokens) for step in trace.steps]
        assert max(sizes) <= budget
        assert min(sizes[0], 9) == min(budget, 9)


def test_the_slots_with_most_attention_are_recorded(target):
    trace = Decoder(target, drafter(target, draft_length=5), GenerationSettings(max_new_tokens=12, budget=16)).run(PROMPT)
    tokens = [*PROMPT, *trace.token_ids]
    for step in trace.steps:
        depth = max(len(path) for path in _paths(step.tree.parents)) if step.attended else 0
        assert len(step.attended) >= depth  # the last trees are cut to the tokens that are still asked for
        for record in step.attended:
            assert len(record.positions) == min(SHOWN_SLOTS, step.position)
            assert record.tokens == [tokens[position] for position in record.positions]
            assert record.weights == sorted(record.weights, reverse=True)
            assert 0 < sum(record.weights) < 1 + 1e-3
    assert trace.steps[0].attended


def _paths(parents):
    for node in range(len(parents)):
        path = []
        while node > 0:
            path.append(node)
            node = parents[node]
        yield path


def test_recording_changes_no_draft(target):
    generation = GenerationSettings(max_new_tokens=30, budget=16)
    recorded = Decoder(target, drafter(target), generation).run(PROMPT)
    quiet = Decoder(target, drafter(target), generation, record=False).run(PROMPT)
    assert [len(step.emitted) for step in recorded.steps] == [len(step.emitted) for step in quiet.steps]


def test_a_head_for_another_cache_is_refused(target, tmp_path):
    path = tmp_path / "glide.safetensors"
    feature_heads.write(path, target, random_head(target, "glide"), accuracy())
    generation = GenerationSettings(max_new_tokens=12, budget=16)
    trace = Decoder(target, METHODS["glide"].make(target, {"head": str(path)}, 0), generation).run(PROMPT)
    assert trace.token_ids == alone(target, PROMPT, 12)
    other = tiny_target(num_key_value_heads=1)
    with pytest.raises(AdedError, match="in the target's KV cache, and this model has 1 of .*train glide --model"):
        Decoder(other, METHODS["glide"].make(other, {"head": str(path)}, 0), generation).run(PROMPT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cape": "yes"}, "cape is 'yes'; choose one of on, off"),
        ({"draft_length": 0}, "draft length is 0; give a whole number from 1 to 16"),
        ({"depth": 3}, "glide has no option 'depth'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(AdedError, match=message):
        METHODS["glide"].check(options)

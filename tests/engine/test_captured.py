"""Fixed-shape steps: padded, bucketed, and equal to dynamic forward passes. (As CUDA graphs: see test_gpu.)"""

from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fakes import FAMILIES, OracleDrafter, alone, tiny_target

from aded.core.compilation.cuda_graph import NODE_BUCKETS, node_bucket
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.engine import load_check, step_graph
from aded.engine.kv_cache import KVCache
from aded.engine.outputs import DrafterNeeds
from aded.engine.step_graph import PREFILL_TOKENS, FixedStep, StepKind, context_bucket, read_verdict, sampling_keys
from aded.sampling import sampler
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings
from aded.verification.rejection_sampler import RejectionGraph
from aded.verification.tree_walk import first_non_finite
from aded.verification.verify import verify

PROMPT = [5, 17, 40, 8, 63, 21, 34, 11, 9, 70, 6, 50]


def fixed_target(family="llama", **options):
    target = tiny_target(family, **options)
    target.use_fixed_shapes()
    assert target.pool is not None
    return target


@pytest.mark.parametrize("family", FAMILIES)
def test_fixed_shape_steps_equal_dynamic_forward_passes_on_every_family(family):
    assert load_check._largest_fixed_error(fixed_target(family)) < 1e-4


SETTINGS = {
    "greedy": {},
    "top-p": {"temperature": 0.8, "top_p": 0.95, "seed": 5},
    "top-k and min-p": {"temperature": 1.2, "top_k": 9, "min_p": 0.02},
    "penalty": {"repetition_penalty": 1.3},
}


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        pytest.param(family, settings, marks=pytest.mark.slow if (row + column) % 2 else (), id=f"{family}-{name}")
        for row, family in enumerate(["llama", "mistral_sliding", "gemma2_sliding", "gpt2"])
        for column, (name, settings) in enumerate(SETTINGS.items())
    ],
)
def test_decoding_with_fixed_shape_steps_equals_the_target_alone(family, settings):
    target = fixed_target(family)
    truth = alone(target, PROMPT, 40, Rule(GenerationSettings(**settings).sampling))
    decoder = Decoder(target, OracleDrafter(truth), GenerationSettings(max_new_tokens=40, budget=13, **settings))
    record = decoder.run(PROMPT)
    assert record.token_ids == truth
    assert len(record.steps) < len(truth)


def test_buckets_are_large_enough_and_at_most_half_larger():
    assert [node_bucket(n) for n in (1, 2, 3, 9, 64, 65, 256)] == [1, 2, 4, 16, 64, 128, 256]
    sizes = [context_bucket(n, 1 << 20) for n in range(1, 5000, 7)]
    assert all(size >= n for n, size in zip(range(1, 5000, 7), sizes))
    assert all(size <= max(256, 1.5 * n + 1) for n, size in zip(range(1, 5000, 7), sizes))
    assert context_bucket(900, 1000) == 1000


def test_steps_and_caches_are_reused_and_freed():
    target = fixed_target()
    settings = GenerationSettings(max_new_tokens=20, budget=8)
    for seed in range(3):
        Decoder(target, "aded", settings).run(PROMPT)
        Decoder(target, "plain", GenerationSettings(max_new_tokens=20, seed=seed)).run(PROMPT)
    assert len(target.pool._free) <= 2
    assert len(target.pool.steps) <= len(target.pool._free) * len(NODE_BUCKETS)
    target.pool.clear()
    assert target.pool._free == []
    assert len(target.pool.steps) == 0


def test_many_sampling_settings_keep_a_bounded_number_of_steps_and_the_recently_used_stay(monkeypatch):
    monkeypatch.setattr(step_graph, "MAX_STEPS", 4)
    target = fixed_target()
    for temperature in (0.0, 0.5, 0.6, 0.7, 0.0):
        settings = GenerationSettings(max_new_tokens=20, budget=8, temperature=temperature)
        truth = alone(target, PROMPT, 20, Rule(settings.sampling))
        assert Decoder(target, OracleDrafter(truth), settings).run(PROMPT).token_ids == truth
        assert all(len(step.cache.graphs) <= 4 for step in target.pool.steps)
    cache = target.pool.take(64)
    kinds = [StepKind(sampler.SamplingOperations(), top_k=k) for k in range(5)]
    used = target.pool.step(cache, 8, kinds[0])
    for kind in kinds[1:]:
        target.pool.step(cache, 8, kind)
        assert target.pool.step(cache, 8, kinds[0]) is used


def test_other_sampling_parameters_need_no_other_graphs():
    """Temperature, top-k, top-p, min-p and seed are inputs of the graphs of steps, chains and rejection sampling."""
    target, draft = fixed_target(), tiny_target(seed=1)
    draft.use_fixed_shapes()
    kinds = []
    for change in ({"temperature": 0.7, "top_k": 9}, {"temperature": 1.3, "top_k": 40}, {"min_p": 0.1, "seed": 5}):
        sampling = {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "min_p": 0.01} | change
        settings = GenerationSettings(max_new_tokens=20, budget=8, **sampling)
        truth = Decoder(tiny_target(), "plain", settings).run(PROMPT).token_ids
        for method in ("aded", SpeculativeDrafter(ChainRunner(draft, target.vocab_size), None, None, draft_length=3)):
            record = Decoder(target, method, settings).run(PROMPT)
            assert method != "aded" or record.token_ids == truth
        chains = [key for step in draft.pool.steps for key in step.cache.graphs if key[-1] != StepKind(None)]  # prefill
        kinds.append(
            ({step.kind for step in target.pool.steps}, {key[-1] for key in chains}, {key[-2] for key in target.pool.verdicts})
        )
    assert kinds[0] == kinds[1] == kinds[2]
    assert len(kinds[0][1]) == len(kinds[0][2]) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_captured_prefill_equals_an_eager_one_on_every_cache_and_longer_prompts_are_prefilled_eagerly(family):
    """Each decode has a cache of its own, new or used before; all share the graph, which is as long as the longest prompt."""
    eager, target = tiny_target(family), fixed_target(family)
    layers, before = (1, -1), len(target.pool.steps)
    prompts = PROMPT, PROMPT[:1], (PROMPT * 60)[:PREFILL_TOKENS], (PROMPT * 60)[: PREFILL_TOKENS + 1]
    for prompt in (prompt for prompt in prompts if len(prompt) < target.context_limit):
        wanted, found = eager.session(400), target.session(400)
        features = [session.prefill(prompt, layers) for session in (wanted, found)]
        torch.testing.assert_close(*features, atol=1e-4, rtol=1e-4)
        for mine, other in zip(found.cache.layers, wanted.cache.layers):
            torch.testing.assert_close(mine.keys[:, :, : len(prompt)], other.keys[:, :, : len(prompt)], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(mine.values[:, :, : len(prompt)], other.values[:, :, : len(prompt)], atol=1e-4, rtol=1e-4)
        assert found.length == wanted.length == len(prompt)
    assert len(target.pool.steps) == before + 1


def test_simultaneous_decodes_use_different_caches():
    target = fixed_target()
    first, second = target.session(64), target.session(64)
    assert first.cache is not second.cache
    first.close()
    assert target.session(64).cache is not second.cache


def test_simultaneous_decodes_of_several_methods_get_the_caches_that_have_their_graphs():
    """Else each method's graphs are captured again on the cache that another one has left."""
    target, settings = fixed_target(), GenerationSettings(max_new_tokens=16, budget=8)
    runs = [("plain", True), ("aded", True), ("aded", False)]

    def race() -> int:
        """Number of graphs that three simultaneous decodes, which end in another order than they began, have added."""
        before = len(target.pool.steps)
        decoders = [Decoder(target, method, settings, record=record) for method, record in runs]
        for decoder in decoders:
            decoder.begin(PROMPT)
        while running := [decoder for decoder in decoders if decoder.finish_reason is None]:
            for decoder in running:
                decoder.step()
        for decoder in reversed(decoders):
            decoder.close()
        return len(target.pool.steps) - before

    assert race() > 0
    assert race() == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.7},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 0.8, "top_k": 5},
        {"temperature": 0.8, "top_k": 20, "top_p": 0.8, "min_p": 0.05},
    ],
)
def test_choosing_for_many_nodes_equals_the_rule_for_each_node(settings):
    rng = np.random.default_rng(3)
    logits = torch.tensor(rng.normal(0, 3, (50, 211)), dtype=torch.float32)
    keys = rng.integers(-(2**63), 2**63 - 1, 50)
    rule = Rule(SamplingSettings(**settings))
    from aded.sampling.logits_pipeline import sample

    expected = [sample(rule.probabilities(row, [1]), int(key)) for row, key in zip(logits, keys)]
    kind, values = sampler.operations(rule.settings), sampler.parameters(rule.settings)
    assert sampler.choose(logits, kind, values, torch.tensor(keys)).tolist() == expected


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8}, {"repetition_penalty": 1.3}])
def test_drafters_can_request_the_most_probable_tokens_at_every_node(fixed, sampling):
    target = fixed_target() if fixed else tiny_target()
    truth = alone(target, PROMPT, 20, Rule(GenerationSettings(**sampling).sampling))
    seen = []

    class Curious(OracleDrafter):
        needs = DrafterNeeds(top_k=5)

        def observe(self, outcome):
            seen.append(outcome)

    assert (
        Decoder(target, Curious(truth), GenerationSettings(max_new_tokens=20, budget=11, **sampling)).run(PROMPT).token_ids
        == truth
    )
    for outcome in seen[:4]:
        tree, before = outcome.tree, outcome.context.tokens.tolist()
        assert outcome.top_tokens.shape == outcome.top_probabilities.shape == (len(tree), 5)
        for node in range(len(tree)):
            ids = before + tree.tokens[tree.path_to(node)[1:]].tolist()
            expected = target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].detach().softmax(-1).topk(5)
            assert outcome.top_tokens[node].tolist() == expected.indices.tolist()
            assert np.allclose(outcome.top_probabilities[node], expected.values.numpy(), atol=1e-5)


@pytest.mark.parametrize("prompt", [830, 950])
def test_a_cache_has_capacity_for_the_padded_tree_at_the_last_token(prompt):
    """830 + 60 tokens and twice 65 nodes fit 1024 slots; a step of 65 nodes writes 128 in addition to the text."""
    target = fixed_target(max_position_embeddings=2048)
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=60, budget=65))
    for _ in decoder.stream((PROMPT * 100)[:prompt]):
        capacity = decoder._session.cache.capacity
        assert capacity >= prompt + 60 + target.padded_nodes(65)
    assert all(step.cache.capacity in (PREFILL_TOKENS, 1024, capacity) for step in target.pool.steps)


def test_a_second_run_of_a_decoder_does_not_size_its_cache_by_the_last_budget():
    target = fixed_target(max_position_embeddings=2048)
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=8))
    decoder.run(PROMPT)
    decoder.budget.cap = 1  # as after drafts without gain
    decoder.begin(PROMPT * 84)
    assert decoder._session.cache.capacity >= 12 * 84 + 8 + node_bucket(decoder.budget.cap)
    assert decoder.budget.cap > 1
    decoder.close()


def test_a_pooled_cache_that_grows_drops_the_steps_of_its_old_tensors():
    target = fixed_target(max_position_embeddings=4096)
    session, dynamic = target.session(64), tiny_target(max_position_embeddings=4096).session(64)
    tree, rule, used = DraftTree(np.array([5, 9, 14]), np.array([-1, 0, 0])), Rule(SamplingSettings()), []
    for more in (PROMPT, PROMPT * 100):
        for each in (session, dynamic):
            each.prefill(more)
        output = session.verify(tree, PROMPT, rule)[1]
        assert torch.allclose(output.logits, dynamic.forward_tree(tree).logits, atol=1e-4)
        used.append(next(iter(session.cache.graphs.values())))
        assert len(session.cache.graphs) == 1
    assert used[0] is not used[1]
    session.close()
    target.release_memory()
    used.clear()
    assert len(target.pool.steps) == 0


def test_graphs_of_rejection_sampling_belong_to_the_model_and_are_captured_before_the_timed_step(monkeypatch):
    target, made = fixed_target(), []
    draft = tiny_target(seed=1)

    class Noted(RejectionGraph):
        def __init__(self, *arguments):
            made.append("verify" in timed)
            super().__init__(*arguments)

    timed: list[str] = []
    inner = Decoder._timed

    @contextmanager
    def noting(self, seconds, name):
        timed.append(name)
        with inner(self, seconds, name):
            yield
        timed.remove(name)

    monkeypatch.setattr("aded.verification.rejection_sampler.RejectionGraph", Noted)
    monkeypatch.setattr(Decoder, "_timed", noting)
    drafter = SpeculativeDrafter(ChainRunner(draft, target.vocab_size), None, None, draft_length=3)
    Decoder(target, drafter, GenerationSettings(max_new_tokens=20, temperature=0.9, budget=8)).run(PROMPT)
    assert made and not any(made)
    assert len(target.pool.verdicts) == len(made)
    target.release_memory()
    assert not target.pool.verdicts


def random_tree(rng, most, vocab):
    """Up to ``most`` nodes with different siblings; the vocabulary is small, so that many nodes are accepted."""
    tokens, parents, taken = [int(rng.integers(vocab))], [-1], set()
    for _ in range(int(rng.integers(most))):
        parent, token = int(rng.integers(len(tokens))), int(rng.integers(vocab))
        if (parent, token) not in taken:
            taken.add((parent, token))
            tokens.append(token)
            parents.append(parent)
    return DraftTree(np.array(tokens), np.array(parents))


@pytest.mark.parametrize(("settings", "trees"), [({}, 7000), ({"temperature": 1.0, "seed": 3}, 3000)], ids=["greedy", "sampled"])
def test_acceptance_in_a_fixed_shape_step_equals_acceptance_on_the_host_for_10000_random_trees(settings, trees):
    """The tensor code of the step against the loop in ``aded.verification.verify``; logits of every tenth tree are not finite."""
    nodes, vocab, rng = 8, 3, np.random.default_rng(11)
    rule = Rule(SamplingSettings(**settings))
    step = FixedStep(
        SimpleNamespace(device=torch.device("cpu")), KVCache(256), nodes, 256, StepKind(sampler.operations(rule.settings))
    )
    depths, non_finite = Counter(), 0
    for place in range(trees):
        tree, length = random_tree(rng, nodes, vocab), int(rng.integers(1, 200))
        logits = torch.tensor(rng.normal(0, 2, (nodes, vocab)), dtype=torch.float32)
        if place % 10 == 0:
            logits[rng.integers(nodes), rng.integers(vocab)] = float(rng.choice([np.nan, np.inf]))
        keys = sampling_keys(tree, length, rule.settings)
        step._inputs.fill(tree, length, keys, rule.settings)
        step._inputs.send()
        step.logits = logits
        step._verdict(length + step._index, None)
        found, expected = read_verdict(step._result.numpy(), tree, keys), verify(tree, logits, [0] * (length + 1), rule)
        assert found.non_finite == first_non_finite(found.path, logits)
        if found.non_finite is None:
            assert found == expected, f"tree {place}"
            depths[len(found.path)] += 1
        else:
            non_finite += 1
            before = found.path[: found.path.index(found.non_finite) + 1]
            assert before == expected.path[: len(before)], f"tree {place}"
    assert min(depths[length] for length in (1, 2, 3, 4)) > 20, "walks of every length"
    assert non_finite > 50

"""SpecInfer: trees expanded level by level, merged, and verified exactly."""

import numpy as np
import pytest
import torch
from fakes import VOCAB, WordTokenizer, alone, cost, near, tiny_model, tiny_target
from scipy import stats

from aded.core.errors import AdedError
from aded.core.tree import DraftDistributions, DraftTree
from aded.core.tree_shape import best_shape
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.draft_model import pruned_model, unshared_parameters
from aded.draft_models.tree_runner import Sampler, TreeRunner, level_cost
from aded.drafters.budget.draft_length_policy import RETRY, TOLERANCE, ShapePolicy
from aded.drafters.methods.specinfer import SpecInferDrafter, shape_of
from aded.drafters.registry import METHODS
from aded.drafters.tree_merge import merge
from aded.engine.target_model import TargetModel
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings

PROMPT = [5, 9, 14, 3, 20]
FALSE_ALARM = 1e-6


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def drafts(target):
    return [near(target, 1.03), near(target, 0.9)]


def drafter(drafts, **options):
    return SpecInferDrafter([TreeRunner(draft, VOCAB) for draft in drafts], cost(1.0), lambda greedy: 0.05, **options)


def row_alone(model, ids):
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]


@pytest.mark.parametrize("branching", [(3, 2, 1), (1, 1, 1, 1), (5,), (2, 2, 2)])
def test_the_children_of_every_node_are_the_most_probable_tokens_after_its_path(drafts, branching):
    """Greedy, over a text that grows: each node's children are the draft model's most probable tokens there."""
    runner, text, shape = TreeRunner(drafts[0], VOCAB), list(PROMPT), shape_of(branching, 40)
    runner.start(text)
    for more in ([], [7], [8, 9, 10], [11] * 40):
        text += more
        tree = runner.expand(np.array(text, dtype=np.int32), shape, Sampler(SamplingSettings(), False, False))
        assert len(tree) == len(shape.parents)
        for parent in sorted(set(tree.parents[1:].tolist())):
            children = np.flatnonzero(tree.parents == parent)
            ids = text + tree.tokens[tree.path_to(parent)[1:]].tolist()
            probabilities = torch.softmax(row_alone(drafts[0].model, ids), -1)
            assert tree.tokens[children].tolist() == probabilities.topk(len(children)).indices.tolist()
            assert tree.columns["prior"][children].tolist() == pytest.approx(
                probabilities[tree.tokens[children]].tolist(), abs=1e-5
            )
    runner.close()


def test_the_nodes_of_the_highest_cumulative_probability_are_drafted(drafts):
    """Compared with every path of the eight most probable tokens of the eight best nodes of each level."""
    runner = TreeRunner(drafts[1], VOCAB)
    runner.start(PROMPT)
    tree = runner.expand_most_probable(np.array(PROMPT, dtype=np.int32), 20, 3)
    runner.close()
    frontier, everything = [((), 1.0)], []
    for _ in range(3):
        level = []
        for path, joint in frontier:
            best = torch.softmax(row_alone(drafts[1].model, PROMPT + list(path)), -1).topk(8)
            level += [((*path, int(token)), joint * float(p)) for token, p in zip(best.indices, best.values)]
        frontier = sorted(level, key=lambda one: -one[1])[:8]
        everything += level
    expected = sorted(everything, key=lambda one: -one[1])[:19]
    assert paths_of(tree) - {(PROMPT[-1],)} == {(PROMPT[-1], *path) for path, _ in expected}


@pytest.mark.parametrize("replacement", [True, False])
def test_nodes_are_sampled_from_the_draft_model_s_distribution(drafts, replacement):
    settings = SamplingSettings(temperature=0.8, top_k=5, seed=2)
    runner = TreeRunner(drafts[0], VOCAB)
    runner.start(PROMPT)
    tree = runner.expand(np.array(PROMPT, dtype=np.int32), shape_of((3, 2, 2), 30), Sampler(settings, False, replacement))
    for node in range(1, len(tree)):
        parent = int(tree.parents[node])
        ids = PROMPT + tree.tokens[tree.path_to(parent)[1:]].tolist()
        expected = Rule(settings).probabilities(row_alone(drafts[0].model, ids), ids)
        assert torch.allclose(tree.sampled_from.distributions[tree.sampled_from.rows[node]], expected, atol=1e-5)
        assert expected[tree.tokens[node]] > 0
    if not replacement:
        pairs = list(zip(tree.parents.tolist(), tree.tokens.tolist()))
        assert len(set(pairs)) == len(pairs)
    runner.close()


def test_no_child_has_a_token_of_probability_zero(drafts):
    runner = TreeRunner(drafts[0], VOCAB)
    runner.start(PROMPT)
    sampler = Sampler(SamplingSettings(temperature=0.8, top_k=2), False, False)
    tree = runner.expand(np.array(PROMPT, dtype=np.int32), shape_of((4, 4), 30), sampler)
    assert len(tree) == 1 + 2 + 4
    runner.close()


@pytest.mark.parametrize("options", [{}, {"branching": (3, 2, 1)}, {"branching": (1, 1, 1, 1)}], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_greedy_output_equals_plain_decoding(target, drafts, options, count):
    settings = GenerationSettings(max_new_tokens=40, budget=24)
    record = Decoder(target, drafter(drafts[:count], **options), settings).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 40)
    assert len(record.steps) < 20
    assert max(len(step.tree.tokens) for step in record.steps) <= 24


@pytest.mark.parametrize("more", [{}, {"top_p": 0.9}, {"repetition_penalty": 1.3}], ids=str)
def test_coupled_output_equals_plain_decoding_with_the_same_seed(target, drafts, more):
    for seed in range(2):
        settings = GenerationSettings(max_new_tokens=30, budget=24, temperature=0.8, seed=seed, **more)
        record = Decoder(target, drafter(drafts, coupled=True), settings).run(PROMPT)
        assert record.token_ids == alone(target, PROMPT, 30, Rule(settings.sampling))
        assert len(record.steps) < 20


@pytest.mark.parametrize(
    "options",
    [
        {"count": 2, "branching": (2, 1)},
        *(pytest.param(more | {"branching": (3, 2)}, marks=pytest.mark.slow) for more in ({}, {"replacement": True})),
    ],
    ids=str,
)
def test_sampled_output_follows_the_target(target, drafts, options):
    """Chi-square of the first two tokens of 150 decodes against the exact joint distribution; one false alarm in 10^6."""
    settings, options = {"temperature": 0.9, "top_k": 3}, dict(options)
    shared, counts = drafter(drafts[: options.pop("count", 1)], **options), np.zeros((VOCAB, VOCAB))
    for seed in range(150):
        generation = GenerationSettings(max_new_tokens=2, budget=16, seed=seed, **settings)
        first, second = Decoder(target, shared, generation, record=False).run(PROMPT).token_ids
        counts[first, second] += 1
    rule, joint = Rule(SamplingSettings(**settings)), np.zeros((VOCAB, VOCAB))
    start = rule.probabilities(row_alone(target.model, PROMPT), PROMPT).numpy()
    for token in np.flatnonzero(start):
        ids = [*PROMPT, int(token)]
        joint[token] = start[token] * rule.probabilities(row_alone(target.model, ids), ids).numpy()
    assert counts[joint == 0].sum() == 0
    assert stats.chisquare(counts[joint > 0], joint[joint > 0] / joint.sum() * counts.sum()).pvalue > FALSE_ALARM


def test_a_tree_writes_more_than_a_chain_of_the_same_model(target, drafts):
    steps = {}
    for branching in ((1, 1, 1, 1), (4, 2, 2, 1)):
        made = drafter(drafts[1:], branching=branching)
        steps[branching] = len(Decoder(target, made, GenerationSettings(max_new_tokens=60, budget=64)).run(PROMPT).steps)
    assert steps[4, 2, 2, 1] < steps[1, 1, 1, 1]


def test_the_method_is_built_from_its_options(tmp_path, target):
    from aded.draft_models import checkpoints

    path = tmp_path / "x.draft.safetensors"
    checkpoints.write(path, "draft", target, unshared_parameters(pruned_model(target.model, [0]), target.model), layers=1)
    made = METHODS["specinfer"].make(target, {"draft": str(path), "branching": "3,2", "verification": "coupled"}, 0)
    assert made.settings()["branching"] == [3, 2]
    assert made.settings()["verification"] == "coupled"
    with pytest.raises(AdedError, match="numbers with commas"):
        METHODS["specinfer"].make(target, {"draft": str(path), "branching": "3;2"}, 0)
    with pytest.raises(AdedError, match="from 1 to 64"):
        METHODS["specinfer"].make(target, {"draft": str(path), "branching": "3,0"}, 0)


def test_models_that_verify_no_trees_cannot_draft():
    with pytest.raises(AdedError, match="cannot draft trees"):
        TreeRunner(TargetModel(tiny_model("bloom"), WordTokenizer(), "bloom", "bloom"), VOCAB)


def paths_of(tree):
    return {tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(len(tree))}


@pytest.mark.parametrize("seed", range(5))
def test_merged_trees_have_every_path_once(seed):
    rng = np.random.default_rng(seed)
    trees = [DraftTree.from_paths(1, rng.integers(0, 3, (6, 4)).tolist(), limit=12) for _ in range(3)]
    merged = merge(trees)
    assert paths_of(merged) == set().union(*map(paths_of, trees))
    assert len(merged) == len(paths_of(merged))


def test_merged_trees_keep_the_higher_prior():
    one = DraftTree(np.array([1, 2, 3]), np.array([-1, 0, 0]), {"prior": np.array([np.nan, 0.5, 0.2])})
    other = DraftTree(np.array([1, 3]), np.array([-1, 0]), {"prior": np.array([np.nan, 0.6])})
    assert merge([one, other]).columns["prior"][1:].tolist() == [0.5, 0.6]


def test_merged_samples_stay_separate_trials_and_their_continuations_are_joined():
    q = torch.full((2, 5), 0.2, dtype=torch.float64)
    one = DraftTree(np.array([1, 2, 3]), np.array([-1, 0, 1]), sampled_from=DraftDistributions(q, np.array([-1, 0, 1])))
    other = DraftTree(np.array([1, 2, 4]), np.array([-1, 0, 1]), sampled_from=DraftDistributions(q, np.array([-1, 0, 1])))
    merged = merge([one, other])
    assert merged.tokens.tolist() == [1, 2, 3, 2, 4]
    assert merged.parents.tolist() == [-1, 0, 1, 0, 1]
    assert merged.sampled_from.rows.tolist() == [-1, 0, 1, 2, 3]
    assert merged.sampled_from.distributions.shape == (4, 5)


def test_a_branching_is_cut_level_by_level():
    shape = shape_of((2, 2), 6)
    assert shape.parents.tolist() == [-1, 0, 0, 1, 1, 2]
    assert shape.ranks.tolist() == [0, 0, 1, 0, 1, 0]
    assert shape.depths.tolist() == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("level", [0.02, 0.1, 0.4])
def test_chains_have_the_length_of_leviathan_s_formula(rate, level):
    """(1 - a^(g+1)) / ((1 - a)(c g + 1)) at its highest, for one rate at all depths; the longest of equally good ones."""
    policy = ShapePolicy(12, 1, cost(1.0), level)
    policy.rates.counts[0], policy.rates.counts[1] = 1e9, rate * 1e9
    speedups = [(1 - rate ** (g + 1)) / ((1 - rate) * (level * g + 1)) for g in range(13)]
    expected = max(g for g in range(13) if speedups[g] >= (1 - TOLERANCE) * max(speedups)) if max(speedups) > 1 else 0
    assert len(policy.shape(100, 64).parents) - 1 == expected


def test_acceptance_rates_are_learned_from_verified_nodes():
    policy, tree = ShapePolicy(3, 2), DraftTree(np.array([1, 2, 3, 4]), np.array([-1, 0, 0, 2]))
    before = policy.rates.values
    for _ in range(200):
        policy.observe(tree, [0, 2], 2)
    rates = policy.rates.values
    assert rates[0, 0] < 0.1
    assert rates[0, 1] > 0.9
    assert rates[1, 0] < 0.1  # node 3 was verified at its parent and rejected
    assert rates[2].tolist() == before[2].tolist()


def test_drafts_without_a_gain_are_retried_at_growing_intervals():
    policy, plain = ShapePolicy(4, 1, cost(1.0), 100.0), DraftTree.root_only(1)
    sizes = []
    for _ in range(7 * RETRY + 3):
        shape = policy.shape(100, 8)
        sizes.append(len(shape.parents))
        policy.observe(plain if len(shape.parents) == 1 else DraftTree.chain(1, [2]), [0], 1)
    assert [i for i, size in enumerate(sizes) if size == 2] == [RETRY, 3 * RETRY + 1, 7 * RETRY + 2]
    assert best_shape(policy.rates.values, 8).values[0] == 1.0


def test_the_cost_of_a_draft_level_is_measured_separately_for_greedy_and_sampled_drafts(tmp_path, monkeypatch):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    draft = tiny_target("llama", 1)
    first = [level_cost(draft, greedy) for greedy in (True, False)]
    assert all(seconds > 0 for seconds in first) and first[0] != first[1]
    assert [level_cost(draft, greedy) for greedy in (True, False)] == first, "kept"

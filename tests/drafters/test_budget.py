"""Throughput-optimal draft sizes: compared with brute force, and never much slower than plain decoding."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import tiny_target

from aded.core.tree import DraftDistributions, DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.budget.acceptance_statistics import AcceptanceCurve, AcceptanceRates
from aded.drafters.budget.tree_budget import AutomaticBudget, FixedBudget, _joint
from aded.engine import cost_model
from aded.engine.cost_model import StepCost

LINEAR = StepCost((1, 64), (256,), ((1.0, 4.0),), padded=False)  # a plain step takes 1 s, every further node 1/21 s
FREE = StepCost((1, 2, 4, 8, 16, 32, 64), (256,), ((1.0,) * 7,), padded=True)
STEEP = StepCost((1, 64), (256,), ((1.0, 190.0),), padded=False)  # every node costs three plain steps


def tree_of(rng: np.random.Generator, n: int) -> DraftTree:
    parents = np.array([-1] + [int(rng.integers(max(0, i - 4), i)) for i in range(1, n)])
    return DraftTree(rng.permutation(1000)[:n], parents, {"prior": np.concatenate([[np.nan], rng.uniform(0.05, 0.95, n - 1)])})


@pytest.mark.parametrize("seed", range(6))
def test_the_kept_part_is_the_best_of_all_sizes_at_the_current_throughput(seed):
    rng = np.random.default_rng(seed)
    tree, policy = tree_of(rng, 30), AutomaticBudget(LINEAR)
    kept = policy.trim(tree, 300)
    joint = np.sort(_joint(tree.parents, policy.prior(tree))[1:])[::-1]
    seconds = LINEAR.table(300, 64)
    best = max(range(1, 31), key=lambda n: 1 + joint[: n - 1].sum() - seconds[n - 1] / seconds[0])
    assert len(kept) == policy.explain().nodes == best
    assert np.allclose(np.sort(_joint(kept.parents, policy.prior(kept))[1:])[::-1], joint[: best - 1])


def test_a_part_of_a_draft_is_a_tree_with_the_original_indices():
    tree = tree_of(np.random.default_rng(1), 30)
    kept = AutomaticBudget(LINEAR).trim(tree, 300)
    assert kept.tokens.tolist() == tree.tokens[kept.origin].tolist()
    part = kept.within(1)
    assert part.tokens.tolist() == tree.tokens[part.origin].tolist()


def test_where_nodes_are_free_the_whole_draft_is_verified():
    policy = AutomaticBudget(FREE)
    kept = policy.trim(tree_of(np.random.default_rng(2), 40), 300)
    assert len(kept) == 40
    assert "all 40 nodes" in policy.explain().why


def test_without_a_gain_nothing_is_drafted_and_the_reason_is_given():
    policy = AutomaticBudget(STEEP)
    kept = policy.trim(tree_of(np.random.default_rng(2), 40), 300)
    assert kept.drafted == 0
    assert "plain decoding is fastest" in policy.explain().why


def run_steps(policy, accept, steps=600, draft_cost=0.03):
    """Seconds and tokens of a simulated decode; ``accept(joint, rng)`` gives the nodes that the target accepts."""
    rng = np.random.default_rng(0)
    seconds = tokens = 0.0
    for _ in range(steps):
        tree = tree_of(rng, policy.cap) if policy.cap > 1 else DraftTree.root_only(1)
        spent = draft_cost if policy.cap > 1 else 0.0
        kept = policy.trim(tree, 300)
        path = accept(kept, rng)
        spent += float(policy.cost.table(300, 64)[len(kept) - 1])
        policy.observe(kept, path, len(path), spent)
        seconds, tokens = seconds + spent, tokens + len(path)
    return seconds, tokens


@pytest.mark.parametrize("cost", [LINEAR, STEEP, FREE])
def test_a_drafter_that_is_always_wrong_costs_at_most_two_per_cent(cost):
    """Overconfident priors, nothing ever accepted; drafting takes 3 % of a plain step; decodes of 200 tokens."""
    curve, seconds, tokens = AcceptanceCurve(), 0.0, 0.0
    for _ in range(10):
        spent, written = run_steps(AutomaticBudget(cost, curve), lambda tree, rng: [0], steps=200)
        seconds, tokens = seconds + spent, tokens + written
    assert seconds / tokens <= 1.02


def honest(tree, rng):
    path = [0]
    while True:
        children = np.flatnonzero(tree.parents == path[-1])
        hit = [c for c in children if rng.random() < tree.columns["prior"][c]] if len(children) else []
        if not hit:
            return path
        path.append(int(hit[0]))


def test_accepted_drafts_raise_the_throughput():
    seconds, tokens = run_steps(AutomaticBudget(LINEAR), honest)
    assert tokens / seconds > 1.3


def test_the_curve_learns_the_acceptance_of_predictions():
    curve, rng = AcceptanceCurve(), np.random.default_rng(0)
    predicted = rng.uniform(0.3, 0.9, 4000)
    assert np.allclose(curve(predicted), predicted)
    curve.observe(predicted, rng.random(4000) < 0.5 * predicted)
    assert np.allclose(curve(predicted), 0.5 * predicted, rtol=0.15)


def test_rates_count_the_children_of_verified_nodes_by_depth_and_rank():
    """Deeper nodes and higher ranks count in the last cell; required nodes do not count."""
    rates = AcceptanceRates(np.full((2, 2), 0.5), 4.0)
    tree = DraftTree(np.arange(9), np.array([-1, 0, 0, 0, 0, 3, 3, 5, 7]), required=1)
    rates.observe(tree, [0, 3, 5, 7], 4)
    observed = rates.counts - 4.0 * np.array([1.0, 0.5])[:, None, None]
    assert observed[0].tolist() == [[1, 2], [3, 1]]  # nodes 2 | 3, 4; nodes 5, 7, 8 | 6
    assert observed[1].tolist() == [[0, 1], [2, 0]]  # nodes 3; 5, 7
    rates.observe(tree, [0, 3, 5, 7], 1)
    assert (rates.counts - observed)[0].tolist() == [[5, 6], [4, 4]]


def test_cost_tables_are_monotonic_and_padded_sizes_cost_their_bucket():
    noisy = StepCost((1, 8, 64), (256,), ((2.0, 1.5, 3.0),), padded=False)
    assert (np.diff(noisy.table(0, 80)) >= 0).all()
    padded = StepCost((1, 4, 16), (256, 512), ((1.0, 2.0, 3.0), (1.0, 4.0, 5.0)), padded=True)
    assert padded.table(256, 16).tolist() == [1.0] + [2.0] * 3 + [3.0] * 12
    assert padded.table(384, 4).tolist() == [1.0, 3.0, 3.0, 3.0]


def test_costs_are_measured_once_and_damaged_files_are_measured_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    measured = []
    real = cost_model.measure
    monkeypatch.setattr(cost_model, "measure", lambda target: measured.append(1) or real(target, spend=0.01))
    first = tiny_target("llama").cost
    assert tiny_target("llama").cost == first
    assert len(measured) == 1
    file = next((tmp_path / "costs").iterdir())
    for content in ("{", "{}", json.dumps({"sizes": [1], "contexts": [1], "seconds": [], "padded": False})):
        file.write_text(content)
        _ = tiny_target("llama").cost
    assert len(measured) == 4
    target = tiny_target("gpt2")
    target.use_fixed_shapes()
    assert target.cost.padded


def test_a_cost_measured_on_a_busy_machine_is_measured_again_when_steps_are_faster(tmp_path, monkeypatch):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    real, slowness = cost_model.measure, [1000.0]

    def measure(target):
        cost = real(target, spend=0.01)
        return replace(cost, seconds=tuple(tuple(slowness[0] * s for s in row) for row in cost.seconds))

    monkeypatch.setattr(cost_model, "measure", measure)
    target, settings = tiny_target("llama"), GenerationSettings(max_new_tokens=30)
    busy = target.cost
    slowness[0] = 1.0
    Decoder(target, "aded", settings).run([5, 6, 7, 5, 6, 7, 5, 6])
    assert target.measured_cost is None
    assert tiny_target("llama").cost.seconds[0][0] < busy.seconds[0][0] / 10
    kept = target.cost
    Decoder(target, "aded", settings).run([5, 6, 7, 5, 6, 7, 5, 6])
    assert target.measured_cost is kept


def test_the_trace_has_the_budget_and_its_reason():
    target = tiny_target("llama")
    target._cost = FREE
    record = Decoder(target, "aded", GenerationSettings(max_new_tokens=30)).run([5, 6, 7, 5, 6, 7, 5, 6])
    assert all(step.budget.nodes == len(step.tree.tokens) and step.budget.why.startswith("automatic") for step in record.steps)
    fixed = Decoder(target, "aded", GenerationSettings(max_new_tokens=9, budget=5))
    assert isinstance(fixed.budget, FixedBudget)
    assert fixed.run([5, 6, 7]).steps[0].budget.why == "as set"


@pytest.mark.parametrize("seed", range(4))
def test_required_nodes_are_kept_and_the_best_of_the_others_with_them(seed):
    rng = np.random.default_rng(seed)
    tree, policy, required = tree_of(rng, 30), AutomaticBudget(LINEAR), 8
    tree = DraftTree(tree.tokens, tree.parents, tree.columns, required=required)
    kept = policy.trim(tree, 300)
    others = np.sort(_joint(tree.parents, policy.prior(tree))[required + 1 :])[::-1]
    seconds = LINEAR.table(300, 64)
    best = max(range(required + 1, 31), key=lambda n: 1 + others[: n - required - 1].sum() - seconds[n - 1] / seconds[0])
    assert (len(kept), kept.required) == (best, required)
    assert kept.tokens[: required + 1].tolist() == tree.tokens[: required + 1].tolist()


def test_the_curve_does_not_count_required_nodes():
    policy = AutomaticBudget(LINEAR)
    tree = DraftTree(np.arange(4), np.array([-1, 0, 0, 1]), {"prior": np.array([np.nan, 0.5, 0.5, 0.5])}, required=2)
    policy.observe(tree, [0, 1, 3], 3, 1.0)
    assert policy.curve.counts.sum(axis=1).tolist() == [0.25, 1.0]


def test_a_drafter_that_is_often_unsure_but_raises_the_throughput_is_not_paused():
    """Half of the drafts are cut to nothing, five in a row; the others give three tokens per step."""
    policy, paused = AutomaticBudget(FREE), 0
    for step in range(400):
        unsure = step % 10 < 5
        paused += policy.cap == 1
        tree = DraftTree(np.arange(4), np.arange(-1, 3), {"prior": np.array([np.nan, *[0.02 if unsure else 0.9] * 3])})
        kept = policy.trim(tree, 300) if policy.cap > 1 else DraftTree.root_only(0)
        path = [0] if unsure or len(kept) == 1 else [0, 1, 2]
        policy.observe(kept, path, len(path), 1.1 if policy.cap > 1 else 1.0)
    assert paused < 20


def test_one_slow_step_pauses_nothing():
    policy = AutomaticBudget(FREE)
    tree = DraftTree(np.arange(3), np.arange(-1, 2), {"prior": np.array([np.nan, 0.9, 0.9])})
    for step in range(40):
        policy.trim(tree, 300)
        policy.observe(tree, [0, 1, 2], 3, 100.0 if step == 20 else 1.1)
        assert policy.cap > 1


def test_a_drafter_with_an_overall_gain_is_not_stopped_by_a_series_of_rejections():
    """Two more tokens in half of the steps, at half the cost of a plain step; of sixteen answers some begin with rejections."""
    rng = np.random.default_rng(0)
    steps = paused = 0
    for _ in range(16):
        policy = AutomaticBudget(StepCost((1, 64), (1,), ((1.0, 1.0),), False))
        tree = DraftTree(np.arange(3), np.arange(-1, 2), {"prior": np.array([np.nan, 0.6, 0.9])})
        for _ in range(60):
            drafted = policy.cap > 1
            kept = policy.trim(tree if drafted else DraftTree.root_only(0), 1)
            good = drafted and rng.random() < 0.5
            policy.observe(kept, [0, 1, 2] if good else [0], 3 if good else 1, 1.5 if drafted else 1.0)
            steps, paused = steps + 1, paused + (not drafted)
    assert paused <= 0.05 * steps


def test_sampled_drafts_are_never_paused_by_measured_times():
    """The next sample must not depend on the duration of earlier steps; otherwise a seed would not reproduce its text."""
    policy = AutomaticBudget(StepCost((1, 64), (1,), ((1.0, 1.0),), False))
    drawn = DraftDistributions(torch.full((2, 4), 0.25, dtype=torch.float64), np.array([-1, 0, 1], dtype=np.int32))
    tree = DraftTree(np.arange(3), np.arange(-1, 2), {"prior": np.array([np.nan, 0.5, 0.5])}, sampled_from=drawn)
    for _ in range(40):
        assert policy.trim(tree, 1) is tree
        policy.observe(tree, [0], 1, 50.0)
        assert policy.cap == policy.largest

"""The record of acceptance tests: its numbers, computed again from stock logits, give every verdict and every new token."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import VOCAB, OracleDrafter, alone, cost, near, tiny_target

from aded.core.tree import DraftDistributions, DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.base import Drafter, Inspectable
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.sampling.rng import exponentials, key_of, signed, uniform
from aded.sampling.settings import TypicalAcceptance
from aded.verification import rejection_sampler
from aded.verification.rejection_sampler import ACCEPT_STREAM

PROMPT = [5, 9, 14, 3, 20]
CLOSE = 1e-5
"""Tolerance between probabilities with and without KV cache, in float32."""


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def drafts(target):
    return [near(target, 0.8), near(target, 1.15)]


def speculative(drafts):
    return SpeculativeDrafter(ChainRunner(drafts[0], VOCAB), cost(1.0), lambda greedy: 0.1, "rejection", 4)


def specinfer(drafts, count, replacement):
    runners = [TreeRunner(draft, VOCAB) for draft in drafts[:count]]
    return SpecInferDrafter(runners, cost(1.0), lambda greedy: 0.05, replacement=replacement, branching=(3, 2, 1))


DRAFTERS = {
    "speculative": (1, speculative),
    **{
        f"specinfer, {count} models, {'with' if replacement else 'without'} replacement": (
            count,
            lambda drafts, count=count, replacement=replacement: specinfer(drafts, count, replacement),
        )
        for count in (1, 2)
        for replacement in (True, False)
    },
}


def stock(model, ids, settings):
    """The next-token distribution from the logits of a forward pass without KV cache, float64 ``[vocab]``."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].double().numpy()
    scores = logits / settings.temperature
    if settings.top_k:
        scores = np.where(scores < np.sort(scores)[-settings.top_k], -np.inf, scores)
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


@pytest.fixture
def verified(monkeypatch):
    """The arguments of every verification of a draft by rejection sampling, and its result."""
    calls, verify = [], rejection_sampler.verify

    def noted(tree, logits, prefix, rule, graphs=None):
        found = verify(tree, logits, prefix, rule, graphs)
        if tree.drafted:
            q = replace(tree.sampled_from, distributions=tree.sampled_from.distributions.clone())  # the next draft overwrites it
            calls.append((replace(tree, sampled_from=q), logits.clone(), [int(i) for i in prefix], rule, found))
        return found

    monkeypatch.setattr(rejection_sampler, "verify", noted)
    return calls


def near_to(values):
    return pytest.approx(values, abs=CLOSE)


def check_choice(choice, tree, models, ids, settings):
    """Multi-step speculative sampling at one node, with the models' stock logits; returns the accepted child and the token."""
    record, drawn = choice.rejection, tree.sampled_from
    p, left = stock(models[0], ids, settings), {}
    for rank, child in enumerate(np.flatnonzero(tree.parents == choice.node)):
        x, row, trial = int(tree.tokens[child]), int(drawn.rows[child]), record.trials[rank]
        if row not in left:
            used = drawn.distributions[row].numpy()
            left[row] = min((stock(model, ids, settings) for model in models[1:]), key=lambda q: np.abs(q - used).max())
            assert used == near_to(left[row]), "drawn from the distribution of a draft model"
        q = left[row]
        u = uniform(key_of(settings.seed ^ ACCEPT_STREAM, len(ids)), rank)
        assert (trial.node, trial.token, trial.uniform) == (child, x, u)
        assert (trial.p, trial.q) == near_to((p[x], q[x]))
        assert trial.ratio == pytest.approx(min(1, p[x] / q[x]), rel=1e-3)
        assert trial.ratio == min(1, trial.p / trial.q)
        assert trial.rejection == near_to(np.maximum(p - q, 0).sum())
        assert (trial.top_p, trial.top_q) == (near_to(p[record.tokens]), near_to(q[record.tokens]))
        residual = np.maximum(trial.p - trial.q, 0)
        assert trial.q * trial.ratio + residual == pytest.approx(trial.p), "q(x) min(1, p/q) and the residual part add up to p(x)"
        assert trial.accepted == (u <= p[x] / q[x])
        if trial.accepted:
            assert len(record.trials) == rank + 1
            assert (record.residual, record.residual_probability) == ([], None)
            return child, x
        p = np.maximum(p - q, 0)
        p /= p.sum()
        if not drawn.replacement:
            left[row] = np.where(np.arange(VOCAB) == x, 0, q)
            left[row] /= left[row].sum()
    with np.errstate(divide="ignore"):
        token = int((exponentials(torch.tensor([signed(key_of(settings.seed, len(ids)))]), VOCAB)[0].numpy() / p).argmin())
    assert len(record.trials) == (tree.parents == choice.node).sum()
    assert record.residual == near_to(p[record.tokens])
    assert record.residual_probability == near_to(p[token])
    return None, token


@pytest.mark.parametrize("sampling", [{"temperature": 0.8}, {"temperature": 1.1, "top_k": 12}], ids=str)
def test_recorded_numbers_of_block_verification_give_every_verdict_and_every_token(target, drafts, sampling):
    drafter = SpeculativeDrafter(ChainRunner(drafts[0], VOCAB), cost(1.0), lambda greedy: 0.1, "block", 4)
    lengths = set()
    for seed in range(4):
        settings = GenerationSettings(max_new_tokens=40, budget=24, seed=seed, **sampling)
        ids = list(PROMPT)
        for step in Decoder(target, drafter, settings).run(PROMPT).steps:
            assert all(choice.rejection is None for choice in step.choices)
            assert (step.block is not None) == (len(step.tree.tokens) > 1)
            if step.block is not None:
                lengths.add(check_block(step, target.model, drafts[0].model, ids, settings))
            ids += step.emitted
    assert lengths >= {0, 1, 4}


def check_block(step, model, draft, ids, settings):
    """Block verification of a chain, with the models' stock logits; returns the number of accepted tokens."""
    chain, record, weight, weights, passed = step.tree.tokens[1:], step.block, 1.0, [1.0], 0
    p = [stock(model, ids + chain[:i], settings) for i in range(len(chain) + 1)]
    q = [stock(draft, ids + chain[:i], settings) for i in range(len(chain))]
    for i, (x, test) in enumerate(zip(chain, record.tests, strict=True)):
        weight = min(1.0, weight * p[i][x] / q[i][x])
        left = np.maximum(weight * p[i + 1] - q[i + 1], 0).sum() if i + 1 < len(chain) else None
        passes = weight if left is None else left / (left + 1 - weight)
        u = uniform(key_of(settings.seed ^ ACCEPT_STREAM, len(ids)), i)
        assert (test.node, test.uniform, test.passed) == (i + 1, u, u <= test.passes)
        assert (test.p, test.q) == near_to((p[i][x], q[i][x]))
        assert (test.weight, test.passes) == pytest.approx((weight, passes), rel=1e-3)
        assert test.left == (None if left is None else pytest.approx(left, abs=1e-4))
        passed = i + 1 if test.passed else passed
        weights.append(weight)
    whole = passed == len(chain)
    left = p[passed] if whole else np.maximum(weights[passed] * p[passed] - q[passed], 0)
    residual = left / left.sum()
    with np.errstate(divide="ignore"):
        numbers = exponentials(torch.tensor([signed(key_of(settings.seed, len(ids) + passed))]), VOCAB)[0].numpy()
        token = int((numbers / residual).argmin())
    assert record.weight == pytest.approx(weights[passed], rel=1e-3)
    assert record.left == pytest.approx(left.sum(), abs=1e-4)
    assert record.p == near_to(p[passed][record.tokens])
    assert record.q == ([] if whole else near_to(q[passed][record.tokens]))
    assert record.residual == pytest.approx(residual[record.tokens], abs=1e-4)
    assert record.residual_probability == pytest.approx(residual[token], abs=1e-4)
    assert step.emitted == [*chain[:passed], token][: len(step.emitted)]
    return passed


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        pytest.param(name, sampling, marks=() if place // 2 % 2 == usual else pytest.mark.slow, id=f"{name}-{sampling}")
        for place, name in enumerate(DRAFTERS)
        for usual, sampling in enumerate([{"temperature": 0.8}, {"temperature": 1.1, "top_k": 12}])
    ],
)
def test_recorded_numbers_give_every_verdict_and_every_token(target, drafts, verified, name, sampling):
    count, make = DRAFTERS[name]
    models, tallies = [target.model, *(draft.model for draft in drafts[:count])], np.zeros(3, dtype=int)
    for seed in range(4):
        settings = GenerationSettings(max_new_tokens=40, budget=24, seed=seed, **sampling)
        verified.clear()
        steps = Decoder(target, make(drafts), settings).run(PROMPT).steps
        drafted = [step for step in steps if len(step.tree.tokens) > 1]
        assert all(choice.rejection is None for step in steps if step not in drafted for choice in step.choices)
        for step, (tree, _, ids, _, found) in zip(drafted, verified, strict=True):
            tokens, path = [], [0]
            for choice in step.choices:
                assert choice.node == path[-1]
                child, token = check_choice(choice, tree, models, ids + tokens, settings.sampling)
                assert choice.token == token
                tokens.append(token)
                path += [] if child is None else [child]
                trials = choice.rejection.trials
                tallies += [
                    sum(not trial.accepted for trial in trials),
                    child is None and not trials,
                    child is None and bool(trials),
                ]
            assert tokens == step.emitted
            assert found.path[: len(path)] == path
    assert tallies.min() > 2, "rejected children, bonus tokens and correction tokens"


@pytest.mark.parametrize("name", DRAFTERS)
def test_distributions_of_trials_are_those_drawn_from_and_sum_to_one(target, drafts, verified, name):
    settings = GenerationSettings(max_new_tokens=30, budget=24, temperature=0.8, seed=3)
    Decoder(target, DRAFTERS[name][1](drafts), settings).run(PROMPT)
    for tree, logits, prefix, rule, found in verified:
        for i in range(len(found.path)):
            tried, residual = rejection_sampler.trials_at(tree, logits, prefix, rule, found.path[: i + 1])
            for child, _, trial in tried:
                assert float(trial.p.sum()) == pytest.approx(1)
                assert float(trial.q.sum()) == pytest.approx(1)
                if child == tried[0].child:
                    assert torch.equal(trial.q[0], tree.sampled_from.distributions[tree.sampled_from.rows[child]])
            assert float(residual.sum()) == pytest.approx(1)
            assert [child for child, _, trial in tried if trial.accepted.item()] == found.path[i + 1 : i + 2]


def test_a_penalty_of_the_prefix_changes_no_agreement(target, drafts, verified):
    """The repetition penalty needs the prefix of each node, so the target's distribution comes from another function."""
    settings = GenerationSettings(max_new_tokens=30, budget=24, temperature=0.8, repetition_penalty=1.3)
    steps = Decoder(target, specinfer(drafts, 2, False), settings).run(PROMPT).steps
    for step, (_, _, _, _, found) in zip([step for step in steps if len(step.tree.tokens) > 1], verified, strict=True):
        for choice, child in zip(step.choices, [*found.path[1:], None]):
            assert [trial.node for trial in choice.rejection.trials if trial.accepted] == ([] if child is None else [child])


class Reusing(Drafter, Inspectable):
    """Draws one token from a uniform distribution, and overwrites the distribution in the call of this name."""

    def __init__(self, overwrites=None):
        self.q = torch.empty(1, VOCAB, dtype=torch.float64)
        if overwrites is not None:
            inner = getattr(self, overwrites)
            setattr(self, overwrites, lambda *arguments: (self.q.zero_(), inner(*arguments))[1])

    def propose(self, context, budget):
        drawn = DraftDistributions(self.q.fill_(1 / VOCAB), [-1, 0])
        return DraftTree(np.array([context.root, 7]), np.array([-1, 0]), sampled_from=drawn)


@pytest.mark.parametrize("call", ["observe", "explain", "matrix_rows", "matrix_size", "predictions"])
def test_the_record_is_of_the_distributions_at_verification(target, call):
    settings = GenerationSettings(max_new_tokens=8, budget=4, temperature=0.8)
    steps, honest = (Decoder(target, Reusing(name), settings).run(PROMPT).steps for name in (call, None))
    assert [step.choices for step in steps] == [step.choices for step in honest]
    trials = [trial for step in steps for choice in step.choices if choice.rejection for trial in choice.rejection.trials]
    assert len(trials) > 3
    assert {trial.q for trial in trials} == {1 / VOCAB}


class TypicalDrafter(OracleDrafter):
    typical = TypicalAcceptance(epsilon=0.3, delta=0.4)


def test_typical_acceptance_is_recorded_with_its_threshold(target):
    settings = GenerationSettings(max_new_tokens=40, budget=16, temperature=0.7)
    drafter = TypicalDrafter(alone(target, PROMPT, 60), hit=0.9, width=3)
    record = Decoder(target, drafter, settings).run(PROMPT)
    ids, accepted = list(PROMPT), 0
    for step in record.steps:
        for i, choice in enumerate(step.choices):
            p = stock(target.model, ids + step.emitted[:i], settings.sampling)
            entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
            children = [node for node, parent in enumerate(step.tree.parents) if parent == choice.node]
            assert choice.rejection is None
            assert choice.typical.entropy == pytest.approx(entropy, abs=1e-4)
            assert choice.typical.threshold == pytest.approx(min(0.3, 0.4 * np.exp(-entropy)), abs=CLOSE)
            assert [trial.node for trial in choice.typical.trials] == children
            assert [trial.p for trial in choice.typical.trials] == near_to([p[step.tree.tokens[node]] for node in children])
            assert all(trial.typical == (trial.p > choice.typical.threshold) for trial in choice.typical.trials)
            typical = [trial.node for trial in choice.typical.trials if trial.typical]
            assert set(step.path[i + 1 : i + 2]) <= set(typical)
            accepted += len(typical)
        ids += step.emitted
    assert accepted > 10


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8}], ids=str)
def test_other_verifications_record_no_trials(target, sampling):
    drafter = OracleDrafter(alone(target, PROMPT, 60))
    steps = Decoder(target, drafter, GenerationSettings(max_new_tokens=20, budget=16, **sampling)).run(PROMPT).steps
    for choice in (choice for step in steps for choice in step.choices):
        assert choice.rejection is choice.typical is None
        assert (choice.draw is None) == (not sampling)

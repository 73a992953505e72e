"""Rejection sampling is lossless for any draft distribution. Random tests state their false-alarm probability."""

import numpy as np
import pytest
import torch
from scipy import stats

from aded.core.tree import DraftDistributions, DraftTree
from aded.draft_models.tree_runner import Sampler
from aded.drafters.tree_merge import merge
from aded.sampling.logits_pipeline import Rule, sample
from aded.sampling.rng import key_of, signed
from aded.sampling.settings import SamplingSettings
from aded.verification.rejection_sampler import ACCEPT_STREAM, accept_children, trials_at, verify

VOCAB, DRAWS = 6, 200_000
MOST = 0.01
"""Total variation allowed: 200,000 draws over six tokens differ by 0.005 from their own distribution less than once in 10^9."""
FALSE_ALARM = 1e-6


def distribution(seed):
    return torch.tensor(np.random.default_rng(seed).dirichlet(np.full(VOCAB, 0.8)))


P, Q, OTHER = distribution(1), distribution(2), distribution(3)


def draw(q, width, replacement):
    """Children of ``DRAWS`` nodes, an independent oracle for how they are drawn: int64 ``[DRAWS, width]``."""
    generator = torch.Generator().manual_seed(width + replacement)
    return torch.multinomial(q.expand(DRAWS, -1), width, replacement, generator=generator)


def emitted(tokens, q, replacement, rows=None):
    """The emitted token at each node: the accepted child or the correction token, int64 ``[DRAWS]``."""
    width = tokens.shape[1]
    uniforms = torch.rand(DRAWS, width, generator=torch.Generator().manual_seed(12345), dtype=torch.float64)
    keys = torch.tensor([signed(key_of(11, place)) for place in range(DRAWS)])
    if rows is None:
        rows = torch.arange(DRAWS)[:, None].expand(-1, width)
    accepted, chosen = accept_children(P.repeat(DRAWS, 1), q, tokens, rows, uniforms, keys, replacement)
    picked = tokens.gather(1, accepted.clamp_max(width - 1)[:, None])[:, 0]
    return torch.where(accepted < width, picked, chosen)


def variation(written, p=P):
    """Total variation distance between emitted tokens and the target's distribution."""
    return 0.5 * float((torch.bincount(written, minlength=VOCAB) / len(written) - p).abs().sum())


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_the_output_follows_the_target_for_any_draft(width, replacement):
    q = Q.repeat(DRAWS, 1)
    assert variation(emitted(draw(Q, width, replacement), q, replacement)) <= MOST


def test_children_of_two_draft_models_are_verified_each_with_its_distribution():
    tokens = torch.cat([draw(Q, 2, True), draw(OTHER, 1, True)], dim=1)
    q = torch.cat([Q.repeat(DRAWS, 1), OTHER.repeat(DRAWS, 1)])
    first = torch.arange(DRAWS)[:, None]
    rows = torch.cat([first, first, first + DRAWS], dim=1)
    assert variation(emitted(tokens, q, True, rows)) <= MOST


@pytest.mark.parametrize("width", [1, 2, 4])
def test_at_a_node_without_children_the_target_is_sampled(width):
    assert variation(emitted(torch.full((DRAWS, width), -1), Q[None], True, torch.full((DRAWS, width), -1))) <= MOST


BIASED = {
    "another distribution than it was drawn from": lambda: emitted(draw(Q, 1, True), OTHER.repeat(DRAWS, 1), True),
    "no replacement taken for replacement": lambda: emitted(draw(Q, 3, False), Q.repeat(DRAWS, 1), True),
    "the most probable tokens taken for drawn ones": lambda: emitted(
        Q.topk(2).indices.repeat(DRAWS, 1), Q.repeat(DRAWS, 1), False
    ),
    "improbable draws left out": lambda: emitted(
        torch.where(Q[(drawn := draw(Q, 1, True))] < 0.2, -1, drawn), Q.repeat(DRAWS, 1), True
    ),
}


@pytest.mark.parametrize("mistake", BIASED)
def test_an_injected_bias_is_detected(mistake):
    assert variation(BIASED[mistake]()) > 2 * MOST


def test_the_acceptance_rate_is_the_overlap_of_both_distributions():
    """Leviathan's acceptance rate, the sum of min(p, q); 200,000 draws are off by 0.006 less than once in 10^7."""
    tokens = draw(Q, 1, True)
    uniforms = torch.rand(DRAWS, 1, generator=torch.Generator().manual_seed(12345), dtype=torch.float64)
    keys, rows = torch.zeros(DRAWS, dtype=torch.int64), torch.arange(DRAWS)[:, None]
    accepted, _ = accept_children(P.repeat(DRAWS, 1), Q.repeat(DRAWS, 1), tokens, rows, uniforms, keys, True)
    assert float((accepted == 0).double().mean()) == pytest.approx(float(torch.minimum(P, Q).sum()), abs=0.006)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("width", [1, 3])
def test_children_follow_the_draft_model(width, replacement):
    """First children, and later ones given their earlier siblings: chi-square of 4,000, one false alarm in 10^6."""
    settings = [SamplingSettings(temperature=1.0, seed=seed) for seed in range(4000)]
    logits = Q.log()[None].float()
    found = np.array([Sampler(s, False, replacement).draw(logits, width, 3, [0])[0][0] for s in settings])
    q = Q.float().log().double().softmax(-1).numpy()
    assert stats.chisquare(np.bincount(found[:, 0], minlength=VOCAB), q * len(found)).pvalue > FALSE_ALARM
    if width == 1:
        return
    second = np.zeros((VOCAB, VOCAB))
    np.add.at(second, (found[:, 0], found[:, 1]), 1)
    left = np.tile(q, (VOCAB, 1)) if replacement else (1 - np.eye(VOCAB)) * q / (1 - q)[:, None]
    expected = q[:, None] * left * len(found)
    assert second[expected == 0].sum() == 0
    assert stats.chisquare(second[expected > 0], expected[expected > 0] / expected.sum() * len(found)).pvalue > FALSE_ALARM


TREE = DraftTree(np.array([1, 0, 2, 4, 0, 1]), np.array([-1, 0, 0, 0, 1, 2]))


def sampled_tree(seed, replacement):
    """Three children of the root and one child of each of the first two, drawn from fixed distributions."""
    rng, q = np.random.default_rng(seed), torch.stack([Q, OTHER, P])
    first = rng.choice(VOCAB, 3, replace=replacement, p=Q.numpy())
    second = [rng.choice(VOCAB, p=OTHER.numpy()), rng.choice(VOCAB, p=P.numpy())]
    rows = np.array([-1, 0, 0, 0, 1, 2], dtype=np.int32)
    return DraftTree(np.array([1, *first, *second]), TREE.parents, sampled_from=DraftDistributions(q, rows, replacement))


@pytest.mark.parametrize(
    ("replacement", "merged"),
    [
        (True, False),
        (False, True),
        *(pytest.param(*both, marks=pytest.mark.slow) for both in ((True, True), (False, False))),
    ],
)
def test_two_positions_of_a_tree_follow_the_target_together(replacement, merged):
    """Chi-square of 1,500 walks against the exact joint distribution; one false alarm in 10^6."""
    after = torch.tensor(np.random.default_rng(7).normal(0, 1.5, (VOCAB, VOCAB)), dtype=torch.float32)
    start = torch.tensor(np.random.default_rng(8).normal(0, 1.5, VOCAB), dtype=torch.float32)
    counts = np.zeros((VOCAB, VOCAB))
    for seed in range(1500):
        tree = sampled_tree(seed, replacement)
        tree = merge([tree, sampled_tree(seed + 10**6, replacement)]) if merged else tree
        logits = torch.stack([start, *(after[token] for token in tree.tokens[1:].tolist())])
        rule = Rule(SamplingSettings(temperature=0.8, seed=seed))
        written = verify(tree, logits, [3, 1], rule).chosen(tree)
        if len(written) == 1:  # the continuation in the next step
            row = (after[written[0]] / 0.8).softmax(-1).double()
            written.append(int(np.random.default_rng([seed, 9]).choice(VOCAB, p=(row / row.sum()).numpy())))
        counts[written[0], written[1]] += 1
    joint = ((start / 0.8).softmax(-1)[:, None] * (after / 0.8).softmax(-1)).double().numpy()
    assert stats.chisquare(counts.ravel(), joint.ravel() / joint.sum() * counts.sum()).pvalue > FALSE_ALARM


def one_by_one(tree, logits, prefix, rule):
    """Multi-step speculative sampling with plain loops, as in the paper: the test oracle."""
    from aded.sampling.rng import uniform

    node, written, ids = 0, [], list(prefix)
    while True:
        p, position = rule.probabilities(logits[node], ids).numpy().copy(), len(ids)
        spent = {}
        for rank, child in enumerate(np.flatnonzero(tree.parents == node)):
            row, x = int(tree.sampled_from.rows[child]), int(tree.tokens[child])
            q = spent.get(row, tree.sampled_from.distributions[row].numpy().copy())
            if uniform(key_of(rule.settings.seed ^ ACCEPT_STREAM, position), rank) <= p[x] / q[x]:
                node = int(child)
                written.append(x)
                ids.append(x)
                break
            p = np.maximum(p - q, 0)
            p /= p.sum()
            if not tree.sampled_from.replacement:
                q[x] = 0
                spent[row] = q / q.sum()
        else:
            return [*written, sample(torch.from_numpy(p), key_of(rule.settings.seed, position))]


@pytest.mark.parametrize("penalty", [1.0, 1.4])
@pytest.mark.parametrize("replacement", [True, False])
def test_walks_are_those_of_the_plain_algorithm(replacement, penalty):
    logits = torch.tensor(np.random.default_rng(4).normal(0, 1.0, (6, VOCAB)), dtype=torch.float32)
    for seed in range(300):
        tree = sampled_tree(seed, replacement)
        rule = Rule(SamplingSettings(temperature=0.9, repetition_penalty=penalty, seed=seed))
        assert verify(tree, logits, [3, 1], rule).chosen(tree) == one_by_one(tree, logits, [3, 1], rule)


def test_a_draft_of_the_target_s_own_distribution_is_accepted_to_the_end():
    q = torch.stack([P, OTHER])
    logits = torch.cat([q, q[:1]]).log().float()
    tree = DraftTree(
        np.array([1, 2, 3]), np.arange(-1, 2), sampled_from=DraftDistributions(logits[:2].double().softmax(-1), np.arange(-1, 2))
    )
    for seed in range(200):
        assert verify(tree, logits, [1], Rule(SamplingSettings(temperature=1.0, seed=seed))).path == [0, 1, 2]


def test_parts_of_a_sampled_draft_keep_their_distributions():
    part = sampled_tree(0, True).within(1)
    assert part.sampled_from.rows.tolist() == [-1, 0, 0, 0]


@pytest.mark.parametrize("replacement", [True, False])
def test_verifying_all_nodes_at_once_equals_verifying_one_by_one(replacement):
    """The graph's code, run as it is: trees of several sizes share its buffers, and rows of q number fewer than nodes."""
    cases: list = []
    graphs: dict = {}
    for seed in range(60):
        tree, rng = sampled_tree(seed, replacement), np.random.default_rng(seed)
        tree = tree if seed % 3 else tree.select([0, 1])
        logits = torch.tensor(rng.normal(0, 1.0, (len(tree), VOCAB)), dtype=torch.float32)
        rule = Rule(SamplingSettings(temperature=0.9, seed=seed))
        cases.append((tree, logits, rule, verify(tree, logits, [3, 1], rule)))
    for tree, logits, rule, expected in cases:
        assert verify(tree, logits, [3, 1], rule, graphs) == expected
    assert 1 <= len(graphs) <= 2


@pytest.mark.parametrize("more", [{}, {"top_k": 4}, {"top_p": 0.8}, {"min_p": 0.1}], ids=str)
@pytest.mark.parametrize("replacement", [True, False])
def test_trials_of_a_path_give_its_verdicts_and_the_last_token(replacement, more):
    """Bit by bit: the distribution after the trials and the random numbers give the token of the graph's code."""
    rejected, graphs = 0, {}
    for seed in range(60):
        tree = sampled_tree(seed, replacement)
        logits = torch.tensor(np.random.default_rng(seed).normal(0, 1.0, (len(tree), VOCAB)), dtype=torch.float32)
        rule = Rule(SamplingSettings(temperature=0.9, seed=seed, **more))
        found = verify(tree, logits, [3, 1], rule, graphs)
        for i in range(len(found.path)):
            tried, residual = trials_at(tree, logits, [3, 1], rule, found.path[: i + 1])
            accepted = [one for one in tried if one.trial.accepted]
            rejected += len(tried) - len(accepted)
            assert [one.child for one in accepted] == found.path[i + 1 : i + 2]
            assert [one.uniform for one in accepted] == found.draws[i : i + len(accepted)]
        assert sample(residual, key_of(seed, 2 + i)) == found.next_token
    assert rejected > 20


def test_a_draft_may_come_with_more_distributions_than_nodes():
    tree = sampled_tree(3, True)
    drawn = tree.sampled_from
    table = torch.full((700, drawn.distributions.shape[1]), 1 / drawn.distributions.shape[1], dtype=torch.float64)
    rows = np.where(drawn.rows < 0, -1, 690 - 2 * drawn.rows)
    table[(690 - 2 * np.arange(len(drawn.distributions))).tolist()] = drawn.distributions
    other = DraftTree(tree.tokens, tree.parents, sampled_from=DraftDistributions(table, rows, drawn.replacement))
    logits = torch.tensor(np.random.default_rng(2).normal(0, 1.0, (len(tree), VOCAB)), dtype=torch.float32)
    for seed in range(40):
        rule = Rule(SamplingSettings(temperature=0.9, seed=seed))
        expected = verify(tree, logits, [3, 1], rule)
        assert verify(other, logits, [3, 1], rule) == verify(other, logits, [3, 1], rule, {}) == expected

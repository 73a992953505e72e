"""Verification is lossless for any draft. Random tests state their false-alarm probability."""

import numpy as np
import pytest
import torch
from scipy import stats

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.sampling import rng
from aded.sampling.logits_pipeline import Rule, sample
from aded.sampling.rng import exponentials, key_of, next_uniform, signed, uniform, uniform_compiled
from aded.sampling.settings import SamplingSettings
from aded.verification.tree_walk import verdicts
from aded.verification.verify import verify

VOCAB = 6
PREFIX = [3, 1]
TREE = DraftTree(np.array([1, 0, 2, 4, 0, 1]), np.array([-1, 0, 0, 0, 1, 2]))
FALSE_ALARM = 1e-6
WALKS = 5000
"""The rarest text of two tokens is expected 30 times; the biased rule has a p-value below 10^-200."""


def logits_of(tree: DraftTree, seed: int = 0) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(0, 1.5, (len(tree), VOCAB)), dtype=torch.float32)


def test_greedy_walk_follows_the_arg_max_and_adds_a_bonus_or_correction_token():
    logits = torch.full((len(TREE), VOCAB), -5.0)
    logits[0, 2] = logits[2, 1] = logits[5, 3] = 5.0
    found = verify(TREE, logits, PREFIX, Rule(SamplingSettings()))
    assert found.path == [0, 2, 5]
    assert found.next_token == 3
    assert found.chosen(TREE) == [2, 1, 3]


def pair_counts(draw_pair, runs: int) -> np.ndarray:
    counts = np.zeros((VOCAB, VOCAB))
    for seed in range(runs):
        first, second = draw_pair(seed)
        counts[first, second] += 1
    return counts


def test_sampled_walk_follows_the_targets_distribution_on_two_positions():
    """Chi-square of 5,000 walks against the exact joint distribution of the first two tokens; one false alarm in 10^6."""
    logits, settings = logits_of(TREE), {"temperature": 0.7, "top_p": 0.95}
    rule = Rule(SamplingSettings(**settings))
    after = {int(TREE.tokens[n]): rule.probabilities(logits[n], PREFIX).numpy() for n in (1, 2, 3)}
    first = rule.probabilities(logits[0], PREFIX).numpy()
    beyond = np.full(VOCAB, 1 / VOCAB)  # the token after an undrafted one is sampled in the next step, here uniformly
    joint = np.stack([first[t] * after.get(t, beyond) for t in range(VOCAB)])

    def draw_pair(seed):
        tokens = verify(TREE, logits, PREFIX, Rule(SamplingSettings(**settings, seed=seed))).chosen(TREE)
        return tokens[0], tokens[1] if len(tokens) > 1 else int(uniform(key_of(seed, 99), 0) * VOCAB)

    counts = pair_counts(draw_pair, WALKS)
    assert counts[joint == 0].sum() == 0
    assert stats.chisquare(counts[joint > 0], joint[joint > 0] * counts.sum()).pvalue > FALSE_ALARM


def per_row(probabilities: np.ndarray, children: list[int], rng: np.random.Generator) -> int:
    """The biased rule of some published code: an independent draw for every drafted candidate."""
    for child in children:
        if rng.choice(len(probabilities), p=probabilities) == child:
            return child
    return int(rng.choice(len(probabilities), p=probabilities))


def test_an_independent_draw_per_candidate_is_biased_and_the_test_detects_it():
    logits = logits_of(TREE)
    p = Rule(SamplingSettings(temperature=0.7)).probabilities(logits[0], PREFIX).numpy()
    rng = np.random.default_rng(0)
    biased = np.bincount([per_row(p, [0, 2, 4], rng) for _ in range(WALKS)], minlength=VOCAB)
    assert stats.chisquare(biased, p / p.sum() * biased.sum()).pvalue < FALSE_ALARM
    fair = [verify(TREE, logits, PREFIX, Rule(SamplingSettings(temperature=0.7, seed=s))).chosen(TREE)[0] for s in range(WALKS)]
    assert stats.chisquare(np.bincount(fair, minlength=VOCAB), p / p.sum() * len(fair)).pvalue > FALSE_ALARM


def test_random_numbers_of_seeds_positions_and_tokens_are_uniform_and_unrelated():
    """Kolmogorov-Smirnov and correlation over 20,000 numbers each way; one false alarm in 10^6 each."""
    by_seed = np.array([uniform(key_of(seed, 7), 3) for seed in range(20_000)])
    by_position = np.array([uniform(key_of(7, position), 3) for position in range(20_000)])
    by_token = np.array([uniform(key_of(7, 7), token) for token in range(20_000)])
    for draws in (by_seed, by_position, by_token):
        assert stats.kstest(draws, "uniform").pvalue > FALSE_ALARM
        assert stats.pearsonr(draws[1:], draws[:-1]).pvalue > FALSE_ALARM
    assert stats.pearsonr(by_seed, by_token).pvalue > FALSE_ALARM


def test_tensors_have_the_same_random_numbers():
    keys = [key_of(seed, seed + 5) for seed in range(20)]
    found = exponentials(torch.tensor([signed(k) for k in keys]), 300).numpy()
    expected = [[-np.log(uniform(key, token)) for token in range(300)] for key in keys]
    assert np.allclose(found, expected, rtol=1e-12)


def test_compiled_code_draws_the_same_random_numbers():
    key = state = key_of(2, 9)
    for token in range(300):
        draw, state = next_uniform(np.uint64(state))
        assert draw == pytest.approx(uniform(key, token), rel=0, abs=2.0**-53)


@pytest.mark.parametrize(("hashed", "expected"), [(0, 2.0**-53), (2**64 - 1, 1 - 2.0**-53)])
def test_the_smallest_and_the_largest_random_number_are_inside_the_interval(hashed, expected):
    key = (state_of_hash(hashed) - rng.GOLDEN_GAMMA) % 2**64
    assert uniform(key, 0) == uniform_compiled(np.uint64(key), 0) == expected
    found = exponentials(torch.tensor([signed(key)]), 1)
    assert found.item() == pytest.approx(-np.log(expected))
    assert found.item() > 0


def state_of_hash(hashed: int) -> int:
    """The state whose SplitMix64 hash this is: its steps, in reverse."""
    z = hashed
    for shift, multiplier in ((31, rng._MULTIPLIER_2), (27, rng._MULTIPLIER_1), (30, 1)):
        undone = z
        for _ in range(64 // shift):
            undone = z ^ (undone >> shift)
        z = undone * pow(multiplier, -1, 2**64) % 2**64
    return z


def test_tokens_of_probability_zero_are_never_drawn():
    p = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0], dtype=torch.float64)
    assert {sample(p, key_of(seed, 1)) for seed in range(200)} == {1, 3}


def test_rounding_of_the_logits_hardly_ever_changes_a_draw():
    """Vocabulary of 20,000, logits off by 3e-5, as between forward passes of different size: at most 2 draws of 2,000."""
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(0, 2, 20_000))
    off = logits + torch.tensor(rng.normal(0, 3e-5, 20_000))
    one, other = logits.softmax(-1), off.softmax(-1)
    assert sum(sample(one, key_of(s, 1)) != sample(other, key_of(s, 1)) for s in range(2000)) <= 2


def test_processors_get_the_prefix_of_their_node():
    seen = []

    def spy(ids, scores):
        seen.append(ids[0].tolist())
        return scores

    logits = torch.full((len(TREE), VOCAB), -5.0)
    logits[0, 2] = logits[2, 1] = logits[5, 3] = 5.0
    verify(TREE, logits, PREFIX, Rule(SamplingSettings(), [spy]))
    assert seen == [[3, 1], [3, 1, 2], [3, 1, 2, 1]]


def test_repetition_penalty_counts_tokens_of_the_path():
    chain = DraftTree.chain(1, [2])
    logits = torch.tensor([[0.0, 0, 3, 0, 0, 0], [0, 0, 3.0, 2.9, 0, 0]])
    found = verify(chain, logits, [5, 1], Rule(SamplingSettings(repetition_penalty=1.5)))
    assert found.chosen(chain) == [2, 3]


@pytest.mark.parametrize("cold", [0.0, 1e-9, 1e-5])
def test_the_lowest_temperatures_are_greedy_without_a_division_by_zero(cold):
    logits = logits_of(TREE)
    greedy = verify(TREE, logits, PREFIX, Rule(SamplingSettings()))
    assert verify(TREE, logits, PREFIX, Rule(SamplingSettings(temperature=cold))).path == greedy.path


def test_settings_filter_the_distribution_as_in_transformers():
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    row = logits_of(TREE)[0]
    expected = row[None]
    for warper in (TemperatureLogitsWarper(0.6), TopKLogitsWarper(4), TopPLogitsWarper(0.9)):
        expected = warper(None, expected)
    found = Rule(SamplingSettings(temperature=0.6, top_k=4, top_p=0.9)).probabilities(row, PREFIX)
    assert torch.allclose(found, expected[0].double().softmax(-1))


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"min_p": 2},
        {"repetition_penalty": 0},
        {"repetition_penalty": 1e-30},
        {"seed": -1},
        {"seed": 2**63},
    ],
)
def test_bad_settings_are_refused_with_a_remedy(bad):
    with pytest.raises(AdedError, match="give"):
        SamplingSettings(**bad)


def test_every_node_gets_its_verdict_and_reason():
    verdict, reason = verdicts(TREE, [0, 2, 5], kept=3)
    assert verdict == ["root", "rejected", "accepted", "rejected", "unreached", "accepted"]
    assert reason[1] == "target chose a sibling"
    assert reason[4] == "parent not accepted"
    verdict, reason = verdicts(TREE, [0, 2], kept=2)
    assert (verdict[5], reason[5]) == ("rejected", "target chose an undrafted token")
    verdict, reason = verdicts(TREE, [0, 2, 5], kept=1)
    assert (verdict[2], verdict[5], reason[5]) == ("accepted", "unreached", "cut at the end")

"""Block verification of chains: the tokens follow the target's distribution, and numbers computed by hand."""

import numpy as np
import pytest
import torch
from scipy import stats

from aded.core.errors import AdedError
from aded.core.tree import DraftDistributions, DraftTree
from aded.sampling.logits_pipeline import Rule
from aded.sampling.rng import exponentials, key_of, signed, uniform
from aded.sampling.settings import SamplingSettings
from aded.verification import block_verifier
from aded.verification.rejection_sampler import ACCEPT_STREAM, draft_key
from aded.verification.verify import verify

FALSE_ALARM = 1e-6
TARGET = np.array([[0.65, 0.30, 0.05], [0.05, 0.65, 0.30], [0.8, 0.1, 0.1]])
"""Probability of each token after each; likewise of the draft."""
DRAFT = np.array([[0.25, 0.40, 0.35], [0.50, 0.45, 0.05], [0.30, 0.40, 0.30]])
LENGTH = 3
TEXTS, FEWER = 6000, 2000
"""Texts of the tests that should pass; of the mistakes that fewer texts detect, with p-values below 10^-15."""


def chain_of(tokens):
    """A chain after token 0 with these drafted tokens."""
    parents = np.arange(-1, len(tokens)).astype(np.int32)
    q = torch.tensor(DRAFT[[0, *tokens[:-1]]])
    return DraftTree(np.array([0, *tokens]), parents, sampled_from=DraftDistributions(q, parents, block=True))


def verified(tokens, seed):
    settings = SamplingSettings(temperature=1.0, seed=seed)
    logits = torch.tensor(np.log(TARGET[[0, *tokens]]), dtype=torch.float32)
    return verify(chain_of(tokens), logits, [0], Rule(settings))


def drawn(rng, rows, token):
    return int(rng.choice(3, p=rows[token]))


def texts(count):
    """Texts of ``LENGTH`` tokens: those of one verification, filled up with draws from the target; and the accepted tokens."""
    rng, found, accepted = np.random.default_rng(0), np.zeros((3,) * LENGTH), 0
    for seed in range(count):
        chain = [drawn(rng, DRAFT, 0)]
        chain += [drawn(rng, DRAFT, chain[-1])]
        verdict = verified(chain, seed)
        text = verdict.chosen(chain_of(chain))
        accepted += len(verdict.path) - 1
        while len(text) < LENGTH:
            text.append(drawn(rng, TARGET, text[-1]))
        found[tuple(text[:LENGTH])] += 1
    return found, accepted / count


@pytest.fixture(scope="module")
def written():
    return texts(TEXTS)


def p_value(found):
    expected = TARGET[0][:, None, None] * TARGET[:, :, None] * TARGET[None, :, :]
    return stats.chisquare(found.ravel(), found.sum() * expected.ravel()).pvalue


def what_is_left_without_the_weight(monkeypatch):
    """The weights of all prefixes are 1 when the residual distribution is made."""
    change(monkeypatch, lambda p, q, tests: residual_of(p, q, tests, 1.0))


def the_residual_of_the_prefix_before(monkeypatch):
    change(monkeypatch, lambda p, q, tests: p[max(int(tests.accepted) - 1, 0)])


def prefixes_tested_by_their_weights(monkeypatch):
    monkeypatch.setattr(block_verifier, "_ratio", lambda left, total: 1.0 + left - total)


def target_and_draft_swapped(monkeypatch):
    found = block_verifier.test_prefixes
    monkeypatch.setattr(block_verifier, "test_prefixes", lambda p, q, *more: found(torch.cat([q, p[-1:]]), p[:-1], *more))


def residual_of(p, q, tests, weight):
    n = int(tests.accepted)
    left = p[n] if n == len(q) else (weight * p[n] - q[n]).clamp_min(0)
    return left / left.sum()


def change(monkeypatch, residual):
    """Draw the last token from another distribution."""
    found = block_verifier.test_prefixes

    def changed(p, q, tokens, uniforms, keys, count):
        tests = found(p, q, tokens, uniforms, keys, count)
        drawn = (exponentials(keys[tests.accepted][None], 3)[0] / residual(p, q, tests)).argmin()
        return tests._replace(token=drawn)

    monkeypatch.setattr(block_verifier, "test_prefixes", changed)


def test_texts_follow_the_target_s_distribution(written):
    assert p_value(written[0]) > FALSE_ALARM


@pytest.mark.parametrize(
    ("mistake", "count"),
    [
        pytest.param(what_is_left_without_the_weight, 4 * TEXTS, marks=pytest.mark.slow),
        (the_residual_of_the_prefix_before, FEWER),
        (prefixes_tested_by_their_weights, FEWER),
        (target_and_draft_swapped, FEWER),
    ],
)
def test_an_error_is_detected(mistake, count, monkeypatch):
    mistake(monkeypatch)
    assert p_value(texts(count)[0]) < FALSE_ALARM


EVEN, UNEVEN = torch.zeros(4, 2), torch.tensor([[0.9, 0.1]] * 3, dtype=torch.float64)
"""Logits of a target to which both tokens are equally probable, and a draft that many of whose chains end early."""


def p_value_of_steps(count):
    """Of the first four tokens of ``count`` texts, each written in several steps."""
    found, parents = np.zeros((2,) * 4), np.arange(-1, 3).astype(np.int32)
    drawn_from = DraftDistributions(UNEVEN, parents, block=True)
    for seed in range(count):
        text, rule = [0], Rule(SamplingSettings(temperature=1.0, seed=seed))
        while len(text) < 5:
            keys = torch.tensor([signed(key) for key in block_verifier.draft_keys(seed, len(text), 3)])
            chain = (exponentials(keys, 2) / UNEVEN).argmin(-1).tolist()
            tree = DraftTree(np.array([text[-1], *chain]), parents, sampled_from=drawn_from)
            text += verify(tree, EVEN, text, rule).chosen(tree)
        found[tuple(text[1:5])] += 1
    return stats.chisquare(found.ravel()).pvalue


def positions_for_tests(monkeypatch):
    made = block_verifier.inputs_of

    def inputs_of(tree, position, seed):
        numbers = [uniform(key_of(seed ^ ACCEPT_STREAM, position + i), 0) for i in range(tree.drafted)]
        return made(tree, position, seed)._replace(uniforms=np.array(numbers))

    monkeypatch.setattr(block_verifier, "inputs_of", inputs_of)


def positions_for_drafts(monkeypatch):
    keys = lambda seed, position, count: [draft_key(seed, position + i) for i in range(count)]  # noqa: E731
    monkeypatch.setattr(block_verifier, "draft_keys", keys)


def test_texts_of_several_steps_follow_the_target_s_distribution():
    assert p_value_of_steps(1500) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [positions_for_tests, positions_for_drafts])
def test_numbers_that_two_steps_read_are_detected(mistake, monkeypatch):
    mistake(monkeypatch)
    assert p_value_of_steps(4000) < FALSE_ALARM


def test_as_many_tokens_are_accepted_as_theory_says(written):
    """The expected number of accepted tokens is the sum over all prefixes of min over the weights' recursion (Theorem 2)."""
    expected = 0.0
    for first in range(3):
        weight = min(1.0, TARGET[0, first] / DRAFT[0, first])
        expected += DRAFT[0, first] * weight
        for second in range(3):
            longer = min(1.0, weight * TARGET[first, second] / DRAFT[first, second])
            expected += DRAFT[0, first] * DRAFT[first, second] * longer
    accepted = written[1]
    token_by_token = sum(
        min(TARGET[0, a], DRAFT[0, a]) * (1 + sum(min(TARGET[a, b], DRAFT[a, b]) for b in range(3))) for a in range(3)
    )
    assert accepted == pytest.approx(expected, abs=0.04)
    assert expected > token_by_token + 0.02


def test_the_tests_of_a_chain_have_the_numbers_of_the_paper():
    rule = Rule(SamplingSettings(temperature=1.0, seed=3))
    tokens = [2, 1]
    logits = torch.tensor(np.log(TARGET[[0, *tokens]])).float()
    p, q = block_verifier.distributions(chain_of(tokens), logits, [0], rule)
    tests = block_verifier.tests_of(p, q, block_verifier.inputs_of(chain_of(tokens), 1, rule.settings.seed))
    first = 0.05 / 0.35
    second = min(1.0, first * 0.1 / 0.4)
    left = np.maximum(first * TARGET[2] - DRAFT[2], 0).sum()
    assert tests.weights.tolist() == pytest.approx([1.0, first, second])
    assert tests.passes.tolist() == pytest.approx([left / (left + 1 - first), second])


def test_equal_models_accept_the_whole_chain(monkeypatch):
    monkeypatch.setattr("test_block.DRAFT", TARGET)
    for seed in range(50):
        assert len(verified([0, 1, 1, 2], seed).path) == 5


def test_a_tree_is_refused():
    drawn_from = DraftDistributions(torch.tensor(DRAFT[[0, 0]]), np.array([-1, 0, 0]), block=True)
    tree = DraftTree(np.array([0, 1, 2]), np.array([-1, 0, 0]), sampled_from=drawn_from)
    with pytest.raises(AdedError, match="block verification is for a chain"):
        tree.check(0, 8, 3, True)


@pytest.mark.parametrize("length", [1, 2, 4, 7])
def test_a_graph_of_fixed_size_gives_the_same_result(length):
    rng, graphs = np.random.default_rng(length), {}
    for seed in range(40):
        chain = [drawn(rng, DRAFT, 0)]
        while len(chain) < length:
            chain.append(drawn(rng, DRAFT, chain[-1]))
        rule = Rule(SamplingSettings(temperature=0.9, top_p=0.95, seed=seed))
        logits = torch.tensor(np.log(TARGET[[0, *chain]]), dtype=torch.float32)
        assert verify(chain_of(chain), logits, [0], rule, graphs) == verify(chain_of(chain), logits, [0], rule)
    assert len(graphs) == 1


def test_distributions_may_be_in_any_order_and_more_than_needed():
    """The captured step and the one without a graph take the row that each token was drawn from."""
    rng, rows = np.random.default_rng(4), np.array([-1, 3, 1, 0])
    accepted = set()
    for seed in range(60):
        chain = [drawn(rng, DRAFT, 0)]
        while len(chain) < 3:
            chain.append(drawn(rng, DRAFT, chain[-1]))
        ordered = chain_of(chain)
        table = torch.full((5, 3), 1 / 3, dtype=torch.float64)
        table[rows[1:].tolist()] = ordered.sampled_from.distributions
        other = DraftTree(ordered.tokens, ordered.parents, sampled_from=DraftDistributions(table, rows, block=True))
        logits, rule = (
            torch.tensor(np.log(TARGET[[0, *chain]]), dtype=torch.float32),
            Rule(SamplingSettings(temperature=1.0, seed=seed)),
        )
        verdict = verify(ordered, logits, [0], rule)
        assert verify(other, logits, [0], rule, {}) == verify(other, logits, [0], rule) == verdict
        accepted.add(len(verdict.path))
    assert len(accepted) > 2

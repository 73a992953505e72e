"""Methods with sampled drafts, end to end: the output follows the target's distribution, token by token and jointly.

Every table of counts is compared with exact probabilities by a chi-square test with a false-alarm probability of 10^-6. A run
of this file with ``--all`` makes 50 such tests that should pass.
"""

import numpy as np
import pytest
from fakes import cost, table_target
from scipy import stats

from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models import tree_runner
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.verification import rejection_sampler
from aded.verification.rejection_sampler import draft_key

FALSE_ALARM = 1e-6
VOCAB = 3
TARGET = np.array([[0.65, 0.30, 0.05], [0.05, 0.65, 0.30], [0.8, 0.1, 0.1]])
"""Probability of each token after each. What ``DRAFT`` leaves of the first two rows is halved between two tokens, of which a
second draw of the same token would take nearly all from one; what it draws after token 2 is mostly one token, twice."""
DRAFT = np.array([[0.45, 0.05, 0.50], [0.50, 0.45, 0.05], [0.94, 0.03, 0.03]])
OTHER = np.array([[0.30, 0.30, 0.40], [0.10, 0.40, 0.50], [0.60, 0.30, 0.10]])
MODELS = {1: [DRAFT], 2: [DRAFT, DRAFT], 3: [DRAFT, DRAFT, OTHER]}


@pytest.fixture(scope="module")
def target():
    return table_target(TARGET)


@pytest.fixture(scope="module")
def drafts():
    return {count: [table_target(table) for table in tables] for count, tables in MODELS.items()}


def written(target, drafter, root, count):
    """The first three tokens of ``count`` texts, each with a different seed, int ``[count, 3]``."""
    texts = []
    for seed in range(count):
        settings = GenerationSettings(max_new_tokens=3, budget=24, temperature=1.0, seed=seed)
        texts.append(Decoder(target, drafter, settings, record=False).run([root]).token_ids)
    return np.array(texts)


def least_p_value(texts, root):
    """Of the chi-square tests of each token alone, and of the first and the last two tokens together."""
    first = TARGET[root]
    second = first @ TARGET
    expected = [first, second, second @ TARGET, first[:, None] * TARGET, second[:, None] * TARGET]
    values = []
    for places, probabilities in zip([(0,), (1,), (2,), (0, 1), (1, 2)], expected):
        counts = np.zeros(probabilities.shape)
        np.add.at(counts, tuple(texts[:, place] for place in places), 1)
        values.append(p_value(counts.ravel(), probabilities.ravel() * len(texts)))
    return min(values)


def p_value(counts, expected):
    """Of a chi-square test in which all cells that are expected less than eight times are one."""
    rare = expected < 8
    cells = [np.append(each[~rare], each[rare].sum()) if rare.any() else each for each in (counts, expected)]
    return stats.chisquare(*cells).pvalue


def specinfer(drafts, replacement, branching):
    runners = [TreeRunner(draft, VOCAB) for draft in drafts]
    return SpecInferDrafter(runners, cost(1.0), lambda greedy: 0.05, replacement=replacement, branching=branching)


def speculative(drafts, verification="rejection", length=2):
    return SpeculativeDrafter(ChainRunner(drafts[0], VOCAB), cost(1.0), lambda greedy: 0.05, verification, length)


DRAWN = [
    (1, False, (2, 1), 0, 150),
    (1, True, (3, 1), 2, 400),
    (2, False, (1, 1), 0, 150),
    (2, True, (1, 1), 0, 150),
    (3, False, (1, 1), 0, 150),
    (3, True, (1, 1), 0, 150),
]
"""Draft models, replacement, children of a node by level, the token that texts begin with, and how many texts."""


@pytest.mark.parametrize(
    ("verification", "fixed"),
    [
        ("rejection", False),
        ("block", True),
        *(pytest.param(*both, marks=pytest.mark.slow) for both in (("rejection", True), ("block", False))),
    ],
)
def test_a_sampled_chain_follows_the_target_s_distribution(drafts, verification, fixed):
    target = table_target(TARGET)
    if fixed:
        target.use_fixed_shapes()
    assert least_p_value(written(target, speculative(drafts[1], verification), 0, 150), 0) > FALSE_ALARM


@pytest.mark.parametrize(("count", "replacement", "branching", "root", "texts"), DRAWN)
def test_sampled_trees_follow_the_target_s_distribution(target, drafts, count, replacement, branching, root, texts):
    drafter = specinfer(drafts[count], replacement, branching)
    assert least_p_value(written(target, drafter, root, texts), root) > FALSE_ALARM


def one_key_for_all_models(monkeypatch):
    monkeypatch.setattr(tree_runner, "draft_key", lambda seed, at, model, parent, trial: draft_key(seed, at, 0, parent, trial))


def one_key_for_all_parents(monkeypatch):
    monkeypatch.setattr(tree_runner, "draft_key", lambda seed, at, model, parent, trial: draft_key(seed, at, model, 0, trial))


def target_and_draft_swapped(monkeypatch):
    accept_children = rejection_sampler.accept_children

    def swapped(p, q, tokens, rows, *others):
        if tokens.shape[1]:
            row = rows[0, 0]
            p, q = q[row][None].clone(), q.index_copy(0, row[None], p)
        return accept_children(p, q, tokens, rows, *others)

    monkeypatch.setattr(rejection_sampler, "accept_children", swapped)


def the_correction_token_sampled_from_the_target(monkeypatch):
    monkeypatch.setattr(rejection_sampler, "_normalized", lambda weights, otherwise: otherwise)


@pytest.mark.parametrize(
    ("mistake", "case"),
    [
        (one_key_for_all_models, 2),
        pytest.param(one_key_for_all_models, 5, marks=pytest.mark.slow),
        (one_key_for_all_parents, 1),
        (target_and_draft_swapped, 0),
        (the_correction_token_sampled_from_the_target, 3),
    ],
)
def test_an_injected_error_is_detected(target, drafts, mistake, case, monkeypatch):
    mistake(monkeypatch)
    count, replacement, branching, root, texts = DRAWN[case]
    drafter = specinfer(drafts[count], replacement, branching)
    assert least_p_value(written(target, drafter, root, texts), root) < FALSE_ALARM


def test_block_verification_accepts_more_of_the_same_drafts(target, drafts):
    accepted = {}
    for verification in ("rejection", "block"):
        drafter, lengths = speculative(drafts[1], verification, 4), []
        for seed in range(60):
            settings = GenerationSettings(max_new_tokens=24, budget=8, temperature=1.0, seed=seed)
            lengths += [len(step.emitted) for step in Decoder(target, drafter, settings, record=False).run([0]).steps[:-1]]
        accepted[verification] = np.mean(lengths)
    assert accepted["block"] > accepted["rejection"]

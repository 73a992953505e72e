"""Drafts that cannot be verified are refused before a forward pass; the message names the drafter and the error."""

import re

import numpy as np
import pytest
import torch
from fakes import VOCAB, alone, tiny_target

from aded.core.errors import AdedError
from aded.core.tree import DraftDistributions, DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.base import Drafter

PROMPT, BUDGET = [5, 17, 40, 8], 4
Q = torch.full((2, VOCAB), 1 / VOCAB, dtype=torch.float64)


def mutated(root):
    tree = DraftTree.chain(root, [1, 2])
    tree.parents[1] = 2
    return tree


def drawn(root, distributions, rows):
    """A node with token 7, drawn from ``distributions``."""
    return DraftTree(np.array([root, 7]), np.array([-1, 0]), sampled_from=DraftDistributions(distributions, rows))


FAULTS = {
    "an id as large as the vocabulary": (lambda root: DraftTree.chain(root, [3, VOCAB]), f"node 2 holds token id {VOCAB}"),
    "a negative id": (lambda root: DraftTree.chain(root, [-1]), "node 1 holds token id -1"),
    "an id of 32 bits": (lambda root: DraftTree.chain(root, [2**31]), "no 32-bit integer"),
    "an id that wraps round": (lambda root: DraftTree.chain(root, [2**32 + 5]), "no 32-bit integer"),
    "an id that no integer holds": (lambda root: DraftTree.chain(root, [2**80]), "token ids are not integers"),
    "a fraction": (lambda root: DraftTree.chain(root, [1.5]), "token ids are not integers"),
    "more nodes than asked for": (lambda root: DraftTree.chain(root, [1, 2, 3, 4]), "5 nodes.*4 were asked for"),
    "another root": (lambda root: DraftTree.chain((root + 1) % VOCAB, [1]), "its root is token"),
    "siblings of one token": (lambda root: DraftTree(np.array([root, 7, 7]), np.array([-1, 0, 0])), "node 2 repeats token 7"),
    "a child before its parent": (lambda root: DraftTree(np.array([root, 7, 8]), np.array([-1, 2, 0])), "out of order"),
    "two roots": (lambda root: DraftTree(np.array([root, 7]), np.array([-1, -1])), "out of order"),
    "a node that is its own parent": (lambda root: DraftTree(np.array([root, 7]), np.array([-1, 1])), "out of order"),
    "parents changed later": (mutated, "out of order"),
    "a parent for each node but one": (lambda root: DraftTree(np.array([root, 7]), np.array([-1])), "not one-dimensional arrays"),
    "nothing": (lambda root: DraftTree(np.array([], int), np.array([], int)), "not one-dimensional arrays"),
    "no tree": (lambda root: None, "NoneType"),
    "an unknown column": (lambda root: DraftTree(np.array([root]), np.array([-1]), {"colour": np.zeros(1)}), "colour"),
    "rows of no distribution": (
        lambda root: DraftTree(np.array([root, 7]), np.array([-1, 0]), sampled_from=DraftDistributions(Q, np.array([-1, 2]))),
        "needs one of its distributions",
    ),
    "distributions over too many tokens": (
        lambda root: DraftTree(
            np.array([root, 7]),
            np.array([-1, 0]),
            sampled_from=DraftDistributions(torch.ones(1, VOCAB + 1).double(), np.array([-1, 0])),
        ),
        "needs one of its distributions",
    ),
    "a column of words": (lambda root: DraftTree(np.array([root]), np.array([-1]), {"prior": ["a"]}), "one number per node"),
    "a column of two axes": (lambda root: DraftTree(np.array([root]), np.array([-1]), {"prior": np.ones((1, 2))}), "one number"),
    "half a required node": (lambda root: DraftTree(np.array([root, 7]), np.array([-1, 0]), required=0.5), "required is 0.5"),
    "required nodes that are true": (lambda root: DraftTree([root, 7], [-1, 0], required=True), "required is True"),
    "a number for columns": (lambda root: DraftTree([root], [-1], columns=5), "columns are of type int"),
    "a list of columns": (lambda root: DraftTree([root], [-1], columns=[1]), "columns are of type list"),
    "no columns": (lambda root: DraftTree([root], [-1], columns=None), "columns are of type NoneType"),
    "an origin of words": (lambda root: DraftTree([root], [-1], origin=["a"]), "origins are not integers"),
    "an origin of other nodes": (lambda root: DraftTree([root], [-1], origin=[0, 1, 2]), "origin is not one node index"),
    "replacement that is no flag": (
        lambda root: DraftTree([root, 7], [-1, 0], sampled_from=DraftDistributions(Q, [-1, 0], replacement=[])),
        "replacement is of type list",
    ),
    "distributions of no kind": (
        lambda root: DraftTree(np.array([root, 7]), np.array([-1, 0]), sampled_from=Q),
        "of type Tensor",
    ),
    "distributions as an array": (lambda root: drawn(root, Q.numpy(), [-1, 0]), "no float64 tensor"),
    "distributions of single precision": (lambda root: drawn(root, Q.float(), [-1, 0]), "no float64 tensor"),
    "rows that are no integers": (lambda root: drawn(root, Q, [-1, 0.5]), "rows of the distributions are not integers"),
    "a distribution with NaN": (lambda root: drawn(root, Q * torch.nan, [-1, 0]), "not all finite"),
    "a negative distribution": (lambda root: drawn(root, Q - 2 * torch.eye(2, VOCAB), [-1, 0]), "not all finite"),
    "a distribution of sum 2": (lambda root: drawn(root, 2 * Q, [-1, 0]), "of sum 1"),
    "a token that cannot have been drawn": (lambda root: drawn(root, torch.eye(2, VOCAB).double(), [-1, 0]), "is 0"),
    "a token drawn twice without replacement": (
        lambda root: DraftTree([root, 7, 7], [-1, 0, 0], sampled_from=DraftDistributions(Q, [-1, 0, 0], replacement=False)),
        "node 2 repeats token 7",
    ),
    "one row for two nodes": (
        lambda root: DraftTree(
            np.array([root, 7, 8]), np.array([-1, 0, 1]), sampled_from=DraftDistributions(Q, np.array([-1, 0, 0]))
        ),
        "share a row of the distributions",
    ),
}


class Careless(Drafter):
    """Drafts nothing at first, then the given trees."""

    def __init__(self, made):
        self.made, self.steps = made, 0

    def propose(self, context, budget):
        self.steps += 1
        return self.made(context.root) if self.steps > 2 else DraftTree.root_only(context.root)


@pytest.fixture(scope="module")
def targets():
    eager, fixed = tiny_target(), tiny_target()
    fixed.use_fixed_shapes()
    return {"eager": eager, "fixed": fixed}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("steps", ["eager", "fixed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_draft_that_cannot_be_verified_is_refused_with_a_message(targets, steps, fault, temperature):
    made, words = FAULTS[fault]
    settings = GenerationSettings(max_new_tokens=9, budget=BUDGET, temperature=temperature, seed=3)
    decoder = Decoder(targets[steps], Careless(made), settings)
    with pytest.raises(AdedError, match=f"Careless made a draft that cannot be verified: .*{words}") as caught:
        decoder.run(PROMPT)
    assert len(str(caught.value).splitlines()) == 1
    assert decoder._session is None, "its cache is free"
    plain = Decoder(targets[steps], "plain", settings).run(PROMPT).token_ids
    assert decoder.trace.token_ids == plain[:2], "and what was written before is kept"


def test_sampled_siblings_may_contain_a_token_twice_with_rejection_sampling(targets):
    def made(root):
        return DraftTree(np.array([root, 7, 7]), np.array([-1, 0, 0]), sampled_from=DraftDistributions(Q, np.array([-1, 0, 0])))

    settings = GenerationSettings(max_new_tokens=9, budget=BUDGET, temperature=0.8)
    assert len(Decoder(targets["eager"], Careless(made), settings).run(PROMPT).token_ids) == 9
    with pytest.raises(AdedError, match=re.escape("node 2 repeats token 7")):
        Decoder(targets["eager"], Careless(made), GenerationSettings(max_new_tokens=9, budget=BUDGET)).run(PROMPT)


def test_siblings_of_two_distributions_may_contain_a_token_twice_without_replacement(targets):
    def made(root):
        return DraftTree([root, 7, 7], [-1, 0, 0], sampled_from=DraftDistributions(Q, [-1, 0, 1], replacement=False))

    settings = GenerationSettings(max_new_tokens=9, budget=BUDGET, temperature=0.8)
    assert len(Decoder(targets["eager"], Careless(made), settings).run(PROMPT).token_ids) == 9


@pytest.mark.parametrize("budget", [BUDGET, "auto"])
def test_lists_and_numbers_of_numpy_make_a_draft(targets, budget):
    def made(root):
        return DraftTree([root, 7], [-1, 0], {"prior": [np.nan, 0.5]}, [0, 1], np.int64(1))

    settings = GenerationSettings(max_new_tokens=9, budget=budget)
    record = Decoder(targets["eager"], Careless(made), settings).run(PROMPT)
    assert record.token_ids == alone(targets["eager"], PROMPT, 9)


def test_the_largest_id_is_valid(targets):
    record = Decoder(
        targets["eager"],
        Careless(lambda root: DraftTree.chain(root, [0, VOCAB - 1])),
        GenerationSettings(max_new_tokens=9, budget=3),
    ).run(PROMPT)
    assert record.token_ids == alone(targets["eager"], PROMPT, 9)

"""ADED with Medusa: one tree from two sources whose mixture weights are learned."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import VOCAB, alone, tiny_target
from test_medusa import PROMPT, random_heads

from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.medusa_heads import HeadPredictions, HeadReader
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context
from aded.drafters.methods.aded import AdedDrafter
from aded.drafters.methods.aded_medusa import INITIAL_SHARES, AdedMedusaDrafter
from aded.ngram import tree_search
from aded.ngram.mixture import KINDS, NO_LATTICE, Lattice, Shares, kind_of
from aded.ngram.session_counts import SessionCounts
from aded.ngram.trigram import TrigramMatrix
from aded.sampling.logits_pipeline import Rule


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def reader(target):
    return HeadReader(target, random_heads(), np.full((3, 10), 0.1))


@pytest.fixture(scope="module")
def source():
    text = np.minimum(np.random.default_rng(0).geometric(0.1, 5000) - 1, VOCAB - 1).astype(np.int32)
    return tree_search.Source(TrigramMatrix.build(text, separator=0, vocab_size=VOCAB, fingerprint="abc"), SessionCounts())


def random_lattice(seed, depths=3, ranks=5):
    rng = np.random.default_rng(seed)
    tokens = np.stack([rng.choice(VOCAB, ranks, replace=False) for _ in range(depths)]).astype(np.int32)
    probabilities = np.sort(rng.dirichlet(np.ones(ranks + 2), depths)[:, :ranks], axis=1)[:, ::-1].copy()
    return Lattice.by_depth(tokens, probabilities)._replace(shares=rng.random((depths, KINDS)))


def mixed(source, lattice, context, depth, keep):
    """A reference of the mixture of a node's successors, by its definition: token to probability."""
    known, weights = source.session.successors(source.matrix, np.array(context, dtype=np.int32), keep)
    if depth >= len(lattice.tokens):
        return dict(zip(known.tolist(), weights.tolist()))
    share = lattice.shares[depth, kind_of(weights, len(weights))]
    found = {int(t): (1 - share) * w for t, w in zip(known, weights)}
    for token, probability in zip(lattice.tokens[depth].tolist(), lattice.probabilities[depth].tolist()):
        found[token] = found.get(token, 0.0) + share * probability
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:keep])


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_has_the_most_probable_nodes_of_the_mixture(source, seed):
    lattice, context = random_lattice(seed), [3, 1, 4]
    limits = tree_search.Limits(20, 6, 12)
    tree = tree_search.best_first(replace(source, lattice=lattice), np.array(context, dtype=np.int32), limits)
    waiting, taken = [(1.0, (), 1.0)], []
    while len(taken) < len(tree):
        best = max(waiting, key=lambda offer: offer[0] * tree_search.DEPTH_DECAY ** len(offer[1]))
        waiting.remove(best)
        taken.append(best)
        if len(best[1]) < 6:
            for token, p in mixed(source, lattice, [*context, *best[1]], len(best[1]), 12).items():
                waiting.append((best[0] * p, (*best[1], token), p))
    paths = [tuple(tree.tokens[tree.path_to(node)[1:]].tolist()) for node in range(len(tree))]
    assert sorted(paths) == sorted(path for _, path, _ in taken)
    priors = dict(zip(paths, tree.columns["prior"]))
    for _, path, p in taken[1:]:
        assert priors[path] == pytest.approx(p, rel=1e-6)


def test_no_lattice_changes_nothing(source):
    context, limits = np.array([3, 1, 4], dtype=np.int32), tree_search.Limits(20, 6, 12)
    plain = tree_search.best_first(source, context, limits)
    silent = Lattice.by_depth(np.zeros((2, 1), np.int32), np.zeros((2, 1)))._replace(shares=np.zeros((2, KINDS)))
    other = tree_search.best_first(replace(source, lattice=silent), context, limits)
    assert source.lattice is NO_LATTICE
    assert plain.tokens.tolist() == other.tokens.tolist()
    assert plain.columns["prior"].tolist() == pytest.approx(other.columns["prior"].tolist(), nan_ok=True)


def test_weight_moves_to_the_source_that_is_right():
    shares = Shares(INITIAL_SHARES)
    for _ in range(300):
        shares.learn(0, 2, 3, lattice=0.6, matrix=0.05)
        shares.learn(1, 2, 3, lattice=0.0, matrix=0.4)
    assert shares.values[0, 2, 3] > 0.9
    assert shares.values[1, 2, 3] < 0.1
    assert shares.values[2].tolist() == Shares(INITIAL_SHARES).values[2].tolist()


def test_a_lattice_has_weights_by_its_confidence_at_each_depth():
    shares = Shares(INITIAL_SHARES)
    shares.learn(1, 3, 2, lattice=0.9, matrix=0.0)
    probabilities = np.array([[0.1, 0.05], [0.8, 0.1], [0.49, 0.2]])
    found = shares.of(Lattice.by_depth(np.zeros((3, 2), np.int32), probabilities)).shares
    assert found.tolist() == [shares.values[0, 0].tolist(), shares.values[1, 3].tolist(), shares.values[2, 1].tolist()]


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 3}])
def test_output_equals_plain_decoding(target, reader, sampling):
    settings = GenerationSettings(max_new_tokens=40, budget=16, **sampling)
    record = Decoder(target, AdedMedusaDrafter(None, VOCAB, reader), settings).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 40, Rule(settings.sampling))


def test_heads_draft_where_the_matrix_has_no_successors(target, reader):
    class Spy(AdedMedusaDrafter):
        def propose(self, context, budget):
            tree = super().propose(context, budget)
            sizes.append(len(tree))
            return tree

    sizes = []
    drafter = Spy(None, VOCAB, reader)
    sizes.clear()  # of its warm-up
    Decoder(target, drafter, GenerationSettings(max_new_tokens=8, budget=16)).run(PROMPT)
    assert sizes[1] == 16


def test_without_hidden_states_the_drafts_are_those_of_aded(reader, source):
    """For example on recorded text, without a model."""
    both = AdedMedusaDrafter(source.matrix, VOCAB, reader), AdedDrafter(source.matrix, VOCAB, AdedOptions(search="best-first"))
    trees = []
    for drafter in both:
        drafter.start(PROMPT)
        trees.append(drafter.propose(Context(np.array(PROMPT, dtype=np.int32), 5), 24))
    assert trees[0].tokens.tolist() == trees[1].tokens.tolist()


def test_weights_are_learned_from_the_tokens_of_the_target(target, reader):
    drafter = AdedMedusaDrafter(None, VOCAB, reader)
    Decoder(target, drafter, GenerationSettings(max_new_tokens=40, budget=16)).run(PROMPT)
    assert (drafter._shares.values != Shares(INITIAL_SHARES).values).any()
    drafter.start(PROMPT)
    assert (drafter._shares.values == Shares(INITIAL_SHARES).values).all()


def test_beyond_the_last_head_only_the_matrix_drafts(source):
    lattice = random_lattice(0, depths=1)._replace(shares=np.ones((1, KINDS)))
    tree = tree_search.best_first(
        replace(source, lattice=lattice), np.array([3, 1], dtype=np.int32), tree_search.Limits(30, 4, 12)
    )
    assert set(tree.tokens[tree.depths == 1].tolist()) <= set(lattice.tokens[0].tolist())
    assert isinstance(HeadPredictions(lattice.tokens, lattice.probabilities), HeadPredictions)

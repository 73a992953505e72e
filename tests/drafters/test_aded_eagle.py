"""ADED with EAGLE: one tree from the head's candidates and the matrix."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from fakes import VOCAB, alone, tiny_target
from feature_head_fakes import accuracy, random_head
from test_aded_medusa import mixed, source  # noqa: F401 -- a fixture

from aded import Decoder, GenerationSettings
from aded.draft_models.feature_heads import LoadedHead
from aded.draft_models.tree_runner import BEAM, Beam
from aded.drafters.methods.aded_eagle import INITIAL_SHARES, AdedEagleDrafter, _lattice
from aded.drafters.methods.eagle import NOT_FINITE, EagleDrafter
from aded.ngram import tree_search
from aded.ngram.mixture import KINDS, Shares
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings

PROMPT = [5, 9, 14, 3, 20, 31]


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def drafter(target, **head):
    return AdedEagleDrafter(None, VOCAB, EagleDrafter(LoadedHead(random_head(target, **head), np.array(accuracy()))))


def random_beam(seed, levels=3):
    rng, beam = np.random.default_rng(seed), Beam(1, VOCAB)
    for _ in range(levels):
        rows = len(beam.rows)
        tokens = np.stack([rng.choice(VOCAB, BEAM, replace=False) for _ in range(rows)])
        beam.extend(tokens, np.sort(rng.dirichlet(np.ones(BEAM + 1), rows)[:, :BEAM], axis=1)[:, ::-1])
    return beam


@pytest.mark.parametrize("seed", range(3))
def test_the_lattice_has_the_candidates_of_the_beam_search(seed):
    beam = random_beam(seed)
    lattice, tree = _lattice(beam), beam.best(1000)
    assert len(lattice.tokens) == 1 + 2 * BEAM
    assert len(tree) == 1 + lattice.tokens.size
    rows, expanded = {0: 0}, 0
    for node in range(1, len(tree)):
        row = rows.get(int(tree.parents[node]))
        assert row is not None, "a candidate has an expanded parent"
        rank = lattice.tokens[row].tolist().index(int(tree.tokens[node]))
        assert lattice.probabilities[row, rank] == tree.columns["prior"][node]
        assert lattice.depths[row] == tree.depths[node] - 1
        if lattice.below[row, rank] >= 0:
            rows[node] = int(lattice.below[row, rank])
            expanded += 1
    assert expanded == 2 * BEAM
    assert (lattice.below[:, -1] == -1).all()


@pytest.mark.slow
def test_a_nodes_successors_are_those_of_its_path(source):  # noqa: F811
    """Below a token that the head has not expanded, the matrix drafts alone."""
    lattice = _lattice(random_beam(0))._replace(shares=np.full((1 + 2 * BEAM, KINDS), 0.5))
    context, limits = [3, 1, 4], tree_search.Limits(60, 5, 12)
    tree = tree_search.best_first(replace(source, lattice=lattice), np.array(context, np.int32), limits)
    rows = {0: 0}
    for node in range(1, len(tree)):
        parent = int(tree.parents[node])
        path = [int(token) for token in tree.tokens[tree.path_to(parent)[1:]]]
        if parent in rows:
            row, token = rows[parent], int(tree.tokens[node])
            one = lattice._replace(
                tokens=lattice.tokens[row:], probabilities=lattice.probabilities[row:], shares=lattice.shares[row:]
            )
            expected = mixed(source, one, [*context, *path], 0, 12)
            if token in lattice.tokens[row]:
                below = int(lattice.below[row, lattice.tokens[row].tolist().index(token)])
                rows |= {node: below} if below >= 0 else {}
        else:
            expected = mixed(source, lattice, [*context, *path], len(lattice.tokens), 12)
        assert tree.columns["prior"][node] == pytest.approx(expected[int(tree.tokens[node])], rel=1e-6)
    assert len(rows) > 3


@pytest.mark.parametrize("settings", [SamplingSettings(), SamplingSettings(temperature=1.0, top_p=0.9, seed=3)])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_output_is_the_targets(family, settings):
    target = tiny_target(family)
    one = drafter(target)
    for _ in range(2):
        trace = Decoder(target, one, GenerationSettings(max_new_tokens=40, budget=24, **asdict(settings))).run(PROMPT)
        assert trace.token_ids == alone(target, PROMPT, 40, Rule(settings))
    assert max(len(step.tree.tokens) for step in trace.steps) == 24


def test_weights_are_learned_from_the_tokens_of_the_target(target):
    one = drafter(target)
    Decoder(target, one, GenerationSettings(max_new_tokens=40, budget=16)).run(PROMPT)
    assert (one._shares.values != Shares(INITIAL_SHARES).values).any()


def test_without_a_usable_head_the_matrix_drafts_alone(target):
    one = drafter(target, scale=float("nan"))
    trace = Decoder(target, one, GenerationSettings(max_new_tokens=30, budget=16)).run(PROMPT)
    assert trace.header.notice == NOT_FINITE
    assert trace.token_ids == alone(target, PROMPT, 30, Rule(SamplingSettings()))
    assert max(len(step.tree.tokens) for step in trace.steps) > 1

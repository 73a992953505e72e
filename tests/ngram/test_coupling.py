"""Coupled search: the target's draw is ranked first where the matrix is right, and the text stays the same."""

import numpy as np
import pytest
from fakes import VOCAB, tiny_target

from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.aded_options import AdedOptions
from aded.drafters.methods.aded import AdedDrafter
from aded.ngram.coupling import drawn_successors, learned_exponent
from aded.ngram.session_counts import SessionCounts, new_lookup, successors
from aded.ngram.trigram import TrigramMatrix
from aded.sampling.coupling import MAX_EXPONENT, UNCOUPLED
from aded.sampling.rng import key_of, key_of_compiled, uniform, uniform_compiled

CONTEXT = np.array([1, 2], dtype=np.int32)


def learned() -> tuple[TrigramMatrix, SessionCounts]:
    """A matrix in which six tokens follow the context, equally often."""
    session, matrix = SessionCounts(), TrigramMatrix.empty(VOCAB)
    for token in (10, 11, 12, 13, 14, 15):
        session.learn(matrix, np.array([1, 2, token], dtype=np.int32), 0)
    return matrix, session


def draw(seed: int, position: int, tokens: np.ndarray, probabilities: np.ndarray) -> int:
    """The token that a target with these probabilities draws."""
    key = key_of(seed, position)
    return int(min(zip(tokens, probabilities), key=lambda pair: -np.log(uniform(key, int(pair[0]))) / pair[1])[0])


def test_compiled_code_has_the_random_numbers_of_the_target():
    for seed, position, token in ((0, 5, 0), (7, 3000, 49151), (2**63 + 5, 1, 17)):
        key = key_of(seed, position)
        assert int(key_of_compiled(np.uint64(seed), position)) == key
        assert uniform_compiled(np.uint64(key), token) == uniform(key, token)


def test_where_the_matrix_is_right_the_draw_is_the_first_successor():
    matrix, session = learned()
    lookup = new_lookup(matrix.arrays, session.arrays)
    for position in range(200):
        count = successors(lookup, CONTEXT, 2, 32)
        drawn = draw(4, position + 3, lookup.tokens[:count].copy(), lookup.probabilities[:count].copy())
        coupling = UNCOUPLED._replace(on=True, seed=np.uint64(4), position=position, exponent=1.0)
        assert drawn_successors(lookup, coupling, CONTEXT, 2, 3, 4) == 4
        assert lookup.tokens[0] == drawn


def test_coupled_successors_have_the_same_total_probability():
    matrix, session = learned()
    lookup = new_lookup(matrix.arrays, session.arrays)
    count = successors(lookup, CONTEXT, 2, 32)
    total = lookup.probabilities[:count].sum()
    coupling = UNCOUPLED._replace(on=True, position=9)
    count = drawn_successors(lookup, coupling, CONTEXT, 2, 0, 32)
    assert lookup.probabilities[:count].sum() == pytest.approx(min(total, 1.0))
    assert (np.diff(lookup.probabilities[:count]) <= 0).all()


@pytest.mark.parametrize("is_right", [True, False])
def test_the_exponent_is_learned_from_how_well_the_matrix_predicts_the_draws(is_right: bool):
    matrix, session = learned()
    lookup, exponent = new_lookup(matrix.arrays, session.arrays), UNCOUPLED.exponent
    for position in range(400):
        count = successors(lookup, CONTEXT, 2, 32)
        tokens, probabilities = lookup.tokens[:count].copy(), lookup.probabilities[:count].copy()
        drawn = draw(4 if is_right else 5, position, tokens, probabilities)
        coupling = UNCOUPLED._replace(on=True, seed=np.uint64(4), position=position, exponent=exponent)
        exponent = learned_exponent(matrix.arrays, session.arrays, coupling, np.array([1, 2, drawn], dtype=np.int32), 2)
    assert (1.2 < exponent <= MAX_EXPONENT) if is_right else (0 <= exponent < 0.25)


@pytest.mark.parametrize("search", ["mcts", "best-first", "greedy", "full"])
def test_coupling_changes_drafts_and_no_text(search: str):
    target, settings = tiny_target("llama", 3), GenerationSettings(max_new_tokens=60, temperature=0.9, seed=5, budget=16)
    prompt = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]
    text = Decoder(target, "plain", settings).run(prompt).token_ids
    trees = []
    for coupling in (True, False):
        drafter = AdedDrafter(None, VOCAB, AdedOptions(search=search, coupling=coupling))  # type: ignore[arg-type]
        trace = Decoder(target, drafter, settings).run(prompt)
        assert trace.token_ids == text
        trees.append([step.tree.tokens for step in trace.steps])
    assert trees[0] != trees[1]


def test_a_greedy_decode_is_not_coupled():
    drafter = AdedDrafter(None, VOCAB)
    Decoder(tiny_target("llama"), drafter, GenerationSettings(max_new_tokens=4)).run([5, 6, 7])
    assert not drafter._coupling.on

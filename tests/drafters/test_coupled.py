"""Drafts coupled with the target's draws: the draw comes first where the weights are right, and the text stays the same."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import VOCAB, tiny_target

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.base import Context, Outcome
from aded.drafters.coupled import CoupledDrafter
from aded.drafters.methods.rest import RestDrafter
from aded.drafters.methods.suffix import SuffixDrafter
from aded.drafters.methods.token_recycling import RANKS, TokenRecyclingDrafter
from aded.drafters.registry import METHODS
from aded.retrieval.suffix_array import Datastore
from aded.sampling.coupling import INITIAL_EXPONENT, MAX_EXPONENT
from aded.sampling.rng import key_of, uniform
from aded.sampling.settings import SamplingSettings

ROW = np.arange(10, 10 + RANKS, dtype=np.int32)
TEXT = [token for follower in (10, 11, 12, 13, 10, 11, 12, 10) for token in (5, follower, 0)]
"""What follows token 5: four tokens, 3, 2, 2 and 1 times."""
STORE = Datastore.build(np.array(TEXT), separator=0, vocab_size=VOCAB, fingerprint="f")
MAKE: dict[str, Callable[[bool], CoupledDrafter]] = {
    "token-recycling": lambda on: TokenRecyclingDrafter(VOCAB, np.tile(ROW, (VOCAB, 1)), coupling=on),
    "rest": lambda on: RestDrafter(STORE, coupling=on),
    "suffix": lambda on: SuffixDrafter(VOCAB, STORE, min_probability=0, coupling=on),
}
"""Drafters that know several successors of token 5."""


@pytest.fixture(params=MAKE)
def make(request: pytest.FixtureRequest) -> Callable[[bool], CoupledDrafter]:
    return MAKE[request.param]


def bound(drafter: CoupledDrafter, temperature: float = 1.0, seed: int = 4) -> CoupledDrafter:
    drafter.bind(SimpleNamespace(settings=SamplingSettings(temperature=temperature, seed=seed)))  # type: ignore[arg-type]
    return drafter


def drafted(drafter: CoupledDrafter, position: int, budget: int = 64) -> tuple[Context, DraftTree]:
    """The draft after token 5 when the next token is at ``position``."""
    context = Context(np.array([9] * (position - 1) + [5], dtype=np.int32), position)
    drafter.start([9, 5])
    return context, drafter.propose(context, budget)


def successors(tree: DraftTree) -> dict[int, float]:
    """The children of the root and their priors."""
    return {int(tree.tokens[node]): float(tree.columns["prior"][node]) for node in np.flatnonzero(tree.parents == 0)}


def draw(seed: int, position: int, weights: dict[int, float]) -> int:
    """The token that a target with these probabilities draws."""
    key = key_of(seed, position)
    return min(weights, key=lambda token: -np.log(uniform(key, token)) / weights[token])


def test_where_the_weights_are_right_the_draw_is_first_more_often_and_always_with_exponent_1(make) -> None:
    q, hits = successors(drafted(make(False), 2)[1]), {}
    for exponent in (None, INITIAL_EXPONENT, 1.0):
        drafter, hits[exponent] = bound(make(exponent is not None)), 0
        drafter._coupling = drafter._coupling._replace(exponent=exponent or 0.0)
        for position in range(2, 302):
            weights = successors(drafted(drafter, position)[1])
            assert weights.keys() == q.keys()
            assert sum(weights.values()) == pytest.approx(sum(q.values()))
            hits[exponent] += max(weights, key=weights.__getitem__) == draw(4, position, q)
    assert hits[1.0] == 300
    assert hits[INITIAL_EXPONENT] > 1.2 * hits[None]


@pytest.mark.parametrize("is_right", [True, False])
def test_the_exponent_is_learned_from_drafts_and_draws(make, is_right: bool) -> None:
    drafter, q = bound(make(True)), successors(drafted(make(False), 2)[1])
    for position in range(2, 402):
        context, tree = drafted(drafter, position)
        emitted = np.array([draw(4 if is_right else 5, position, q)])
        path = np.array([0, *np.flatnonzero((tree.parents == 0) & (tree.tokens == emitted[0]))])
        drafter.observe(Outcome(tree, path, context, emitted, np.tile(ROW, (len(tree), 1))))
    exponent = drafter._coupling.exponent
    assert (0.85 < exponent <= MAX_EXPONENT) if is_right else (0 <= exponent < 0.25)
    bound(drafter)
    assert drafter._coupling.exponent == drafter.initial_exponent, "a decode starts from the same exponent"


def test_greedy_or_switched_off_drafts_are_as_without_coupling(make) -> None:
    plain = drafted(make(False), 7)[1]
    for drafter in (bound(make(True), temperature=0.0), bound(make(False)), make(True)):
        tree = drafted(drafter, 7)[1]
        assert (tree.tokens == plain.tokens).all() and (tree.parents == plain.parents).all()
        assert np.array_equal(tree.columns["prior"], plain.columns["prior"], equal_nan=True)


@pytest.mark.parametrize("name", MAKE)
def test_coupling_changes_drafts_and_no_text(name: str, tmp_path) -> None:
    target, prompt = tiny_target("llama", 3), [5, 6, 7, 8, 5, 6, 7, 9, 5, 6]
    settings = GenerationSettings(max_new_tokens=60, temperature=0.9, seed=5, budget=16)
    text = Decoder(target, "plain", settings).run(prompt).token_ids
    corpus = np.array([*text, 0, *prompt, *text[::2], 0] + np.random.default_rng(0).integers(1, VOCAB, 2000).tolist() + [0])
    Datastore.build(corpus, separator=0, vocab_size=VOCAB, fingerprint=target.fingerprint).save(tmp_path / "d")
    options: dict[str, object] = {"datastore": str(tmp_path / "d")} if "datastore" in METHODS[name].options else {}
    options |= {"max_suffix": 1} if name == "suffix" else {}  # otherwise it drafts only chains here
    trees = []
    for chosen in ({}, {"coupling": True}, {"coupling": False}):
        trace = Decoder(target, name, settings, {**options, **chosen}).run(prompt)
        assert trace.token_ids == text
        assert trace.header.method_settings["coupling"] == chosen.get("coupling", True)
        trees.append([(step.tree.tokens, step.tree.parents) for step in trace.steps])
    assert trees[0] == trees[1] != trees[2]


def test_coupling_is_true_or_false() -> None:
    with pytest.raises(AdedError, match="true or false"):
        TokenRecyclingDrafter(VOCAB, coupling="yes")  # type: ignore[arg-type]

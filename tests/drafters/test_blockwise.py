"""Blockwise parallel decoding: lossless with every rescoring; drafts by their definition; options."""

import itertools

import numpy as np
import pytest
import torch
from fakes import VOCAB, alone, tiny_model, tiny_target
from pairwise import pairwise
from test_medusa import PROMPT, heads_file, random_heads  # noqa: F401

from aded.core import trace
from aded.core.errors import AdedError
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.medusa_heads import LATTICE_RANKS, HeadPredictions, HeadReader
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.base import Context
from aded.drafters.methods.blockwise import BlockwiseDrafter
from aded.drafters.methods.medusa import NO_STATE
from aded.drafters.methods.rescoring import BestPaths, LocalRescoring, NoRescoring
from aded.drafters.registry import METHODS
from aded.sampling.logits_pipeline import Rule

CONTEXT = Context(np.array(PROMPT, dtype=np.int32), len(PROMPT))


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def reader(target):
    return HeadReader(target, random_heads(), np.full((3, 10), 0.1), LATTICE_RANKS)


def runner(**changes):
    return TreeRunner(tiny_target(**changes), VOCAB)


RESCORINGS = {
    "none": NoRescoring,
    "local": lambda: LocalRescoring(runner(seed=1)),
    "control": lambda: BestPaths(VOCAB, alpha=0.0),
    "global": lambda: BestPaths(VOCAB),
}


def random_lattice(seed=0, depths=3, ranks=6):
    rng = np.random.default_rng(seed)
    tokens = np.stack([rng.choice(VOCAB, ranks, replace=False) for _ in range(depths)]).astype(np.int32)
    return HeadPredictions(tokens, np.sort(rng.dirichlet(np.ones(ranks + 1), depths)[:, :ranks], axis=1)[:, ::-1].copy())


@pytest.mark.parametrize(
    ("kind", "sampling", "fixed"),
    pairwise(list(RESCORINGS), [{}, {"temperature": 0.8, "seed": 3}, {"repetition_penalty": 1.3}], [False, True]),
)
def test_output_equals_plain_decoding(kind, sampling, fixed):
    target = tiny_target()
    if fixed:
        target.use_fixed_shapes()
    reader = HeadReader(target, random_heads(), np.full((3, 10), 0.1), LATTICE_RANKS)
    settings = GenerationSettings(max_new_tokens=32, budget=48, **sampling)
    record = Decoder(target, BlockwiseDrafter(reader, RESCORINGS[kind]()), settings).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 32, Rule(settings.sampling))
    sizes = {len(step.tree.tokens) for step in record.steps[1:-4]}
    assert sizes == {4} if kind in ("none", "local") else max(sizes) > 16


def test_without_rescoring_the_draft_is_the_most_probable_token_of_each_head():
    lattice = random_lattice()
    tree = NoRescoring().draft(CONTEXT, lattice, 16).tree
    assert tree.tokens.tolist() == [PROMPT[-1], *lattice.tokens[:, 0].tolist()]
    assert tree.is_chain
    assert tree.columns["prior"][1:].tolist() == lattice.probabilities[:, 0].tolist()
    assert len(NoRescoring().draft(CONTEXT, lattice, 3).tree) == 3


@pytest.mark.parametrize("alpha", [0.0, 0.7, 3.0])
def test_local_rescoring_adds_the_log_probability_of_the_draft_model(alpha):
    """Token by token, against a stock forward pass of the draft model over the text and the tokens chosen so far."""
    lattice, rescoring, model = random_lattice(1), LocalRescoring(runner(seed=1), alpha), tiny_model("llama", seed=1)
    rescoring.start(PROMPT)
    made = rescoring.draft(CONTEXT, lattice, 16)
    text = list(PROMPT)
    for depth in range(3):
        with torch.inference_mode():
            log_p = model(input_ids=torch.tensor([text])).logits[0, -1].double().log_softmax(-1).numpy()
        score = np.log(lattice.probabilities[depth]) + alpha * log_p[lattice.tokens[depth]]
        weights = np.exp(score)
        assert made.rescored[depth] == pytest.approx(weights / weights.sum() * lattice.probabilities[depth].sum(), rel=1e-3)
        text.append(int(lattice.tokens[depth, score.argmax()]))
    assert made.tree.tokens[1:].tolist() == text[len(PROMPT) :]
    assert made.tree.columns["prior"][1:] == pytest.approx(made.rescored.max(1))


def test_a_draft_model_that_cannot_read_the_text_stops_with_a_notice(target, reader):
    rescoring = LocalRescoring(runner(max_position_embeddings=8))
    drafter = BlockwiseDrafter(reader, rescoring)
    record = Decoder(target, drafter, GenerationSettings(max_new_tokens=12, budget=8)).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 12)
    assert "stops drafting" in record.header.notice


def test_the_control_has_the_paths_of_the_heads_alone_and_as_many_as_global_rescoring():
    lattice = random_lattice(2)
    products = {
        path: np.prod([lattice.probabilities[i, rank] for i, rank in enumerate(path)])
        for path in itertools.product(range(6), repeat=3)
    }
    best = sorted(products, key=lambda path: -products[path])[:16]
    trees = {}
    for alpha in (0.0, 1.0):
        rescoring = BestPaths(VOCAB, alpha=alpha)
        rescoring.start(PROMPT)
        made = rescoring.draft(CONTEXT, lattice, 100)
        trees[alpha] = {tuple(made.tree.tokens[made.tree.path_to(leaf)[1:]].tolist()) for leaf in made.tree.leaves}
        assert (made.rescored is None) == (alpha == 0.0)
    assert trees[0.0] == {tuple(int(lattice.tokens[i, rank]) for i, rank in enumerate(path)) for path in best}
    assert len(trees[1.0]) == 16


def test_global_rescoring_prefers_what_followed_in_the_text():
    rescoring, lattice = BestPaths(VOCAB, paths=1), random_lattice(3)
    later = lattice.tokens[:, -1].tolist()
    rescoring.start([8, 7, *later, 9, 8, 7, *later, 9, 8, 7])
    text = Context(np.array([8, 7], dtype=np.int32), 2)
    assert rescoring.draft(text, lattice, 100).tree.tokens[1:].tolist() == later


def test_the_lattice_is_recorded_before_and_after_rescoring(target, reader):
    settings = GenerationSettings(max_new_tokens=16, budget=32)
    for kind, make in RESCORINGS.items():
        record = Decoder(target, BlockwiseDrafter(reader, make()), settings).run(PROMPT)
        assert record.steps[0].note == NO_STATE
        assert record.steps[0].lattice == []
        for step in record.steps[1:-4]:
            assert [len(column.tokens) for column in step.lattice] == [LATTICE_RANKS] * 3
            for depth, column in enumerate(step.lattice):
                assert column.heads == sorted(column.heads, reverse=True)
                assert len(column.rescored) == (LATTICE_RANKS if kind in ("local", "global") else 0)
                assert sum(column.rescored or column.heads) == pytest.approx(sum(column.heads), rel=1e-4)
                if kind == "local":
                    assert step.tree.tokens[depth + 1] == column.tokens[int(np.argmax(column.rescored))]
        assert trace.loads(trace.dumps(record)).lanes == [record]


def test_the_kind_of_rescoring_is_an_option(target, heads_file, monkeypatch):  # noqa: F811
    method = METHODS["blockwise"]
    monkeypatch.setattr("aded.drafters.artifacts.matrix_for", lambda model, path=None: None)
    monkeypatch.setattr("aded.drafters.trained.draft_model.draft_for", lambda model, path=None: tiny_target())
    made = {
        kind: method.make(target, {"heads": str(heads_file), "rescoring": kind}, 0).settings()
        for kind in ("global", "local", "none", "control")
    }
    assert {kind: settings["rescoring"] for kind, settings in made.items()} == {kind: kind for kind in made}
    assert made["global"] == {"heads": 3, "rescoring": "global", "alpha": 1.0, "paths": 16, "base_matrix": False}
    assert method.make(target, {"heads": str(heads_file)}, 0).settings() == made["global"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rescoring": "best"}, "choose one of global, local, none, control"),
        ({"rescoring": "none", "alpha": 1.0}, "--alpha has no effect with --rescoring none; leave it out"),
        ({"rescoring": "local", "paths": 4}, "--paths has no effect with --rescoring local"),
        ({"rescoring": "control", "matrix": "m"}, "--matrix has no effect with --rescoring control"),
        ({"draft": "d"}, "--draft has no effect with --rescoring global"),
        ({"alpha": -1}, "alpha is -1; give a number from 0.0 to 10.0"),
        ({"paths": 0}, "paths is 0; give a whole number from 1 to 64"),
        (
            {"rescoring": "local", "draft": "d", "draft_model": ["m"]},
            "blockwise takes one draft model; give one --draft or --draft-model",
        ),
    ],
)
def test_options_without_effect_are_refused(options, message):
    with pytest.raises(AdedError, match=message):
        METHODS["blockwise"].check(options)

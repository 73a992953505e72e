"""EAGLE and MTP heads are lossless with every tree, and heads of other models are refused."""

import numpy as np
import pytest
import torch
from fakes import VOCAB, WordTokenizer, alone, tiny_model, tiny_target
from feature_head_fakes import accuracy, random_head, trained_head
from pairwise import pairwise

from aded import Decoder, GenerationSettings
from aded.core.errors import AdedError
from aded.draft_models import feature_heads
from aded.draft_models.feature_heads import LoadedHead
from aded.drafters.methods.eagle import EagleDrafter
from aded.drafters.registry import METHODS
from aded.engine.target_model import TargetModel
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings

PROMPT = [5, 9, 14, 3, 20, 31]
SETTINGS = GenerationSettings(max_new_tokens=12, budget=16)


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def drafter(target, **options):
    return EagleDrafter(LoadedHead(random_head(target, options.pop("kind", "eagle")), np.array(accuracy())), **options)


@pytest.mark.parametrize(
    ("kind", "family", "tree", "settings"),
    pairwise(
        ["eagle", "mtp"],
        ["llama", "gpt2", "gemma3_sliding"],
        ["dynamic", "static"],
        [{}, {"temperature": 1.0, "top_p": 0.9, "seed": 3}],
    ),
)
def test_the_output_is_the_targets(kind, family, tree, settings):
    target = tiny_target(family)
    generation = GenerationSettings(max_new_tokens=40, budget=24, **settings)
    one = drafter(target, tree=tree, kind=kind)
    for _ in range(2):  # the second decode uses the network of the first
        trace = Decoder(target, one, generation).run(PROMPT)
        assert trace.token_ids == alone(target, PROMPT, 40, Rule(generation.sampling))
    assert max(len(step.tree.tokens) for step in trace.steps) == 24


@pytest.mark.parametrize(
    ("kind", "tree"), [("eagle", "dynamic"), pytest.param("eagle", "static", marks=pytest.mark.slow), ("mtp", "dynamic")]
)
def test_a_head_trained_on_a_text_drafts_it(kind, tree, target):
    """A head that knows the text it drafts has most of it accepted: positions, features and tokens belong together."""
    rule = Rule(SamplingSettings())
    texts = [[*PROMPT[: 3 + i], *alone(target, PROMPT[: 3 + i], 60, rule)] for i in range(4)]
    length = min(map(len, texts))
    head = trained_head(target, kind, [text[:length] for text in texts])
    one = EagleDrafter(LoadedHead(head, np.array(accuracy())), tree)
    trace = Decoder(target, one, GenerationSettings(max_new_tokens=length - 3, budget=24)).run(PROMPT[:3])
    assert trace.token_ids == Decoder(target, "plain", GenerationSettings(max_new_tokens=length - 3)).run(PROMPT[:3]).token_ids
    assert trace.tokens_per_step > 2.5


@pytest.mark.parametrize("tree", ["dynamic", "static"])
def test_every_budget_is_kept_and_the_root_has_the_heads_best_tokens(tree, target):
    for budget in (2, 3, 9, 64, 200):
        one = drafter(target, tree=tree)
        trace = Decoder(target, one, GenerationSettings(max_new_tokens=8, budget=budget)).run(PROMPT)
        assert all(len(step.tree.tokens) <= budget for step in trace.steps)
        assert max(len(step.tree.tokens) for step in trace.steps) > min(budget, 24) - 2


def test_a_static_tree_has_one_shape_and_a_dynamic_one_has_several(target):
    shapes = {}
    for tree in ("dynamic", "static"):
        steps = Decoder(target, drafter(target, tree=tree), GenerationSettings(max_new_tokens=30, budget=16)).run(PROMPT).steps
        shapes[tree] = {tuple(step.tree.parents) for step in steps[:-4]}
    assert len(shapes["static"]) == 1
    assert len(shapes["dynamic"]) > 1


def test_the_candidates_of_every_level_are_recorded_with_those_that_were_cut(target):
    """The kept ones are the nodes of the draft at this level, with their cumulative probabilities."""
    cut = 0
    for step in (
        Decoder(target, drafter(target, depth=3), GenerationSettings(max_new_tokens=20, budget=16)).run(PROMPT).steps[:-4]
    ):
        assert [level.candidates for level in step.levels] == [8, 64, 64]
        paths = [[node] for node in range(len(step.tree.tokens))]
        for path in paths:
            while path[0]:
                path.insert(0, step.tree.parents[path[0]])
        for depth, level in enumerate(step.levels, 1):
            nodes = [path for path in paths if len(path) == depth + 1]
            drafted = sorted(
                (step.tree.tokens[path[-1]], np.prod([step.tree.columns["prior"][n] for n in path[1:]])) for path in nodes
            )
            kept = sorted((token, p) for token, p, k in zip(level.tokens, level.cumulative, level.kept) if k)
            assert [token for token, _ in kept] == [token for token, _ in drafted]
            assert [p for _, p in kept] == pytest.approx([p for _, p in drafted], rel=1e-3, abs=1e-4)
            assert level.cumulative == sorted(level.cumulative, reverse=True)
            cut += level.kept.count(False)
    assert cut > 10


def test_a_head_is_stored_in_8_bits_and_found_for_its_model_only(target, tmp_path):
    head, path = random_head(target), tmp_path / "eagle.safetensors"
    feature_heads.write(path, target, head, accuracy())
    assert path.stat().st_size < 1.6 * sum(parameter.numel() for parameter in head.parameters())
    loaded = feature_heads.load(path, target, "eagle")
    assert torch.equal(loaded.head.tokens, head.tokens)
    assert loaded.accuracy.tolist() == pytest.approx(np.array(accuracy()))
    for name, parameter in head.named_parameters():
        largest = parameter.abs().amax(-1, keepdim=True)
        assert ((loaded.head.state_dict()[name] - parameter).abs() <= largest / 250).all()
    trace = Decoder(target, METHODS["eagle"].make(target, {"head": str(path)}, 0), SETTINGS).run(PROMPT)
    assert trace.token_ids == alone(target, PROMPT, 12)
    with pytest.raises(AdedError, match="holds no mtp checkpoint of version 1; make one with `python -m aded train mtp"):
        METHODS["mtp"].make(target, {"head": str(path)}, 0)
    wide = tiny_target(hidden_size=64)
    with pytest.raises(AdedError, match="was made for another model .llama.; make one with `python -m aded train eagle"):
        METHODS["eagle"].make(wide, {"head": str(path)}, 0)
    other = TargetModel(tiny_model("llama", vocab_size=VOCAB + 2), WordTokenizer(VOCAB + 2), "other", "other")
    with pytest.raises(AdedError, match="was made for another model"):
        METHODS["eagle"].make(other, {"head": str(path)}, 0)
    shallow = tiny_target(num_hidden_layers=1)
    feature_heads.write(path, target, random_head(tiny_target(num_hidden_layers=4)), accuracy())
    with pytest.raises(AdedError, match="does not fit this model .it reads layers"):
        METHODS["eagle"].make(shallow, {"head": str(path)}, 0)


@pytest.mark.parametrize(("kind", "name"), [("eagle", "EAGLE"), ("mtp", "MTP")])
def test_without_a_head_the_command_that_makes_one_is_named(kind, name, target):
    reason = METHODS[kind].unavailable(target)
    assert reason.startswith(f"there is no {name} head for this model; make what is missing with `python -m aded prepare llama`")
    with pytest.raises(AdedError, match="or give --head FILE"):
        METHODS[kind].make(target, {}, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree": "adaptive"}, "tree is 'adaptive'; choose one of dynamic, static"),
        ({"depth": 0}, "depth is 0; give a whole number from 1 to 16"),
        ({"heads": "x"}, "eagle has no option 'heads'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(AdedError, match=message):
        METHODS["eagle"].check(options)

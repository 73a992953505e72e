"""Medusa: the heads predict from the hidden state before the root, and drafts are their most probable combinations."""

import itertools

import numpy as np
import pytest
import torch
from fakes import VOCAB, alone, tiny_target

from aded.core import paths
from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models import checkpoints, medusa_heads
from aded.draft_models.medusa_heads import HeadReader, MedusaHeads
from aded.drafters.base import Context
from aded.drafters.methods.medusa import NO_STATE, MedusaDrafter
from aded.drafters.registry import METHODS
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings, TypicalAcceptance
from aded.train.objective import last_hidden
from aded.verification.verify import verify

PROMPT = [5, 9, 14, 3, 20]


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def random_heads(count=3, blocks=2, seed=1, scale=0.05):
    torch.manual_seed(seed)
    made = MedusaHeads(count, blocks, 32)
    torch.nn.init.normal_(made.weight, std=scale)
    return made


@pytest.fixture(scope="module")
def reader(target):
    return HeadReader(target, random_heads(), np.tile(0.5 / np.arange(1, 11), (3, 1)))


@pytest.fixture
def heads_file(target, tmp_path):
    made = random_heads()
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in made.state_dict().items()}
    path = tmp_path / "tiny.medusa.safetensors"
    checkpoints.write(path, "medusa", target, {**tensors, "accuracy": torch.full((3, 10), 0.1)}, figures={})
    return path


def test_new_heads_predict_the_next_token_of_the_target(target):
    """With zero weights the state of each head equals the target's hidden state."""
    states = torch.randn(4, 32)
    assert torch.equal(MedusaHeads(2, 3, 32)(states), states.expand(2, 4, 32))


def test_predictions_equal_those_of_the_residual_blocks_one_by_one(target, reader):
    made, state = random_heads(), torch.randn(32)
    for head in range(3):
        guess = state
        for block in range(2):
            step = made.weight[head, block] @ guess + made.bias[head, block]
            guess = guess + step * torch.sigmoid(step)
        expected = torch.softmax(target.model.lm_head(guess), -1).topk(10)
        found = reader.predictions(reader.forward(state[None]).detach().numpy())
        assert found.tokens[head].tolist() == expected.indices.tolist()
        assert np.allclose(found.probabilities[head], expected.values.detach().numpy(), atol=1e-5)


class RecordedPredictions(MedusaDrafter):
    """Keeps the committed text and the predictions of every step."""

    def start(self, prompt, features=None):
        super().start(prompt)
        self.seen = []

    def propose(self, context, budget):
        if self._predictions is not None:
            self.seen.append((context.tokens.astype(np.int64), self._predictions))
        return super().propose(context, budget)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("sampling", "typical"),
    [
        ({}, None),
        ({"temperature": 0.8, "seed": 3}, None),
        ({"repetition_penalty": 1.3}, None),
        ({"temperature": 0.8, "seed": 3}, TypicalAcceptance(epsilon=0.2)),
    ],
    ids=["greedy", "sampled", "penalty", "typical"],
)
def test_heads_predict_from_the_hidden_state_before_the_root(fixed, sampling, typical):
    """At every step, inside a step of fixed shape or after it: from the stock model's state at the position before the root."""
    target = tiny_target()
    if fixed:
        target.use_fixed_shapes()
    reader = HeadReader(target, random_heads(), np.full((3, 10), 0.1))
    drafter = RecordedPredictions(reader, typical=typical)
    Decoder(target, drafter, GenerationSettings(max_new_tokens=20, budget=12, **sampling)).run(PROMPT)
    assert len(drafter.seen) > 3
    for text, predictions in drafter.seen:
        with torch.inference_mode():
            expected = reader.predictions(reader.forward(last_hidden(target.model, torch.from_numpy(text)[None])[:, -2]).numpy())
        assert predictions.tokens.tolist() == expected.tokens.tolist()
        assert np.allclose(predictions.probabilities, expected.probabilities, atol=1e-4)


def test_steps_share_their_shapes_only_with_the_same_heads():
    target, shapes = tiny_target(), []
    target.use_fixed_shapes()
    readers = [HeadReader(target, random_heads(seed=seed), np.full((3, 10), 0.1)) for seed in (1, 2)]
    for reader in (readers[0], readers[0], readers[1]):
        Decoder(target, MedusaDrafter(reader), GenerationSettings(max_new_tokens=12, budget=8)).run(PROMPT)
        shapes.append({(step.nodes, step.n_keys, step.kind) for step in target.pool.steps})
    assert shapes[0] == shapes[1] < shapes[2]


def test_the_first_step_drafts_nothing_and_gives_the_reason(reader):
    drafter, context = MedusaDrafter(reader), Context(np.array(PROMPT, dtype=np.int32), 5)
    drafter.start(PROMPT)
    assert len(drafter.propose(context, 16)) == 1
    assert drafter.explain(context, 16).note == NO_STATE


@pytest.mark.parametrize("tree", ["adaptive", "static"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 3}])
def test_output_equals_plain_decoding(target, reader, tree, sampling):
    settings = GenerationSettings(max_new_tokens=40, budget=16, **sampling)
    truth = alone(target, PROMPT, 40, Rule(settings.sampling))
    record = Decoder(target, MedusaDrafter(reader, tree), settings).run(PROMPT)
    assert record.token_ids == truth
    assert max(len(step.tree.tokens) for step in record.steps) == 16


def test_a_static_tree_has_one_shape(target, reader):
    record = Decoder(target, MedusaDrafter(reader, "static"), GenerationSettings(max_new_tokens=30, budget=12)).run(PROMPT)
    shapes = {tuple(step.tree.parents) for step in record.steps if len(step.tree.tokens) == 12}
    assert len(shapes) == 1


def test_heads_of_a_file_are_found_by_option_and_in_the_assets(target, heads_file, monkeypatch):
    method = METHODS["medusa"]
    monkeypatch.setattr(paths, "ASSETS", heads_file.parent / "nowhere")
    assert "python -m aded prepare" in method.unavailable(target)
    with pytest.raises(AdedError, match="python -m aded prepare"):
        method.make(target, {}, 0)
    assert isinstance(method.make(target, {"heads": str(heads_file)}, 0), MedusaDrafter)
    monkeypatch.setattr(paths, "ASSETS", heads_file.parent)
    assert method.unavailable(target) is None
    assert isinstance(method.make(target, {}, 0), MedusaDrafter)
    assert medusa_heads.reader_for(target) is medusa_heads.reader_for(target)


def test_heads_for_another_model_or_damaged_ones_are_refused(target, heads_file, tmp_path):
    other = tiny_target("qwen2")
    other.fingerprint = "another"
    with pytest.raises(AdedError, match="made for another model"):
        medusa_heads.load(heads_file, other)
    with pytest.raises(AdedError, match="no draft checkpoint"):
        checkpoints.read(heads_file, "draft", target)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(heads_file.read_bytes()[:-40])
    with pytest.raises(AdedError, match="damaged"):
        medusa_heads.load(damaged, target)
    with pytest.raises(AdedError, match="there is no file"):
        medusa_heads.load(tmp_path / "none", target)
    checkpoints.write(damaged, "medusa", target, {"weight": torch.full((1, 1, 32, 32), torch.nan)}, figures={})
    with pytest.raises(AdedError, match="values that are not finite; copy or train it again"):
        medusa_heads.load(damaged, target)
    checkpoints.write(damaged, "medusa", target, {"weight": torch.zeros(1, 1, 8, 8)}, figures={})
    with pytest.raises(AdedError, match="heads of width 32"):
        medusa_heads.load(damaged, target)


def test_unknown_options_are_refused(reader):
    with pytest.raises(AdedError, match="choose one of adaptive, static"):
        MedusaDrafter(reader, "best")
    for bad in ({"epsilon": 0}, {"delta": 2}):
        with pytest.raises(AdedError, match="above 0 and at most 1"):
            TypicalAcceptance(**bad)


def typical_path(tree, logits, thresholds):
    """A reference of the paper's rule, path by path."""
    best = (0, 0.0, 0)
    for leaf in range(len(tree)):
        path, score = tree.path_to(leaf), 0.0
        for parent, node in itertools.pairwise(path):
            p = torch.softmax(logits[parent].double(), -1)
            entropy = float(-(p * p.log()).sum())
            chance = float(p[tree.tokens[node]])
            if chance <= min(thresholds.epsilon, thresholds.delta * np.exp(-entropy)):
                break
            score += np.log(chance)
        else:
            best = max(best, (len(path) - 1, score, -leaf))
    return best[0]


def test_typical_acceptance_accepts_the_longest_typical_path():
    tree = DraftTree(np.array([1, 0, 2, 4, 0, 1, 3]), np.array([-1, 0, 0, 0, 1, 2, 5]))
    thresholds, lengths = TypicalAcceptance(), set()
    for seed in range(100):
        logits = torch.tensor(np.random.default_rng(seed).normal(0, 1.5, (7, 6)))
        found = verify(tree, logits, [3, 1], Rule(SamplingSettings(temperature=1.0, seed=seed), typical=thresholds))
        assert len(found.path) - 1 == typical_path(tree, logits, thresholds)
        assert all(tree.parents[child] == parent for parent, child in itertools.pairwise(found.path))
        lengths.add(len(found.path))
    assert lengths == {1, 2, 3, 4}


def test_typical_acceptance_is_greedy_at_temperature_zero_and_marked_lossy(target, reader, heads_file):
    settings = GenerationSettings(max_new_tokens=30, budget=16)
    drafter = METHODS["medusa-typical"].make(target, {"heads": str(heads_file), "epsilon": 0.2}, 0)
    assert Decoder(target, drafter, settings).run(PROMPT).token_ids == alone(target, PROMPT, 30)
    assert not METHODS["medusa-typical"].lossless
    assert drafter.settings()["epsilon"] == 0.2
    assert drafter.settings()["delta"] == 0.3


@pytest.mark.parametrize("given", ["by name", "as a drafter"])
@pytest.mark.parametrize("typical", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_trace_says_whether_the_run_was_lossless(target, reader, heads_file, temperature, typical, given):
    """Typical acceptance is lossy when sampling and lossless when greedy, for custom drafters too."""
    method = "medusa-typical" if typical else "medusa"
    drafter = MedusaDrafter(reader, typical=TypicalAcceptance() if typical else None)
    options = {"heads": str(heads_file)} if given == "by name" else {}
    settings = GenerationSettings(max_new_tokens=6, budget=8, temperature=temperature)
    record = Decoder(target, method if given == "by name" else drafter, settings, options).run(PROMPT)
    assert record.header.lossless == record.summary()["lossless"] == (not typical or not temperature)


def test_typical_acceptance_accepts_more_than_exact_verification(target, reader):
    totals = {}
    for typical in (None, TypicalAcceptance(epsilon=0.01, delta=0.05)):
        steps = 0
        for seed in range(5):
            settings = GenerationSettings(max_new_tokens=24, budget=24, temperature=1.0, seed=seed)
            steps += len(Decoder(target, MedusaDrafter(reader, typical=typical), settings).run(PROMPT).steps)
        totals[typical is not None] = steps
    assert totals[True] < totals[False]


def test_ids_of_heads_are_those_of_the_vocabulary(reader):
    tokens = reader.predictions(reader.forward(torch.zeros(1, 32)).detach().numpy()).tokens
    assert 0 <= tokens.min() <= tokens.max() < VOCAB

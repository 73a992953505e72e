"""Methods with trained checkpoints on a GPU: captured code equals eager code, and the text is that of the target."""

import copy

import numpy as np
import pytest
import torch
from fakes import VOCAB, WordTokenizer, alone, cost, near, tiny_model
from feature_drafters import LAYERS, CacheDrafter, FeatureDrafter, LinearNetwork
from feature_head_fakes import accuracy, last_layer, random_head
from test_medusa import PROMPT, random_heads
from test_speculative import written_alone

from aded.core.compilation.cuda_graph import Replay
from aded.core.tree import DraftDistributions, DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.feature_head_network import HeadNetwork
from aded.draft_models.feature_heads import LoadedHead
from aded.draft_models.lookahead_runner import LookaheadRunner
from aded.draft_models.medusa_heads import HeadReader
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.methods.aded_medusa import AdedMedusaDrafter
from aded.drafters.methods.blockwise import BlockwiseDrafter
from aded.drafters.methods.eagle import EagleDrafter
from aded.drafters.methods.glide import GlideDrafter
from aded.drafters.methods.medusa import MedusaDrafter
from aded.drafters.methods.ouroboros import OuroborosDrafter
from aded.drafters.methods.rescoring import BestPaths, LocalRescoring
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.engine.loading.weights import quiet
from aded.engine.target_model import TargetModel
from aded.engine.target_view import LayerKeysValues
from aded.ngram.lookahead import Lookahead
from aded.sampling.logits_pipeline import Rule
from aded.sampling.rng import signed
from aded.sampling.settings import SamplingSettings
from aded.train import dataset
from aded.train.draft import DraftObjective
from aded.train.loop import Schedule, train
from aded.train.medusa import HeadObjective
from aded.verification import rejection_sampler
from aded.verification.rejection_sampler import draft_key

pytestmark = pytest.mark.gpu
SETTINGS = {"greedy": {}, "sampled": {"temperature": 0.8, "seed": 3}, "penalty": {"temperature": 0.8, "repetition_penalty": 1.3}}


@pytest.fixture(autouse=True)
def exact_arithmetic():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


@pytest.fixture(scope="module")
def target():
    return TargetModel(tiny_model("llama").to("cuda"), WordTokenizer(), "llama", "llama")


@pytest.fixture(scope="module")
def draft(target):
    return near(target)


@pytest.fixture(scope="module")
def reader(target):
    return HeadReader(target, random_heads(), np.tile(0.5 / np.arange(1, 11), (3, 1)))


LOSSLESS_BY_SEED = (
    "medusa",
    "aded-medusa",
    "blockwise-local",
    "blockwise-global",
    "ouroboros",
    "speculative",
    "specinfer",
)


def drafters(draft, reader, lossless_by_seed=True):
    chain = "coupled" if lossless_by_seed else "rejection"
    return {
        "medusa": MedusaDrafter(reader),
        "aded-medusa": AdedMedusaDrafter(None, VOCAB, reader),
        "speculative": SpeculativeDrafter(ChainRunner(draft, VOCAB), cost(1.0), lambda greedy: 0.1, chain),
        "blockwise-local": BlockwiseDrafter(reader, LocalRescoring(TreeRunner(draft, VOCAB))),
        "blockwise-global": BlockwiseDrafter(reader, BestPaths(VOCAB)),
        "ouroboros": OuroborosDrafter(LookaheadRunner(draft, VOCAB, Lookahead(4, 5, 5, seed=0))),
        "specinfer": SpecInferDrafter([TreeRunner(draft, VOCAB)], cost(1.0), lambda greedy: 0.1, coupled=lossless_by_seed),
    }


def test_captured_heads_predict_the_same_as_eager_ones(target, reader):
    given, found = torch.zeros(1, 32, device="cuda"), torch.zeros(reader.size, dtype=torch.float64, device="cuda")

    def body():
        found.copy_(reader.forward(given))

    run = Replay(body, given.device)
    for seed in range(5):
        state = torch.randn(32, generator=torch.Generator().manual_seed(seed)).cuda()
        with torch.inference_mode():
            states = random_heads().cuda()(state[None])[:, 0]
            expected = torch.softmax(target.model.lm_head(states), -1).topk(10)
        given.copy_(state[None])
        run()
        guesses = reader.predictions(found.cpu().numpy())
        assert guesses.tokens.tolist() == expected.indices.tolist()
        assert np.allclose(guesses.probabilities, expected.values.cpu().numpy(), atol=1e-5)


@pytest.mark.parametrize("settings", [SamplingSettings(), SamplingSettings(temperature=0.8, top_p=0.9, seed=4)], ids=str)
def test_captured_chains_are_the_text_of_the_draft_model(draft, settings):
    chains, text = ChainRunner(draft, VOCAB), list(PROMPT)
    chains.start(text)
    cpu = copy.deepcopy(draft.model).cpu()
    for length, accepted, own in ((4, 4, 1), (4, 2, 1), (6, 0, 1), (3, 3, 5), (1, 1, 1), (5, 0, 40)):
        context, keys = np.array(text, dtype=np.int32), [signed(draft_key(settings.seed, len(text) + i)) for i in range(length)]
        chains.prepare(context, length, settings)
        chain = chains.chain(context, length, settings, [] if settings.greedy else keys)
        expected = written_alone(cpu, text, length, settings, draft_key)
        assert chain.tokens.tolist() == expected
        text += expected[:accepted] + [7] * own


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("method", LOSSLESS_BY_SEED)
def test_output_equals_plain_decoding(target, draft, reader, method, kind):
    settings = GenerationSettings(max_new_tokens=40, budget=16, **SETTINGS[kind])
    truth = alone(target, PROMPT, 40, Rule(settings.sampling))
    for _ in range(2):  # the second decode uses the graphs of the first one
        assert Decoder(target, drafters(draft, reader)[method], settings).run(PROMPT).token_ids == truth


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("tree", ["dynamic", "static"])
def test_eagles_output_equals_plain_decoding_with_captured_forward_passes(target, tree, kind):
    settings = GenerationSettings(max_new_tokens=40, budget=24, **SETTINGS[kind])
    truth = alone(target, PROMPT, 40, Rule(settings.sampling))
    loaded = LoadedHead(random_head(target), np.array(accuracy()))
    for _ in range(2):
        trace = Decoder(target, EagleDrafter(loaded, tree), settings).run(PROMPT)
        assert trace.token_ids == truth
        assert max(len(step.tree.tokens) for step in trace.steps) == 24


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("cape", ["on", "off"])
def test_glides_output_equals_plain_decoding_with_captured_forward_passes(target, cape, kind):
    """Also after a longer decode, for which the target has another cache."""
    loaded = LoadedHead(random_head(target, "glide"), np.array(accuracy()))
    for length, prompt in ((40, PROMPT), (40, PROMPT), (100, PROMPT * 10), (40, PROMPT)):
        settings = GenerationSettings(max_new_tokens=length, budget=24, **SETTINGS[kind])
        trace = Decoder(target, GlideDrafter(loaded, cape), settings).run(prompt)
        assert trace.token_ids == alone(target, prompt, length, Rule(settings.sampling))
        assert max(len(step.tree.tokens) for step in trace.steps) == (24 if cape == "on" else 9)
        assert all(step.attended for step in trace.steps[:3])


def test_a_captured_pass_of_a_glide_head_equals_one_on_the_cpu(target):
    head = random_head(target, "glide")
    ids = torch.randint(3, VOCAB, (60,), generator=torch.Generator().manual_seed(0))
    kv = last_layer(target, ids.cuda())
    found = []
    for device in ("cuda", "cpu"):
        network = HeadNetwork(copy.deepcopy(head).to(device), copy.deepcopy(target.model.get_input_embeddings()).to(device))
        network.start(LayerKeysValues(kv.keys.to(device), kv.values.to(device)))
        read = []
        for part in (ids[1:41], ids[41:44], ids[44:45]):
            network.read(network.keys.new_empty(len(part), 0), part.tolist())
            read.append(network.logits[-1].cpu().clone())
            network.draft(ids[:2].numpy(), np.array([-1, -1]))
            read += list(network.logits.cpu().clone())
        found.append(torch.stack(read))
    assert torch.allclose(*found, atol=1e-3)


def test_a_captured_pass_of_an_eagle_head_equals_one_on_the_cpu(target):
    head = random_head(target)
    networks = [
        HeadNetwork(one, copy.deepcopy(target.model.get_input_embeddings()).to(device))
        for one, device in ((head, "cuda"), (copy.deepcopy(head).cpu(), "cpu"))
    ]
    generator = torch.Generator().manual_seed(0)
    features, tokens = torch.randn(60, 96, generator=generator), torch.randint(3, VOCAB, (60,), generator=generator)
    for count in (40, 3, 1, 8):
        found = []
        for network in networks:
            network.read(features[:count].to(network.keys.device), tokens[:count].tolist())
            root = network.logits[-1:].cpu()
            network.draft(tokens[:2].numpy(), np.array([-1, -1]))
            found.append(torch.cat([root, network.logits.cpu()]))
        assert torch.allclose(*found, atol=1e-3)


@pytest.mark.parametrize("method", ["speculative", "specinfer"])
def test_rejection_sampling_is_reproduced_by_a_seed_and_accepts_drafts(target, draft, reader, method):
    settings = GenerationSettings(max_new_tokens=40, budget=16, temperature=0.8, seed=5)
    records = [Decoder(target, drafters(draft, reader, False)[method], settings).run(PROMPT) for _ in range(2)]
    assert records[0].token_ids == records[1].token_ids
    assert len(records[0].steps) < 30


@pytest.mark.parametrize("more", [{}, {"top_k": 8}, {"top_p": 0.9}, {"repetition_penalty": 1.3}], ids=str)
@pytest.mark.parametrize("method", ["speculative", "specinfer"])
def test_recorded_trials_give_the_verdicts_of_the_graph(target, reader, method, more):
    """The graph verifies all nodes at once; the recorder repeats the tests of the accepted path one by one."""
    draft, rejected = near(target, 0.9), 0  # weaker than the other tests' draft model, so that more tokens are rejected
    for seed in range(4):
        settings = GenerationSettings(max_new_tokens=60, budget=16, temperature=0.9, seed=seed, **more)
        for step in Decoder(target, drafters(draft, reader, False)[method], settings).run(PROMPT).steps:
            for i, choice in enumerate(step.choices if len(step.tree.tokens) > 1 else ()):
                accepted = [trial.node for trial in choice.rejection.trials if trial.accepted]
                assert accepted == step.path[i + 1 : i + 2]
                assert accepted or choice.rejection.residual_probability > 0
                rejected += len(choice.rejection.trials) - len(accepted)
    assert rejected > 5


@pytest.mark.parametrize("replacement", [True, False])
def test_verdicts_on_a_gpu_are_those_on_the_cpu(replacement):
    """All nodes at once on the GPU, node by node on the CPU."""
    rng, q = np.random.default_rng(0), torch.tensor(np.random.default_rng(2).dirichlet(np.ones(VOCAB), 3))
    parents, rows = np.array([-1, 0, 0, 0, 1, 2]), np.array([-1, 0, 0, 0, 1, 2], dtype=np.int32)
    kept: dict = {}
    for seed in range(200):
        children = rng.choice(VOCAB, 3, replace=replacement, p=q[0].numpy())
        tokens = np.array([1, *children, rng.choice(VOCAB, p=q[1].numpy()), rng.choice(VOCAB, p=q[2].numpy())])
        logits, rule = torch.tensor(rng.normal(0, 1, (6, VOCAB))).float(), Rule(SamplingSettings(temperature=0.9, seed=seed))
        found = [
            rejection_sampler.verify(
                DraftTree(tokens, parents, sampled_from=DraftDistributions(q.to(device), rows, replacement)),
                logits.to(device),
                [3, 1],
                rule,
                graphs,
            )
            for device, graphs in (("cpu", None), ("cuda", kept))
        ]
        assert (found[0].path, found[0].next_token) == (found[1].path, found[1].next_token)


@pytest.mark.parametrize("kind", [HeadObjective, DraftObjective])
def test_training_in_bfloat16_lowers_the_loss(kind, tmp_path):
    target = TargetModel(tiny_model("llama", dtype=torch.bfloat16).to("cuda"), WordTokenizer(), "llama", "llama")
    text = np.resize(np.arange(5, 95, 11), 4000)
    rows, objective = dataset.pack(dataset.Text.plain(text), 16, share=0.5), kind(target)
    before = objective.evaluate(rows.evaluation_batches())
    train(objective, rows, Schedule(steps=40, batch=8, rate=1e-2), tmp_path, "x", quiet)
    assert np.mean(objective.evaluate(rows.evaluation_batches())["loss"]) < 0.8 * np.mean(before["loss"])


@pytest.mark.parametrize("kind", SETTINGS)
def test_captured_steps_give_features_of_layers_and_a_cache_at_stable_addresses(target, kind):
    settings = GenerationSettings(max_new_tokens=40, budget=16, **SETTINGS[kind])
    truth = alone(target, PROMPT, 40, Rule(settings.sampling))
    for _ in range(2):  # the second decode runs on the first one's graphs
        network, cache_drafter = LinearNetwork(target), CacheDrafter()
        assert Decoder(target, FeatureDrafter(network), settings).run(PROMPT).token_ids == truth
        assert Decoder(target, cache_drafter, settings).run(PROMPT).token_ids == truth
        ids = torch.tensor([[*PROMPT, *truth]], device="cuda")
        with torch.inference_mode():
            output = target.model(input_ids=ids, use_cache=True, output_hidden_states=True)
        features = torch.cat([output.hidden_states[layer][0] for layer in LAYERS], dim=-1)[:-1]
        assert torch.allclose(torch.cat(network.read_features), features, atol=1e-3, rtol=1e-3)
        keys = output.past_key_values.layers[-1].keys[0]
        assert all(torch.allclose(found, keys[:, : found.shape[1]], atol=1e-3) for found in cache_drafter.keys)
        assert len(cache_drafter.addresses) == 1


def test_other_sampling_parameters_capture_nothing(target, draft, reader):
    captured = []
    for change in ({"temperature": 0.7}, {"temperature": 1.2, "seed": 3}, {"top_p": 0.8}):
        sampling = {"temperature": 0.9, "top_p": 0.9} | change
        settings = GenerationSettings(max_new_tokens=12, budget=8, **sampling)
        truth = alone(target, PROMPT, 12, Rule(settings.sampling))
        drafter = SpeculativeDrafter(ChainRunner(draft, VOCAB), cost(1.0), lambda greedy: 0.1, "coupled", 3)
        assert Decoder(target, drafter, settings).run(PROMPT).token_ids == truth
        assert Decoder(target, "plain", settings).run(PROMPT).token_ids == truth
        captured.append((target.pool.captured, draft.pool.captured))
    kinds = {step.kind.sampling for step in target.pool.steps}
    assert len([kind for kind in kinds if kind and kind.top_p]) == 1
    assert captured[0][1] == captured[2][1] or captured[2][1] - captured[0][1] <= 2, "only other lengths of pending tokens"

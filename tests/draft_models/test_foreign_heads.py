"""Heads in published formats: logits equal the published definitions, decoding is lossless, refusals give the reason."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import VOCAB, alone, tiny_target
from foreign_head_fakes import DRAFT, EAGLE, HIDDEN, MEDUSA, Eagle, contents, medusa_logits, write

from aded import Decoder, GenerationSettings
from aded.cli import method_options
from aded.core.errors import AdedError
from aded.draft_models.feature_head_network import HeadNetwork
from aded.draft_models.foreign_heads import assumed_accuracy, load_head, load_heads
from aded.draft_models.medusa_heads import HeadReader
from aded.drafters.registry import METHODS
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings

PROMPT = [5, 9, 14, 3, 20, 31]
LAYERS = 8


@pytest.fixture(scope="module")
def target():
    return tiny_target(num_hidden_layers=LAYERS)


@pytest.fixture
def folder(request, tmp_path):
    """The folder of a format, unchanged."""
    return write(tmp_path / "head", request.param, *contents(request.param))


@torch.inference_mode()
@pytest.mark.parametrize("name", EAGLE)
def test_logits_of_eagle_equal_the_published_definition(name, target, tmp_path):
    """At positions read from the text, in two parts, and at drafted ones that read the head's output."""
    config, tensors = contents(name)
    head = load_head(Path(write(tmp_path / "head", name, config, tensors)), target, "eagle").head
    definition, network = Eagle(name, tensors, target), HeadNetwork(head, target.model.get_input_embeddings())
    ids = torch.randint(3, VOCAB, (10,), generator=torch.Generator().manual_seed(0))
    states = target.model(input_ids=ids[None], output_hidden_states=True).hidden_states
    features = torch.cat([states[layer][0] for layer in definition.layers], dim=-1)
    drafted, found = [7, 11, 90], []
    network.start()
    for part in (slice(0, 4), slice(4, 9)):
        children = network.read(features[:9][part], ids[1:][part].tolist())
        found.append(network.logits.clone())
    for depth, token in enumerate(drafted):
        network.draft(np.array([token]), np.array([depth - 1]))
        found.append(network.logits.clone())
    expected = definition.logits(features[:9], [*ids[1:].tolist(), *drafted])
    assert torch.allclose(torch.cat(found), expected, atol=2e-5 * float(expected.abs().max())), (
        "rounding grows with the largest terms"
    )
    best = expected[8].topk(10).indices
    assert children.tokens[0].tolist() == (best + tensors["d2t"][best] if "d2t" in tensors else best).tolist()


@torch.inference_mode()
@pytest.mark.parametrize("name", MEDUSA)
def test_predictions_of_medusa_equal_the_published_definition(name, target, tmp_path):
    config, tensors = contents(name)
    heads, accuracy = load_heads(Path(write(tmp_path / "head", name, config, tensors)), target)
    reader, state = HeadReader(target, heads, accuracy), torch.randn(HIDDEN)
    predictions = reader.predictions(reader.forward(state[None]).numpy())
    best = medusa_logits(name, tensors, state, target).softmax(-1).topk(10)
    assert predictions.tokens.tolist() == best.indices.tolist()
    assert np.allclose(predictions.probabilities, best.values, atol=1e-5)
    assert accuracy.shape == (3, 10)


def greedy_or_sampled(*cases):
    """Each case greedy and sampled, of which the default run has alternately one."""
    settings = SamplingSettings(), SamplingSettings(temperature=1.0, top_p=0.9, seed=3)
    return [
        pytest.param(*case, sampling, marks=() if (place + place // 2) % 2 == kind else pytest.mark.slow)
        for place, case in enumerate(cases)
        for kind, sampling in enumerate(settings)
    ]


@pytest.mark.parametrize(
    ("folder", "method", "options", "sampling"),
    greedy_or_sampled(
        *((name, "eagle", {"tree": tree}) for name in EAGLE for tree in ("dynamic", "static")),
        *(
            (name, "medusa", {"tree": tree})
            for name in ("medusa", "speculators-medusa-shared")
            for tree in ("adaptive", "static")
        ),
        ("eagle3", "aded-eagle", {}),
        ("medusa", "aded-medusa", {}),
        ("medusa", "blockwise", {"rescoring": "none"}),
    ),
    indirect=["folder"],
)
def test_decoding_with_a_published_head_is_lossless(folder, method, options, sampling, target):
    option = "head" if "eagle" in method else "heads"
    settings = GenerationSettings(max_new_tokens=24, budget=16, **asdict(sampling))
    trace = Decoder(target, METHODS[method].make(target, {option: folder, **options}, 0), settings).run(PROMPT)
    assert trace.token_ids == alone(target, PROMPT, 24, Rule(sampling))
    assert max(len(step.tree.tokens) for step in trace.steps) > 3


@pytest.mark.parametrize("folder", ["medusa"], indirect=True)
def test_typical_acceptance_takes_published_heads_too(folder, target):
    settings = GenerationSettings(max_new_tokens=12, budget=16, temperature=1.0)
    drafter = METHODS["medusa-typical"].make(target, {"heads": folder}, 0)
    assert len(Decoder(target, drafter, settings).run(PROMPT).token_ids) == 12


def test_variants_of_a_format_give_the_same_head(target, tmp_path):
    """Copies of the target's weights, tensors without effect, another name of rope's base, a draft vocabulary in any order."""
    config, tensors = contents("eagle3")
    plain = load_head(Path(write(tmp_path / "plain", "eagle3", config, tensors)), target, "eagle").head
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta")}
    order = torch.randperm(DRAFT)
    tensors["d2t"] = (tensors["d2t"] + torch.arange(DRAFT))[order] - torch.arange(DRAFT)
    tensors["lm_head.weight"] = tensors["lm_head.weight"][order]
    tensors["embed_tokens.weight"] = target.model.get_input_embeddings().weight.detach().to(torch.bfloat16)
    tensors["midlayer.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    other = load_head(Path(write(tmp_path / "other", "eagle3", config, tensors)), target, "eagle").head
    assert other.geometry == plain.geometry
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in plain.state_dict().items())


def test_a_draft_vocabulary_without_d2t_is_the_targets(target, tmp_path):
    config, tensors = contents("eagle3")
    config["draft_vocab_size"], tensors["lm_head.weight"] = VOCAB, torch.randn(VOCAB, HIDDEN)
    del tensors["d2t"], tensors["t2d"]
    head = load_head(Path(write(tmp_path / "head", "eagle3", config, tensors)), target, "eagle").head
    assert head.tokens.tolist() == list(range(VOCAB))


def test_a_head_is_in_the_dtype_of_the_target(tmp_path):
    target = tiny_target(num_hidden_layers=LAYERS, dtype=torch.bfloat16)
    for name in ("eagle3", "eagle1"):
        head = load_head(Path(write(tmp_path / name, name, *contents(name))), target, "eagle").head
        assert {parameter.dtype for parameter in head.parameters()} == {torch.bfloat16}
    projection = target.model.get_output_embeddings().weight
    assert head.vocabulary_weight.data_ptr() == projection.data_ptr()


def test_assumed_accuracy_is_a_distribution_at_every_position():
    table = assumed_accuracy(5, 0.9)
    assert table.shape == (5, 10)
    assert (table.sum(1) <= 1).all()
    assert (np.diff(table) < 0).all()
    assert (np.diff(table, axis=0) < 0).all()


QUERIES = "midlayer.self_attn.q_proj.weight"
REFUSALS = [
    ("eagle3", {"hidden_size": 64}, {}, "made for another model, because its hidden size is 64, and this model's is 32"),
    ("eagle3", {"vocab_size": 99}, {}, f"made for another model, because its vocabulary size is 99, and this model's is {VOCAB}"),
    ("eagle3", {"hidden_size": "big"}, {}, "its hidden_size is 'big'"),
    ("eagle3", {"num_hidden_layers": 2}, {}, "it has 2 layers, and only heads of one layer are supported"),
    ("eagle3", {"num_key_value_heads": 3}, {}, "it has 4 heads, 3 key-value heads and the activation 'silu'"),
    ("eagle3", {"hidden_act": "gelu"}, {}, "the activation 'gelu'"),
    ("eagle3", {"head_dim": 16}, {}, f"its {QUERIES} has the shape .32, 64. instead of .64, 64."),
    ("eagle3", {"rms_norm_eps": -1}, {}, "its rms_norm_eps is -1"),
    ("eagle3", {"rms_norm_eps": 10**400}, {}, "its rms_norm_eps is 1000"),
    ("eagle3", {"rope_theta": "x"}, {}, "its rope_theta is 'x'"),
    ("eagle3", {"rope_scaling": {"type": "linear", "factor": 2}}, {}, "rotary embedding is of the type 'linear' or partial"),
    ("eagle3", {"rope_parameters": {"rope_type": "llama3"}}, {}, "of the type 'llama3' or partial, and only a plain one"),
    ("eagle3", {"rope_scaling": 2}, {}, "its rotary embedding is 2"),
    ("eagle3", {"partial_rotary_factor": 0.5}, {}, "or partial, and only a plain one"),
    ("eagle3", {"draft_vocab_size": 50}, {}, "its d2t does not have 50 whole numbers"),
    ("eagle3", {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}}, {}, "its eagle_config names layers"),
    ("eagle3", {"medusa_num_heads": 2}, {}, "it holds Medusa heads, which --heads takes for the method medusa"),
    (
        "speculators-eagle3",
        {"eagle_aux_hidden_state_layer_ids": [1, 3, 8]},
        {},
        "inputs of layers .1, 3, 8., and this model has 8",
    ),
    ("speculators-eagle3", {"eagle_aux_hidden_state_layer_ids": 3}, {}, "inputs of layers 3"),
    (
        "speculators-eagle3",
        {"eagle_aux_hidden_state_layer_ids": [1, 3]},
        {},
        "its fc.weight has the shape .32, 96. instead of .32, 64.",
    ),
    ("eagle3", {"eagle_config": {"norm_output": True}}, {}, "its norm_output is True, and additional norms are not supported"),
    ("speculators-eagle3", {"norm_before_fc": True}, {}, "its norm_before_fc is True, and additional norms are not supported"),
    (
        "speculators-eagle3",
        {"speculators_model_type": "dflash"},
        {},
        "its speculators_model_type is 'dflash', and only eagle and",
    ),
    ("eagle3", {}, {QUERIES: None}, f"it lacks the tensor {QUERIES}"),
    ("eagle3", {}, {"d2t": torch.tensor(1)}, f"its d2t does not have {DRAFT} whole numbers"),
    ("eagle3", {}, {"lm_head.weight": None}, "it lacks the matrix lm_head.weight"),
    ("eagle3", {}, {QUERIES: torch.full((32, 64), torch.nan)}, f"its {QUERIES} holds values that are not finite"),
    ("eagle3", {}, {QUERIES: torch.ones(32, 64, dtype=torch.int8)}, f"its {QUERIES} is of int8, and quantized heads"),
    (
        "eagle3",
        {},
        {"midlayer.self_attn.q_proj.bias": torch.ones(32)},
        "it holds the tensor 'midlayer.self_attn.q_proj.bias', which",
    ),
    ("eagle3", {}, {"midlayer.a": torch.ones(1), "midlayer.b": torch.ones(1)}, "it holds the tensor 'midlayer.a' and 1 more"),
    ("eagle3", {}, {"embed_tokens.weight": torch.randn(VOCAB, 32)}, "its embed_tokens.weight differs from this model's"),
    (
        "eagle3",
        {},
        {"embed_tokens.weight": torch.randn(9, 32)},
        "its embed_tokens.weight has the shape .9, 32., and this model's",
    ),
    ("eagle3", {}, {"d2t": None}, f"its d2t does not have {DRAFT} whole numbers"),
    ("eagle3", {}, {"d2t": torch.arange(DRAFT)}, f"its d2t does not name {DRAFT} different tokens of the {VOCAB} of this model"),
    ("eagle3", {}, {"d2t": -torch.arange(DRAFT)}, "different tokens"),
    ("eagle3", {}, {"t2d": torch.zeros(VOCAB, dtype=torch.bool)}, "its d2t and t2d do not name the same tokens"),
    ("eagle1", {}, {"fc.weight": None}, "it lacks the tensor fc.weight"),
    ("eagle1", {}, {"lm_head.weight": torch.randn(VOCAB, 32)}, "its lm_head.weight differs from this model's"),
    ("eagle1", {}, {"layers.1.mlp.up_proj.weight": torch.ones(48, 32)}, "it holds the tensor 'layers.1.mlp.up_proj.weight'"),
    ("speculators-eagle", {}, {"embedding_layernorm.weight": torch.ones(32)}, "it holds the tensor 'embedding_layernorm.weight'"),
    ("medusa", {"medusa_num_heads": 4}, {}, "it holds 3 Medusa heads, and its config.json promises 4"),
    ("medusa", {"medusa_num_layers": 3}, {}, "it lacks the tensor 0.2.linear.weight"),
    ("medusa", {"medusa_num_layers": 1}, {}, "it holds the tensor '0.1.linear.bias' and 8 more"),
    ("medusa", {"medusa_num_layers": 10**12}, {}, "it lacks the tensor 0.2.linear.weight"),
    ("medusa", {"medusa_num_layers": 0}, {}, "its medusa_num_layers is 0"),
    ("medusa", {}, {"1.0.linear.weight": None}, "it lacks the tensor 1.0.linear.weight"),
    ("medusa", {}, {"0.0.linear.weight": torch.randn(64, 64)}, "another model, because its hidden size is 64"),
    ("medusa", {}, {"0.2.weight": torch.randn(99, 32)}, "another model, because its vocabulary size is 99"),
    ("medusa", {}, {"2.2.weight": None}, "it lacks the tensor 2.2.weight"),
    ("medusa", {"speculators_model_type": "eagle3"}, {}, "its speculators_model_type is 'eagle3', and only medusa can be read"),
]


@pytest.mark.parametrize(("name", "settings", "changes", "reason"), REFUSALS)
def test_what_does_not_fit_is_refused_with_the_reason(name, settings, changes, reason, target, tmp_path):
    config, tensors = contents(name)
    method, option, kind = ("medusa", "heads", "medusa") if "medusa" in name else ("eagle", "head", "eagle")
    tensors = {key: tensor for key, tensor in {**tensors, **changes}.items() if tensor is not None}
    path = write(tmp_path / "head", name, {**config, **settings}, tensors)
    with pytest.raises(
        AdedError, match=f"head cannot be used with this model: .*{reason}.*; make one with `python -m aded train {kind}"
    ):
        METHODS[method].make(target, {option: path}, 0)


def test_a_head_for_a_model_of_many_layers_is_refused_for_one_of_two(tmp_path):
    path = write(tmp_path / "head", "eagle3", *contents("eagle3"))
    with pytest.raises(AdedError, match="it reads the inputs of layers 2, n/2 and n - 3, and this model has 2 layers"):
        METHODS["eagle"].make(tiny_target(), {"head": path}, 0)


def test_heads_that_share_a_projection_with_a_bias_are_refused(tmp_path):
    target = tiny_target("phi3")
    target.model.get_output_embeddings().bias = torch.nn.Parameter(torch.zeros(VOCAB))
    path = write(tmp_path / "head", "eagle1", *contents("eagle1"))
    with pytest.raises(AdedError, match="it shares the vocabulary projection of the model, which has none or one with a bias"):
        METHODS["eagle"].make(target, {"head": path}, 0)


def test_a_head_of_eagle_is_no_medusa_heads_and_no_mtp_head(target, tmp_path):
    third = write(tmp_path / "third", "speculators-eagle3", *contents("speculators-eagle3"))
    with pytest.raises(AdedError, match="its speculators_model_type is 'eagle3', and only medusa"):
        METHODS["medusa"].make(target, {"heads": third}, 0)
    first = write(tmp_path / "first", "eagle1", *contents("eagle1"))
    with pytest.raises(AdedError, match="first holds none of medusa_lm_head.safetensors, medusa_lm_head.pt, model.safetensors"):
        METHODS["medusa"].make(target, {"heads": first}, 0)
    for method in ("mtp", "glide"):
        with pytest.raises(AdedError, match=r"cannot read .*: Is a directory; give the path of a .safetensors file"):
            METHODS[method].make(target, {"head": first}, 0)


@pytest.mark.parametrize("folder", ["eagle3", "speculators-eagle3", "medusa"], indirect=True)
def test_a_damaged_or_incomplete_folder_is_one_error(folder, target):
    config, (weights,) = Path(folder, "config.json"), [file for file in Path(folder).iterdir() if file.suffix != ".json"]
    method, option = ("medusa", "heads") if weights.suffix == ".pt" else ("eagle", "head")

    def refusal() -> str:
        with pytest.raises(AdedError) as refused:
            METHODS[method].make(target, {option: folder}, 0)
        return str(refused.value)

    stored = weights.read_bytes()
    weights.write_bytes(stored[: len(stored) // 2])
    assert f"{weights} is damaged" in refusal()
    weights.unlink()
    weights.mkdir()
    assert f"cannot read {weights}: " in refusal()
    weights.rmdir()
    assert "copy the whole folder of the head" in refusal()
    for text in ("{", "\0", "[" * 100_000):
        config.write_text(text)
        assert f"{config} is damaged" in refusal()
    for value in ([], {"transformer_layer_config": 3}):
        config.write_text(json.dumps(value))
        assert f"{config} holds no settings by name; copy the folder again" in refusal()
    config.unlink()
    assert "holds no config.json; give the folder of a published head" in refusal()


def test_only_tensors_are_unpickled(target, tmp_path):
    config, tensors = contents("eagle3")
    other, dense = "it is no file of tensors, or it holds other objects too", "does not hold dense tensors by name"
    sparse, empty = torch.eye(64).to_sparse(), torch.ones(1, device="meta")
    for value, reason in ((Path("x"), other), (sparse, dense), (empty, dense)):
        path = write(tmp_path / "head", "eagle3", config, {**tensors, "extra": value})
        with pytest.raises(AdedError, match=f"pytorch_model.bin .*{reason}.*; copy the folder again"):
            METHODS["eagle"].make(target, {"head": path}, 0)
    for content in (pickle.dumps(Path("x"), protocol=4), b"version https://git-lfs.github.com/spec/v1", bytes(1000)):
        Path(path, "pytorch_model.bin").write_bytes(content)
        with pytest.raises(AdedError, match=other):
            METHODS["eagle"].make(target, {"head": path}, 0)
    path = write(tmp_path / "head", "eagle3", config, {"epoch": 3})
    with pytest.raises(AdedError, match=f"pytorch_model.bin {dense}; copy the folder again"):
        METHODS["eagle"].make(target, {"head": path}, 0)


@pytest.mark.parametrize("folder", ["eagle3"], indirect=True)
def test_the_command_line_takes_the_folder(folder, tmp_path):
    files = [str(Path(folder, name)) for name in ("config.json", "pytorch_model.bin")]
    assert method_options.files({"head": folder}) == files
    assert method_options.files({"heads": files[0]}) == files[:1]
    with pytest.raises(AdedError, match="cannot read .*nowhere"):
        method_options.files({"head": str(tmp_path / "nowhere")})
    with pytest.raises(AdedError, match="cannot read .*Is a directory"):
        method_options.files({"matrix": folder})

"""The target model: trees equal their paths for every family, compaction keeps accepted nodes, bad input is refused."""

import numpy as np
import pytest
import torch
from fakes import CHAIN_FAMILIES, FAMILIES, PLAIN_FAMILIES, VOCAB, WINDOW, WordTokenizer, tiny_model, tiny_target

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.drafters.budget.acceptance_statistics import AcceptanceCurve
from aded.engine import load_check
from aded.engine.kv_cache import KVCache
from aded.engine.loading.loader import choose_device, choose_dtype
from aded.engine.target_model import TargetModel


@pytest.mark.parametrize("family", FAMILIES)
def test_trees_are_verified_in_one_forward_pass_on_every_family(family):
    target = tiny_target(family)
    assert target.mode == "tree"
    assert target.notice is None
    assert load_check._largest_error(target, load_check.TREE) < 1e-4


@pytest.mark.parametrize(
    ("family", "kind"), [("llama", "full"), ("mistral_sliding", "sliding"), ("gemma2_sliding", "by layer type")]
)
def test_each_family_gets_its_kind_of_mask(family, kind):
    assert tiny_target(family).masks.kind == kind


@pytest.mark.parametrize("family", [*CHAIN_FAMILIES, *PLAIN_FAMILIES])
def test_models_that_cannot_verify_trees_fall_back_with_a_notice(family):
    target = tiny_target(family)
    assert target.mode == ("chain" if family in CHAIN_FAMILIES else "plain")
    assert "this model verifies" in target.notice


def test_the_load_check_detects_a_wrong_mask():
    target = tiny_target("mistral_sliding")
    target.masks.kind = "full"
    assert not load_check.passes(target, load_check.TREE)


@pytest.mark.parametrize("family", ["llama", "gemma2_sliding"])
def test_a_chunked_prefill_equals_one_forward_pass(family, monkeypatch):
    monkeypatch.setattr("aded.engine.session.PREFILL_CHUNK", 7)
    target = tiny_target(family)
    ids = np.random.default_rng(0).integers(0, VOCAB, 3 * WINDOW + 2).tolist()
    session = target.session(8)  # smaller than the prompt: it grows
    session.prefill(ids[:-1])
    rows = session.forward_tree(DraftTree.root_only(ids[-1])).logits
    expected = target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1:]
    assert torch.allclose(rows, expected, atol=1e-4)


def test_compaction_moves_accepted_nodes_together_in_order():
    cache = KVCache(8, layers=2)
    values = torch.arange(6.0).reshape(1, 1, 6, 1)
    cache.update(values[:, :, :2], values[:, :, :2], 0)
    cache.compact(range(2))
    cache.update(values[:, :, 2:], values[:, :, 2:], 0)
    cache.compact([0, 1, 3])
    assert cache.length == 5
    assert cache.layers[0].keys[0, 0, :5, 0].tolist() == [0, 1, 2, 3, 5]


def test_a_cache_that_grows_keeps_its_contents():
    cache = KVCache(2)
    for i in range(9):
        cache.reserve(1)
        state = torch.full((1, 1, 1, 1), float(i))
        with torch.inference_mode():
            keys, _ = cache.update(state, state, 0)
        cache.compact([0])
    assert keys.flatten().tolist() == list(range(9))


def test_sessions_do_not_share_state():
    target = tiny_target("llama")
    first, second = target.session(), target.session()
    first.prefill([5, 6, 7])
    second.prefill([8])
    assert (first.length, second.length) == (3, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_models_pass_the_load_check(dtype):
    assert tiny_target("llama", dtype=dtype, scale=1.0).mode == "tree"


def test_prompts_that_are_empty_or_do_not_fit_are_refused():
    target = tiny_target("llama")
    with pytest.raises(AdedError, match="empty"):
        target.encode("  \n")
    with pytest.raises(AdedError, match="no valid Unicode"):
        target.encode("half a pair: \ud800")
    with pytest.raises(AdedError, match="shorten it by at least 45 tokens"):
        target.encode("word " * 300)
    with pytest.raises(AdedError, match=f"token id {VOCAB}, and llama only 0 to {VOCAB - 1}; give .* the model with its own tok"):
        target.check_prompt([1, VOCAB])
    with pytest.raises(AdedError, match="no tokens; give at least one"):
        target.check_prompt([])


def test_shared_statistics_are_kept_for_the_most_recently_used_settings_only(monkeypatch):
    monkeypatch.setattr("aded.engine.target_model.MAX_SHARED", 3)
    target = tiny_target()
    used = target.shared_by_decodes("used", AcceptanceCurve)
    for i in range(10):
        target.shared_by_decodes(f"seed {i}", AcceptanceCurve)
        assert target.shared_by_decodes("used", AcceptanceCurve) is used
    assert len(target._shared) == 3


def test_end_of_text_ids_may_be_a_list():
    model = tiny_model("llama")
    model.generation_config.eos_token_id = [4, 9]
    assert TargetModel(model, WordTokenizer()).eos_ids == {2, 4, 9}


def test_rotary_embeddings_that_change_with_length_bound_the_context():
    model = tiny_model("llama")
    model.config.rope_parameters = {
        "rope_type": "dynamic",
        "rope_theta": 1e4,
        "factor": 2.0,
        "original_max_position_embeddings": 64,
    }
    target = TargetModel(model, WordTokenizer())
    assert target.context_limit == 64
    assert "64" in target.notice


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "", "mps"])
def test_unknown_devices_are_refused(device):
    with pytest.raises(AdedError, match="use auto, cpu or cuda"):
        choose_device(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_reported():
    with pytest.raises(AdedError, match="no CUDA GPU"):
        choose_device("cuda")


def test_automatic_choices_on_a_cpu():
    assert choose_dtype("auto", torch.device("cpu")) is torch.float32
    with pytest.raises(AdedError, match="unknown dtype"):
        choose_dtype("int8", torch.device("cpu"))


@pytest.mark.parametrize("spec", ["./nowhere", "/nowhere/at/all", "a b", "no/such/model/path", "model.gguf"])
def test_invalid_specs_are_refused_at_once(spec):
    with pytest.raises(AdedError, match="give"):
        TargetModel.load(spec, "cpu")


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(AdedError, match="config.json"):
        TargetModel.load(str(tmp_path), "cpu")
    (tmp_path / "config.json").write_text("{broken")
    with pytest.raises(AdedError, match="cannot load"):
        TargetModel.load(str(tmp_path), "cpu")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"not a gguf file")
    with pytest.raises(AdedError, match="cannot be converted"):
        TargetModel.load(str(bad), "cpu")


def test_a_saved_folder_loads(tmp_path, real_tokenizer_folder):
    model = tiny_model("llama")
    model.save_pretrained(real_tokenizer_folder)
    assert TargetModel.load(str(real_tokenizer_folder), "cpu").mode == "tree"

"""Speculative sampling: the draft is the text of the draft model, and sampled text follows the target."""

import gc
import weakref

import numpy as np
import pytest
import torch
from fakes import VOCAB, WordTokenizer, alone, cost, near, tiny_model, tiny_target
from scipy import stats

from aded.core.errors import AdedError
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models import chain_runner, checkpoints, draft_model
from aded.draft_models.chain_runner import CATCH_UP, LENGTHS, ChainRunner
from aded.draft_models.draft_model import evenly_spaced_layers, pruned_model, unshared_parameters
from aded.drafters.base import Context
from aded.drafters.methods.speculative import NO_GAIN, SpeculativeDrafter
from aded.drafters.registry import METHODS
from aded.engine.session import TargetSession
from aded.engine.target_model import TargetModel
from aded.sampling.logits_pipeline import Rule, sample
from aded.sampling.rng import signed
from aded.sampling.settings import SamplingSettings
from aded.verification.rejection_sampler import draft_key

PROMPT = [5, 9, 14, 3, 20]
FALSE_ALARM = 1e-6


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def draft(target):
    return near(target)


def drafter(draft, verification="rejection", length=0, target=1.0, level=0.1):
    return SpeculativeDrafter(ChainRunner(draft, VOCAB), cost(target), lambda greedy: level, verification, length)


def written_alone(model, prompt, count, settings, key_of_position):
    """A reference of drafts: the text of a model token by token without a cache, with other keys than the target's."""
    ids, rule = list(prompt), Rule(settings)
    for _ in range(count):
        with torch.inference_mode():
            row = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        if settings.greedy:
            ids.append(int(row.argmax()))
        else:
            ids.append(sample(rule.probabilities(row, ids), key_of_position(settings.seed, len(ids))))
    return ids[len(prompt) :]


@pytest.mark.parametrize("settings", [SamplingSettings(), SamplingSettings(temperature=0.8, top_p=0.9, seed=4)], ids=str)
def test_chains_are_the_text_of_the_draft_model(draft, settings):
    """For a text that grows by accepted tokens, by others, and by many at once."""
    runner, text = ChainRunner(draft, VOCAB), list(PROMPT)
    runner.start(text)
    for length, accepted, own in ((4, 4, 1), (4, 2, 1), (6, 0, 1), (3, 3, 5), (1, 1, 1), (5, 0, 1)):
        keys = [signed(draft_key(settings.seed, len(text) + i)) for i in range(length)]
        chain = runner.chain(np.array(text, dtype=np.int32), length, settings, [] if settings.greedy else keys)
        expected = written_alone(draft.model, text, length, settings, draft_key)
        assert chain.tokens.tolist() == expected
        assert (chain.distributions is None) == settings.greedy
        if chain.distributions is not None:
            rows = [float(q[token]) for q, token in zip(chain.distributions, expected)]
            assert rows == pytest.approx(chain.probabilities.tolist())
            assert chain.distributions.sum(-1).tolist() == pytest.approx([1.0] * length)
        text += expected[:accepted] + [7] * own


@pytest.mark.parametrize("waiting", [1, 2, 3, 8, 9, 40])
def test_prepare_runs_everything_that_a_chain_needs_once(draft, waiting, monkeypatch):
    """No new shape, no growth of the cache, and a separate forward pass only where many tokens wait and one like it has run."""
    runner, text = ChainRunner(draft, VOCAB), np.array((PROMPT * 20)[: 20 + waiting], dtype=np.int32)
    read, prefill = [], TargetSession.prefill
    monkeypatch.setattr(TargetSession, "prefill", lambda session, ids: (read.append(len(ids)), prefill(session, ids)))
    for _ in range(2):
        read.clear()
        runner.start(text[:21].tolist())
        runner.prepare(text, 4, SamplingSettings())
        graphs = runner.session.cache.graphs
        before, capacity, prepared = set(graphs), runner.session.cache.capacity, read[1:]
        chain = runner.chain(text, 4, SamplingSettings(), [])
        assert set(graphs) == before
        assert runner.session.cache.capacity == capacity
        assert chain.tokens.tolist() == written_alone(draft.model, text.tolist(), 4, SamplingSettings(), draft_key)
    alone = [waiting - 1] if waiting > CATCH_UP[-1] else []
    assert read[1:] == alone
    assert prepared == []  # of a size that was processed before


def test_chains_end_at_the_end_of_the_context():
    """With a table of positions, which padding must not exceed."""
    target = tiny_target("gpt2")
    runner, text = ChainRunner(target, VOCAB), (PROMPT * 60)[: target.context_limit - 4]
    runner.start(text[:-2])
    chain = runner.chain(np.array(text, dtype=np.int32), 4, SamplingSettings(), [])
    assert chain.tokens.tolist() == written_alone(target.model, text, 4, SamplingSettings(), draft_key)


def test_a_long_text_outgrows_the_cache_and_is_drafted_all_the_same(draft, monkeypatch):
    grown, text = ChainRunner(draft, VOCAB), (PROMPT * 30)[:120]
    monkeypatch.setattr(chain_runner, "INITIAL_HEADROOM", 8)
    grown.start(text[:3])
    grown.chain(np.array(text[:3]), 2, SamplingSettings(), [])
    chain = grown.chain(np.array(text), 4, SamplingSettings(), [])
    assert chain.tokens.tolist() == written_alone(draft.model, text, 4, SamplingSettings(), draft_key)


def test_no_random_number_of_a_block_is_read_in_two_steps(target, draft, monkeypatch):
    """The tests of a step read its whole draft, also beyond the prefix that they accept."""
    made, keys = drafter(draft, "block", 4), []
    chain = made._runner.chain
    monkeypatch.setattr(made._runner, "chain", lambda *given: (keys.extend(given[-1]), chain(*given))[1])
    settings = GenerationSettings(max_new_tokens=60, budget=8, temperature=1.2, seed=3)
    steps = Decoder(target, made, settings).run(PROMPT).steps
    numbers = [test.uniform for step in steps if step.block for test in step.block.tests]
    assert len(set(keys)) == len(keys) > 30
    assert len(set(numbers)) == len(numbers) > 30


@pytest.mark.parametrize("length", [0, 3, 16])
def test_greedy_output_equals_plain_decoding(target, draft, length):
    record = Decoder(target, drafter(draft, length=length), GenerationSettings(max_new_tokens=40, budget=24)).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 40)
    assert len(record.steps) < 25


@pytest.mark.parametrize("more", [{}, {"top_p": 0.9}, {"repetition_penalty": 1.3}])
def test_coupled_output_equals_plain_decoding_with_the_same_seed(target, draft, more):
    for seed in range(2):
        settings = GenerationSettings(max_new_tokens=30, budget=24, temperature=0.8, seed=seed, **more)
        record = Decoder(target, drafter(draft, "coupled"), settings).run(PROMPT)
        assert record.token_ids == alone(target, PROMPT, 30, Rule(settings.sampling))


@pytest.mark.parametrize("budget", [8, pytest.param("auto", marks=pytest.mark.slow)])
def test_sampled_output_follows_the_target(target, draft, budget):
    """Chi-square of the first two tokens of 150 decodes against the exact joint distribution; one false alarm in 10^6."""
    settings = {"temperature": 0.9, "top_k": 3}
    counts, shared = np.zeros((VOCAB, VOCAB)), drafter(draft, length=3)
    for seed in range(150):
        generation = GenerationSettings(max_new_tokens=2, budget=budget, seed=seed, **settings)
        first, second = Decoder(target, shared, generation, record=False).run(PROMPT).token_ids
        counts[first, second] += 1
    rule, joint = Rule(SamplingSettings(**settings)), np.zeros((VOCAB, VOCAB))
    with torch.inference_mode():
        start = rule.probabilities(target.model(input_ids=torch.tensor([PROMPT])).logits[0, -1], PROMPT).numpy()
        for token in np.flatnonzero(start):
            row = target.model(input_ids=torch.tensor([[*PROMPT, token]])).logits[0, -1]
            joint[token] = start[token] * rule.probabilities(row, PROMPT).numpy()
    assert counts[joint == 0].sum() == 0
    assert stats.chisquare(counts[joint > 0], joint[joint > 0] / joint.sum() * counts.sum()).pvalue > FALSE_ALARM


def test_sampled_runs_are_reproduced_by_a_seed(target, draft):
    settings = GenerationSettings(max_new_tokens=30, temperature=0.9, seed=7)
    records = [Decoder(target, drafter(draft), settings).run(PROMPT) for _ in range(2)]
    assert records[0].token_ids == records[1].token_ids
    assert [step.path for step in records[0].steps] == [step.path for step in records[1].steps]


def test_a_sampled_draft_is_never_cut_by_its_content(target, draft):
    """The automatic budget cuts greedy drafts without a gain, and never cuts sampled ones."""
    settings = GenerationSettings(max_new_tokens=20, temperature=0.9, seed=1)
    record = Decoder(target, drafter(draft, length=5), settings).run(PROMPT)
    sizes = {len(step.tree.tokens) for step in record.steps[:-3]}
    assert sizes == {6}
    assert "kept whole" in record.steps[0].budget.why


def test_the_length_is_throughput_optimal(target, draft):
    """Cheap drafts with high acceptance are long, expensive ones short; drafts without a gain are not made."""
    lengths = {}
    for level in (0.01, 0.5, 10.0):
        record = Decoder(target, drafter(draft, level=level), GenerationSettings(max_new_tokens=40, budget=32)).run(PROMPT)
        lengths[level] = [len(step.tree.tokens) - 1 for step in record.steps]
    assert max(lengths[0.01]) > max(lengths[0.5]) >= 1
    assert sum(length > 0 for length in lengths[10.0]) <= 3
    hopeless = drafter(draft, level=10.0)
    hopeless.start(PROMPT)
    assert hopeless.explain(Context(np.array(PROMPT), 5), 8).note == NO_GAIN


def test_decodes_use_one_cache_and_its_graphs_one_after_the_other(target):
    draft, graphs = near(target, 1.03), []
    draft.use_fixed_shapes()
    for _ in range(3):
        one = SpeculativeDrafter(ChainRunner(draft, VOCAB), cost(1.0), lambda greedy: 0.1)
        Decoder(target, one, GenerationSettings(max_new_tokens=8, budget=8)).run(PROMPT)
        graphs.append(set(draft.pool.steps))
    assert graphs[0] == graphs[1] == graphs[2] != set()
    assert len(draft.pool._free) == 1
    graphs.clear()
    target.draft_models["one"] = draft
    target.release_memory()
    target.draft_models.clear()
    assert draft.pool._free == [] and not draft.pool.steps


@pytest.mark.parametrize("layers", [[0], [1], [0, 1], [1, 0]])
def test_a_small_model_shares_embeddings_and_has_separate_layers(target, layers):
    small = pruned_model(target.model, layers)
    assert small.get_input_embeddings() is target.model.get_input_embeddings()
    assert small.get_output_embeddings() is target.model.get_output_embeddings()
    own = unshared_parameters(small, target.model)
    assert all("layers." in name or "norm" in name for name in own)
    with torch.inference_mode():
        ids = torch.tensor([PROMPT])
        same = torch.equal(small(input_ids=ids).logits, target.model(input_ids=ids).logits)
    assert same == (layers == [0, 1])


def test_the_first_and_the_last_layer_are_among_its_initial_layers():
    assert evenly_spaced_layers(30, 1) == [0]
    assert evenly_spaced_layers(30, 2) == [0, 29]
    assert evenly_spaced_layers(30, 3) == [0, 14, 29]


def saved(model, folder, size=VOCAB):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(size)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


def test_any_model_with_the_same_tokenizer_drafts(tmp_path):
    target = TargetModel.load(saved(tiny_model("llama"), tmp_path / "a"), "cpu")
    other = saved(tiny_model("llama", seed=1), tmp_path / "b")
    made = METHODS["speculative"].make(target, {"draft_model": [other], "draft_length": 3}, 0)
    record = Decoder(target, made, GenerationSettings(max_new_tokens=12, budget=8)).run(PROMPT)
    assert record.token_ids == alone(target, PROMPT, 12)
    assert max(len(step.tree.tokens) for step in record.steps) == 4
    foreign = saved(tiny_model("llama"), tmp_path / "c", size=VOCAB - 1)
    with pytest.raises(AdedError, match="another tokenizer"):
        METHODS["speculative"].make(target, {"draft_model": [foreign]}, 0)
    with pytest.raises(AdedError, match="takes one draft model"):
        METHODS["speculative"].make(target, {"draft_model": [other, other]}, 0)


def widened(model, size):
    """The model with a vocabulary padded to ``size``."""
    model.resize_token_embeddings(size)
    return model


@pytest.mark.parametrize("sizes", [(VOCAB, VOCAB + 7), (VOCAB + 7, VOCAB)])
@pytest.mark.parametrize("verification", ["rejection", "block", "coupled"])
def test_vocabularies_may_be_padded_differently(sizes, verification):
    target, draft = (TargetModel(widened(tiny_model("llama"), size), WordTokenizer()) for size in sizes)
    made = SpeculativeDrafter(ChainRunner(draft, target.vocab_size), cost(1.0), lambda greedy: 0.1, verification, 3)
    settings = GenerationSettings(max_new_tokens=12, budget=8, temperature=0.8)
    record = Decoder(target, made, settings).run(PROMPT)
    assert len(record.steps) < 12
    if verification == "coupled":
        assert record.token_ids == alone(target, PROMPT, 12, Rule(settings.sampling))


def test_a_draft_checkpoint_is_loaded_only_for_its_model(target, tmp_path):
    path = tmp_path / "x.draft.safetensors"
    own = unshared_parameters(pruned_model(target.model, [0]), target.model)
    checkpoints.write(path, "draft", target, own, layers=1)
    read = draft_model.load(path, target)
    assert read.config.num_hidden_layers == 1
    assert read.mode == "tree"
    checkpoints.write(path, "draft", target, {"stray": torch.zeros(2)}, layers=1)
    with pytest.raises(AdedError, match="does not fit this model"):
        draft_model.load(path, target)
    with pytest.raises(AdedError, match="aded prepare"):
        METHODS["speculative"].make(target, {}, 0)


@pytest.mark.parametrize("method", ["speculative", "specinfer", "medusa"])
def test_trained_checkpoints_do_not_keep_their_target_alive(method, tmp_path):
    target = tiny_target()
    path = tmp_path / "part.safetensors"
    if method == "medusa":
        zeros = {"weight": torch.zeros(1, 1, 32, 32), "bias": torch.zeros(1, 1, 32), "accuracy": torch.zeros(1, 10)}
        checkpoints.write(path, "medusa", target, zeros)
    else:
        checkpoints.write(path, "draft", target, unshared_parameters(pruned_model(target.model, [0]), target.model), layers=1)
    options = {"heads" if method == "medusa" else "draft": str(path)}
    settings = GenerationSettings(max_new_tokens=6, budget=4, temperature=0.8)
    Decoder(target, method, settings, options).run(PROMPT)
    gone = weakref.ref(target)
    del target
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [({"verification": "guess"}, "choose one of rejection, block, coupled"), ({"length": LENGTHS[-1] + 1}, "from 0 to 16")],
)
def test_unknown_options_are_refused(draft, options, message):
    with pytest.raises(AdedError, match=message):
        drafter(draft, **options)


def test_models_that_verify_no_trees_cannot_draft():
    bloom = TargetModel(tiny_model("bloom"), WordTokenizer(), "bloom", "bloom")
    with pytest.raises(AdedError, match="cannot draft"):
        ChainRunner(bloom, VOCAB)

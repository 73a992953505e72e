"""A draft model that cannot process the text stops drafting with a reason: a shorter context, a smaller vocabulary."""

import pytest
import torch
from fakes import VOCAB, WordTokenizer, alone, cost, tiny_model, tiny_target
from pairwise import pairwise

from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.engine.target_model import TargetModel
from aded.sampling.logits_pipeline import Rule

SHORT = 64
PROMPT = [5, 17, 40, 8, 63, 21, 34, 11, 9, 70, 6, 50] * 9
SETTINGS = {"greedy": {}, "sampled": {"temperature": 0.8, "seed": 5}}


def speculative(drafts, vocab, **options):
    return SpeculativeDrafter(ChainRunner(drafts[0], vocab), cost(1.0), lambda greedy: 0.05, draft_length=4, **options)


def specinfer(drafts, vocab, **options):
    runners = [TreeRunner(draft, vocab) for draft in drafts]
    return SpecInferDrafter(runners, cost(1.0), lambda greedy: 0.05, **options)


def trees(drafts, vocab, **options):
    return specinfer(drafts, vocab, branching=(2, 1, 1, 1, 1, 1, 1, 1, 1, 1), **options)


METHODS = {"speculative": speculative, "specinfer by certainty": specinfer, "specinfer by shape": trees}


def coupled(make, drafts, vocab):
    return make(drafts, vocab, **({"verification": "coupled"} if make is speculative else {"coupled": True}))


@pytest.fixture(scope="module")
def models():
    """A target of 256 positions and a draft model of 64; the same with steps of fixed shape."""
    made = {fixed: (tiny_target("gpt2"), tiny_target("gpt2", n_positions=SHORT)) for fixed in (False, True)}
    for model in made[True]:
        model.use_fixed_shapes()
    return made


@pytest.mark.parametrize(
    ("length", "method", "settings", "fixed"),
    pairwise([50, 63, 64, 65, 100], list(METHODS), list(SETTINGS), [False, True]),
)
def test_a_draft_model_of_a_shorter_context_drafts_up_to_its_end(models, method, length, settings, fixed):
    target, draft = models[fixed]
    generation = GenerationSettings(max_new_tokens=24, budget=16, **SETTINGS[settings])
    decoder = Decoder(target, coupled(METHODS[method], [draft], VOCAB), generation)
    record = decoder.run(PROMPT[:length])
    assert record.token_ids == alone(target, PROMPT[:length], 24, Rule(generation.sampling))
    reason = f"gpt2 stops drafting: the text is longer than its context of {SHORT} tokens"
    assert record.header.notice == reason
    for step in record.steps:
        left = SHORT + 1 - (step.position + 1)
        if left < 1:
            assert len(step.tree.tokens) == 1
            assert step.note in (reason, None if step is record.steps[-1] else reason)
    drafted = [step.position for step in record.steps if len(step.tree.tokens) > 1]
    assert bool(drafted) == (length <= SHORT)
    again = decoder.run(PROMPT[:20])
    assert again.token_ids == alone(target, PROMPT[:20], 24, Rule(generation.sampling))
    assert again.header.notice is None, "another text begins anew"


@pytest.mark.parametrize("method", ["specinfer by certainty", "specinfer by shape"])
def test_of_several_draft_models_the_usable_ones_continue(method):
    target = tiny_target("gpt2")
    drafts = [tiny_target("gpt2", n_positions=SHORT), tiny_target("gpt2", seed=1)]
    made = METHODS[method](drafts, VOCAB)
    record = Decoder(target, made, GenerationSettings(max_new_tokens=24, budget=16)).run(PROMPT[:55])
    assert record.token_ids == alone(target, PROMPT[:55], 24)
    assert "its context of 64" in record.header.notice
    assert len(record.steps[-2].tree.tokens) > 1


def resized(size):
    torch.manual_seed(7)
    model = tiny_model("llama")
    model.resize_token_embeddings(size)
    return TargetModel(model, WordTokenizer(), "small", "small")


@pytest.mark.parametrize(
    ("size", "method", "settings", "fixed"), pairwise([30, VOCAB + 9], list(METHODS), list(SETTINGS), [False, True])
)
def test_a_draft_model_of_another_vocabulary_drafts_the_common_tokens(method, size, settings, fixed):
    target, draft = tiny_target("llama"), resized(size)
    if fixed:
        target.use_fixed_shapes()
        draft.use_fixed_shapes()
    generation = GenerationSettings(max_new_tokens=24, budget=12, **SETTINGS[settings])
    prompt = [5, 9, 14, 3, 20]
    record = Decoder(target, coupled(METHODS[method], [draft], VOCAB), generation).run(prompt)
    truth = alone(target, prompt, 24, Rule(generation.sampling))
    assert record.token_ids == truth
    assert all(token < min(size, VOCAB) for step in record.steps for token in step.tree.tokens[1:])
    text = prompt[:]
    for step in record.steps:
        if max(text) >= size:
            assert len(step.tree.tokens) == 1
            assert f"outside its vocabulary of {size} tokens" in record.header.notice
        text += step.emitted
    assert len(record.steps[0].tree.tokens) > 1
    assert (record.header.notice is None) == (max(text[:-1]) < size)


@pytest.mark.parametrize("method", METHODS)
def test_a_prompt_with_unknown_tokens_is_continued_without_the_draft_model(method):
    target, draft = tiny_target("llama"), resized(30)
    record = Decoder(target, METHODS[method]([draft], VOCAB), GenerationSettings(max_new_tokens=12, budget=12)).run([5, 90, 14])
    assert record.token_ids == alone(target, [5, 90, 14], 12)
    assert "small stops drafting: token id 90 is outside its vocabulary of 30 tokens" in record.header.notice

"""Weights that give NaN or infinity: the run ends at the position where plain decoding meets it, with an error message."""

import json

import numpy as np
import pytest
import torch
from fakes import VOCAB, OracleDrafter, WordTokenizer, alone, cost, near, tiny_model, tiny_target
from pairwise import pairwise

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.inspection import Explanation, MatrixRow, Prediction, Simulation
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.base import Drafter, Inspectable
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.engine.target_model import TargetModel
from aded.sampling.logits_pipeline import Rule

PROMPT = [5, 17, 40, 8, 63, 21, 34, 11, 9, 70, 6, 50]
SETTINGS = {
    "greedy": {},
    "sampled": {"temperature": 0.8, "seed": 5},
    "greedy with a penalty": {"repetition_penalty": 1.3},
    "sampled with a penalty": {"temperature": 0.8, "seed": 5, "repetition_penalty": 1.3},
}


def made(fixed, **options):
    target = tiny_target(**options)
    if fixed:
        target.use_fixed_shapes()
    return target


def spoil(target, token, value=float("nan")):
    with torch.no_grad():
        target.model.get_input_embeddings().weight[token] = value


def first_new(truth):
    """A position in the text, after a few tokens, whose token is neither in the prompt nor earlier in the text."""
    return next(i for i in range(4, len(truth)) if truth[i] not in truth[:i] + PROMPT)


@pytest.mark.parametrize(
    ("fixed", "drafts", "settings", "value"),
    pairwise([False, True], [False, True], list(SETTINGS), [float("nan"), float("inf")]),
)
def test_a_run_ends_at_the_position_whose_logits_are_not_finite(fixed, drafts, settings, value):
    target, generation = made(fixed), GenerationSettings(max_new_tokens=40, budget=12, **SETTINGS[settings])
    truth = alone(target, PROMPT, 40, Rule(generation.sampling))
    place = first_new(truth)
    spoil(target, truth[place], value)
    decoder = Decoder(target, OracleDrafter(truth) if drafts else "plain", generation)
    words = f"the logits after position {len(PROMPT) + place} of the text, token id {truth[place]}, are not finite"
    with pytest.raises(AdedError, match=words) as caught:
        decoder.run(PROMPT)
    assert len(str(caught.value).splitlines()) == 1
    assert decoder.trace.token_ids == truth[: place + 1], "what plain decoding writes up to there"
    trace.loads(trace.dumps(decoder.trace))
    spoil(target, truth[place], 0.1)
    again = Decoder(target, "plain", generation).run(PROMPT)
    assert again.token_ids == alone(target, PROMPT, 40, Rule(generation.sampling)), "the next decode has a clean cache"


def test_a_prompt_that_gives_nan_and_was_never_verified_leaves_a_clean_cache():
    target, prompt = made(True), PROMPT[:2]
    generation = GenerationSettings(max_new_tokens=8)
    target.pool.clear()  # so that the second decode gets the cache of the first
    clean = target.model.get_input_embeddings().weight[PROMPT[3]].clone()
    spoil(target, PROMPT[3])
    decoder = Decoder(target, "plain", generation)
    decoder.begin(PROMPT)
    decoder.close()
    spoil(target, PROMPT[3], clean)
    assert Decoder(target, "plain", generation).run(prompt).token_ids == alone(target, prompt, 8)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("verification", ["rejection", "block", "coupled"])
def test_a_sampled_draft_does_not_hide_non_finite_logits(fixed, verification):
    target = made(fixed)
    draft = near(target)
    drafter = SpeculativeDrafter(ChainRunner(draft, VOCAB), cost(1.0), lambda greedy: 0.05, verification, draft_length=3)
    spoil(target, PROMPT[3])  # shared with the draft model: both give NaN
    with pytest.raises(AdedError, match=f"the logits after position {len(PROMPT) - 1} of the text"):
        Decoder(target, drafter, GenerationSettings(max_new_tokens=40, budget=12, temperature=0.8)).run(PROMPT)


def test_non_finite_embeddings_of_unused_tokens_do_no_harm():
    target = made(True)
    truth = alone(target, PROMPT, 40)
    for token in set(range(VOCAB)) - {*truth, *PROMPT}:
        spoil(target, token)
    record = Decoder(target, OracleDrafter(truth, hit=0.5), GenerationSettings(max_new_tokens=40, budget=12)).run(PROMPT)
    assert record.token_ids == truth


def test_a_model_without_finite_logits_is_refused_at_load():
    model = tiny_model("llama")
    with torch.no_grad():
        model.get_output_embeddings().weight[8] = float("nan")
    for dtype, remedy in ((torch.float32, "again"), (torch.bfloat16, "again, or use --dtype float32")):
        with pytest.raises(AdedError, match=f"broken: the logits are not finite .* get them {remedy}$"):
            TargetModel(model.to(dtype), WordTokenizer(), "broken", "broken")


def speculative(draft, **options):
    return SpeculativeDrafter(ChainRunner(draft, VOCAB), cost(1.0), lambda greedy: 0.05, draft_length=4, **options)


def specinfer(draft, **options):
    return SpecInferDrafter([TreeRunner(draft, VOCAB)], cost(1.0), lambda greedy: 0.05, **options)


DRAFTERS = {
    "speculative": speculative,
    "specinfer by certainty": specinfer,
    "specinfer by shape": lambda draft: specinfer(draft, branching=(2, 2, 1)),
}


@pytest.mark.parametrize(("fixed", "method", "temperature"), pairwise([False, True], list(DRAFTERS), [0.0, 0.8]))
def test_a_draft_model_with_non_finite_logits_stops_drafting_and_decoding_continues(fixed, method, temperature):
    target, draft = made(fixed), made(fixed)
    generation = GenerationSettings(max_new_tokens=40, budget=12, temperature=temperature)
    drafter = DRAFTERS[method](draft)
    text = Decoder(target, drafter, generation).run(PROMPT).token_ids
    token = text[first_new(text)]
    before = draft.model.get_input_embeddings().weight[token].clone()
    spoil(draft, token)
    record = Decoder(target, drafter, generation).run(PROMPT)
    assert "llama stops drafting: its logits are not finite" in record.header.notice
    assert any(len(step.tree.tokens) > 1 for step in record.steps), "it drafted until then"
    assert record.steps[-2].note == record.header.notice
    assert all(0 <= token < VOCAB for step in record.steps for token in step.tree.tokens)
    if not temperature:
        assert record.token_ids == text
    trace.loads(trace.dumps(record))
    with torch.no_grad():
        draft.model.get_input_embeddings().weight[token] = before
    assert Decoder(target, drafter, generation).run(PROMPT).token_ids == text, "the next decode has a clean cache"


class Numberless(Drafter, Inspectable):
    """Gives NaN wherever a drafter gives a number."""

    def propose(self, context, budget):
        columns = {"prior": np.array([np.nan, np.nan]), "score": np.array([np.inf, -np.inf])}
        return DraftTree(np.array([context.root, 7]), np.array([-1, 0]), columns)

    def explain(self, context, budget):
        return Explanation("note", (Simulation((0, 1), 1, float("nan")),))

    def matrix_rows(self, outcome):
        return [MatrixRow((1, 2), (3, 4), (float("nan"), 0.5), (float("inf"), float("nan")))]

    def predictions(self, context):
        return [Prediction("base", np.array([3]), np.array([np.nan]), False)]

    def settings(self):
        return {"scale": float("nan"), "most": float("inf"), "deep": {"list": [float("-inf"), 1.5]}, "what": object}


@pytest.mark.parametrize("budget", [4, "auto"])
def test_a_record_of_a_drafter_that_gives_nan_can_be_saved_and_read(tmp_path, budget):
    target = tiny_target()
    record = Decoder(target, Numberless(), GenerationSettings(max_new_tokens=6, budget=budget)).run(PROMPT)
    trace.save(record, tmp_path / "x.json")
    assert trace.load(tmp_path / "x.json").lanes[0].token_ids == alone(target, PROMPT, 6)
    assert json.loads((tmp_path / "x.json").read_text())["header"]["method_settings"]["deep"] == {"list": [None, 1.5]}


def test_a_record_with_nan_is_refused_in_one_line(tmp_path):
    record = Decoder(tiny_target(), "plain", GenerationSettings(max_new_tokens=2)).run(PROMPT)
    object.__setattr__(record, "prefill_seconds", float("nan"))
    with pytest.raises(AdedError, match="cannot be written as JSON"):
        trace.save(record, tmp_path / "x.json")

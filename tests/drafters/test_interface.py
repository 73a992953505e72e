"""The drafter interface: features of several layers, the target's KV cache, and the worked example of the docs."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import ROOT
from fakes import OracleDrafter, WordTokenizer, tiny_model, tiny_target
from feature_drafters import LAYERS, CacheDrafter, FeatureDrafter, LinearNetwork
from pairwise import pairwise

from aded.core.errors import AdedError
from aded.core.inspection import Explanation, MatrixRow, Prediction
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.base import Context, Drafter, Inspectable, Persistent
from aded.drafters.budget.tree_budget import FixedBudget
from aded.engine.outputs import DrafterNeeds
from aded.engine.target_model import TargetModel

PROMPT = [5, 17, 40, 8, 63, 21, 5, 17]
SAMPLING = [{}, {"temperature": 0.8, "top_p": 0.9, "seed": 4}, {"repetition_penalty": 1.3}]


def target_of(family: str, fixed: bool) -> TargetModel:
    target = tiny_target(family)
    if fixed:
        target.use_fixed_shapes()
    return target


def hidden_states(target: TargetModel, ids: Sequence[int]) -> torch.Tensor:
    with torch.inference_mode():
        states = target.model(input_ids=torch.tensor([list(ids)]), use_cache=False, output_hidden_states=True).hidden_states
    return torch.cat([states[layer][0] for layer in LAYERS], dim=-1)


@pytest.mark.parametrize(("family", "sampling", "fixed"), pairwise(["llama", "gemma2_sliding", "gpt2"], SAMPLING, [False, True]))
def test_a_drafter_reads_features_of_three_layers_for_the_prompt_and_all_accepted_nodes(family, sampling, fixed):
    target = target_of(family, fixed)
    settings = GenerationSettings(max_new_tokens=24, budget=8, **sampling)
    plain = Decoder(target, "plain", settings).run(PROMPT)
    network = LinearNetwork(target)
    record = Decoder(target, FeatureDrafter(network), settings).run(PROMPT)
    assert record.token_ids == plain.token_ids
    text = PROMPT + record.token_ids
    assert torch.cat(network.read_tokens).tolist() == text[1:]
    assert torch.allclose(torch.cat(network.read_features), hidden_states(target, text)[:-1], atol=1e-3, rtol=1e-3)
    assert any(len(step.tree.tokens) > 1 for step in record.steps)


@pytest.mark.parametrize("fixed", [False, True], ids=["eager", "fixed-shape"])
@pytest.mark.parametrize("sampling", SAMPLING, ids=str)
def test_a_drafter_reads_the_cache_of_the_targets_last_layer_at_stable_addresses(sampling, fixed):
    target = target_of("llama", fixed)
    settings = GenerationSettings(max_new_tokens=24, budget=8, **sampling)
    plain = Decoder(target, "plain", settings).run(PROMPT)
    drafter = CacheDrafter()
    record = Decoder(target, drafter, settings).run(PROMPT)
    assert record.token_ids == plain.token_ids
    assert len(drafter.addresses) == 1
    text = PROMPT + record.token_ids
    with torch.inference_mode():
        cache = target.model(input_ids=torch.tensor([text]), use_cache=True).past_key_values
    for keys in drafter.keys:
        assert torch.allclose(keys, cache.layers[-1].keys[0, :, : keys.shape[1]], atol=1e-4)
    assert [keys.shape[1] for keys in drafter.keys][:1] == [len(PROMPT) - 1]


def test_a_prompt_of_one_token_has_no_features_and_an_empty_cache():
    target = tiny_target()
    for drafter in (FeatureDrafter(LinearNetwork(target)), CacheDrafter()):
        settings = GenerationSettings(max_new_tokens=6, budget=4)
        assert Decoder(target, drafter, settings).run([5]).token_ids == Decoder(target, "plain", settings).run([5]).token_ids


def test_long_prompts_have_features_of_every_token():
    target = tiny_target(max_position_embeddings=2048)
    network, prompt = LinearNetwork(target), (PROMPT * 180)[:1300]
    Decoder(target, FeatureDrafter(network), GenerationSettings(max_new_tokens=1, budget=2)).run(prompt)
    assert torch.allclose(network.read_features[0], hidden_states(target, prompt)[:-1], atol=1e-3, rtol=1e-3)


def test_unknown_layers_are_refused_with_those_that_the_model_has():
    class Deep(Drafter):
        needs = DrafterNeeds(hidden_layers=(1, 9))

    with pytest.raises(AdedError, match=r"hidden layer 9; this model has 0 \(embedding\) to 2"):
        Decoder(tiny_target(), Deep()).run(PROMPT)

    class DeepCache(CacheDrafter):
        def bind(self, target):
            target.kv(5)

    with pytest.raises(AdedError, match="KV cache of layer 5; this model has 0 to 1"):
        Decoder(tiny_target(), DeepCache()).run(PROMPT)


class Reader:
    """A ``StateReader`` that returns ``output``."""

    def __init__(self, size: int, output: object) -> None:
        self.size, self.output = size, output

    def forward(self, state: torch.Tensor) -> object:
        return self.output


NEEDS = {
    "none": (None, "needs are None"),
    "a negative number": (DrafterNeeds(top_k=-1), "top -1 tokens"),
    "a fraction": (DrafterNeeds(top_k=1.5), "top 1.5 tokens"),
    "a list of layers": (DrafterNeeds(hidden_layers=[1]), r"hidden layers are \[1\]; give a tuple"),
    "a layer": (DrafterNeeds(hidden_layers=1), "hidden layers are 1; give a tuple"),
    "a layer of fractions": (DrafterNeeds(hidden_layers=(1.0,)), "give a tuple of whole numbers"),
    "a reader that is none": (DrafterNeeds(reader=object()), "reader fails"),
    "another size": (DrafterNeeds(reader=Reader(3, torch.zeros(2).double())), r"float64 tensor of its size, \[3\]"),
    "another type": (DrafterNeeds(reader=Reader(3, torch.zeros(3))), "float64 tensor"),
    "a list": (DrafterNeeds(reader=Reader(3, [0.0] * 3)), "float64 tensor"),
}


@pytest.mark.parametrize("fixed", [False, True], ids=["eager", "fixed-shape"])
@pytest.mark.parametrize("kind", NEEDS)
def test_needs_that_no_target_can_meet_are_refused_when_a_decode_begins(kind, fixed):
    class Drafting(Drafter):
        def propose(self, context, budget):
            return DraftTree.root_only(context.root)

    decoder = Decoder(target_of("llama", fixed), Drafting(), GenerationSettings(max_new_tokens=2, budget=4))
    decoder.run(PROMPT)
    decoder.drafter.needs, message = NEEDS[kind]
    with pytest.raises(AdedError, match=message):
        decoder.run(PROMPT)
    assert not decoder.running


def scribble(value: object) -> None:
    """Write into every array of a context or an outcome."""
    for part in vars(value).values():
        if isinstance(part, np.ndarray):
            part[...] = 7
        elif isinstance(part, (Context, DraftTree)):
            scribble(part)


class Scribbling(OracleDrafter, Inspectable):
    """Writes into every array that it gets, and proposes one tree object again and again."""

    needs = DrafterNeeds(top_k=2)

    def __init__(self, truth: list[int]) -> None:
        super().__init__(truth, width=1)
        self.tree: DraftTree | None = None

    def propose(self, context, budget):
        made = super().propose(context, budget)
        if self.tree is None or len(made) != len(self.tree):
            self.tree = made
        self.tree.tokens[:], self.tree.parents[:] = made.tokens, made.parents
        assert self.tree.child(0, -5) is None, "fills the tree's table of children"
        scribble(context)
        return self.tree

    def prepare(self, context, budget):
        scribble(context)

    def observe(self, outcome):
        assert outcome.context.root == outcome.tree.tokens[0]
        assert (outcome.top_tokens[:, 0] != outcome.top_tokens[:, 1]).all()
        scribble(outcome)

    def explain(self, context, budget):
        scribble(context)
        return Explanation()

    def matrix_rows(self, outcome):
        scribble(outcome)
        return []

    def predictions(self, context):
        scribble(context)
        return []


@pytest.mark.parametrize("fixed", [False, True], ids=["eager", "fixed-shape"])
@pytest.mark.parametrize("sampling", SAMPLING, ids=str)
def test_a_drafter_that_writes_into_what_it_gets_changes_neither_text_nor_record(sampling, fixed):
    target, settings = target_of("llama", fixed), GenerationSettings(max_new_tokens=24, budget=8, **sampling)
    plain = Decoder(target, "plain", settings).run(PROMPT)
    record = Decoder(target, Scribbling(plain.token_ids), settings).run(PROMPT)
    assert record.token_ids == plain.token_ids
    assert [token for step in record.steps for token in step.emitted] == plain.token_ids
    honest = Decoder(target, OracleDrafter(plain.token_ids, width=1), settings).run(PROMPT)
    for step, same in zip(record.steps, honest.steps, strict=True):
        assert replace(step, seconds=same.seconds) == same


UNREADABLE = {
    "explain": [None, 5, [Explanation()], Explanation(simulations=[5]), Explanation(simulations=5)],
    "matrix_rows": [None, 5, [5], [MatrixRow((1, 2), None, (), ())], [MatrixRow(("a", 2), (3,), (1.0,), (0.0,))]],
    "predictions": [
        5,
        [5],
        [Prediction("base", None, np.ones(1), False)],
        [Prediction("base", np.array([999]), np.ones(1), False)],
    ],
    "matrix_size": [5, "large", (1, 2, 3, 4)],
}


@pytest.mark.parametrize(("call", "answer"), [(call, answer) for call in UNREADABLE for answer in UNREADABLE[call]], ids=str)
def test_an_answer_that_cannot_be_recorded_names_the_drafter_and_the_call(call, answer):
    class Vague(OracleDrafter, Inspectable):
        pass

    drafter = Vague([7, 8, 9])
    setattr(drafter, call, lambda *arguments: answer)
    settings = GenerationSettings(max_new_tokens=4, budget=4)
    with pytest.raises(AdedError, match=f"Vague.{call} returned what cannot be recorded .*; see aded.core.inspection") as caught:
        Decoder(tiny_target(), drafter, settings).run(PROMPT)
    assert len(str(caught.value).splitlines()) == 1
    assert len(Decoder(tiny_target(), drafter, settings, record=False).run(PROMPT).token_ids) == 4


def test_a_step_without_a_draft_is_not_explained_by_the_draft_before():
    class Explaining(OracleDrafter, Inspectable):
        def explain(self, context, budget):
            return Explanation(note="the latest draft")

    decoder = Decoder(tiny_target(), Explaining([7, 8, 9]), GenerationSettings(max_new_tokens=4, budget=4))
    decoder.begin(PROMPT)
    assert decoder.step().note == "the latest draft"
    decoder.budget = FixedBudget(1, "drafting is paused")
    assert decoder.step().note is None
    decoder.close()


def test_thresholds_of_another_type_are_refused():
    class Loose(OracleDrafter):
        typical = 5

    with pytest.raises(AdedError, match=r"typical acceptance are 5; give TypicalAcceptance\(...\) or None"):
        Decoder(tiny_target(), Loose([7]))


@pytest.mark.parametrize("settings", [None, 5, [], "x"])
def test_settings_that_are_no_dict_name_the_drafter(settings):
    class Unset(OracleDrafter):
        def settings(self):
            return settings

    with pytest.raises(AdedError, match=r"Unset.settings\(\) is .*; give a dict"):
        Decoder(tiny_target(), Unset([7]))


def test_a_fault_inside_a_drafter_keeps_its_traceback():
    class Broken(OracleDrafter, Inspectable):
        def explain(self, context, budget):
            raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        Decoder(tiny_target(), Broken([7]), GenerationSettings(max_new_tokens=4, budget=4)).run(PROMPT)


def test_a_drafter_can_read_the_view_until_its_close_has_returned():
    class Reading(CacheDrafter):
        def bind(self, target):
            self.view = target
            super().bind(target)

        def close(self):
            self.at_close = self.view.length, self.view.kv(-1).keys.shape[1]

    drafter = Reading()
    Decoder(tiny_target(), drafter, GenerationSettings(max_new_tokens=6, budget=4)).run(PROMPT)
    assert drafter.at_close[0] >= len(PROMPT)
    assert drafter.view.length == 0
    with pytest.raises(AdedError, match="the decode of this view has ended"):
        drafter.view.kv(0)


@pytest.mark.parametrize("layer", [1.0, None, "0", True])
def test_a_layer_that_is_no_whole_number_is_refused(layer):
    class Asking(CacheDrafter):
        def bind(self, target):
            target.kv(layer)

    with pytest.raises(AdedError, match="KV cache of layer"):
        Decoder(tiny_target(), Asking()).run(PROMPT)


def test_a_drafter_without_propose_is_named():
    with pytest.raises(AdedError, match="Drafter has no propose; define it"):
        Decoder(tiny_target(), Drafter(), GenerationSettings(budget=4)).run(PROMPT)


@pytest.mark.parametrize("method", [CacheDrafter, None, object()], ids=["class", "None", "object"])
def test_what_is_no_drafter_is_refused(method):
    with pytest.raises(AdedError, match=r"give the name of a method, or a drafter such as MyDrafter\(\)"):
        Decoder(tiny_target(), method)


def test_a_step_that_fails_closes_the_decode():
    class Failing(Drafter):
        def propose(self, context, budget):
            return DraftTree.root_only(context.root)

        def observe(self, outcome):
            if len(outcome.context.tokens) == len(PROMPT) + 2:
                raise ValueError("no more")

    target = tiny_target()
    decoder = Decoder(target, Failing(), GenerationSettings(max_new_tokens=8, budget=4))
    decoder.begin(PROMPT)
    for _ in range(2):
        decoder.step()
    with pytest.raises(ValueError, match="no more"):
        decoder.step()
    assert not decoder.running
    assert decoder.trace.token_ids == Decoder(target, "plain", GenerationSettings(max_new_tokens=2)).run(PROMPT).token_ids


def test_a_model_without_a_readable_cache_is_named_as_the_reason():
    target = TargetModel(tiny_model("qwen3_next"), WordTokenizer())
    assert target.mode == "plain"
    with pytest.raises(AdedError, match="without a KV cache that a drafter can read"):
        Decoder(target, CacheDrafter(), GenerationSettings(max_new_tokens=4)).run(PROMPT)


def blocks_of_the_docs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "methods.md").read_text(), re.S)


def test_the_worked_example_of_the_docs_runs_and_is_lossless(monkeypatch, capsys):
    target, names = tiny_target(), {}
    monkeypatch.setattr(TargetModel, "load", lambda *arguments, **options: target)
    for block in blocks_of_the_docs():
        exec(block, names)
    drafter = names["RecentBigrams"]
    assert issubclass(drafter, Persistent)
    for sampling in SAMPLING:
        settings = GenerationSettings(max_new_tokens=60, budget=8, **sampling)
        record = Decoder(target, drafter(), settings).run(PROMPT)
        assert record.token_ids == Decoder(target, "plain", settings).run(PROMPT).token_ids
        assert sampling or record.tokens_per_step > 1, "greedy drafts are accepted"
    learned = drafter()
    Decoder(target, learned, GenerationSettings(max_new_tokens=20)).run(PROMPT)
    again = drafter()
    again.load_state_dict(learned.state_dict())
    assert np.array_equal(again.state_dict()["bigrams"], learned.state_dict()["bigrams"])
    assert "tokens per step" in capsys.readouterr().out

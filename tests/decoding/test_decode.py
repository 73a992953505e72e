"""The decoding loop: every method writes the text of plain decoding, and stops at the right token."""

import gc
from fractions import Fraction
from threading import Event, Thread
from weakref import ref

import numpy as np
import pytest
import torch
from fakes import (
    CHAIN_FAMILIES,
    FAMILIES,
    PLAIN_FAMILIES,
    VOCAB,
    OracleDrafter,
    WordTokenizer,
    alone,
    cost,
    near,
    tiny_model,
    tiny_target,
)
from pairwise import pairwise

from aded.core import trace
from aded.core.errors import AdedError, shown
from aded.core.trace import dumps, loads
from aded.core.tree import DraftDistributions, DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.engine.kv_cache import KVCache
from aded.engine.target_model import TargetModel
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import TypicalAcceptance

PROMPT = [5, 17, 40, 8, 63, 21, 34, 11, 9, 70, 6, 50]
SAMPLED = {"temperature": 0.8, "top_p": 0.95, "seed": 5}
NEW = 40


def decode(target, drafter, **settings):
    settings = {"max_new_tokens": NEW, "budget": 16, **settings}
    return Decoder(target, drafter, GenerationSettings(**settings)).run(PROMPT)


def expected(target, **settings):
    return alone(target, PROMPT, NEW, Rule(GenerationSettings(**settings).sampling))


EVERY_FAMILY = [
    pytest.param(family, settings, marks=pytest.mark.slow if slow else (), id=f"{family}-{name}")
    for place, family in enumerate(FAMILIES)
    for name, settings, slow in (
        ("greedy", {}, False),
        ("sampled", SAMPLED, place % 2),
        ("penalty", {"repetition_penalty": 1.3}, not place % 2),
    )
]
"""Greedy for every family; in the default run alternately sampled or with a penalty."""


@pytest.mark.parametrize(("family", "settings"), EVERY_FAMILY)
def test_tree_decoding_equals_the_target_alone_on_every_family(family, settings):
    target = tiny_target(family)
    truth = expected(target, **settings)
    record = decode(target, OracleDrafter(truth), **settings)
    assert record.token_ids == truth
    assert len(record.steps) < len(truth), "some drafts were accepted"
    assert any("rejected" in step.tree.verdict for step in record.steps)


@pytest.mark.parametrize("method", ["plain", "aded", "prompt-lookup"])
@pytest.mark.parametrize("family", ["llama", "mistral_sliding", "gemma2_sliding", *CHAIN_FAMILIES, *PLAIN_FAMILIES])
def test_every_method_equals_the_target_alone(family, method):
    target = tiny_target(family)
    assert decode(target, method).token_ids == expected(target)
    assert decode(target, method, **SAMPLED).token_ids == expected(target, **SAMPLED)


def test_truths_are_varied_enough_to_tell_right_from_wrong():
    truths = [expected(tiny_target(family), **SAMPLED) for family in FAMILIES]
    assert np.median([len(set(t)) for t in truths]) >= 10


@pytest.mark.parametrize("family", ["llama", "gemma2_sliding", "qwen3"])
def test_keeping_the_first_slots_instead_of_the_accepted_ones_is_noticed(family, monkeypatch):
    """Negative control: with a wrong KV-cache compaction the equality must fail."""
    target = tiny_target(family)
    truth = expected(target, repetition_penalty=1.3)
    honest = KVCache.compact
    monkeypatch.setattr(KVCache, "compact", lambda self, nodes: honest(self, range(len(nodes))))
    assert decode(target, OracleDrafter(truth), repetition_penalty=1.3).token_ids != truth


def test_a_custom_processor_gets_the_prefix_of_every_node():
    target = tiny_target("llama")

    def no_repeats(ids, scores):
        scores = scores.clone()
        scores[0, ids[0, -12:]] = -torch.inf
        return scores

    rule = Rule(GenerationSettings().sampling, [no_repeats])
    truth = alone(target, PROMPT, NEW, rule)
    assert len(set(truth)) >= 13
    decoder = Decoder(target, OracleDrafter(truth), GenerationSettings(max_new_tokens=NEW), processors=[no_repeats])
    assert decoder.run(PROMPT).token_ids == truth


def with_eos(position: int, **settings):
    """A target whose greedy text has an end-of-text id at ``position``, and that text."""
    truth = expected(tiny_target("llama"), repetition_penalty=1.3)
    model = tiny_model("llama")
    first = truth.index(truth[position])
    model.generation_config.eos_token_id = [truth[first], 2]
    return TargetModel(model, WordTokenizer()), truth[: first + 1]


@pytest.mark.parametrize("position", [0, 3, 7, 12])
def test_an_end_of_text_token_in_an_accepted_path_cuts_ids_text_cache_and_counts(position):
    target, truth = with_eos(position)
    long = truth + [7] * 20
    decoder = Decoder(
        target, OracleDrafter(long, hit=1.0), GenerationSettings(max_new_tokens=NEW, budget=16, repetition_penalty=1.3)
    )
    decoder.begin(PROMPT)
    while decoder.finish_reason is None:
        decoder.step()
    record = decoder.trace
    assert record.token_ids == truth
    assert record.finish_reason == "eos"
    assert decoder._session.length == len(PROMPT) + len(truth) - 1
    assert sum(len(step.emitted) for step in record.steps) == len(truth)
    assert sum(step.accepted for step in record.steps) == sum(len(step.path) - 1 for step in record.steps)


@pytest.mark.parametrize("limit", range(1, 9))
def test_the_new_token_limit_is_never_overshot(limit):
    target = tiny_target("llama")
    truth = expected(target)
    record = decode(target, OracleDrafter(truth, hit=1.0), max_new_tokens=limit)
    assert record.token_ids == truth[:limit]
    assert record.finish_reason == "length"


def test_the_context_limit_ends_the_text_with_every_position_used():
    model = tiny_model("gpt2")  # learned position embeddings: a position beyond the last raises
    target = TargetModel(model, WordTokenizer())
    prompt = (PROMPT * 30)[: target.context_limit - 6]
    truth = alone(target, prompt, 6)
    record = Decoder(target, OracleDrafter(truth, hit=1.0), GenerationSettings(max_new_tokens=50)).run(prompt)
    assert record.token_ids == truth
    assert record.finish_reason == "context"
    assert len(prompt) + len(truth) == target.context_limit


def test_a_stop_string_in_an_accepted_path_cuts_there():
    target = tiny_target("llama")
    truth = expected(target)
    stop = f"w{truth[6]} "
    first = truth.index(truth[6])
    record = decode(target, OracleDrafter(truth, hit=1.0), stop=stop)
    assert record.finish_reason == "stop"
    assert record.token_ids == truth[: first + 1]
    assert record.text == "".join(f"w{t} " for t in truth[:first] if t > 2)


def test_one_token_prompts_work():
    target = tiny_target("llama")
    truth = alone(target, [5], 10)
    for method in ("plain", "aded", "prompt-lookup"):
        assert Decoder(target, method, GenerationSettings(max_new_tokens=10)).run([5]).token_ids == truth


def test_a_decoder_runs_again_and_writes_the_same():
    target = tiny_target("llama")
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=NEW, **SAMPLED))
    first = decoder.run(PROMPT)
    assert decoder.run(PROMPT).token_ids == first.token_ids


def test_closing_the_stream_ends_the_decode_and_frees_its_cache():
    target = tiny_target("llama")
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=NEW))
    steps = decoder.stream(PROMPT)
    next(steps)
    steps.close()
    assert decoder.finish_reason == "cancelled"
    assert decoder._session is None
    assert len(decoder.trace.steps) == 1


def test_a_decode_that_is_closed_while_its_prefill_waits_for_the_model_ends(monkeypatch):
    monkeypatch.setattr("aded.engine.session.PREFILL_CHUNK", 4)
    target = tiny_target("llama")
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=NEW))
    parts, lock = decoder.beginning(PROMPT), target.lock
    next(parts)

    class Awaited:
        """The model's lock, which another thread has until it has closed the decode."""

        def __enter__(self):
            target.lock = lock
            decoder.close()
            return lock.__enter__()

        def __exit__(self, *error):
            lock.__exit__(*error)

    target.lock = Awaited()
    assert list(parts) == []
    assert (decoder.running, decoder.finish_reason) == (False, "cancelled")


def test_the_memory_of_a_decode_is_freed_with_it_without_the_garbage_collector():
    """Garbage collection runs late in a process with many objects: without this, finished decodes held 250 MB of a server."""
    target = tiny_target("llama")
    gc.collect()
    gc.disable()
    try:
        decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=NEW))
        steps = decoder.stream(PROMPT)
        next(steps)
        cache = decoder._session.cache
        held = [ref(one) for one in (decoder, decoder.drafter, cache, cache.layers[0])]
        del cache
        steps.close()
        assert held[2]() is held[3]() is None, "the cache is freed at the end of the decode"
        del decoder, steps
        assert [one() for one in held] == [None] * len(held)
    finally:
        gc.enable()


@pytest.mark.parametrize("record", [True, False])
def test_the_trace_survives_json_and_its_numbers_add_up(record):
    target = tiny_target("llama")
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=NEW, **SAMPLED), record=record)
    made = decoder.run(PROMPT)
    assert trace.loads(trace.dumps(made)).lanes == [made]
    assert "".join(t for s in made.steps for t in s.texts) == made.text
    assert made.tokens_per_step == len(made.token_ids) / len(made.steps)
    summary = made.summary()
    total = sum(summary[f"{p}_seconds"] for p in ("draft", "verify", "commit", "update"))
    assert summary["decode_seconds"] == pytest.approx(total) == pytest.approx(decoder.clock)


def test_the_trace_has_the_target_s_probabilities_over_the_whole_vocabulary():
    target = tiny_target("llama")
    truth = expected(target)
    for step in decode(target, OracleDrafter(truth)).steps:
        for node in range(1, len(step.tree.tokens)):
            prefix = PROMPT + truth[: step.position + 1 - len(PROMPT)]
            path, walk = [], node
            while walk:
                path.append(step.tree.tokens[walk])
                walk = step.tree.parents[walk]
            logits = target.model(input_ids=torch.tensor([prefix + path[:0:-1]]), use_cache=False).logits[0, -1].detach()
            assert step.tree.probability[node] == pytest.approx(float(logits.softmax(-1)[path[0]]), abs=1e-5)
        break


NUMBERS = ["max_new_tokens", "budget", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed"]


@pytest.mark.parametrize(
    "bad",
    [
        {"max_new_tokens": 0},
        {"max_new_tokens": -3},
        {"budget": 0},
        {"budget": 999},
        {"budget": "some"},
        {"stop": ("",)},
        {"temperature": -1},
        {"temperature": "0.8"},
        {"temperature": None},
        {"max_new_tokens": 5.5},
        {"max_new_tokens": float("nan")},
        {"max_new_tokens": float("inf")},
        {"max_new_tokens": "5"},
        {"max_new_tokens": True},
        {"budget": True},
        {"budget": None},
        {"budget": 4.5},
        {"seed": "1"},
        {"seed": -1},
        {"top_k": 1.5},
        {"top_p": "1"},
        {"stop": None},
        {"stop": [5]},
        {"stop": {"a": 1}},
        {"raw": "no"},
        {"raw": 1},
        {"top_k": 2**31},
        *({name: value} for name in NUMBERS for value in (10**400, -(10**400), 10**5000, Fraction(10**400), np.ones((2, 2)))),
    ],
    ids=shown,
)
def test_bad_settings_are_refused_with_a_remedy(bad):
    with pytest.raises(AdedError, match="give|leave it out") as caught:
        GenerationSettings(**bad)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 200


ARGUMENTS = {
    "the model": [{"model": "default"}, {"model": None}],
    "the settings": [{"settings": {"max_new_tokens": 5}}, {"settings": {}}, {"settings": 5}],
    "the options": [{"options": ["depth"]}, {"options": []}, {"options": 5}, {"options": "depth"}],
    "aded has no option": [{"options": {5: 1, "speed": 2}}],
    "the logits processors": [{"processors": 5}, {"processors": [5]}, {"processors": None}, {"processors": "abc"}],
    "record": [{"record": "no"}],
}


@pytest.mark.parametrize(("words", "bad"), [(words, bad) for words in ARGUMENTS for bad in ARGUMENTS[words]], ids=str)
def test_an_argument_of_another_type_is_refused_with_a_remedy(words, bad):
    with pytest.raises(AdedError, match=f"^{words}.*; (give|it has)") as caught:
        Decoder(**{"model": tiny_target("llama"), **bad})
    assert len(str(caught.value).splitlines()) == 1


def test_numbers_of_numpy_and_whole_floats_are_settings_too():
    settings = GenerationSettings(np.int64(6), np.int32(4), np.float32(0.5), seed=np.uint8(3), top_k=5.0, stop=["x"])
    assert settings == GenerationSettings(6, 4, 0.5, seed=3, top_k=5, stop=("x",))
    record = Decoder(tiny_target("llama"), "aded", settings).run(np.array(PROMPT, dtype=np.int16))
    assert loads(dumps(record)).lanes == [record]


@pytest.mark.parametrize("prompt", [None, 5, ["a"], [[5, 6]], [5.5], [True], [5, [6]], {"a": 1}, b"text"], ids=repr)
def test_a_prompt_that_is_neither_text_nor_ids_is_refused(prompt):
    decoder = Decoder(tiny_target("llama"), "plain", GenerationSettings(max_new_tokens=2))
    with pytest.raises(AdedError, match="the prompt is neither text nor a list of token ids; give one of them"):
        decoder.run(prompt)


def test_calls_in_the_wrong_order_are_refused():
    target = tiny_target("llama")
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=6, budget=8))
    for call in (decoder.step, lambda: decoder.trace, lambda: decoder.header):
        with pytest.raises(AdedError, match="call begin"):
            call()
    decoder.begin(PROMPT)
    decoder.step()
    with pytest.raises(AdedError, match="this decode is running; close it"):
        decoder.begin(PROMPT)
    while decoder.finish_reason is None:
        decoder.step()
    decoder.close()
    assert decoder.trace.token_ids == expected(target)[:6]
    decoder.begin(PROMPT)
    target.close()
    for call in (decoder.step, lambda: Decoder(target, "plain").run(PROMPT)):
        with pytest.raises(AdedError, match="has been closed; load it again"):
            call()


def test_options_are_not_for_custom_drafters():
    with pytest.raises(AdedError, match="options are for the name of a method"):
        Decoder(tiny_target("llama"), OracleDrafter([]), options={"depth": 3})


def test_unknown_methods_and_options_name_the_known_ones():
    target = tiny_target("llama")
    with pytest.raises(AdedError, match="plain, aded, prompt-lookup"):
        Decoder(target, "magic")
    with pytest.raises(AdedError, match="simulations"):
        Decoder(target, "aded", options={"speed": 11})


class SlowStart(OracleDrafter):
    """Starting takes three seconds on a fake clock."""

    def __init__(self, truth, clock):
        super().__init__(truth)
        self.clock = clock

    def start(self, prompt, features=None):
        self.clock[0] += 3.0


def test_the_drafter_s_prefill_is_part_of_the_prefill_and_not_of_a_step(monkeypatch):
    target, clock = tiny_target("llama"), [0.0]
    monkeypatch.setattr("aded.decoding.decoder.time.perf_counter", lambda: clock[0])
    record = Decoder(target, SlowStart(expected(target), clock), GenerationSettings(max_new_tokens=6, budget=8)).run(PROMPT)
    assert record.prefill_seconds == 3.0
    assert record.decode_seconds == 0.0


@pytest.mark.parametrize("method", ["speculative", "specinfer"])
def test_the_cost_of_a_draft_level_is_measured_outside_of_the_prefill(method):
    target, measured = tiny_target("llama"), []
    draft = near(target)
    level = lambda greedy: measured.append(greedy) or 0.05  # noqa: E731
    if method == "speculative":
        drafter = SpeculativeDrafter(ChainRunner(draft, target.vocab_size), cost(1.0), level)
    else:
        drafter = SpecInferDrafter([TreeRunner(draft, target.vocab_size)], cost(1.0), level)
    decoder = Decoder(target, drafter, GenerationSettings(max_new_tokens=6, budget=8, temperature=0.8))
    measured.clear()
    inner, starts = drafter.start, []
    drafter.start = lambda *arguments: (starts.append(list(measured)), inner(*arguments))
    decoder.run(PROMPT)
    assert starts == [[False]], "of sampled drafts, before the prompt is read"


def test_a_decode_whose_prefill_fails_keeps_nothing():
    target, drafter = tiny_target("llama"), OracleDrafter([])
    drafter.start = lambda prompt, features: 1 / 0
    decoder = Decoder(target, drafter, GenerationSettings(max_new_tokens=6, budget=8))
    with pytest.raises(ZeroDivisionError):
        decoder.run(PROMPT)
    assert not decoder.running


ENDS = {
    "length": {"max_new_tokens": 6},
    "stop": {"stop": "w1", "max_new_tokens": 60},
    "cancelled": {"max_new_tokens": 60},
}


@pytest.mark.parametrize("method", ["plain", "aded"])
@pytest.mark.parametrize("reason", ENDS)
def test_no_step_follows_the_end_of_a_decode(reason, method):
    decoder = Decoder(tiny_target("llama"), method, GenerationSettings(budget=8, **ENDS[reason]))
    decoder.begin(PROMPT)
    while decoder.finish_reason is None:
        decoder.step()
        if reason == "cancelled":
            decoder.cancel()
    record = decoder.trace
    assert decoder.next_step() is None
    with pytest.raises(AdedError, match=rf"the decode has ended \({reason}\); call close, then begin"):
        decoder.step()
    assert decoder.trace == record
    assert loads(dumps(record)).lanes == [record]
    decoder.close()
    assert decoder.run(PROMPT).finish_reason in (reason, "length")


class Impatient(OracleDrafter):
    """Cancels its decode in the call of this name."""

    def __init__(self, call):
        super().__init__([])
        inner = getattr(self, call)
        setattr(self, call, lambda *arguments: (self.decode().cancel(), inner(*arguments))[1])


@pytest.mark.parametrize("call", ["prepare", "propose", "observe"])
def test_a_decode_that_is_cancelled_during_a_step_ends_after_it(call):
    target = tiny_target("llama")
    record = decode(target, Impatient(call))
    assert (record.finish_reason, len(record.steps)) == ("cancelled", 1)
    decoder = Decoder(target, Impatient(call), GenerationSettings(max_new_tokens=1, budget=8))
    assert decoder.run(PROMPT).finish_reason == "length", "the text has ended in this step"


def test_a_decode_that_is_cancelled_while_it_begins_has_no_step(monkeypatch):
    target = tiny_target("llama")
    decoder, read = Decoder(target, "plain", GenerationSettings(max_new_tokens=NEW)), target.check_prompt
    monkeypatch.setattr(target, "check_prompt", lambda prompt: (decoder.cancel(), read(prompt))[1])
    for _ in range(2):
        assert (decoder.run(PROMPT).finish_reason, len(decoder.trace.steps)) == ("cancelled", 0)


def test_a_step_whose_record_fails_is_not_in_the_trace(monkeypatch):
    decoder = Decoder(tiny_target("llama"), "plain", GenerationSettings(max_new_tokens=NEW))
    steps = decoder.stream(PROMPT)
    next(steps)

    def fail(waiting):
        raise KeyboardInterrupt

    monkeypatch.setattr(decoder._recorder, "complete", fail)
    with pytest.raises(KeyboardInterrupt):
        next(steps)
    assert (len(decoder.trace.token_ids), len(decoder.trace.steps)) == (1, 1)
    assert loads(dumps(decoder.trace)).lanes == [decoder.trace]


def test_a_decode_has_no_trace_of_the_prompt_before_one_that_was_refused():
    decoder = Decoder(tiny_target("llama"), "plain", GenerationSettings(max_new_tokens=2))
    decoder.run(PROMPT)
    with pytest.raises(AdedError, match="prompt"):
        decoder.run([])
    with pytest.raises(AdedError, match="no trace yet"):
        decoder.trace  # noqa: B018


def test_a_decode_that_is_closed_while_it_begins_ends_its_stream(monkeypatch):
    decoder = Decoder(tiny_target("llama"), "plain", GenerationSettings(max_new_tokens=NEW))
    start = decoder.drafter.start
    monkeypatch.setattr(decoder.drafter, "start", lambda *arguments: (start(*arguments), decoder.close())[0])
    assert list(decoder.stream(PROMPT)) == []
    assert decoder.finish_reason == "cancelled"


def test_a_model_that_is_closed_during_a_prefill_is_named(monkeypatch):
    monkeypatch.setattr("aded.engine.session.PREFILL_CHUNK", 4)
    target = tiny_target("llama")
    parts = Decoder(target, "plain", GenerationSettings(max_new_tokens=NEW)).beginning(PROMPT)
    next(parts)
    target.close()
    with pytest.raises(AdedError, match="has been closed; load it again"):
        next(parts)


def test_a_decode_that_is_cancelled_while_it_waits_for_the_model_ends_its_stream():
    target, waits = tiny_target("llama"), Event()
    decoder = Decoder(target, "plain", GenerationSettings(max_new_tokens=NEW))
    steps, made = decoder.stream(PROMPT), []
    made.append(next(steps))
    thread = Thread(target=lambda: (waits.set(), made.extend(steps)))
    with target.lock:
        thread.start()
        waits.wait()
        decoder.cancel()
    thread.join()
    assert len(made) == len(decoder.trace.steps) == 1
    assert decoder.finish_reason == "cancelled"


class Sampling(OracleDrafter):
    """Drafts one token from a uniform distribution."""

    def propose(self, context, budget):
        drawn = DraftDistributions(torch.full((1, VOCAB), 1 / VOCAB, dtype=torch.float64), [-1, 0])
        return DraftTree(np.array([context.root, 7]), np.array([-1, 0]), sampled_from=drawn)


class Typical(OracleDrafter):
    typical = TypicalAcceptance()


@pytest.mark.parametrize(
    ("record", "drafter", "settings", "value"),
    pairwise([True, False], [OracleDrafter, Sampling, Typical], [{}, SAMPLED], [-np.inf, np.inf, np.nan]),
)
def test_processors_that_leave_no_token_end_the_decode_with_an_error(record, drafter, settings, value):
    target, generation = tiny_target("llama"), GenerationSettings(max_new_tokens=NEW, budget=8, **settings)

    def blocks_the_sixth(ids, scores):
        return torch.full_like(scores, value) if ids.shape[1] == len(PROMPT) + 5 else scores

    truth = expected(target, **settings)
    decoder = Decoder(target, drafter(truth), generation, processors=[blocks_the_sixth], record=record)
    with pytest.raises(AdedError, match=f"no token a finite score .* after position {len(PROMPT) + 4} of the text; correct them"):
        decoder.run(PROMPT)
    assert not decoder.running
    assert len(decoder.trace.token_ids) <= 5


def test_processors_that_leave_no_token_after_the_end_of_the_text_do_no_harm():
    target, truth = with_eos(7)

    def none_after_the_end(ids, scores):
        return scores.fill_(-torch.inf) if truth[-1] in ids[0, len(PROMPT) :] else scores

    settings = GenerationSettings(max_new_tokens=NEW, budget=16, repetition_penalty=1.3)
    record = Decoder(target, OracleDrafter(truth + [7] * 20, hit=1.0), settings, processors=[none_after_the_end]).run(PROMPT)
    assert (record.token_ids, record.finish_reason) == (truth, "eos")


@pytest.mark.parametrize("result", [None, 5, torch.zeros(1, 3), torch.zeros(VOCAB)], ids=str)
def test_processors_that_return_no_scores_are_named(result):
    def returns_nothing(ids, scores):
        return result

    decoder = Decoder(tiny_target("llama"), "plain", GenerationSettings(max_new_tokens=2), processors=[returns_nothing])
    with pytest.raises(AdedError, match=r"processor <function .* returned no tensor \[1, 97\]; return the scores"):
        decoder.run(PROMPT)

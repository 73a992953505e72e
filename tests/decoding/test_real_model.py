"""The bundled model: every method writes what plain decoding writes, in float32, greedy and sampled.

``ADED_QUESTIONS`` and ``ADED_NEW_TOKENS`` widen the test (20 and 128 for the full one). One more prompt asks
the model to repeat a sentence, because methods that draft from the text alone find nothing in the first sentences of an answer.
"""

import os

import pytest

from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.registry import METHODS

QUESTIONS = int(os.environ.get("ADED_QUESTIONS", "1"))
NEW_TOKENS = int(os.environ.get("ADED_NEW_TOKENS", "24"))
AGAIN = 'Copy this sentence twice, word for word: "The old ferry leaves the harbour at nine and returns from the island at noon."'
SETTINGS = {"greedy": {}, "sampled": {"temperature": 0.8, "top_p": 0.95, "seed": 5}}

pytestmark = pytest.mark.model


def test_some_methods_write_the_text_of_plain_decoding(real_model):
    settings, steps = GenerationSettings(max_new_tokens=16, budget=12), {}
    for method in ("plain", "aded", "suffix"):
        record = Decoder(real_model, method, settings, record=False).run(AGAIN)
        steps[tuple(record.token_ids)] = [*steps.get(tuple(record.token_ids), []), len(record.steps)]
    ((tokens, counts),) = steps.items()
    assert counts[0] == len(tokens) > max(counts[1:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
def test_every_lossless_method_writes_the_text_of_plain_decoding(real_model, questions, kind):
    """Draft models are coupled when sampling: judged by rejection, they keep the distribution and not the draws.

    Draft-model methods get a fixed draft size here: on a slow CPU the throughput-optimal size is often zero.
    """
    settings = GenerationSettings(max_new_tokens=NEW_TOKENS, budget=12, **SETTINGS[kind])
    coupled = {"verification": "coupled"} if kind == "sampled" else {}
    able = {name: method for name, method in METHODS.items() if method.lossless and method.unavailable(real_model) is None}
    assert not {name for name, method in METHODS.items() if method.lossless} - able.keys(), "all are bundled"
    options = {name: coupled if "verification" in method.options else {} for name, method in able.items()}
    options |= {"speculative": {**coupled, "draft_length": 3}, "specinfer": {**coupled, "branching": "3,2,1"}}
    steps = dict.fromkeys(options, 0)
    for question in [*questions[:QUESTIONS], AGAIN]:
        records = {method: Decoder(real_model, method, settings, options[method], record=False).run(question) for method in steps}
        for method, record in records.items():
            assert record.token_ids == records["plain"].token_ids, (method, question)
            assert record.text == records["plain"].text
            steps[method] += len(record.steps)
    assert all(steps[method] < steps["plain"] for method in steps if method != "plain"), f"drafts were accepted: {steps}"


@pytest.mark.slow
def test_paper_preset_and_every_search_are_lossless_too(real_model, questions):
    settings = GenerationSettings(max_new_tokens=32, budget=24)
    plain = Decoder(real_model, "plain", settings, record=False).run(questions[0]).token_ids
    for options in ({"preset": "paper"}, {"search": "best-first"}, {"search": "greedy"}, {"search": "full"}):
        assert Decoder(real_model, "aded", settings, options, record=False).run(questions[0]).token_ids == plain


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
def test_every_rescoring_and_a_warm_pool_are_lossless_too(real_model, questions, kind):
    settings = GenerationSettings(max_new_tokens=32, budget=80, **SETTINGS[kind])
    plain = Decoder(real_model, "plain", settings, record=False).run(questions[0]).token_ids
    for rescoring in ("none", "local", "global", "control"):
        assert (
            Decoder(real_model, "blockwise", settings, {"rescoring": rescoring}, record=False).run(questions[0]).token_ids
            == plain
        )
    warm = METHODS["ouroboros"].make(real_model, {"pool": "warm"}, 0)
    for _ in range(2):
        assert Decoder(real_model, warm, settings, record=False).run(questions[0]).token_ids == plain


def test_the_bundled_model_verifies_trees_and_has_its_matrix(real_model):
    from aded.drafters.artifacts import matrix_for

    assert real_model.mode == "tree"
    assert real_model.notice is None
    assert matrix_for(real_model) is not None


def test_chat_template_and_raw_text_differ(real_model):
    chat, raw = real_model.encode("Hello"), real_model.encode("Hello", raw=True)
    assert real_model.tokenizer.decode(raw) == "Hello"
    assert "assistant" in real_model.tokenizer.decode(chat)


def test_emoji_and_markup_are_streamed_complete(real_model):
    settings = GenerationSettings(max_new_tokens=24, budget=16)
    record = Decoder(real_model, "prompt-lookup", settings).run("Repeat exactly: 🙂🙂🙂 <b>bold</b> ${1+1} 漢字")
    assert all("\ufffd" not in piece for step in record.steps for piece in step.texts)
    assert record.text == "".join(piece for step in record.steps for piece in step.texts)

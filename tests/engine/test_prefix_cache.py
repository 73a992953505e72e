"""Prefix caching: the second turn of a conversation reads only what is new and writes the same tokens."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import VOCAB, WordTokenizer, tiny_model

from aded.core.chat import Chat, Turn
from aded.core.errors import AdedError
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.engine.prefix_cache import PrefixCache
from aded.engine.target_model import TargetModel

FIRST = list(np.random.default_rng(0).integers(3, VOCAB, 40))
NEW = list(np.random.default_rng(1).integers(3, VOCAB, 12))
SETTINGS = {"greedy": {}, "sampled": {"temperature": 0.8, "seed": 5}}


@pytest.fixture(scope="module", params=["llama", "mistral_sliding"])
def target(request: pytest.FixtureRequest) -> TargetModel:
    return TargetModel(tiny_model(request.param), WordTokenizer())


def turn(
    target: TargetModel, ids: list[int], cache: PrefixCache | None, method: str = "token-recycling", **settings
) -> list[int]:
    asked = GenerationSettings(max_new_tokens=16, budget=6, **settings)
    return Decoder(target, method, asked, record=False, prefix_cache=cache).run(ids).token_ids


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_second_turn_reads_only_what_is_new_and_writes_the_same_tokens(target: TargetModel, kind: str):
    cache = PrefixCache()
    answer = turn(target, FIRST, cache, **SETTINGS[kind])
    assert (cache.reused, answer) == (0, turn(target, FIRST, None, **SETTINGS[kind]))
    second = [*FIRST, *answer, *NEW]
    assert turn(target, second, cache, **SETTINGS[kind]) == turn(target, second, None, **SETTINGS[kind])
    assert cache.reused == len(FIRST) + len(answer) - 1, "the last token of an answer is not in the cache yet"


def test_a_changed_turn_is_read_from_the_first_different_token_on(target: TargetModel):
    cache = PrefixCache()
    turn(target, FIRST, cache)
    changed = [*FIRST[:25], (FIRST[25] + 1) % VOCAB, *FIRST[26:]]
    assert turn(target, changed, cache) == turn(target, changed, None)
    assert cache.reused == 25
    assert turn(target, changed, cache) == turn(target, changed, None)
    assert cache.reused == len(changed) - 1, "the last token of a prompt is the root of the first tree"
    assert turn(target, NEW, cache) == turn(target, NEW, None)
    assert cache.reused == 0


def test_a_cache_serves_one_model_and_is_freed(target: TargetModel):
    cache, other = PrefixCache(), TargetModel(tiny_model("llama", seed=1), WordTokenizer())
    turn(target, FIRST, cache)
    assert cache.bytes > 0
    assert turn(other, FIRST, cache) == turn(other, FIRST, None)
    assert cache.reused == 0
    decoder = Decoder(other, "plain", prefix_cache=cache)
    decoder.begin(FIRST)
    cache.free()
    decoder.close()
    assert cache.bytes == 0, "a decode that ends after that keeps nothing"


def test_nothing_is_kept_of_a_decode_that_failed(target: TargetModel, monkeypatch: pytest.MonkeyPatch):
    cache = PrefixCache()
    decoder = Decoder(target, "plain", prefix_cache=cache)
    decoder.begin(FIRST)
    monkeypatch.setattr(decoder.budget, "observe", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        decoder.step()
    assert cache.bytes == 0


def test_a_conversation_is_formatted_by_the_chat_template(real_model):
    turns = (Turn("system", "Be brief."), Turn("user", "Hi"), Turn("assistant", "Hello!"), Turn("user", "Bye"))
    text = real_model.tokenizer.decode(real_model.encode(Chat(turns)))
    assert text == "".join(f"<|im_start|>{t.role}\n{t.text}<|im_end|>\n" for t in turns) + "<|im_start|>assistant\n"
    assert real_model.encode(Chat(turns[1:2])) == real_model.encode("Hi")


def test_several_turns_need_a_chat_template(target: TargetModel):
    with pytest.raises(AdedError, match="no chat template for several turns; give one text"):
        target.encode(Chat((Turn("user", "hello"), Turn("assistant", "hello"))))
    with pytest.raises(AdedError, match="the prompt is empty"):
        target.encode(Chat((Turn("user", " "),)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["plain", "aded", "suffix", "eagle", "speculative"])
def test_the_second_turn_of_the_real_model_is_the_same(real_model, method: str):
    cache, settings = PrefixCache(), GenerationSettings(max_new_tokens=48, budget=12)
    asked: list[Turn] = []
    for question in ("Name three rivers of Europe.", "Which one is the longest?"):
        asked.append(Turn("user", question))
        kept = Decoder(real_model, method, settings, record=False, prefix_cache=cache).run(Chat(tuple(asked)))
        fresh = Decoder(real_model, method, settings, record=False).run(Chat(tuple(asked)))
        assert kept.token_ids == fresh.token_ids
        assert kept.header.prompt_tokens == fresh.header.prompt_tokens
        asked.append(Turn("assistant", kept.text))
    assert (cache.reused > 0) == (method != "eagle"), "eagle reads hidden states of the whole prompt"

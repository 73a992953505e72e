"""Several turns on the page: what each run reads, learns and keeps, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from fakes import WordTokenizer, tiny_model
from serving_fakes import NUMBERS, BrokenEngine, FakeEngine, GatedEngine, fake_service, form, updates, words
from ui_fakes import make_trace
from waiting import until

from aded.core.chat import Chat, Turn
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.registry import METHODS
from aded.engine.target_model import TargetModel
from ui.race.conversation import next_turn
from ui.race.engine import Engine
from ui.race.models import Models
from ui.race.run import Update
from ui.serving import sessions
from ui.serving.limits import Limits
from ui.serving.service import Service
from ui.serving.sessions import Session
from ui.words import Refused

pytest_plugins = ("zero_fixtures",)


class ChatTokenizer(WordTokenizer):
    """Texts of words such as ``w5`` keep their token ids, and turns are joined by a word of their role."""

    chat_template = "words"

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [int(word[1:]) for word in re.findall(r"w\d+", text)]}

    def apply_chat_template(self, turns: Any, add_generation_prompt: bool, tokenize: bool) -> str:
        return " ".join(f"{'w5' if turn['role'] == 'user' else 'w6'} {turn['content']}" for turn in turns) + " w6"


class SmallEngine(Engine):
    """The engine with a small model, whose costs are not measured."""

    def unmeasured(self, model: Any) -> bool:
        return False

    def measure(self, model: Any) -> None: ...


@pytest.fixture(scope="module")
def target() -> TargetModel:
    found = TargetModel(tiny_model("llama"), ChatTokenizer())
    found.eos_ids = frozenset()
    return found


def real(target: TargetModel, **limits: Any) -> Service:
    return Service(Models(loader=lambda *_: target), Limits(**limits), SmallEngine())


def asked(**changes: Any) -> Any:
    first = {"prompt": "w11 w12 w13", "methods": ("plain", "aded", "prompt-lookup"), "budget": "6"}
    numbers = {**NUMBERS, "max_new_tokens": 12}
    return form(**{**first, "numbers": numbers, "options": {"aded": {"corpus": "none"}}, **changes})


def race_id(update: Update) -> str:
    return json.loads((update.view or "").splitlines()[0])["id"]


def runs_of(update: Update) -> list[dict[str, Any]]:
    return json.loads((update.view or "").splitlines()[0])["runs"]


def texts_of(update: Update) -> list[str]:
    lines = map(json.loads, (update.view or "").splitlines())
    return [line["text"] for line in lines if line["t"] == "run"]


def go_on(service: Service, before: Update, message: str, session: Session | None = None) -> Update:
    """The last update of the next turn."""
    session = session or service.sessions.get("a")
    session.begin()
    holder = service.models.first
    checked = next_turn(session.conversation, race_id(before), message, holder.model, service.limits)
    return updates(service, checked, session, message=message)[-1]


def test_the_second_turn_reads_only_what_is_new_and_writes_the_same_as_from_nothing(target: TargetModel):
    service = real(target)
    first = updates(service, asked())[-1]
    assert [run["turn"] for run in runs_of(first)] == [None] * 3
    second = go_on(service, first, "w21 w22")
    assert [update.notice.race for update in (first, second) if update.notice] == [race_id(first), race_id(second)]
    for run, answer in zip(runs_of(second), texts_of(first)):
        turn, prompt = run["turn"], run["header"]["prompt_tokens"]
        assert prompt == [5, 11, 12, 13, 6, *ids_of(answer), 5, 21, 22, 6]
        # The role after the prompt is before the answer in both; of an answer, the last token is not in the cache.
        assert (turn["kept"], turn["read"]) == (5 + 12 - 1, 5)
        assert turn["before"] == [["user", "w11 w12 w13"], ["assistant", answer]]
        assert (turn["number"], turn["message"]) == (2, "w21 w22")
    chat = Chat((Turn("user", "w11 w12 w13"), Turn("assistant", texts_of(first)[0]), Turn("user", "w21 w22")))
    fresh = Decoder(target, "plain", GenerationSettings(max_new_tokens=12)).run(chat)
    assert texts_of(second) == [fresh.text] * 3
    third = go_on(service, second, "w23")
    assert [run["turn"]["number"] for run in runs_of(third)] == [3] * 3
    assert [run["turn"]["read"] for run in runs_of(third)] == [4] * 3
    service.close()


class TwinTokenizer(ChatTokenizer):
    """From 50 on, each token has the text of another one, into which the tokenizer splits this text."""

    def decode(self, ids: Any, **settings: Any) -> str:
        return super().decode([token - 47 if token >= 50 else token for token in map(int, ids)], **settings)


def test_an_answer_keeps_the_tokens_that_the_model_has_written():
    target = TargetModel(tiny_model("llama"), TwinTokenizer())
    target.eos_ids = frozenset()
    service = real(target)
    first = updates(service, asked())[-1]
    second = go_on(service, first, "w21")
    third = go_on(service, second, "w22")
    assert [(run["turn"]["kept"], run["turn"]["read"]) for run in runs_of(second)] == [(5 + 12 - 1, 4)] * 3
    assert [run["turn"]["read"] for run in runs_of(third)] == [4] * 3
    for run, answer in zip(runs_of(second), texts_of(first)):
        ids = run["header"]["prompt_tokens"]
        assert max(ids) >= 50, "the answer has tokens that the tokenizer does not give"
        assert target.tokenizer.decode(ids) == f"w5 w11 w12 w13 w6 {answer}w5 w21 w6 "
    assert len(set(texts_of(third))) == 1
    service.close()


def ids_of(text: str) -> list[int]:
    return [int(word[1:]) for word in text.split()]


def test_the_prompt_of_a_turn_is_the_conversation_as_text_in_every_record(target: TargetModel):
    service = real(target)
    first = updates(service, asked(link={"seed": "5"}))[-1]
    second = go_on(service, first, "w21")
    for run, answer in zip(runs_of(second), texts_of(first)):
        assert run["header"]["prompt"] == f"w11 w12 w13\n{answer}\nw21"
    assert json.loads((second.view or "").splitlines()[0])["settings"] == {"seed": "5"}
    assert service.races.find(race_id(second)) is not None
    service.close()


def test_each_run_continues_its_own_answer():
    class Differing(FakeEngine):
        def decoder(self, model: Any, run: Any, *rest: Any, **more: Any) -> Any:
            decoder = super().decoder(model, run, *rest, **more)
            decoder.goal = make_trace(run.method, [" one", " two"] if run.method == "plain" else [" three"])
            return decoder

    service = fake_service(Differing())
    first = updates(service)[-1]
    go_on(service, first, "more")
    before = [prompt.turns for prompt in service.engine.prompts[-1]]
    assert [[turn.text for turn in turns] for turns in before] == [["hello", " one two", "more"], ["hello", " three", "more"]]
    service.close()


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if "keep" in row.options])
def test_a_drafter_keeps_what_it_has_learned_from_turn_to_turn(method: str):
    service = fake_service()
    update = updates(service, form(methods=("plain", method)))[-1]
    first = service.sessions.get("a").conversation.runs[1].memory.drafter
    assert [run["earlier_prompts"] for run in runs_of(update)] == [None, None]
    for count in (1, 2):
        update = go_on(service, update, "more")
        assert [run["earlier_prompts"] for run in runs_of(update)] == [None, count]
    second, third = (drafter for drafter in service.engine.drafters[2:] if drafter)
    assert (second.known, third.known) == (first, second)
    assert service.sessions.get("a").memories == {}, "another prompt starts without it"
    assert all(run["turn"]["first"] > 0 for run in runs_of(update))
    service.close()


def test_what_is_kept_from_race_to_race_is_also_what_a_turn_starts_with():
    service, keeping = fake_service(), form(options={"aded": {"keep": True}})
    updates(service, keeping)
    update = go_on(service, updates(service, keeping)[-1], "more")
    assert runs_of(update)[1]["earlier_prompts"] == 2
    assert service.sessions.get("a").memories["aded"].prompts == 3
    service.close()


def test_another_visitor_cannot_continue_a_conversation():
    service = fake_service()
    first = updates(service)[-1]
    updates(service, form(prompt="mine"), service.sessions.get("b"))
    with pytest.raises(Refused, match="does not have this conversation any more"):
        go_on(service, first, "more", service.sessions.get("b"))
    go_on(service, first, "more")
    assert [prompt.turns[0].text for prompt in service.engine.prompts[-1]] == ["hello", "hello"]
    service.close()


def test_a_freed_conversation_is_read_again_in_full_and_that_is_said(target: TargetModel):
    service = real(target, prefix_bytes=1)
    session = service.sessions.get("a")
    first = updates(service, asked(), session)[-1]
    assert session.prefix_bytes > 1
    service.sessions.get("b")
    assert session.prefix_bytes == 0
    second = go_on(service, first, "w21", session)
    assert [(run["turn"]["kept"], run["turn"]["read"]) for run in runs_of(second)] == [(0, 5 + 12 + 3)] * 3
    assert "The KV cache of this conversation had been freed, so all of it was read again." in words(second)
    third = go_on(service, second, "w22", session)
    assert [run["turn"]["read"] for run in runs_of(third)] == [4] * 3
    assert "freed" not in words(third)
    service.close()


def test_a_server_that_keeps_no_caches_reads_every_turn_in_full(target: TargetModel):
    service = real(target, prefix_bytes=0)
    second = go_on(service, updates(service, asked())[-1], "w21")
    assert [run["turn"]["kept"] for run in runs_of(second)] == [0] * 3
    assert "freed" not in words(second)
    service.close()


def test_drafters_of_conversations_are_limited_and_their_loss_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MAX_DRAFTERS", 1)
    service = fake_service()
    first = updates(service)[-1]
    updates(service, session=service.sessions.get("b"))
    assert service.sessions.memories == 2
    service.sessions.sweep()
    assert service.sessions.memories == 1
    second = go_on(service, first, "more")
    assert "ADED learned from 1 prompt were deleted: the server needed the memory" in words(second)
    assert [run["earlier_prompts"] for run in runs_of(second)] == [None, 0]
    service.close()


def test_forgetting_also_deletes_what_drafters_learned_in_the_conversation():
    service = fake_service()
    first = updates(service)[-1]
    service.sessions.get("a").forget()
    second = go_on(service, first, "more")
    assert "deleted" not in words(second)
    assert [run["earlier_prompts"] for run in runs_of(second)] == [None, 0]
    service.close()


def test_what_is_forgotten_while_a_turn_is_written_stays_forgotten():
    engine = GatedEngine()
    engine.free = 1
    service = fake_service(engine)
    session = service.sessions.get("a")

    def forget(update: Update) -> None:
        if update.view and not engine.gate.is_set():
            session.forget()
            engine.gate.set()

    update = updates(service, when=forget)[-1]
    assert "Deleted. The next prompt starts without session counts." in words(update)
    update = go_on(service, update, "more")
    assert runs_of(update)[1]["earlier_prompts"] == 0
    assert session.conversation.runs[1].memory.prompts == 1
    service.close()


def freed_caches(engine: FakeEngine) -> list[Any]:
    """The prefix caches of an engine that are freed from now on, in their order."""
    freed, make = list[Any](), engine.prefix_cache

    def prefix_cache() -> Any:
        cache = make()
        cache.free = lambda: freed.append(cache)
        return cache

    engine.prefix_cache = prefix_cache
    return freed


def test_another_prompt_begins_another_conversation_and_frees_the_one_before():
    engine = FakeEngine()
    freed, service = freed_caches(engine), fake_service(engine)
    first = updates(service)[-1]
    second = updates(service)[-1]
    assert freed == service.engine.caches[:2]
    with pytest.raises(Refused, match="press Run to begin a new one"):
        go_on(service, first, "more")
    go_on(service, second, "more")
    assert service.engine.caches[4:] == service.engine.caches[2:4]
    service.sessions.free("a")
    assert freed == service.engine.caches[:4]
    service.close()


def test_a_conversation_past_the_context_is_refused_and_can_be_continued(target: TargetModel):
    service = real(target)
    first = updates(service, asked())[-1]
    failed = go_on(service, first, " ".join(["w21"] * 300))
    assert (failed.view, failed.running) == (None, False)
    assert "319 tokens and the model's context 256; shorten it by at least 64 tokens." in words(failed)
    assert "The conversation is unchanged: send a shorter message, or press Run to begin a new one." in words(failed)
    second = go_on(service, first, "w21")
    assert [run["turn"]["number"] for run in runs_of(second)] == [2] * 3
    assert [run["turn"]["kept"] for run in runs_of(second)] == [16] * 3, "the refused message has cost nothing"
    service.close()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"message": "  \n"}, "The next message is empty; write one."),
        ({"message": 7}, "The next message is empty; write one."),
        ({"race": None}, "The server does not have this conversation any more"),
        ({"conversation": None}, "The server does not have this conversation any more"),
        ({"model": object()}, "The server has another model now; press Run to begin a new conversation."),
        ({"message": "x" * 500}, "would have 952 characters, the maximum is 500; shorten the message, or press Run"),
    ],
)
def test_a_turn_that_cannot_be_asked_is_refused_with_the_remedy(change: dict[str, Any], sentence: str):
    service = fake_service(prompt_characters=500)
    race = race_id(updates(service)[-1])
    conversation = service.sessions.get("a").conversation
    valid = {"conversation": conversation, "race": race, "message": "more", "model": service.models.first.model}
    assert next_turn(**valid, limits=service.limits) is conversation.form
    with pytest.raises(Refused, match=sentence):
        next_turn(**{**valid, **change}, limits=service.limits)
    service.close()


def test_a_turn_that_is_stopped_continues_as_far_as_it_was_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.race.run.UPDATE_SECONDS", 0.0)
    engine = GatedEngine()
    engine.free = 4
    service = fake_service(engine)
    session = service.sessions.get("a")

    def stop(update: Update) -> None:
        if update.view and update.view.count('"t":"step"') == 4:
            session.stop()
            engine.gate.set()

    first = updates(service, session=session, when=stop)[-1]
    written = texts_of(first)
    assert all(0 < len(text) < len(make_trace("plain").text) for text in written)
    go_on(service, first, "more")
    assert [prompt.turns[1].text for prompt in engine.prompts[-1]] == written
    service.close()


def test_a_race_of_a_visitor_who_has_left_keeps_no_cache():
    engine = GatedEngine()
    engine.free = 3
    freed, service = freed_caches(engine), fake_service(engine)

    def leave(update: Update) -> None:
        if update.view:
            service.sessions.free("a")
            engine.gate.set()

    session = service.sessions.get("a")
    updates(service, session=session, when=leave)
    until(lambda: service.scheduler.running == 0)
    assert session.conversation is None
    assert freed == engine.caches
    service.close()


def test_a_failed_turn_frees_the_caches_that_it_has_made():
    engine = BrokenEngine()
    engine.broken = False
    freed, service = freed_caches(engine), fake_service(engine)
    first = updates(service)[-1]
    engine.broken = True
    go_on(service, first, "more")
    assert (freed, engine.caches[2:]) == ([], engine.caches[:2]), "the conversation keeps its own"
    service.sessions.get("a").free_prefix_caches()
    go_on(service, first, "more")
    assert (len(engine.caches), freed) == (6, [*engine.caches[:2], *engine.caches[4:]])
    service.close()


def test_a_failed_turn_leaves_the_conversation_as_it_was():
    engine = BrokenEngine()
    engine.broken = False
    service = fake_service(engine)
    first = updates(service)[-1]
    before = replace(service.sessions.get("a").conversation)
    engine.broken = True
    assert "RuntimeError: out of memory" in words(go_on(service, first, "more"))
    assert service.sessions.get("a").conversation == before
    engine.broken = False
    assert words(go_on(service, first, "more")).startswith("Done")
    service.close()


def test_on_zerogpu_a_turn_reads_the_whole_conversation_and_keeps_what_was_learned_from_the_second_on(on_zero: Any, target: Any):
    service = on_zero(SmallEngine(), target)
    session = service.sessions.get("a")
    update = updates(service, asked(), session)[-1]
    for earlier, tokens in ((0, 20), (1, 35)):
        update = go_on(service, update, "w21", session)
        assert [(run["turn"]["kept"], run["turn"]["read"]) for run in runs_of(update)] == [(0, tokens)] * 3
        assert [run["earlier_prompts"] for run in runs_of(update)] == [None, earlier, None]
        assert len(set(texts_of(update))) == 1
    service.close()

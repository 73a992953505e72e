"""Self-generated text: the parts of the chat template, reproducible batches, only useful conversations kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from fakes import WordTokenizer, alone, tiny_target

from aded.core.errors import AdedError
from aded.data import conversations
from aded.data.conversations import Collection, Conversation, pack, unpack
from aded.data.records import read_records, records_bytes
from aded.data.self_generation import PLACEHOLDER, ConversationGenerator, Script, read_beginnings, script_of, separator_of
from aded.decoding.decoder import Decoder, GenerationSettings

OPENING, CLOSING = (5, 17, 40), (7, 9, 11)


class ChatTokenizer(WordTokenizer):
    """A word tokenizer with a chat template: ids in brackets around the question."""

    all_special_ids = (0, 1, 2, 7)
    chat_template = "a template"

    def apply_chat_template(self, turns: list[dict[str, str]], add_generation_prompt: bool, tokenize: bool) -> str:
        return f"[5] [17] [40] {turns[0]['content']} [7] [9] [11]"

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [int(word[1:-1]) if word[0] == "[" else 3 for word in text.split()]}


def chat_target(seed: int = 0, **options):
    target = tiny_target("llama", seed, **options)
    target.tokenizer = ChatTokenizer()
    return target


def generator(seed: int = 1, batch: int = 48, **options) -> ConversationGenerator:
    script = Script(OPENING, CLOSING, longest_question=30, longest_answer=25)
    return ConversationGenerator(chat_target(), batch=batch, seed=seed, script=script, **options)


@pytest.fixture(scope="module")
def batch() -> list[Conversation]:
    """The first batch of ``generator()``."""
    return generator().generate_batch(0)


def conversation(question: list[int], answer: list[int]) -> Conversation:
    ids = np.array([*OPENING, *question, *CLOSING, *answer], dtype=np.int32)
    return Conversation(ids, len(OPENING), len(ids) - len(answer))


def test_the_script_is_the_chat_template_around_a_question() -> None:
    script = script_of(ChatTokenizer())
    assert (script.opening, script.closing) == (OPENING, CLOSING)


def test_models_that_cannot_write_conversations_are_refused_with_the_remedy() -> None:
    class Deaf(ChatTokenizer):
        def apply_chat_template(self, turns, add_generation_prompt, tokenize):
            return "[5] [6]"

    class Broken(ChatTokenizer):
        def apply_chat_template(self, turns, add_generation_prompt, tokenize):
            raise KeyError("role")

    class Twice(ChatTokenizer):
        def apply_chat_template(self, turns, add_generation_prompt, tokenize):
            return f"[5] {PLACEHOLDER} [6] {PLACEHOLDER} [7]"

    for tokenizer in (WordTokenizer(), Deaf(), Broken(), Twice()):
        with pytest.raises(AdedError, match="--text"):
            script_of(tokenizer)
    with pytest.raises(AdedError, match="--text"):
        ConversationGenerator(tiny_target("bloom"), script=Script(OPENING, CLOSING))


@pytest.mark.parametrize("options", [{"batch": 0}, {"greedy_share": 1.1}, {"greedy_share": -0.1}])
def test_settings_out_of_range_are_refused(options: dict) -> None:
    with pytest.raises(AdedError, match="give"):
        ConversationGenerator(chat_target(), **options)


def test_conversations_hold_a_plain_question_and_an_answer(batch: list[Conversation]) -> None:
    assert len(batch) >= 5
    for one in batch:
        ids = one.tokens.tolist()
        question = ids[one.question : one.answer - len(CLOSING)]
        assert question and not set(question) & {0, 1, 2, 7}
        assert tuple(ids[: one.question]) == OPENING
        assert tuple(ids[one.answer - len(CLOSING) : one.answer]) == CLOSING
        assert len(ids) > one.answer and ids[one.answer] != 2


@pytest.mark.parametrize("share", [0.5, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.0, 1.0))])
def test_the_greedy_share_of_a_batch_is_greedy(share: float) -> None:
    """Random models have flat distributions: a sampled answer of twenty tokens hardly ever equals the greedy one."""
    made = generator(greedy_share=share)
    batch = [one for one in made.generate_batch(0) if len(one.tokens) - one.answer >= 20]
    greedy = [alone(made.target, one.tokens[: one.answer].tolist(), 25) == one.tokens[one.answer :].tolist() for one in batch]
    assert len(batch) >= 4
    assert all(greedy) if share == 1 else not any(greedy) if share == 0 else 0 < sum(greedy) < len(batch)


def test_a_batch_depends_on_seed_and_index_alone(batch: list[Conversation]) -> None:
    other = generator()
    later = other.generate_batch(1)
    assert [one.tokens.tolist() for one in other.generate_batch(0)] == [one.tokens.tolist() for one in batch]
    assert batch[0].tokens.tolist() != later[0].tokens.tolist()
    assert generator(seed=2).generate_batch(0)[0].tokens.tolist() != batch[0].tokens.tolist()


def test_beginnings_come_from_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    file.write_text('"[20] [21]"\n""\n{"text": "[30]"}\n')
    beginnings = read_beginnings(str(file), ChatTokenizer())
    assert beginnings == [[20, 21], [], [30]]
    batch = generator(beginnings=beginnings).generate_batch(0)
    starts = {tuple(one.tokens[one.question : one.question + 1]) for one in batch}
    assert {(20,), (30,)} < starts
    for text, remedy in (
        ('""', "JSON lines"),
        (f'"{"w " * 200}"', "text 1 has 200 tokens; give at most"),
        ('"a"\n"b [7]"', "text 2 contains"),
    ):
        file.write_text(text + "\n")
        with pytest.raises(AdedError, match=remedy):
            read_beginnings(str(file), ChatTokenizer())


def test_iterating_yields_no_question_twice_and_ends_when_the_model_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    made = generator()
    found = list(islice(made, 40))
    assert len({one.question_key for one in found}) == 40
    monkeypatch.setattr(made, "generate_batch", lambda index: [conversation([20], [30]), conversation([20], [31])])
    with pytest.raises(AdedError, match="no new questions"):
        list(made)


def test_progress_reports_tokens_while_they_are_generated() -> None:
    reports: list[int] = []
    generator().generate_batch(0, reports.append)
    assert reports == sorted(reports) and reports[0] == 16 * 48


def test_conversations_survive_their_file(tmp_path: Path, batch: list[Conversation]) -> None:
    for kept in (batch, []):
        (tmp_path / "w").write_bytes(pack(kept))
        found = unpack(tmp_path / "w")
        assert [(c.question, c.answer, c.tokens.tolist()) for c in found] == [
            (c.question, c.answer, c.tokens.tolist()) for c in kept
        ]


def test_damaged_files_of_conversations_are_refused(tmp_path: Path) -> None:
    whole = pack([conversation([20, 21], [30])])
    for data in (b"", b"noise", whole[:-40], whole[: len(whole) // 2]):
        (tmp_path / "w").write_bytes(data)
        with pytest.raises(AdedError, match="--restart"):
            unpack(tmp_path / "w")


def test_a_collection_drops_repeated_questions_and_ends_at_its_limit() -> None:
    collection = Collection(20, separator=0, vocab_size=97)
    collection.add([conversation([20], [30, 2]), conversation([20], [31]), conversation([21], [32, 33, 2])])
    assert (collection.conversations, collection.duplicates, collection.tokens, collection.full) == (2, 1, 21, True)
    collection.add([conversation([22], [30])])
    assert collection.text().dtype == np.uint16
    assert collection.text().tolist() == [*OPENING, 20, *CLOSING, 30, 2, 0, *OPENING, 21, *CLOSING, 32, 33, 2, 0]
    assert Collection(1, 0, 1 << 17).text().dtype == np.uint32


def test_a_collection_is_split_into_a_text_and_records_that_can_be_saved(tmp_path: Path) -> None:
    collection = Collection(100, separator=0, vocab_size=97)
    collection.add([conversation([20], [30, 2]), conversation([21], [31]), conversation([22], [32, 33, 2])])
    assert collection.text(1).tolist() == [*OPENING, 20, *CLOSING, 30, 2, 0]
    (tmp_path / "r.jsonl").write_bytes(records_bytes(collection.records(1)))
    found = [(one.prompt.tolist(), one.output.tolist()) for one in read_records(tmp_path / "r.jsonl")]
    assert found == [([*OPENING, 21, *CLOSING], [31]), ([*OPENING, 22, *CLOSING], [32, 33, 2])]


def test_distinct_grams_are_counted_over_all_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    answers = [rng.integers(0, 3, 60).tolist() for _ in range(40)]
    grams = [tuple(a[i : i + 4]) for a in answers for i in range(57)]
    collection = Collection(10**6, 96, 97)
    collection.add([conversation([20 + i % 70, 20 + i], a) for i, a in enumerate(answers)])
    assert collection.distinct() == len(set(grams)) / len(grams)
    wide = Collection(10**6, 0, 1 << 20)
    wide.add([conversation([i], rng.integers(0, 40, 3000).tolist()) for i in range(20)])
    whole = wide.distinct()
    monkeypatch.setattr(conversations, "SAMPLED", 8000)  # one n-gram in eight is counted
    assert wide.distinct() == pytest.approx(whole, abs=0.01)  # five standard deviations
    assert Collection(1, 0, 97).distinct() == 0


def test_the_separator_is_a_special_token_that_conversations_do_not_hold() -> None:
    script = script_of(ChatTokenizer())
    assert separator_of(ChatTokenizer(), script) == 0
    assert separator_of(ChatTokenizer(), Script((0, 1), (2, 7))) == ChatTokenizer.eos_token_id


@pytest.mark.model
@pytest.mark.slow
def test_the_bundled_model_writes_what_it_would_answer(real_model) -> None:
    made = ConversationGenerator(real_model, batch=4, seed=3, script=replace(script_of(real_model.tokenizer), longest_answer=48))
    tokenizer = real_model.tokenizer
    assert tokenizer.decode(made.script.opening).endswith("<|im_start|>user\n")
    assert tokenizer.decode(made.script.closing) == "<|im_end|>\n<|im_start|>assistant\n"
    assert separator_of(tokenizer, made.script) == 0
    batch = made.generate_batch(0)
    settings = [GenerationSettings(max_new_tokens=len(one.tokens) - one.answer) for one in batch]
    plain = [Decoder(real_model, "plain", s).run(one.tokens[: one.answer].tolist()) for one, s in zip(batch, settings)]
    same = [record.token_ids == one.tokens[one.answer :].tolist() for one, record in zip(batch, plain)]
    assert same == [False, True, False, True]  # greedy answers are evenly spaced in the batch

"""ADED's proposer for vLLM, asked as vLLM asks it, without vLLM."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import VOCAB, save_tokenizer
from transformers import AutoTokenizer

from aded.core.errors import AdedError
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.integrations.request_sessions import MIN_ROWS, RequestSession, RequestSessions
from aded.integrations.vllm import AdedProposer, ProposerOptions
from aded.ngram.session_counts import ROWS as MAX_ROWS
from aded.ngram.trigram import TrigramMatrix

LONGEST, DRAFT, ROWS = 96, 5, 4
GARBAGE = -7
"""What the batch holds after a text: nobody may read it."""


class Batch:
    """The rows of vLLM's batch, in which each request follows a text that it will write in full.

    A request accepts the drafted tokens that agree with its text, and writes one more.
    """

    def __init__(self, proposer: AdedProposer, rows: int = ROWS) -> None:
        self.proposer = proposer
        self.tokens, self.lengths = np.full((rows, LONGEST), GARBAGE, dtype=np.int32), np.zeros(rows, dtype=np.int32)
        self.texts: list[list[int]] = []
        self.known: list[int] = []
        self.drafts: list[list[int]] = []

    def add(self, text: Sequence[int], prompt: int) -> None:
        self.texts.append(list(text))
        self.known.append(prompt)
        self.drafts.append([])

    def remove(self, row: int) -> tuple[list[int], int]:
        """Remove a request; the last row takes its place, as vLLM condenses its batch. Returns what `add` takes."""
        removed = self.texts[row], self.known[row]
        for column in (self.texts, self.known, self.drafts):
            last = column.pop()
            if row < len(column):
                column[row] = last
        return removed

    def step(self) -> list[list[int]]:
        """One step of all requests; returns the new drafts."""
        sampled = []
        for row, text in enumerate(self.texts):
            known = self.known[row]
            agreeing = next((i for i, token in enumerate(self.drafts[row]) if text[known + i : known + i + 1] != [token]), None)
            accepted = len(self.drafts[row]) if agreeing is None else agreeing
            sampled.append(text[known : known + accepted + 1])
            self.known[row] += len(sampled[-1])
        self.write()
        self.drafts = self.proposer.propose(sampled, self.lengths, self.tokens, slot_mappings=None)
        return self.drafts

    def write(self) -> None:
        self.tokens[:] = GARBAGE
        for row, (text, known) in enumerate(zip(self.texts, self.known)):
            self.tokens[row, :known], self.lengths[row] = text[:known], known


def config(model: Path, **options: Any) -> SimpleNamespace:
    """The part of vLLM's configuration that the proposer reads."""
    names = {"model": str(model), "tokenizer": str(model), "tokenizer_revision": None, "trust_remote_code": False}
    return SimpleNamespace(
        model_config=SimpleNamespace(**names, max_model_len=LONGEST, get_vocab_size=lambda: VOCAB),
        speculative_config=SimpleNamespace(num_speculative_tokens=DRAFT),
        scheduler_config=SimpleNamespace(max_num_seqs=ROWS),
        parallel_config=SimpleNamespace(rank=0),
        additional_config={"aded": options} if options else {},
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def matrix(model: Path) -> Path:
    """A matrix for the model's tokenizer, in which every token is followed by one of three."""
    return save_matrix(model / "matrix.safetensors", tokenizer_fingerprint(AutoTokenizer.from_pretrained(model)))


@pytest.fixture
def proposer(model: Path, matrix: Path) -> AdedProposer:
    return AdedProposer(config(model, matrix=str(matrix), min_probability=0.0))


def save_matrix(path: Path, fingerprint: str) -> Path:
    TrigramMatrix.build(text_of(0, 4000), separator=0, vocab_size=VOCAB, fingerprint=fingerprint).save(path)
    return path


def text_of(seed: int, length: int) -> np.ndarray:
    """A text in which the next token depends on the last one, and sometimes on chance."""
    rng, text = np.random.default_rng(seed), [3 + seed]
    while len(text) < length:
        text.append(3 + (5 * text[-1] + int(rng.choice(3, p=(0.8, 0.1, 0.1)))) % (VOCAB - 3))
    return np.array(text, dtype=np.int32)


def alone(proposer: AdedProposer, text: np.ndarray) -> list[int]:
    """The draft for a request that is the only one and has written all of ``text`` at once, by a new session."""
    session = RequestSession(proposer._sessions._base, MAX_ROWS)
    session.read(text)
    return session.draft(min(DRAFT, LONGEST - 1 - len(text)), 0.0)


def drafts_of_each(batch: Batch) -> list[list[int]]:
    return [alone(batch.proposer, np.array(text[:known], dtype=np.int32)) for text, known in zip(batch.texts, batch.known)]


def test_each_request_is_drafted_for_as_if_it_were_alone(proposer: AdedProposer):
    batch = Batch(proposer)
    for seed in range(ROWS):
        batch.add(text_of(seed, LONGEST), 8 + seed)
    accepted = 0
    for _ in range(8):
        before = sum(batch.known)
        assert batch.step() == drafts_of_each(batch)
        accepted += sum(batch.known) - before - ROWS
        assert all(len(draft) == DRAFT and 0 <= min(draft) <= max(draft) < VOCAB for draft in batch.drafts)
    assert accepted > 8 * ROWS  # more than one draft token per step


def test_sessions_follow_requests_that_move_pause_resume_and_skip_steps(proposer: AdedProposer):
    batch = Batch(proposer)
    for seed in range(3):
        batch.add(text_of(seed, LONGEST), 8)
    batch.step()
    sessions = set(proposer._sessions._recent)
    paused = batch.remove(0)  # the last row takes its place
    assert batch.step() == drafts_of_each(batch)
    batch.tokens[[0, 1]] = batch.tokens[[1, 0]]  # two rows change places
    for column in (batch.texts, batch.known, batch.drafts):
        column.reverse()
    batch.step()
    batch.add(*paused)
    assert batch.step() == drafts_of_each(batch)
    batch.drafts = [[] for _ in batch.texts]
    for row in range(3):
        batch.known[row] += 2  # vLLM does not ask for drafts in every step
    assert batch.step() == drafts_of_each(batch)
    assert set(proposer._sessions._recent) == sessions  # nothing was learned a second time


def test_requests_with_equal_texts_have_separate_sessions(proposer: AdedProposer):
    batch = Batch(proposer)
    same, other = text_of(0, LONGEST), text_of(0, LONGEST)
    other[20:] = text_of(1, LONGEST)[20:]
    for text in (same, same, other):
        batch.add(text, 12)
    for _ in range(8):
        assert batch.step() == drafts_of_each(batch)
    assert len(proposer._sessions) == 3


def test_number_and_memory_of_sessions_are_bounded(model: Path, matrix: Path):
    proposer = AdedProposer(config(model, matrix=str(matrix), memory_mb=1))
    for seed in range(40):  # requests end, others begin
        batch = Batch(proposer)
        for row in range(1 + seed % ROWS):
            batch.add(text_of(seed % 30 + row, 60), 20)
        batch.step()
        assert len(proposer._sessions) <= ROWS
    assert len(proposer._sessions) == ROWS
    assert proposer._sessions.nbytes <= 1 << 20


def test_a_request_is_found_again_after_as_many_others_as_fit(model: Path, matrix: Path):
    sessions = RequestSessions(TrigramMatrix.empty(VOCAB), 3, LONGEST, 1 << 20)
    first = sessions.read({0: text_of(0, 9)})[0]
    sessions.read({0: text_of(1, 9), 1: text_of(2, 9)})
    assert sessions.read({2: text_of(0, 12)})[2] is first
    sessions.read({0: text_of(3, 9), 1: text_of(4, 9), 2: text_of(5, 9)})
    assert len(sessions.read({0: text_of(0, 14)})) == 1
    assert len(sessions) == 3


def test_a_session_learns_the_end_of_a_text_that_is_too_long_for_its_counts():
    base, text = TrigramMatrix.empty(VOCAB), text_of(0, 5 * MIN_ROWS)
    session, of_the_end = RequestSession(base, MIN_ROWS), RequestSession(base, MIN_ROWS)
    session.read(text)
    of_the_end.read(text[-MIN_ROWS:])
    assert (len(session), session.begins(text), session.begins(text[1:])) == (len(text), True, False)
    assert session.draft(8, 0.0) == of_the_end.draft(8, 0.0)


def test_less_probable_tokens_are_not_drafted(proposer: AdedProposer):
    session = proposer._sessions.read({0: text_of(0, 40)})[0]
    drafts = [session.draft(24, least) for least in (0.0, 0.1, 0.3, 1.0)]
    assert [len(draft) for draft in drafts] == sorted([len(draft) for draft in drafts], reverse=True)
    assert all(draft == drafts[0][: len(draft)] for draft in drafts)
    assert len(drafts[0]) > len(drafts[2]) > len(drafts[3]) == 0


def test_rows_that_cannot_be_drafted_for_get_an_empty_draft(proposer: AdedProposer):
    """A prompt that is read in parts, a text of maximum length, and a text with an id outside the vocabulary."""
    tokens = np.stack([text_of(seed, LONGEST) for seed in range(ROWS)])
    tokens[2, 5] = VOCAB
    drafts = proposer.propose([[], [3], [3], [3]], np.array([20, LONGEST, 20, LONGEST - 3], dtype=np.int32), tokens)
    assert [len(draft) for draft in drafts] == [0, 0, 0, 2]
    assert proposer.propose([], np.zeros(ROWS, dtype=np.int32), tokens) == []


def test_without_a_matrix_the_session_alone_drafts_and_one_message_says_how_to_make_one(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    with caplog.at_level(logging.WARNING, "vllm.aded"):
        proposer = AdedProposer(config(model))
        tokens = np.tile(np.array([5, 6, 7, 8], dtype=np.int32), (1, LONGEST // 4))
        for length in (20, 21):
            (draft,) = proposer.propose([[5]], np.array([length]), tokens)
            assert draft == tokens[0, length : length + len(draft)].tolist()
            assert draft
    (message,) = caplog.messages
    assert f"python -m aded prepare {model}" in message


def test_a_matrix_of_another_tokenizer_is_refused(model: Path, tmp_path: Path):
    with pytest.raises(AdedError, match="another tokenizer; build one for this model with") as raised:
        AdedProposer(config(model, matrix=str(save_matrix(tmp_path / "other.safetensors", "0123456789abcdef"))))
    assert "\n" not in str(raised.value)


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path):
    with pytest.raises(AdedError, match=f"cannot load the tokenizer {tmp_path} .* with vLLM's option tokenizer") as raised:
        AdedProposer(config(tmp_path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"matrx": "m"}, "unknown option matrx of aded; known are matrix, min_probability, memory_mb"),
        ({"matrix": 3}, "matrix is 3; give the name of a file"),
        ({"matrix": "missing.safetensors"}, "cannot read the tri-gram matrix missing.safetensors"),
        ({"min_probability": 2}, "min probability is 2; give a number from 0.0 to 1.0"),
        ({"memory_mb": 0}, "memory mb is 0; give a whole number from 1"),
    ],
)
def test_an_invalid_option_is_refused_with_the_remedy(model: Path, options: dict[str, Any], message: str):
    with pytest.raises(AdedError, match=message):
        AdedProposer(config(model, **options))


def test_too_little_memory_is_refused_with_what_suffices():
    with pytest.raises(AdedError, match=r"1 MB are too few for the sessions of 64 requests; give (\d+) or more") as raised:
        RequestSessions(TrigramMatrix.empty(VOCAB), 64, LONGEST, 1 << 20)
    least = int(str(raised.value).split("give ")[1].split()[0])
    RequestSessions(TrigramMatrix.empty(VOCAB), 64, LONGEST, least << 20)


def test_options_of_other_kinds_of_configuration_are_the_defaults():
    assert ProposerOptions.of(None) == ProposerOptions.of({"other": 1}) == ProposerOptions()

"""Text that an instruct model writes itself: questions of its own, and its answers.

Continuing its chat template's opened user turn, a model asks what it was trained to be asked (Magpie, arXiv 2406.08464);
answered by the model itself, greedily or sampled, that is text as it will write it in use, which a base matrix for it
should hold. Conversations are written in waves (see ``aded.engine.batch_generation``); a wave depends on the model, the seed,
its number and
the batch alone, so waves can be written apart and in any order.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from aded.core.errors import AdedError, first_line
from aded.data import corpus
from aded.data.conversations import BARREN_WAVES, Conversation, answered, nothing_new
from aded.engine.batch_generation import Ended, Script, Wave, bytes_per_row
from aded.engine.layers.prepacked_linear import free_bytes
from aded.engine.target_model import TargetModel
from aded.sampling.rng import key_of

GREEDY_SHARE = 0.6
"""Of the answers; the others are sampled."""
MOST_ROWS = {"cuda": 2048, "cpu": 16}
MEMORY_SHARE = 0.6
"""Of free memory that a wave may take."""
LOGITS_COPIES = 8
"""Rows of logits, in the model's dtype, that a step's working memory takes for each row of the wave."""
CHECK_EVERY = 16
"""Steps between two looks at which rows still run."""
CUT_SHARE = 0.05
"""A wave ends when fewer of its rows than this still run: these are cut where they stand."""
LONGEST_GIVEN = 224
"""Most tokens of a question whose beginning is given: it may hold the text that it is about."""
SENTINEL = "QUESTION-STANDS-HERE"
REMEDY = "give texts instead: a matrix takes --text, --tokens or --dataset, training --corpus FILE"


class SelfWriter:
    """Writes waves of conversations.

    Attributes:
        batch: conversations that a wave begins with.
        script: the parts that all conversations share.
    """

    def __init__(
        self,
        target: TargetModel,
        batch: int | None = None,
        seed: int = 0,
        greedy_share: float = GREEDY_SHARE,
        script: Script | None = None,
        beginnings: Sequence[Sequence[int]] = (),
    ) -> None:
        """Make the memory of a wave.

        Args:
            target: the model.
            batch: None for as many as pay and fit.
            seed: of all that is drawn.
            greedy_share: of the answers, 0 to 1.
            script: None for that of the tokenizer's chat template.
            beginnings: token ids that questions begin with, in turn (see `beginnings_in`); none leaves them to the model.

        Raises:
            AdedError: the model has no chat template or cannot be batched, a setting is out of range, or memory is short.
        """
        if target.mode != "tree" or target.masks.kind == "none":
            raise AdedError(f"{target.label} cannot write many texts at once; {REMEDY}")
        if not 0 <= greedy_share <= 1:
            raise AdedError(f"greedy share is {greedy_share}; give a number from 0 to 1")
        if batch is not None and batch < 1:
            raise AdedError(f"batch is {batch}; give 1 or more")
        self.target, self.seed, self.greedy_share = target, seed, greedy_share
        self._beginnings = beginnings
        self.script = script or script_of(target.tokenizer)
        if beginnings:
            self.script = replace(self.script, longest_question=max(self.script.longest_question, LONGEST_GIVEN))
        if len(self.script.opening) + len(self.script.closing) + 2 > target.context_limit:
            raise AdedError(f"the context of {target.label}, {target.context_limit} tokens, holds no conversation; {REMEDY}")
        self._special = np.array(sorted({*getattr(target.tokenizer, "all_special_ids", ()), *target.eos_ids}))
        self._wave, self.batch = self._prepared(batch)

    def __iter__(self) -> Iterator[Conversation]:
        """Wave after wave, without end; a repeated question is left out with its answer.

        Raises:
            AdedError: no new questions come any more, or the memory of the device is used up.
        """
        asked: set[bytes] = set()
        barren = 0
        for index in itertools.count():
            before = len(asked)
            for one in self.wave(index):
                if one.question_key not in asked:
                    asked.add(one.question_key)
                    yield one
            barren = 0 if len(asked) > before else barren + 1
            if barren == BARREN_WAVES:
                raise nothing_new(len(asked))

    @property
    def notice(self) -> str | None:
        """What the user should know of how the writing runs."""
        return self._wave.notice

    def wave(self, index: int, progress: Callable[[int], None] = lambda tokens: None) -> list[Conversation]:
        """The conversations of a wave that came to an answer; progress: called with the tokens written so far.

        Raises:
            AdedError: the memory of the device is used up.
        """
        wave = self._wave
        with _within_memory(self.batch):
            wave.begin(key_of(self.seed, index), _spread(self.greedy_share, self.batch), self._beginnings)
            ended, written = [], 0
            while not wave.at_end:
                before = wave.position
                wave.advance(CHECK_EVERY)
                running = wave.running()
                written += (wave.position - before) * wave.rows
                progress(written)
                if running.sum() <= CUT_SHARE * self.batch:
                    break
                ended += wave.compact(running)
            ended += wave.collect()
        return self._conversations(sorted(ended, key=lambda one: one.row))

    def _prepared(self, batch: int | None) -> tuple[Wave, int]:
        """The wave's memory, all rows holding the opening."""
        target, script = self.target, self.script
        session = target.session(len(script.opening))
        try:
            session.prefill(script.opening)
            room = bytes_per_row(session.cache, min(script.capacity, target.context_limit))
            target.release_memory()
            batch = batch or self._fitting(room)
            with _within_memory(batch):
                if batch * room > (free_bytes(target.device) or sys.maxsize):  # an allocator may promise more than there is
                    raise MemoryError
                return Wave(target, script, batch, session.cache, sorted(target.eos_ids)), batch
        finally:
            session.close()
            target.release_memory()

    def _fitting(self, room: int) -> int:
        """The most rows, a power of two, that memory holds: ``room`` bytes each beside their logits."""
        device = self.target.device
        room += LOGITS_COPIES * self.target.vocab_size * self.target.dtype.itemsize
        fitting = int(MEMORY_SHARE * free_bytes(device)) // room
        return 1 << (max(1, min(fitting, MOST_ROWS[device.type])).bit_length() - 1)

    def _conversations(self, ended: Iterable[Ended]) -> list[Conversation]:
        """Those that have a question of plain tokens, and an answer."""
        start, gap = len(self.script.opening), len(self.script.closing)
        whole = [one for one in ended if one.closed > start and len(one.ids) > one.closed + gap]
        questions = [one.ids[start : one.closed] for one in whole]
        return [
            Conversation(one.ids.astype(np.int32), start, one.closed + gap)
            for one, question in zip(whole, questions)
            if not np.isin(question, self._special).any()
            and int(one.ids[one.closed + gap]) not in self.target.eos_ids
            and self.target.tokenizer.decode(question.tolist()).strip()
        ]


def script_of(tokenizer: Any) -> Script:
    """The parts of the chat template before and after a question, in general: what stands around a word of ours.

    Raises:
        AdedError: there is no chat template, or it does not leave the question as it is.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise AdedError(f"the model has no chat template, so it cannot write conversations; {REMEDY}")
    turn = [{"role": "user", "content": SENTINEL}]
    try:
        text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    except Exception as error:  # a template is a program of the model's author and may raise anything
        raise AdedError(f"the model's chat template failed ({first_line(error)}); {REMEDY}") from None
    before, _, after = text.partition(SENTINEL)
    opening, closing = (tuple(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in (before, after))
    if not opening or not closing or SENTINEL in after:
        raise AdedError(f"the model's chat template does not put a question between marks of its own; {REMEDY}")
    return Script(opening, closing)


def beginnings_in(path: str, tokenizer: Any) -> list[list[int]]:
    """What questions shall begin with, as token ids: the texts of a file (see ``aded.data.corpus.read_texts``).

    An empty text leaves a question to the model.

    Raises:
        AdedError: the file cannot be read, holds no text, one that leaves no room for a question, or a special token.
    """
    texts = corpus.read_texts(path)
    if not any(texts):
        raise AdedError(f"{path} holds no beginnings of questions; give JSON lines of texts")
    beginnings = [list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else [] for text in texts]
    special = set(getattr(tokenizer, "all_special_ids", ()))
    for number, ids in enumerate(beginnings, 1):
        if len(ids) > LONGEST_GIVEN // 2:
            raise AdedError(f"{path}, text {number} has {len(ids)} tokens; give at most {LONGEST_GIVEN // 2}, a question goes on")
        if special.intersection(ids):
            raise AdedError(f"{path}, text {number} holds a special token of the model's, which would end it; leave that out")
    return beginnings


def separator_of(tokenizer: Any, script: Script) -> int:
    """A token to stand between conversations: a special one that they do not hold, else the one that ends a text."""
    free = set(tokenizer.all_special_ids) - {*script.opening, *script.closing}
    return min(free, default=tokenizer.eos_token_id)


def answers_in(ids: np.ndarray, tokenizer: Any) -> np.ndarray:
    """Which tokens of flat text ``[n]`` are an answer's in this tokenizer's chat template, bool ``[n]``.

    All of them where the text holds no conversation, or the tokenizer has no template.
    """
    everything = np.ones(ids.shape, dtype=bool)
    try:
        script = script_of(tokenizer)
    except AdedError:
        return everything
    found = answered(ids, script.opening, script.closing, separator_of(tokenizer, script))
    return found if found.any() else everything


def _spread(share: float, rows: int) -> np.ndarray:
    """Which rows are of this share, evenly over all of them: bool ``[rows]``."""
    return np.diff(np.floor(share * np.arange(rows + 1))) > 0


@contextmanager
def _within_memory(batch: int) -> Iterator[None]:
    """Say the remedy where the device's memory does not suffice; the CPU's allocator has no error of its own."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and "DefaultCPUAllocator" not in str(error):
            raise
        raise AdedError(
            f"a batch of {batch} conversations does not fit the memory of the device; give a smaller --batch"
        ) from None

"""Self-generated text: an instruct model generates questions and answers them.

Given its chat template up to the start of a user turn, a model generates a question like those it was trained on (Magpie, arXiv
2406.08464). It then answers the question, greedily or sampled. A base matrix counted from this text matches what the model
generates in use. Conversations are generated in batches (see ``aded.engine.batch_generation``). A batch depends only on the
model, the seed, its index and the batch size, so batches can be generated in any order.
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
from aded.data.conversations import MAX_REPEATED_BATCHES, Conversation, answered, repetition_error
from aded.engine.batch_generation import ConversationBatch, FinishedRow, Script, bytes_per_row
from aded.engine.layers.prepacked_linear import free_bytes
from aded.engine.target_model import TargetModel
from aded.sampling.rng import key_of

GREEDY_SHARE = 0.6
"""Share of the answers that are generated greedily; the others are sampled."""
MAX_BATCH_SIZE = {"cuda": 2048, "cpu": 16}
MEMORY_SHARE = 0.6
"""Share of the free memory that a batch may use."""
LOGITS_COPIES = 8
"""Working memory of a step for each row of the batch, as a multiple of one row of logits in the model's dtype."""
CHECK_EVERY = 16
"""Number of steps between two checks for finished rows."""
CUT_SHARE = 0.05
"""A batch ends when at most this share of its rows is unfinished; these are cut off."""
MAX_PREFIXED_QUESTION = 224
"""Maximum number of tokens of a question with a given prefix; the prefix may include the text that the question is about."""
PLACEHOLDER = "QUESTION-PLACEHOLDER"
REMEDY = "give texts instead: `matrix build --text FILE`, `datastore build --text FILE` and `train KIND --corpus FILE` take them"


class ConversationGenerator:
    """Generates conversations with a model, in batches.

    Attributes:
        batch_size: number of conversations that a batch starts with.
        script: the tokens of the chat template and the length limits.
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
        """Allocate the memory of a batch.

        Args:
            target: the model.
            batch: batch size; None for the largest useful size that fits in memory.
            seed: seed of all sampling.
            greedy_share: share of greedy answers, 0 to 1.
            script: None to derive it from the tokenizer's chat template.
            beginnings: token ids of question prefixes, used in turn (see `read_beginnings`).

        Raises:
            AdedError: the model has no chat template or cannot be batched, a setting is out of range, or memory is insufficient.
        """
        check_model(target)
        if not 0 <= greedy_share <= 1:
            raise AdedError(f"greedy share is {greedy_share}; give a number from 0 to 1")
        if batch is not None and batch < 1:
            raise AdedError(f"batch is {batch}; give 1 or more")
        self.target, self.seed, self.greedy_share = target, seed, greedy_share
        self._beginnings = beginnings
        self.script = script or script_of(target.tokenizer)
        if beginnings:
            self.script = replace(self.script, longest_question=max(self.script.longest_question, MAX_PREFIXED_QUESTION))
        if len(self.script.opening) + len(self.script.closing) + 2 > target.context_limit:
            raise AdedError(
                f"the context of {target.label}, {target.context_limit} tokens, is too short for a conversation; {REMEDY}"
            )
        self._special = np.array(sorted({*getattr(target.tokenizer, "all_special_ids", ()), *target.eos_ids}))
        self._batch, self.batch_size = self._allocate(batch)

    def __iter__(self) -> Iterator[Conversation]:
        """An endless stream of conversations, without repeated questions.

        Raises:
            AdedError: the model only repeats earlier questions, or the device is out of memory.
        """
        seen: set[bytes] = set()
        repeated = 0
        for index in itertools.count():
            before = len(seen)
            for one in self.generate_batch(index):
                if one.question_key not in seen:
                    seen.add(one.question_key)
                    yield one
            repeated = 0 if len(seen) > before else repeated + 1
            if repeated == MAX_REPEATED_BATCHES:
                raise repetition_error(len(seen))

    @property
    def notice(self) -> str | None:
        """What the user should know about the generation (see ``ConversationBatch.notice``), or None."""
        return self._batch.notice

    def generate_batch(self, index: int, progress: Callable[[int], None] = lambda tokens: None) -> list[Conversation]:
        """Generate batch number ``index``; returns the conversations that have an answer.

        Args:
            progress: called with the number of tokens generated so far.

        Raises:
            AdedError: the device is out of memory.
        """
        batch = self._batch
        with _within_memory(self.batch_size):
            batch.begin(key_of(self.seed, index), _spread(self.greedy_share, self.batch_size), self._beginnings)
            ended, written = [], 0
            while not batch.at_end:
                before = batch.position
                batch.advance(CHECK_EVERY)
                running = batch.running()
                written += (batch.position - before) * batch.rows
                progress(written)
                if running.sum() <= CUT_SHARE * self.batch_size:
                    break
                ended += batch.compact(running)
            ended += batch.collect()
        return self._conversations(sorted(ended, key=lambda one: one.row))

    def _allocate(self, batch: int | None) -> tuple[ConversationBatch, int]:
        """The rows of a batch, each prefilled with the opening of the script, and the batch size."""
        target, script = self.target, self.script
        session = target.session(len(script.opening))
        try:
            session.prefill(script.opening)
            row_bytes = bytes_per_row(session.cache, min(script.capacity, target.context_limit))
            target.release_memory()
            batch = batch or self._largest_batch(row_bytes)
            with _within_memory(batch):
                # an allocation that exceeds the free memory does not always fail
                if batch * row_bytes > (free_bytes(target.device) or sys.maxsize):
                    raise MemoryError
                return ConversationBatch(target, script, batch, session.cache, sorted(target.eos_ids)), batch
        finally:
            session.close()
            target.release_memory()

    def _largest_batch(self, row_bytes: int) -> int:
        """The largest batch size, a power of two, that fits in memory; ``row_bytes``: bytes per row without its logits."""
        device = self.target.device
        row_bytes += LOGITS_COPIES * self.target.vocab_size * self.target.dtype.itemsize
        fitting = int(MEMORY_SHARE * free_bytes(device)) // row_bytes
        return 1 << (max(1, min(fitting, MAX_BATCH_SIZE[device.type])).bit_length() - 1)

    def _conversations(self, ended: Iterable[FinishedRow]) -> list[Conversation]:
        """The rows that have a question without special tokens and an answer."""
        start, gap = len(self.script.opening), len(self.script.closing)
        complete = [one for one in ended if one.closed > start and len(one.ids) > one.closed + gap]
        questions = [one.ids[start : one.closed] for one in complete]
        return [
            Conversation(one.ids.astype(np.int32), start, one.closed + gap)
            for one, question in zip(complete, questions)
            if not np.isin(question, self._special).any()
            and int(one.ids[one.closed + gap]) not in self.target.eos_ids
            and self.target.tokenizer.decode(question.tolist()).strip()
        ]


def check_model(target: TargetModel) -> None:
    """Raise ``AdedError`` if a model cannot generate texts in batches."""
    if target.mode != "tree" or target.masks.kind == "none":
        raise AdedError(f"{target.label} cannot generate texts in batches; {REMEDY}")


def script_of(tokenizer: Any) -> Script:
    """The tokens of the chat template before and after a question, found by rendering it with a placeholder.

    Raises:
        AdedError: the tokenizer has no chat template, or the template changes the question.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise AdedError(f"the model has no chat template, so it cannot generate conversations; {REMEDY}")
    turn = [{"role": "user", "content": PLACEHOLDER}]
    try:
        text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    except Exception as error:  # templates are programs and may raise any exception
        raise AdedError(f"the model's chat template failed ({first_line(error)}); {REMEDY}") from None
    before, _, after = text.partition(PLACEHOLDER)
    opening, closing = (tuple(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in (before, after))
    if not opening or not closing or PLACEHOLDER in after:
        raise AdedError(f"the model's chat template has no tokens before and after the question; {REMEDY}")
    return Script(opening, closing)


def read_beginnings(path: str, tokenizer: Any) -> list[list[int]]:
    """Prefixes of questions as token ids, from the texts of a file (see ``aded.data.corpus.read_texts``).

    For an empty text the model generates the whole question.

    Raises:
        AdedError: the file cannot be read or has no text, or a text is too long or contains a special token.
    """
    texts = corpus.read_texts(path)
    if not any(texts):
        raise AdedError(f"{path} holds no beginnings of questions; give JSON lines of texts")
    beginnings = [list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else [] for text in texts]
    special = set(getattr(tokenizer, "all_special_ids", ()))
    for number, ids in enumerate(beginnings, 1):
        if len(ids) > MAX_PREFIXED_QUESTION // 2:
            raise AdedError(f"{path}, text {number} has {len(ids)} tokens; give at most {MAX_PREFIXED_QUESTION // 2}")
        if special.intersection(ids):
            raise AdedError(f"{path}, text {number} contains a special token of the model; remove it")
    return beginnings


def separator_of(tokenizer: Any, script: Script) -> int:
    """The id that separates conversations: a special token that is not in the chat template, else the end-of-text token."""
    free = set(tokenizer.all_special_ids) - {*script.opening, *script.closing}
    return min(free, default=tokenizer.eos_token_id)


def answers_in(ids: np.ndarray, tokenizer: Any) -> np.ndarray:
    """Which tokens of a flat text ``[n]`` belong to an answer in this tokenizer's chat template, bool ``[n]``.

    All of them if the text has no conversations or the tokenizer has no chat template.
    """
    all_tokens = np.ones(ids.shape, dtype=bool)
    try:
        script = script_of(tokenizer)
    except AdedError:
        return all_tokens
    found = answered(ids, script.opening, script.closing, separator_of(tokenizer, script))
    return found if found.any() else all_tokens


def _spread(share: float, rows: int) -> np.ndarray:
    """Selects a share of the rows, evenly spaced: bool ``[rows]``."""
    return np.diff(np.floor(share * np.arange(rows + 1))) > 0


@contextmanager
def _within_memory(batch: int) -> Iterator[None]:
    """Turn out-of-memory errors into one that names the remedy; PyTorch's CPU allocator raises a plain RuntimeError."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and "DefaultCPUAllocator" not in str(error):
            raise
        raise AdedError(
            f"a batch of {batch} conversations does not fit the memory of the device; give a smaller --batch"
        ) from None

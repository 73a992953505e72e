"""Conversations of several turns on the page: a visitor continues the latest race, and each run continues from its own answer.

From turn to turn, a run keeps what its drafter has learned, its token ids, and its KV cache (``aded.engine.prefix_cache``), so
that the next turn's prefill reads only the new tokens. Texts and token ids are kept as long as the session; KV caches and
drafters are freed earlier if the sessions together exceed their limits (``ui.serving.sessions``). The conversation changes only
when a turn has ended, so a turn that fails can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aded.core.chat import Chat, Turn
from aded.core.trace import Trace
from aded.drafters.registry import METHODS, RunSpec
from ui.race.form import Form
from ui.race.session_memory import LearningRun, forgotten
from ui.serving.limits import Limits
from ui.serving.sessions import Memory
from ui.words import Message, Refused

AskedTurn = dict[str, Any]
"""A turn after the first one, for the page: its ``number``, from 2; the turns ``before`` it, as (role, text); the ``message``;
how many prompt tokens were ``read`` by the prefill and ``kept`` in the KV cache; the tokens per step of the ``first`` turn."""


@dataclass(frozen=True)
class ConversationRun:
    """A run of a conversation: one method.

    Attributes:
        spec: the method and its options.
        turns: all turns so far; while the run writes, the last one is the visitor's.
        ids: token ids of the latest turn that has ended, prompt and answer (see ``Chat``).
        cache: the ``PrefixCache`` of the run; None if no KV cache is kept.
        memory: what the drafter has learned in this conversation; empty if the method keeps nothing, or keeps it for all races.
        tokens_per_step: tokens per step of the first turn, including bonus and correction tokens; None if it had no step.
    """

    spec: RunSpec
    turns: tuple[Turn, ...]
    ids: tuple[int, ...] = ()
    cache: Any = None
    memory: Memory = field(default_factory=Memory)
    tokens_per_step: float | None = None

    @property
    def prompt(self) -> str | Chat:
        """The prompt of the run: a text in the first turn, a chat in later ones."""
        return self.turns[0].text if len(self.turns) == 1 else Chat(self.turns, self.ids)

    @property
    def learns(self) -> bool:
        """Whether ``memory`` keeps what the drafter learns: the method can keep it, and does not keep it from race to race."""
        return "keep" in METHODS[self.spec.method].options and not self.spec.options.get("keep")

    def source(self, memories: dict[str, Memory]) -> tuple[dict[str, Memory], RunSpec]:
        """Arguments for ``ui.race.session_memory.resume``.

        Args:
            memories: what the visitor's methods keep from race to race, by method.

        Returns:
            Learned states by method, and the run that starts with that of its method.
        """
        if len(self.turns) == 1 or not self.learns:
            return memories, self.spec
        return {self.spec.method: self.memory}, replace(self.spec, options={**self.spec.options, "keep": True})

    def answered(self, trace: Trace, drafter: Any) -> ConversationRun:
        """The run after a turn.

        Args:
            trace: the trace of the turn.
            drafter: the drafter with what it has learned; None if it cannot be continued.
        """
        memory = self.memory
        if drafter is not None and self.learns:
            settings = METHODS[self.spec.method].state_settings(self.spec.options)
            memory = Memory(drafter, self.memory.prompts + 1, settings)
        per_step = len(trace.token_ids) / len(trace.steps) if trace.steps else None
        first = per_step if len(self.turns) == 1 else self.tokens_per_step
        turns, ids = (*self.turns, Turn("assistant", trace.text)), (*trace.header.prompt_tokens, *trace.token_ids)
        return replace(self, turns=turns, ids=ids, memory=memory, tokens_per_step=first)

    def turn(self, trace: Trace) -> AskedTurn | None:
        """The turn that the run answers, for the page; None for the first one.

        Args:
            trace: the trace of the turn; only its header is read.
        """
        if len(self.turns) == 1:
            return None
        kept = self.cache.reused if self.cache else 0
        return {
            "number": 1 + len(self.turns) // 2,
            "before": [(turn.role, turn.text) for turn in self.turns[:-1]],
            "message": self.turns[-1].text,
            "read": len(trace.header.prompt_tokens) - kept,
            "kept": kept,
            "first": self.tokens_per_step,
        }


@dataclass
class Conversation:
    """A race with what its next turn needs.

    Attributes:
        race: id of the race on the page.
        model: the target model; ``form``: the form of the first turn.
        runs: one per method, each with the answer of the latest turn once that has ended.
        freed: whether KV caches have been freed since that turn.
    """

    race: str
    model: Any
    form: Form
    runs: Sequence[ConversationRun]
    freed: bool = False

    @property
    def bytes(self) -> int:
        """Memory of the KV caches in bytes."""
        return sum(run.cache.bytes for run in self.runs if run.cache)

    @property
    def drafters(self) -> int:
        """Number of drafters that are kept."""
        return sum(run.memory.drafter is not None for run in self.runs)

    def free_caches(self) -> None:
        """Free the KV caches; the prefill of the next turn then reads the whole conversation."""
        self.freed = self.freed or self.bytes > 0
        caches = [run.cache for run in self.runs if run.cache]
        self.runs = [replace(run, cache=None) for run in self.runs]
        for cache in caches:
            cache.free()

    def free_drafters(self) -> None:
        """Free the drafters; the entries stay, so that the next turn can report the loss."""
        for run in self.runs:
            run.memory.drafter = None

    def forget(self) -> None:
        """Delete what the drafters have learned."""
        self.runs = [replace(run, memory=Memory()) for run in self.runs]

    def ask(self, message: str) -> tuple[list[ConversationRun], list[Message]]:
        """The runs with the visitor's next message, and messages to the visitor about what was freed since the last turn."""
        lost = [run for run in self.runs if run.memory.prompts and run.memory.drafter is None]
        messages: list[Message] = [("turn.freed", {})] if self.freed else []
        messages += [forgotten("memory", run.spec.method, run.memory) for run in lost]
        runs = [replace(run, memory=Memory()) if run in lost else run for run in self.runs]
        return [replace(run, turns=(*run.turns, Turn("user", message))) for run in runs], messages


def begin(runs: Sequence[RunSpec], form: Form) -> list[ConversationRun]:
    """The runs of a new conversation, whose first turn has the prompt of ``form``."""
    return [ConversationRun(run, (Turn("user", form.text),)) for run in runs]


def next_turn(conversation: Conversation | None, race: object, message: object, model: Any, limits: Limits) -> Form:
    """Check the next turn; returns the conversation's form.

    Args:
        conversation: the session's conversation, if there is one.
        race: id of the race that the visitor continues; ``message``: what the visitor has written.
        model: the model that is selected now.

    Raises:
        Refused: the message is empty, the conversation is no longer kept or used another model, or its text would be too long.
    """
    if not isinstance(message, str) or not message.strip():
        raise Refused("turn.empty")
    if conversation is None or conversation.race != race:
        raise Refused("turn.lost")
    if conversation.model is not model:
        raise Refused("turn.model")
    count = max(len(Chat(run.turns).text) for run in conversation.runs) + 1 + len(message)
    if count > limits.prompt_characters:
        raise Refused("turn.long", count=count, maximum=limits.prompt_characters)
    return conversation.form


def separate(states: Sequence[LearningRun], runs: Sequence[ConversationRun]) -> list[LearningRun]:
    """The ``states`` that are kept from race to race, and not only within the conversation of ``runs``."""
    return [state for state in states if not any(state.memory is run.memory for run in runs)]

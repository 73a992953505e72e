"""A conversation as a prompt: turns that the model's chat template joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Turn:
    """What one side has said; ``system`` holds instructions."""

    role: Role
    text: str


@dataclass(frozen=True)
class Chat:
    """The turns of a conversation so far, which the model is to continue.

    Attributes:
        ids: token ids of an earlier decode of this conversation, prompt and answer. The new prompt begins with them as far as
            their text is the same: the tokenizer may split an answer into other tokens than the model has written.
    """

    turns: tuple[Turn, ...]
    ids: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """All turns as one text, without their roles."""
        return "\n".join(turn.text for turn in self.turns)


Prompt = str | Chat | Sequence[int]
"""Text, a conversation, or token ids."""

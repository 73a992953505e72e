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
    """The turns of a conversation so far, which the model is to continue."""

    turns: tuple[Turn, ...]

    @property
    def text(self) -> str:
        """All turns as one text, without their roles."""
        return "\n".join(turn.text for turn in self.turns)


Prompt = str | Chat | Sequence[int]
"""Text, a conversation, or token ids."""

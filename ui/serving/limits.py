"""What one run, one session and the whole server may use. Knows no Gradio."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

HOUR = 3600.0
"""Seconds over which a session's tokens are counted."""


@dataclass(frozen=True)
class Limits:
    """Set by the operator; what a visitor asks beyond them is cut and said, or refused.

    Attributes:
        queue_size: runs that may wait at once, of all sessions together.
        at_once: runs that take turns on the model; each holds a cache a lane.
        max_new_tokens: of one lane.
        prompt_characters: most characters of a prompt: reading it is one turn on the model.
        run_seconds: of one run, counted on the model alone, not while others have their turn.
        session_tokens: that one session may have written within an hour, all lanes counted; None for any number.
    """

    queue_size: int = 32
    at_once: int = 4
    max_new_tokens: int = 512
    prompt_characters: int = 20_000
    run_seconds: float = 300.0
    session_tokens: int | None = None


class Allowance:
    """Tokens that sessions had written within the last hour, by the monotonic clock."""

    def __init__(self, tokens: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.tokens = tokens
        self._clock = clock
        self._spent: deque[tuple[float, str, int]] = deque()

    def spend(self, session: str, tokens: int) -> None:
        """Note tokens that were written."""
        if self.tokens is not None and tokens:
            self._spent.append((self._clock(), session, tokens))

    def wait(self, session: str) -> float:
        """Seconds until the session may start a run; 0 if it may now."""
        if self.tokens is None:
            return 0.0
        now = self._clock()
        while self._spent and now - self._spent[0][0] >= HOUR:
            self._spent.popleft()
        own = [(at, tokens) for at, key, tokens in self._spent if key == session]
        used = sum(tokens for _, tokens in own)
        until = now
        for at, tokens in own:
            if used < self.tokens:
                break
            used, until = used - tokens, at + HOUR
        return until - now

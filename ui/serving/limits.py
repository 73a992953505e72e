"""Limits per job, per session and for the whole server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

HOUR = 3600.0
"""Period in seconds over which a session's tokens are counted."""


@dataclass(frozen=True)
class Limits:
    """Set by the operator. A request beyond a limit is reduced with a notice, or refused.

    Attributes:
        queue_size: jobs that may wait, of all sessions together.
        at_once: jobs that run on the model in turns; each holds one KV cache per run.
        max_new_tokens: per run.
        prompt_characters: maximum length of a prompt, or of a whole conversation, in characters.
        run_seconds: per job, counted only while it uses the model.
        session_tokens: new tokens per session and hour, over all runs; None for no limit.
        prefix_bytes: of all KV caches that are kept for the next turn of a conversation; the oldest ones are freed first.
    """

    queue_size: int = 32
    at_once: int = 4
    max_new_tokens: int = 512
    prompt_characters: int = 20_000
    run_seconds: float = 300.0
    session_tokens: int | None = None
    prefix_bytes: int = 512_000_000


class Allowance:
    """New tokens per session within the last hour, on the monotonic clock."""

    def __init__(self, tokens: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.tokens = tokens
        self._clock = clock
        self._spent: deque[tuple[float, str, int]] = deque()

    def spend(self, session: str, tokens: int) -> None:
        """Record new tokens."""
        if self.tokens is not None and tokens:
            self._spent.append((self._clock(), session, tokens))

    def wait(self, session: str) -> float:
        """Seconds until the session may start a job; 0 if it may now."""
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

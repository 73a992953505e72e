"""The one kind of error that a user of the engine can cause."""

from __future__ import annotations


class AdedError(ValueError):
    """Something the caller asked for cannot be done; the message is one line and says the remedy."""

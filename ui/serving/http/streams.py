"""Streams of Gradio's messages, so that several calls of one session each have their own.

Gradio keeps one message queue per session, and a reader gets the next message of any call. A call over plain HTTP is read by
its event id, so it gets its own stream: a session for Gradio, whose name starts with that of the real session.
"""

from __future__ import annotations

import uuid

MARK = "~"
"""Separates the session from the rest of a stream's name; session names from outside cannot contain it."""


def stream_of(session: str) -> str:
    """A new stream for a call of this session."""
    return f"{session}{MARK}{uuid.uuid4().hex}"


def session_of(stream: str) -> str:
    """The session of a stream."""
    return stream.partition(MARK)[0]

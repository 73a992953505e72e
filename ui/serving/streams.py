"""Which of Gradio's streams tells a call's messages: one of its own, also where several calls are of one session.

Gradio keeps one queue of messages for a session, and whoever reads next takes the next one, whichever call it is of. A call over
plain HTTP is read by its own number, so there it passes as a session of its own, whose name begins with that of the session.
"""

from __future__ import annotations

import uuid

MARK = "~"
"""Stands behind a session's name; no name that comes from outside holds it."""


def stream_of(session: str) -> str:
    """A new stream for a call of this session."""
    return f"{session}{MARK}{uuid.uuid4().hex}"


def session_of(stream: str) -> str:
    """The session that a stream's call is of."""
    return stream.partition(MARK)[0]

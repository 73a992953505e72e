"""Ctrl-C while modules are imported."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def immediate_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process at once, without a traceback, where nothing has to be cleaned up.

    Otherwise it raises ``KeyboardInterrupt`` inside a module that is being imported, which may ignore it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or handled by the caller
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)

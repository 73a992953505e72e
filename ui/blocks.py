"""Gradio's page without what Gradio keeps of every call: sessions stay as small as they were, and few bytes are left of them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState

from ui.words import SHOWN, cut

NOTHING: Mapping[str, Any] = MappingProxyType({})
MALFORMED = "the call does not fit the page; reload the page and try again"
FAILED = "that could not be done with what was sent; reload the page and try again"
GONE = "the file is not kept here any more; open it again"

log = logging.getLogger(__name__)


class Said(gr.Error):
    """What a caller is told of a call that could not be done; the log has its line already."""

    def __init__(self, words: str) -> None:
        super().__init__(words, print_exception=False)


class Page(gr.Blocks):
    """A page whose sessions forget what was sent to them and what they sent.

    Gradio keeps the settings and the newest value of each component for every session (a hundred kilobytes), for links of a kind
    that this page does not have, and one more for each value that follows a ``gr.skip()``: that one makes a new component, with a
    new number to keep it under. Of every session that was there it keeps the name, and the names of calls that were cancelled.

    What a call raises is a sentence for the caller and a line in the log, where Gradio writes down whatever the call held.

    Attributes:
        refused: told the reason of each call that could not be done.
        end_uploads: breaks off what visitors are sending.
    """

    refused: Callable[[str], None] = staticmethod(lambda reason: None)
    end_uploads: Callable[[], None] = staticmethod(lambda: None)

    async def process_api(
        self, block_fn: Any, inputs: list[Any], state: SessionState | None = None, **rest: Any
    ) -> dict[str, Any]:
        try:
            return await super().process_api(block_fn, inputs, state, **rest)
        except gr.Error as error:
            error.print_exception = False  # it is what the caller is to be told
            raise
        except Exception as error:
            raise self._said(block_fn, error, "failed", GONE if isinstance(error, FileNotFoundError) else FAILED) from error
        finally:
            if state is not None:
                self._forget_values(state)
            self._forget_names()

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *rest: Any, **more: Any) -> list[Any]:
        try:
            return await super().preprocess_data(block_fn, inputs, *rest, **more)
        except Exception as error:
            words = str(error.message) if isinstance(error, gr.Error) else MALFORMED
            raise self._said(block_fn, error, "malformed", words) from error

    def _said(self, block_fn: Any, error: Exception, reason: str, words: str) -> Said:
        """Count and log what a call raised; what its caller is told. The whole traceback is for ``logging.DEBUG``."""
        self.refused(reason)
        at = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {cut(str(error), 2 * SHOWN)!r} at {PurePath(at.filename).name}:{at.lineno}"
        log.warning(
            "a call of %s failed: %s", getattr(block_fn, "name", block_fn), what, exc_info=log.isEnabledFor(logging.DEBUG)
        )
        return Said(words)

    def _forget_values(self, state: SessionState) -> None:
        for kept in (state.config_values, state.blocks_config.blocks):
            for stray in kept.keys() - self.default_config.blocks.keys():
                del kept[stray]
        state.config_values.update(dict.fromkeys(state.config_values, NOTHING))

    def _forget_names(self) -> None:
        """Of sessions whose messages Gradio has dropped, and of calls that are over."""
        queue = self._queue
        for session in queue.pending_event_ids_session.keys() - queue.pending_messages_per_session.keys():
            del queue.pending_event_ids_session[session]
        self.app.iterators_to_reset &= queue.event_ids_to_events.keys()

"""Gradio's page without what Gradio keeps of every call: sessions stay as small as they were, and few bytes are left of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Page(gr.Blocks):
    """A page whose sessions forget what was sent to them and what they sent.

    Gradio keeps the settings and the newest value of each component for every session (a hundred kilobytes), for links of a kind
    that this page does not have, and one more for each value that follows a ``gr.skip()``: that one makes a new component, with a
    new number to keep it under. Of every session that was there it keeps the name, and the names of calls that were cancelled.
    """

    async def process_api(
        self, block_fn: Any, inputs: list[Any], state: SessionState | None = None, **rest: Any
    ) -> dict[str, Any]:
        try:
            return await super().process_api(block_fn, inputs, state, **rest)
        finally:
            if state is not None:
                self._forget_values(state)
            self._forget_names()

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

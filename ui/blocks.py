"""Gradio's page without what Gradio keeps of every answer: sessions stay as small as they were."""

from __future__ import annotations

from typing import Any

import gradio as gr


class Page(gr.Blocks):
    """A page whose sessions forget the values that were sent to them.

    Gradio keeps the newest value of each component for every session, for links of a kind that this page does not have, and
    one more for each value that follows a ``gr.skip()``: that one makes a new component, with a new number to keep it under.
    """

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        try:
            return await super().postprocess_data(block_fn, predictions, state)
        finally:
            if state is not None:
                self._forget_values(state, [block._id for block in block_fn.outputs])

    def _forget_values(self, state: Any, numbers: list[int]) -> None:
        for kept in (state.config_values, state.blocks_config.blocks):
            for stray in kept.keys() - self.default_config.blocks.keys():
                del kept[stray]
        for number in numbers:
            state.config_values.get(number, {}).get("props", {}).pop("value", None)

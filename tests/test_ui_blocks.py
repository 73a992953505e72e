"""What a session keeps of what it was sent: nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState

from ui.blocks import Page

ROUNDS = 8
BIG = "x" * 100_000


def session_after(kind: type[gr.Blocks]) -> tuple[SessionState, list[Any]]:
    """A session to which a value and nothing were sent in turn, and what the browser got."""
    with kind() as page:
        view, button = gr.HTML(BIG), gr.Button()
        button.click(lambda: None, None, [view, button])
    [fn] = page.fns.values()
    state = SessionState(page)

    async def send() -> list[Any]:
        answers = [[f"{BIG}{i}", gr.update(interactive=False)] for i in range(ROUNDS)]
        return [await page.postprocess_data(fn, out, state) for answer in answers for out in (answer, [gr.skip(), "go"])]

    return state, asyncio.run(send())


def kept(state: SessionState) -> list[str]:
    """Large values that are kept for the session."""
    values = [config.get("props", {}).get("value") for config in state.config_values.values()]
    return [value for value in values if isinstance(value, str) and len(value) > len(BIG)]


def test_a_session_keeps_no_value_and_no_further_component_however_often_it_is_sent_some():
    state, _ = session_after(Page)
    assert kept(state) == []
    assert len(state.config_values) == len(state.blocks_config.blocks) == 2


def test_the_browser_gets_the_same_as_from_a_page_that_keeps_everything():
    state, plain = session_after(gr.Blocks)
    assert len(kept(state)) >= ROUNDS - 1  # what the page is spared
    assert session_after(Page)[1] == plain

"""A session keeps nothing of the values that it sent or received."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from ui.blocks import Page

ROUNDS = 8
BIG = "x" * 100_000


def session_after(kind: type[gr.Blocks]) -> tuple[SessionState, list[Any]]:
    """A session that sent a long text and received a value or nothing in turn, and what the browser received."""
    answers = [out for i in range(ROUNDS) for out in ([f"{BIG}{i}", gr.update(interactive=False)], [gr.skip(), "go"])]
    with kind() as page:
        view, prompt, button = gr.HTML(BIG), gr.Textbox(), gr.Button()
        button.click(lambda text: answers.pop(0), [prompt], [view, button])
    [fn] = page.fns.values()
    state = SessionState(page)

    async def send() -> list[Any]:
        return [(await page.process_api(fn, [BIG], state))["data"] for _ in range(2 * ROUNDS)]

    return state, asyncio.run(send())


def kept(state: SessionState) -> list[str]:
    """Large values in the state of the session."""
    values = [config.get("props", {}).get("value") for config in state.config_values.values()]
    return [value for value in values if isinstance(value, str) and len(value) >= len(BIG)]


def test_a_session_keeps_no_values_settings_or_components_however_many_it_receives():
    state, _ = session_after(Page)
    assert kept(state) == []
    assert list(state.components) == []
    assert len(state.config_values) == len(state.blocks_config.blocks) == 4  # the text field is in a form


def test_a_refused_call_leaves_nothing_either():
    def refused() -> None:
        raise gr.Error("one run at a time")

    with Page() as page:
        button = gr.Button()
        button.click(refused)
    [fn] = page.fns.values()
    state = SessionState(page)
    with pytest.raises(gr.Error):
        asyncio.run(page.process_api(fn, [], state))
    assert list(state.components) == []


def test_the_browser_receives_the_same_as_from_a_page_that_keeps_everything():
    state, plain = session_after(gr.Blocks)
    assert len(kept(state)) >= ROUNDS  # what the page does not keep
    assert session_after(Page)[1] == plain


def test_no_names_of_ended_sessions_and_calls_are_kept():
    with Page() as page:
        gr.Button().click(lambda: None)
    [fn] = page.fns.values()
    queue = page._queue
    queue.pending_messages_per_session["here"] = asyncio.Queue()
    queue.pending_event_ids_session |= {"here": {"1"}, "gone": set(), "left": {"2"}}
    queue.event_ids_to_events["1"] = None  # type: ignore[assignment]
    page.app.iterators_to_reset |= {"1", "2"}
    asyncio.run(page.process_api(fn, []))
    assert queue.pending_event_ids_session == {"here": {"1"}}
    assert page.app.iterators_to_reset == {"1"}


def failing(sent: str) -> None:
    {}[sent]


@pytest.mark.parametrize(
    ("sent", "reason", "words"),
    [
        (["x\nCRITICAL:root:FORGED"], "failed", "the call failed; reload the page"),
        ([], "malformed", "does not match the page; reload the page"),
        ([{"path": "x\nCRITICAL:root:FORGED", "meta": {"_type": "gradio.FileData"}}], "malformed", "does not match the page"),
    ],
)
def test_a_malformed_call_makes_a_message_a_count_and_a_log_line(
    sent: list[Any], reason: str, words: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    counted: list[str] = []
    with Page() as page:
        text, button = gr.Textbox(), gr.Button()
        button.click(failing, text, None)
    page.refused = counted.append
    page.has_launched = True  # Gradio checks files only then
    [fn] = page.fns.values()
    with caplog.at_level(logging.WARNING), pytest.raises(gr.Error, match=words) as raised:
        asyncio.run(page.process_api(fn, sent, SessionState(page)))
    assert raised.value.print_exception is False
    assert counted == [reason]
    (line,) = [record.getMessage() for record in caplog.records if record.name == "ui.blocks"]
    assert "failing" in line and "\n" not in line and len(line) < 300
    assert capsys.readouterr().err == ""


def test_an_error_for_the_caller_is_passed_on_unchanged():
    def refuse() -> None:
        raise gr.Error("one run at a time")

    with Page() as page:
        gr.Button().click(refuse)
    [fn] = page.fns.values()
    with pytest.raises(gr.Error, match="one run at a time") as raised:
        asyncio.run(page.process_api(fn, [], SessionState(page)))
    assert raised.value.print_exception is False

"""What the page relies on in Gradio beyond its documented interface; ``requirements.txt`` admits only releases that have it."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from pathlib import Path

import gradio as gr
import pytest
from gradio.context import LocalContext
from gradio.state_holder import SessionState
from gradio.utils import get_upload_folder
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
QUEUE = (
    "event_ids_to_events",
    "get_active_worker_count",
    "pending_event_ids_session",
    "pending_messages_per_session",
    "progress_update_sleep_when_free",
    "sleep_when_free",
)


@pytest.fixture(scope="module")
def page() -> gr.Blocks:
    with gr.Blocks() as page:
        text = gr.Textbox()
        text.change(lambda value: value, text, text, api_name="same")
    page.queue()
    return page


def test_only_releases_with_one_interface_are_admitted():
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    gradio = next(Requirement(line) for line in lines if line.startswith("gradio"))
    installed = version("gradio")
    major, minor = map(int, installed.split(".")[:2])
    assert installed in gradio.specifier
    assert f"{major}.{minor + 1}.0" not in gradio.specifier


@pytest.mark.parametrize("name", QUEUE)
def test_the_queue_has(page: gr.Blocks, name: str):
    assert hasattr(page._queue, name)


def test_a_session_keeps_its_values_where_they_are_dropped(page: gr.Blocks):
    state = SessionState(page)
    assert isinstance(state.config_values, dict)
    assert isinstance(state.blocks_config.blocks, dict)
    assert isinstance(page.default_config.blocks, dict)


def test_a_page_can_be_served_and_its_functions_are_known(page: gr.Blocks):
    function = next(iter(page.fns.values()))
    assert function.api_name == "same"
    assert function.types_generator is False
    assert {"process_api", "preprocess_data", "mcp_server_obj"} <= {*dir(page), *vars(page)}
    wanted = {"app_kwargs", "state_session_capacity", "ssr_mode", "run_history", "enable_monitoring", "footer_links"}
    assert wanted <= inspect.signature(gr.Blocks.launch).parameters.keys()


def test_events_and_calls_have_what_is_read_of_them():
    assert "_data" in vars(gr.EventData(None, {"a": 1}))
    assert hasattr(LocalContext, "event_id") and hasattr(LocalContext, "request")
    assert "session_hash" in inspect.getsource(gr.Request)
    assert Path(get_upload_folder()).is_absolute()


def test_iterators_of_calls_that_ended_are_kept_in_a_set():
    source = inspect.getsource(gr.routes.App)
    assert re.search(r"iterators_to_reset(: set\[str\])? = set\(\)", source)

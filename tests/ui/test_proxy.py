"""Behind a reverse proxy that shows the page below a path: counters and endpoints are found there."""

from __future__ import annotations

import pytest
from gradio_client import Client
from waiting import http

pytest_plugins = ("proxy_fixtures",)


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/gradio_api/info"])
def test_page_counters_and_endpoints_are_below_the_path(shown: str, path: str):
    assert http.get(shown + path).status_code == 200


def test_a_program_is_served_below_the_path(shown: str):
    assert Client(f"{shown}/", verbose=False).predict("hello", api_name="/generate")["state"] == "done"

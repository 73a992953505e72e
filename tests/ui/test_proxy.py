"""Behind a reverse proxy that serves the page below a path: metrics and endpoints are below it too."""

from __future__ import annotations

import pytest
from waiting import api_client, http

pytest_plugins = ("proxy_fixtures",)


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/gradio_api/info"])
def test_page_metrics_and_endpoints_are_below_the_path(proxied: str, path: str):
    assert http.get(proxied + path).status_code == 200


def test_a_client_is_served_below_the_path(proxied: str):
    assert api_client(f"{proxied}/").predict("hello", api_name="/generate")["state"] == "done"

"""The server's counters."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT
from serving_fakes import fake_service

from aded.core.errors import AdedError
from ui.serving.jobs import Control

pytestmark = pytest.mark.filterwarnings("error")


def run(service, key: str, work) -> None:
    job = service.submit(service.sessions.get(key), service.models.first, work)
    while not job.finished:
        pass


def writing(tokens: int):
    def steps(control: Control):
        for _ in range(tokens):
            control.tokens += 1
            yield "on"

    return steps


def failing(control: Control):
    raise AdedError("no")
    yield


def test_jobs_tokens_and_waits_are_counted():
    service = fake_service()
    run(service, "a", writing(7))
    run(service, "b", writing(5))
    run(service, "c", failing)
    value = service.counters.value
    assert value("aded_runs_total", {"outcome": "done"}) == 2
    assert value("aded_runs_total", {"outcome": "refused"}) == 1
    assert value("aded_tokens_total") == 12
    assert value("aded_first_token_seconds_count") == 2
    assert value("aded_turn_wait_seconds_count") >= 12
    assert value("aded_queue_length") == value("aded_running") == 0
    assert value("aded_sessions") == 3
    service.close()


def test_refusals_are_counted_by_reason():
    service = fake_service()
    service.close()
    with pytest.raises(AdedError):
        service.submit(service.sessions.get("a"), service.models.first, writing(1))
    service.count(AdedError("unknown method"))
    assert service.counters.value("aded_refusals_total", {"reason": "closing"}) == 1
    assert service.counters.value("aded_refusals_total", {"reason": "asked"}) == 1


def test_the_text_is_in_prometheus_format():
    from prometheus_client.parser import text_string_to_metric_families

    service = fake_service()
    names = {family.name for family in text_string_to_metric_families(service.counters.text().decode())}
    assert {"aded_runs", "aded_tokens", "aded_refusals", "aded_first_token_seconds", "aded_turn_wait_seconds"} <= names
    assert {"aded_queue_length", "aded_running", "aded_sessions", "aded_memories", "aded_device_memory_bytes"} <= names
    assert "process_resident_memory_bytes" in names
    document = (ROOT / "docs" / "api.md").read_text("utf-8")
    assert [name for name in names if re.match("aded_(?!.*_created$)", name) and name not in document] == []
    service.close()


def test_servers_do_not_share_their_counters():
    first, second = fake_service(), fake_service()
    run(first, "a", writing(3))
    assert second.counters.value("aded_tokens_total") == 0
    first.close(), second.close()


def test_the_status_line_has_model_and_memory():
    service = fake_service()
    assert "default: loaded at the first race. Memory:" in service.status().text
    service.close()

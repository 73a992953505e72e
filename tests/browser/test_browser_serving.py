"""Several visitors in a real browser: the queue, a closed tab, and the status line of the server."""

from __future__ import annotations

import pytest
from browsing import notice, part, sync_api, watched_page
from serving_fakes import GatedEngine, fake_service, serving
from waiting import until

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser


def test_a_second_visitor_sees_the_place_in_the_queue_and_a_closed_tab_frees_the_model(browser: sync_api.Browser):
    engine = GatedEngine()
    service = fake_service(engine, at_once=1)
    with serving(service) as address, watched_page(browser, f"{address}/") as first:
        first.locator("#ax-run").click()
        until(engine.on.is_set)
        with watched_page(browser, f"{address}/") as second:
            second.locator("#ax-run").click()
            sync_api.expect(notice(second)).to_contain_text("You are next in the queue for the model.")
            part(second, "language").select_option("zh")
            sync_api.expect(notice(second)).to_contain_text("您在等待模型的队列中排第 1 位。")
        until(lambda: service.scheduler.waiting == 0)
        first.close()
        until(lambda: service.scheduler._running_jobs()[0].control.reason == "left")
        engine.gate.set()
        until(lambda: service.scheduler.running == 0 and len(service.sessions) == 0)


@pytest.mark.slow
def test_stop_ends_the_race_and_the_next_one_runs(browser: sync_api.Browser):
    engine = GatedEngine()
    service = fake_service(engine)
    with serving(service) as address, watched_page(browser, f"{address}/") as page:
        status = page.locator("#ax-status [data-part='text']")
        sync_api.expect(status).to_contain_text("loaded at the first race")
        page.locator("#ax-run").click()
        until(engine.on.is_set)
        page.locator("#ax-stop").click()
        engine.gate.set()
        sync_api.expect(notice(page)).to_contain_text("Stopped.")
        page.locator("#ax-run").click()
        sync_api.expect(notice(page)).to_contain_text("Done in")
        sync_api.expect(status).to_contain_text("0 queued")


@pytest.mark.slow
def test_a_run_says_that_it_has_no_step_yet(browser: sync_api.Browser):
    engine = GatedEngine()
    engine.free = 1
    with serving(fake_service(engine)) as address, watched_page(browser, f"{address}/") as page:
        page.locator("#ax-run").click()
        until(engine.held.is_set)
        runs = page.locator(".ax-run-view .ax-text")
        sync_api.expect(runs.first.locator(".ax-step")).to_have_count(1)
        empty = "e => getComputedStyle(e, '::before').content"
        assert [run.evaluate(empty) for run in runs.all()] == ["none", *['"No step yet."'] * (runs.count() - 1)]
        engine.gate.set()
        sync_api.expect(notice(page)).to_contain_text("Done in")
        assert {run.evaluate(empty) for run in runs.all()} == {"none"}


@pytest.mark.slow
def test_the_runs_of_a_race_do_not_move_when_it_ends(browser: sync_api.Browser):
    engine = GatedEngine()
    engine.gate.set()
    engine.pause = 1.0
    with serving(fake_service(engine)) as address, watched_page(browser, f"{address}/") as page:
        page.locator("#ax-run").click()
        sync_api.expect(page.locator("[data-part='view-root'][data-running='true']")).to_be_visible()
        written = "() => [...document.querySelectorAll('.ax-run-view')].every(run => run.querySelector('.ax-tok'))"
        page.wait_for_function(written)
        during = [run.bounding_box() for run in page.locator(".ax-run-view").all()]
        engine.pause = 0.0
        sync_api.expect(notice(page)).to_contain_text("Done in")
        sync_api.expect(page.locator("[data-part='view-root']")).to_have_attribute("data-running", "false")
        assert [run.bounding_box() for run in page.locator(".ax-run-view").all()] == during

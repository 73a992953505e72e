"""A race on the page, with a fake engine."""

from __future__ import annotations

import itertools
import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from serving_fakes import NUMBERS, BrokenEngine, FakeEngine
from waiting import HANG

from aded.core.errors import AdedError
from ui.race.engine import Engine
from ui.race.form import ABLATIONS, Form
from ui.race.models import ModelHolder
from ui.race.notices import Notice
from ui.race.run import Update, run
from ui.serving.jobs import Control
from ui.serving.limits import Limits
from ui.serving.sessions import Session


def form(**changes: Any) -> Form:
    return Form(**{"prompt": "hello", "methods": ("plain", "aded"), "numbers": NUMBERS, **changes})


def holder(loader: Any = None) -> ModelHolder:
    return ModelHolder(loader=loader or (lambda *_: object()))


def ticking(step: float) -> Any:
    now = iter(range(10**9))
    return lambda: next(now) * step


def updates(
    asked: Form,
    session: Session | None = None,
    engine: Engine | None = None,
    where: ModelHolder | None = None,
    limits: Limits | None = None,
) -> list[Update]:
    found = run(asked, session or Session(), where or holder(), {}, None, limits, engine or FakeEngine(), clock=ticking(1.0))
    return [update for update in found if update]


def test_a_race_streams_growing_text_and_ends_with_a_notice():
    found = updates(form())
    views = [u.view for u in found if u.view]
    assert len(views) > 10
    assert all(after.startswith(before) for before, after in itertools.pairwise(views))
    assert json.loads(views[-1].splitlines()[-1]) == {"t": "status", "running": False, "kept_prompts": {}}
    assert {json.loads(view.splitlines()[-1])["running"] for view in views[:-1]} == {True}
    assert found[-1].running is False
    assert found[-1].notice is not None
    assert found[-1].notice.kind == "done"


def test_a_stop_loses_no_step_that_was_made_and_is_not_yet_recorded(monkeypatch: pytest.MonkeyPatch):
    from fakes import tiny_target

    monkeypatch.setattr("aded.decoding.race.HELD_SECONDS", 1e9)
    target, control = tiny_target(), Control()
    where = holder(lambda *_: target)
    found: list[Update] = []
    for update in run(form(), Session(), where, {}, control, Limits(), Engine()):
        found += [update] if update else []
        if update and update.view:
            control.stop("visitor")
    events = [json.loads(line) for line in (found[-1].view or "").splitlines()]
    ends = {event["run"]: event for event in events if event["t"] == "run"}
    for index, end in ends.items():
        steps = [event["step"] for event in events if event["t"] == "step" and event["run"] == index]
        assert "".join(text for step in steps for text in step["texts"]) == end["text"] != ""


def test_the_prefill_of_a_long_prompt_shows_its_progress():
    class Reading(FakeEngine):
        def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
            for decoder in decoders:
                for read in (512, 1024):
                    decoder.prefill_progress = read, 2048
                    yield None
                decoder.prefill_progress = None
                yield None
            yield from super().race(decoders, prompts)

    control, told = Control(), []
    for update in run(form(), Session(), holder(), {}, control, engine=Reading(), clock=ticking(1.0)):
        if update and update.notice:
            told.append((update.notice, control.doing))
    assert told[-1][1] is None
    reading = [notice for notice, doing in told if "tokens (run" in notice.text and notice.messages == [doing]]
    assert [(notice.text, notice.fraction) for notice in reading] == [
        ("Reading the prompt: 512 of 2,048 tokens (run 1 of 2)…", 0.125),
        ("Reading the prompt: 1,024 of 2,048 tokens (run 1 of 2)…", 0.25),
        ("Reading the prompt: 512 of 2,048 tokens (run 2 of 2)…", 0.625),
        ("Reading the prompt: 1,024 of 2,048 tokens (run 2 of 2)…", 0.75),
    ]
    assert not any("tokens (run" in update.notice.text for update in updates(form()) if update.notice)


def test_a_race_contains_the_settings_of_its_link():
    view = updates(form(link={"seed": "5"}))[-1].view
    assert view and json.loads(view.splitlines()[0])["settings"] == {"seed": "5"}


def test_the_rate_of_updates_is_limited():
    found = run(form(), Session(), holder(), {}, engine=FakeEngine(), clock=ticking(0.005))
    few = [u.view for u in found if u and u.view]
    every = [u.view for u in updates(form()) if u.view]
    assert len(few) < len(every) / 5
    assert few[-1].count('"t":"step"') == every[-1].count('"t":"step"')


def test_an_empty_prompt_leaves_the_view_unchanged():
    (only,) = updates(form(prompt="  \n"))
    assert only.view is None
    assert only.notice is not None
    assert only.notice.kind == "error"
    assert "prompt is empty" in only.notice.text.lower()
    assert not only.running


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"numbers": {**NUMBERS, "max_new_tokens": 0}}, "max new tokens is 0"),
        ({"numbers": {**NUMBERS, "max_new_tokens": None}}, "max new tokens is empty or not finite"),
        ({"numbers": {**NUMBERS, "seed": 1.5}}, "seed is 1.5; give a whole number"),
        ({"budget": "many"}, "draft budget is 'many'"),
    ],
)
def test_invalid_settings_become_an_error_notice(changes: dict[str, Any], words: str):
    last = updates(form(**changes))[-1]
    assert last.notice is not None
    assert last.notice.kind == "error"
    assert words.lower() in last.notice.text.lower()
    assert last.view is None


def test_stop_ends_the_race_within_a_step_and_keeps_the_steps_so_far():
    control, engine = Control(), FakeEngine()
    steps = 0
    last = None
    for update in run(form(), Session(), holder(), {}, control, engine=engine, clock=ticking(1.0)):
        last = update
        if update and update.view:
            steps = update.view.count('"t":"step"')
            if steps == 7:
                control.stop("stopped")
    assert last is not None
    assert steps == 7
    assert engine.closed
    assert last.running is False
    assert last.notice is not None
    assert last.notice.text.startswith("Stopped.")


def test_a_race_can_be_stopped_between_two_prefills_and_keeps_nothing_learned():
    control, session = Control(), Session()

    class Reading(FakeEngine):
        def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
            yield None
            control.stop("stopped")
            yield None
            raise AssertionError("another prompt was read")

    keeping = form(options={"aded": {"keep": True}})
    last = [u for u in run(keeping, session, holder(), {}, control, engine=Reading()) if u][-1]
    assert last.notice.text == "Stopped before the race started."  # type: ignore[union-attr]
    assert last.view is None
    assert [memory.prompts for memory in session.memories.values()] == [0]


def test_closing_the_iterator_frees_the_engine():
    engine = FakeEngine()
    running = run(form(), Session(), holder(), {}, engine=engine, clock=ticking(1.0))
    while (update := next(running)) is None or update.view is None:
        pass
    running.close()  # type: ignore[attr-defined]
    assert engine.closed


def test_an_unexpected_error_ends_the_race_with_a_notice():
    last = updates(form(), engine=BrokenEngine())[-1]
    assert last.notice is not None
    assert "RuntimeError: out of memory." in last.notice.text
    assert not last.running


def test_options_apply_to_their_method_only_and_empty_ones_to_none():
    engine = FakeEngine()
    options = {"aded": {"search": "mcts", "simulations": 150, "c1": None, "corpus": ""}}
    updates(form(methods=("plain", "aded", "suffix"), options=options), engine=engine)
    assert engine.asked == [("plain", {}), ("aded", {"search": "mcts", "simulations": 150}), ("suffix", {})]


def test_a_race_has_one_run_per_method_up_to_six():
    names = ("plain", "aded", "prompt-lookup", "rest", "suffix", "medusa")
    found = updates(form(methods=names))
    head = json.loads(found[-1].view.splitlines()[0])  # type: ignore[union-attr]
    assert tuple(run["header"]["method"] for run in head["runs"]) == names


def test_a_method_without_its_artifact_is_left_out_with_the_reason():
    engine = FakeEngine()
    engine.missing = {"rest": "no datastore here; make one with `make it`"}
    found = updates(form(methods=("plain", "aded", "rest")), engine=engine)
    assert [name for name, _ in engine.asked] == ["plain", "aded"]
    assert next(u.unavailable for u in found if u.unavailable is not None) == engine.missing
    assert "Left out: no datastore here; make one with `make it`." in found[-1].notice.text  # type: ignore[union-attr]


def test_a_race_with_one_possible_run_is_refused_with_the_reason():
    engine = FakeEngine()
    engine.missing = {"rest": "no datastore here; make one with `make it`"}
    last = updates(form(methods=("plain", "rest")), engine=engine)[-1]
    assert engine.asked == []
    assert last.notice.kind == "error"  # type: ignore[union-attr]
    assert "no datastore here" in last.notice.text  # type: ignore[union-attr]
    assert not last.running


@pytest.mark.parametrize("axis", ABLATIONS)
def test_an_ablation_varies_one_setting_and_keeps_the_others(axis: str):
    engine = FakeEngine()
    options = {"aded": {"successors": 5, axis: ""}}
    last = updates(form(methods=(), options=options, ablation=axis), engine=engine)[-1]
    assert last.notice.kind == "done"  # type: ignore[union-attr]
    (first, *rest) = engine.asked
    assert first == ("plain", {})
    values = [given.pop(axis) for _, given in rest]
    assert 2 <= len(set(values)) == len(values) <= 5
    assert all(run == ("aded", {"successors": 5}) for run in rest)


def test_the_ablation_of_the_search_has_all_four_searches():
    names = [spec.options["search"] for spec in form(ablation="search").runs()[1:]]
    assert names == ["mcts", "best-first", "greedy", "full"]
    assert form(ablation="search").runs()[1].label == "ADED, search mcts"


def test_step_costs_are_measured_before_the_race():
    class Late(FakeEngine):
        def race(self, decoders: Any, prompts: Any) -> Any:
            assert self.measured
            yield from super().race(decoders, prompts)

    last = updates(form(), engine=Late())[-1].notice
    assert last and last.kind == "done"


def test_the_model_is_loaded_once():
    calls = []
    where = holder(lambda *_: calls.append(1) or object())
    updates(form(), where=where)
    updates(form(), where=where)
    assert calls == [1]


def test_a_loading_error_is_reported_and_loading_is_tried_again():
    results: list[Any] = [AdedError("unknown model 'x'; give a folder"), None]

    def loader(*_: Any) -> object:
        error = results.pop(0)
        if error:
            raise error
        return object()

    where = holder(loader)
    first = updates(form(), where=where)[-1]
    assert first.notice is not None
    assert first.notice.text == "Unknown model 'x'; give a folder."
    assert updates(form(), where=where)[-1].notice.kind == "done"  # type: ignore[union-attr]


def test_a_race_can_be_stopped_while_the_model_loads():
    gate, control = threading.Event(), Control()
    where = holder(lambda *_: gate.wait(HANG) and object())
    running = run(form(), Session(), where, {}, control, engine=FakeEngine())
    assert next(running).notice.kind == "busy"  # type: ignore[union-attr]
    control.stop("stopped")
    rest = list(running)
    gate.set()
    assert rest[-1].notice.text == "Stopped before the race started."  # type: ignore[union-attr]
    assert not rest[-1].running


def test_new_tokens_are_reduced_to_the_limit_with_a_message():
    asked = []

    class Watching(FakeEngine):
        def settings(self, arguments: Any) -> Any:
            asked.append(arguments["max_new_tokens"])
            return super().settings(arguments)

    last = updates(form(numbers={**NUMBERS, "max_new_tokens": 5000}), engine=Watching(), limits=Limits(max_new_tokens=40))[-1]
    assert asked == [40]
    assert "This server writes at most 40 new tokens." in last.notice.text  # type: ignore[union-attr]


def test_a_long_prompt_is_refused_before_the_model_is_loaded():
    def loader(*_: Any) -> object:
        raise AssertionError("loaded")

    (last,) = updates(form(prompt="a" * 21), where=holder(loader), limits=Limits(prompt_characters=20))
    assert last.notice.text == "The prompt has 21 characters, the maximum is 20; shorten it."  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reason", "words"),
    [("seconds", "limit of 300 s of model time"), ("shutdown", "the race was ended here"), ("left", "Stopped.")],
)
def test_a_stopped_race_states_the_reason_and_keeps_the_steps_so_far(reason: Any, words: str):
    control, last = Control(), Update()
    for update in run(form(), Session(), holder(), {}, control, engine=FakeEngine(), clock=ticking(1.0)):
        last = update or last
        if control.tokens > 5:
            control.stop(reason)
    assert words in last.notice.text  # type: ignore[union-attr]
    assert '"t":"run"' in last.view  # type: ignore[operator]


def test_the_tokens_of_all_runs_are_counted():
    control = Control()
    last = [u for u in run(form(), Session(), holder(), {}, control, engine=FakeEngine()) if u][-1]
    steps = [json.loads(line) for line in (last.view or "").splitlines() if '"t":"step"' in line]
    assert control.tokens == sum(len(step["step"]["emitted"]) for step in steps) > 0


def test_forms_and_updates_can_be_pickled():
    asked = form(options={"aded": {"c1": 2}})
    assert pickle.loads(pickle.dumps(asked)) == asked
    for update in updates(asked):
        assert pickle.loads(pickle.dumps(update)) == update


def test_an_unread_update_is_merged_into_the_next():
    older = Update(view="a", notice=Notice("busy", []), unavailable={"rest": "no"})
    newer = Update(view="ab", running=False)
    assert newer.merged(older) == Update("ab", Notice("busy", []), False, {"rest": "no"})

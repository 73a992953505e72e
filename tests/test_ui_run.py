"""The run behind the button, on an engine that is not there."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from ui_fakes import FakeDecoder, fake_race, make_trace

from aded.errors import AdedError
from ui.form import ABLATIONS, Entrant, Form
from ui.models import ModelHolder
from ui.run import Engine, Session, Update, run

NUMBERS = {"max_new_tokens": 32, "temperature": 0.0, "top_p": 1.0, "top_k": 0, "seed": 0}


class FakeEngine(Engine):
    def __init__(self) -> None:
        self.closed = False
        self.lacking: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.drafters: list[Any] = []

    def settings(self, arguments: Any) -> Any:
        if arguments["max_new_tokens"] < 1:
            raise AdedError("max new tokens is 0; give 1 or more")
        return dict(arguments)

    def unavailable(self, model: Any) -> dict[str, str]:
        return self.lacking

    def drafter(self, model: Any, entrant: Entrant, seed: int) -> Any:
        return object()

    def decoder(self, model: Any, entrant: Entrant, settings: Any, drafter: Any = None) -> Any:
        self.asked.append((entrant.method, dict(entrant.options)))
        self.drafters.append(drafter)
        return FakeDecoder(make_trace(entrant.method))

    def cost(self, model: Any) -> Any:
        return {"sizes": [1, 2], "contexts": [8], "seconds": [[1.0, 2.0]], "padded": False}

    def race(self, decoders: Any, prompt: str) -> Iterator[Any]:
        try:
            yield from fake_race(decoders, prompt)
        finally:
            self.closed = True


def form(**changes: Any) -> Form:
    return Form(**{"prompt": "hello", "methods": ("plain", "aded"), "numbers": NUMBERS, **changes})


def holder(loader: Any = None) -> ModelHolder:
    return ModelHolder(loader=loader or (lambda *_: object()))


def ticking(step: float) -> Any:
    now = iter(range(10**9))
    return lambda: next(now) * step


def updates(
    asked: Form, session: Session | None = None, engine: Engine | None = None, where: ModelHolder | None = None
) -> list[Update]:
    return list(run(asked, session or Session(), where or holder(), {}, engine or FakeEngine(), clock=ticking(1.0)))


def test_a_run_streams_a_growing_text_and_ends_with_a_verdict():
    found = updates(form())
    views = [u.view for u in found if u.view]
    assert len(views) > 10
    assert all(after.startswith(before) for before, after in itertools.pairwise(views))
    assert json.loads(views[-1].splitlines()[-1]) == {"t": "status", "running": False}
    assert {json.loads(view.splitlines()[-1])["running"] for view in views[:-1]} == {True}
    assert found[-1].running is False
    assert found[-1].notice is not None
    assert found[-1].notice.kind == "done"


def test_updates_are_batched_in_time():
    few = [u.view for u in run(form(), Session(), holder(), {}, FakeEngine(), clock=ticking(0.005)) if u.view]
    every = [u.view for u in updates(form()) if u.view]
    assert len(few) < len(every) / 5
    assert few[-1].count('"t":"step"') == every[-1].count('"t":"step"')


def test_an_empty_prompt_leaves_the_picture_alone():
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
        ({"options": {"aded": {"simulations": "lots"}}}, "simulations is 'lots'"),
        ({"options": {"aded": {"simulations": "1.5"}}}, "give a whole number"),
        ({"options": {"aded": {"c1": "inf"}}}, "c1 is empty or not finite"),
        ({"options": {"aded": {"depth": "deep"}}}, "depth is 'deep'"),
    ],
)
def test_bad_settings_become_a_calm_message(changes: dict[str, Any], words: str):
    last = updates(form(**changes))[-1]
    assert last.notice is not None
    assert last.notice.kind == "error"
    assert words.lower() in last.notice.text.lower()
    assert last.view is None


def test_stop_ends_the_run_within_a_step_and_keeps_what_was_written():
    session, engine = Session(), FakeEngine()
    steps = 0
    last = None
    for update in run(form(), session, holder(), {}, engine, clock=ticking(1.0)):
        last = update
        if update.view:
            steps = update.view.count('"t":"step"')
            if steps == 7:
                session.stop.set()
    assert last is not None
    assert steps == 8
    assert engine.closed
    assert last.running is False
    assert last.notice is not None
    assert last.notice.text.startswith("Stopped.")


def test_a_closed_page_frees_the_engine():
    engine = FakeEngine()
    running = run(form(), Session(), holder(), {}, engine, clock=ticking(1.0))
    while (next(running)).view is None:
        pass
    running.close()  # type: ignore[attr-defined]
    assert engine.closed


def test_an_unexpected_error_is_shown_and_ends_the_run():
    class Broken(FakeEngine):
        def race(self, decoders: Any, prompt: str) -> Iterator[Any]:
            raise RuntimeError("out of memory\nand more")
            yield

    last = updates(form(), engine=Broken())[-1]
    assert last.notice is not None
    assert "RuntimeError: out of memory." in last.notice.text
    assert not last.running


def test_options_reach_their_own_method_alone_and_empty_ones_none():
    engine = FakeEngine()
    options = {"aded": {"search": "mcts", "simulations": "150", "c1": " "}}
    updates(form(methods=("plain", "aded", "suffix"), options=options), engine=engine)
    assert engine.asked == [("plain", {}), ("aded", {"search": "mcts", "simulations": 150}), ("suffix", {})]


def test_a_race_has_a_lane_for_each_of_up_to_six_methods():
    names = ("plain", "aded", "prompt-lookup", "rest", "suffix", "medusa")
    found = updates(form(methods=names))
    head = json.loads(found[-1].view.splitlines()[0])  # type: ignore[union-attr]
    assert tuple(lane["header"]["method"] for lane in head["lanes"]) == names


def test_a_method_that_lacks_a_part_is_left_out_and_the_reason_stays_on_the_page():
    engine = FakeEngine()
    engine.lacking = {"rest": "no datastore here; make one with `make it`"}
    found = updates(form(methods=("plain", "aded", "rest")), engine=engine)
    assert [name for name, _ in engine.asked] == ["plain", "aded"]
    assert next(u.unavailable for u in found if u.unavailable is not None) == engine.lacking
    assert "Left out: no datastore here; make one with `make it`." in found[-1].notice.text  # type: ignore[union-attr]


def test_a_race_that_would_have_one_lane_is_refused_with_the_reason():
    engine = FakeEngine()
    engine.lacking = {"rest": "no datastore here; make one with `make it`"}
    last = updates(form(methods=("plain", "rest")), engine=engine)[-1]
    assert engine.asked == []
    assert last.notice.kind == "error"  # type: ignore[union-attr]
    assert "no datastore here" in last.notice.text  # type: ignore[union-attr]
    assert not last.running


def remembered(view: str | None) -> list[Any]:
    return [lane["remembers"] for lane in json.loads((view or "").splitlines()[0])["lanes"]]


def test_a_drafter_that_keeps_is_the_same_from_prompt_to_prompt_until_it_is_set_otherwise():
    session, engine = Session(), FakeEngine()
    keeping = {"aded": {"keep": True, "c1": "2"}}
    views = [updates(form(options=keeping), session, engine)[-1].view for _ in range(2)]
    views.append(updates(form(options={"aded": {"keep": True}}), session, engine)[-1].view)
    plain, first, _, second, _, third = engine.drafters
    assert plain is None
    assert first is second is not third is not None
    assert [remembered(view) for view in views] == [[None, 0], [None, 1], [None, 0]]
    assert len(session.memories) == 1
    updates(form(), session, engine)
    assert session.memories == {}


def test_one_visitors_memory_is_no_other_visitors():
    engine, keeping = FakeEngine(), {"aded": {"keep": True}}
    for _ in range(2):
        updates(form(options=keeping), Session(), engine)
    assert engine.drafters[1] is not engine.drafters[3]


def test_a_further_seed_is_another_memory():
    session, engine, keeping = Session(), FakeEngine(), {"aded": {"keep": True}}
    for seed in (0, 1):
        updates(form(options=keeping, numbers={**NUMBERS, "seed": seed}), session, engine)
    assert engine.drafters[1] is not engine.drafters[3]


@pytest.mark.parametrize("axis", ABLATIONS)
def test_an_ablation_races_a_settings_values_with_all_else_as_set(axis: str):
    engine = FakeEngine()
    options = {"aded": {"successors": "5", axis: ""}}
    last = updates(form(methods=(), options=options, ablation=axis), engine=engine)[-1]
    assert last.notice.kind == "done"  # type: ignore[union-attr]
    (first, *rest) = engine.asked
    assert first == ("plain", {})
    values = [given.pop(axis) for _, given in rest]
    assert 2 <= len(set(values)) == len(values) <= 5
    assert all(lane == ("aded", {"successors": 5}) for lane in rest)


def test_the_searches_of_an_ablation_are_the_four_that_there_are():
    names = [entrant.options["search"] for entrant in form(ablation="search").entrants()[1:]]
    assert names == ["mcts", "best-first", "greedy", "full"]
    assert form(ablation="search").entrants()[1].label == "ADED, search mcts"


def test_the_cost_of_a_step_reaches_the_page():
    assert [u.cost for u in updates(form()) if u.cost] == [FakeEngine().cost(None)]


def test_the_model_is_loaded_once():
    calls = []
    where = holder(lambda *_: calls.append(1) or object())
    updates(form(), where=where)
    updates(form(), where=where)
    assert calls == [1]


def test_a_model_that_does_not_load_is_a_message_and_is_tried_again():
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


def test_stop_while_the_model_loads_stops_the_waiting():
    gate, session = threading.Event(), Session()
    where = holder(lambda *_: gate.wait(30) and object())
    running = run(form(), session, where, {}, FakeEngine())
    assert next(running).notice.kind == "busy"  # type: ignore[union-attr]
    session.stop.set()
    rest = list(running)
    gate.set()
    assert rest[-1].notice.text == "Stopped before the race began."  # type: ignore[union-attr]
    assert not rest[-1].running


def test_a_copied_session_is_a_new_one():
    session = Session()
    session.stop.set()
    assert not deepcopy(session).stop.is_set()

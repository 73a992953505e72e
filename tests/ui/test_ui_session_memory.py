"""What methods keep from race to race, and the messages when learned state is deleted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from serving_fakes import NUMBERS, FakeEngine, form

from ui.race.form import ABLATIONS, Form
from ui.race.models import ModelHolder
from ui.race.run import Update, run
from ui.race.session_memory import keep_learned
from ui.serving.jobs import Control
from ui.serving.sessions import Memory, Session

Memories = dict[str, Memory]


class Visit:
    """A visitor's races, one after the other."""

    def __init__(self) -> None:
        self.session, self.engine = Session(), FakeEngine()

    @property
    def memories(self) -> Memories:
        return self.session.memories

    def race(self, keep: bool = True, control: Control | None = None, during: Any = lambda: None, **changes: Any) -> Update:
        options = {"aded": {"keep": keep or None, "preset": "tuned", **changes.pop("aded", {})}}
        asked, holder = form(options=options, **changes), ModelHolder(loader=lambda *_: object())
        last = None
        for update in run(asked, self.session, holder, {}, control, None, self.engine):
            if update and update.view and update.running:
                during()
            last = update or last
        assert last is not None
        return last

    @property
    def prompts(self) -> int:
        """Number of prompts that ADED has learned from and keeps."""
        return self.memories["aded"].prompts if "aded" in self.memories else 0


def lines(update: Update, kind: str) -> list[Any]:
    found = [json.loads(text) for text in (update.view or "").splitlines()]
    return [one for one in found if one["t"] == kind]


def earlier_prompts(update: Update) -> list[int | None]:
    return [run["earlier_prompts"] for run in lines(update, "race")[0]["runs"]]


def said(update: Update) -> str:
    return update.notice.text if update.notice else ""


def test_a_drafter_starts_with_what_the_one_before_has_learned():
    visit = Visit()
    views = [visit.race() for _ in range(3)]
    assert [earlier_prompts(view) for view in views] == [[None, 0], [None, 1], [None, 2]]
    first, second, third = visit.engine.drafters[1::2]
    assert (first.known, second.known, third.known) == (None, first, second)
    assert visit.memories["aded"].drafter is third
    assert [line["kept"] for line in lines(views[-1], "run")] == [False, True]
    assert [line["kept_prompts"] for line in lines(views[-1], "status")][-1] == {"aded": 3}


@pytest.mark.parametrize(
    "between",
    [
        {"methods": ("plain", "medusa")},
        {"numbers": {**NUMBERS, "seed": 1}},
        {"numbers": {**NUMBERS, "temperature": 0.8, "top_p": 0.9}},
        {"aded": {"c1": 2, "depth": 4, "search": "greedy", "simulations": 9, "successors": 4, "feedback": "off"}},
        {"aded": {"corpus": "full"}},
        *({"methods": (), "ablation": axis} for axis in ABLATIONS),
    ],
)
def test_a_race_with_compatible_settings_deletes_nothing(between: dict[str, Any]):
    visit = Visit()
    visit.race()
    visit.race()
    update = visit.race(**between)
    assert "deleted" not in said(update)
    count = visit.prompts
    assert count == (3 if between.get("methods") is None else 2)
    assert lines(update, "status")[-1]["kept_prompts"] == {"aded": count}
    assert earlier_prompts(visit.race()) == [None, count]


def test_runs_of_an_ablation_neither_use_nor_replace_what_is_kept():
    visit = Visit()
    visit.race()
    known = visit.memories["aded"].drafter
    update = visit.race(methods=(), ablation="search")
    assert set(earlier_prompts(update)) == {None}
    assert not any("keep" in options for method, options in visit.engine.asked[2:])
    assert (visit.memories["aded"].drafter, visit.prompts) == (known, 1)


@pytest.mark.parametrize(
    ("setting", "label"), [({"preset": "paper"}, "Preset"), ({"corpus": "none"}, "Base matrix")], ids=["preset", "corpus"]
)
def test_state_that_other_settings_cannot_use_is_deleted_with_a_message(setting: dict[str, Any], label: str):
    visit = Visit()
    visit.race()
    visit.race()
    update = visit.race(aded=setting)
    assert f"Counts that ADED learned from 2 prompts were deleted: they cannot be used with another value of “{label}”." in said(
        update
    )
    assert (earlier_prompts(update), visit.prompts, len(visit.memories)) == ([None, 0], 1, 1)


def test_the_state_of_the_published_rule_depends_on_the_number_of_successors():
    visit = Visit()
    visit.race(aded={"preset": "paper"})
    assert "deleted" not in said(visit.race(aded={"preset": "paper", "successors": 12}))
    assert "another value of “Successors”" in said(visit.race(aded={"preset": "paper", "successors": 5}))


@pytest.mark.parametrize("what", [{}, {"methods": ("plain", "medusa")}, {"methods": (), "ablation": "c1"}])
def test_state_is_deleted_with_a_message_when_keeping_is_switched_off(what: dict[str, Any]):
    visit = Visit()
    visit.race()
    update = visit.race(keep=False, **what)
    assert "Counts that ADED learned from 1 prompt were deleted: “Keep what was learned” is off." in said(update)
    assert visit.memories == {}
    assert "deleted" not in said(visit.race(keep=False, **what))


def test_a_visitor_may_delete_what_is_kept_at_the_end_of_a_race():
    memories = {method: Memory(object(), 1) for method in ("aded", "suffix")}

    class Deleting(Form):
        def method_options(self, method: str) -> dict[str, Any]:
            memories.clear()
            return {}

    assert [key for key, _ in keep_learned(memories, [], Deleting("hello", ()))] == ["notice.forgot.off"] * 2
    assert memories == {}


def test_state_that_was_freed_for_other_visitors_is_reported_once():
    visit = Visit()
    visit.race()
    visit.race()
    visit.session.free_drafters()
    assert visit.session.kept == 0
    update = visit.race()
    assert "from 2 prompts were deleted: the server needed the memory for other visitors." in said(update)
    assert (earlier_prompts(update), visit.prompts) == ([None, 0], 1)
    assert "deleted" not in said(visit.race())
    visit.session.free_drafters()
    assert "deleted" in said(visit.race(methods=("plain", "medusa")))
    assert visit.memories == {}


def test_what_the_visitor_deletes_during_a_race_stays_deleted():
    visit = Visit()
    for _ in range(2):
        update = visit.race(during=visit.memories.clear)
        assert visit.memories == {}
        assert lines(update, "status")[-1]["kept_prompts"] == {}
    assert earlier_prompts(visit.race()) == [None, 0]


def test_a_failed_race_adds_and_deletes_nothing(monkeypatch: pytest.MonkeyPatch):
    visit = Visit()
    visit.race()

    def broken(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(visit.engine, "race", broken)
        assert "The race failed" in said(visit.race(aded={"preset": "paper"}))
        assert "The race failed" in said(visit.race(keep=False))
    assert earlier_prompts(visit.race()) == [None, 1]


def test_a_stopped_race_reports_what_it_deleted():
    visit, control = Visit(), Control()
    visit.race()
    update = visit.race(control=control, during=lambda: control.stop("stopped"), aded={"preset": "paper"})
    assert said(update).startswith("Stopped.")
    assert "were deleted" in said(update)
    assert earlier_prompts(visit.race(aded={"preset": "paper"})) == [None, 1]


def test_visitors_do_not_share_learned_state():
    one, other = Visit(), Visit()
    one.race()
    assert earlier_prompts(other.race()) == [None, 0]
    assert one.memories["aded"].drafter is not other.memories["aded"].drafter


def test_learned_state_can_be_used_with_another_seed_and_other_settings():
    """With the real engine; the reference is the state of the drafter that learned it."""
    from fakes import tiny_target

    from aded.drafters.registry import RunSpec
    from ui.race.engine import Engine

    target, engine = tiny_target(), Engine()
    learned = engine.drafter(target, RunSpec("aded", {"keep": True}), 0)
    learned.start([5, 17, 40, 8, 5, 17])
    new = engine.drafter(target, RunSpec("aded", {"keep": True, "c1": 2, "feedback": False}), 1, learned)
    assert new is not learned
    assert (new.seed, new.options.c1) == (1, 2)
    for name, array in new.state_dict().items():
        assert np.array_equal(array, learned.state_dict()[name]), name

"""What methods keep from race to race, and what a visitor is told when something of it is forgotten."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from serving_fakes import NUMBERS, FakeEngine, form

from ui.form import ABLATIONS
from ui.models import ModelHolder
from ui.run import Update, run
from ui.serving.runs import Control
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
        for update in run(asked, self.memories, holder, {}, control, None, self.engine):
            if update and update.view and update.running:
                during()
            last = update or last
        assert last is not None
        return last

    @property
    def prompts(self) -> int:
        """That have taught what is kept of ADED."""
        return self.memories["aded"].prompts if "aded" in self.memories else 0


def lines(update: Update, kind: str) -> list[Any]:
    found = [json.loads(text) for text in (update.view or "").splitlines()]
    return [one for one in found if one["t"] == kind]


def remembers(update: Update) -> list[int | None]:
    return [lane["remembers"] for lane in lines(update, "race")[0]["lanes"]]


def said(update: Update) -> str:
    return update.notice.text if update.notice else ""


def test_a_drafter_that_keeps_begins_with_what_the_one_before_has_learned():
    visit = Visit()
    views = [visit.race() for _ in range(3)]
    assert [remembers(view) for view in views] == [[None, 0], [None, 1], [None, 2]]
    first, second, third = visit.engine.drafters[1::2]
    assert (first.known, second.known, third.known) == (None, first, second)
    assert visit.memories["aded"].drafter is third
    assert [line["taught"] for line in lines(views[-1], "lane")] == [False, True]
    assert [line["kept"] for line in lines(views[-1], "status")][-1] == {"aded": 3}


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
def test_nothing_is_forgotten_over_a_race_that_does_not_hinder_it(between: dict[str, Any]):
    visit = Visit()
    visit.race()
    visit.race()
    update = visit.race(**between)
    assert "forgotten" not in said(update)
    count = visit.prompts
    assert count == (3 if between.get("methods") is None else 2)
    assert lines(update, "status")[-1]["kept"] == {"aded": count}
    assert remembers(visit.race()) == [None, count]


def test_lanes_of_an_ablation_neither_use_nor_replace_what_is_kept():
    visit = Visit()
    visit.race()
    known = visit.memories["aded"].drafter
    update = visit.race(methods=(), ablation="search")
    assert set(remembers(update)) == {None}
    assert not any("keep" in options for method, options in visit.engine.asked[2:])
    assert (visit.memories["aded"].drafter, visit.prompts) == (known, 1)


@pytest.mark.parametrize(
    ("setting", "label"), [({"preset": "paper"}, "Preset"), ({"corpus": "none"}, "Base matrix")], ids=["preset", "corpus"]
)
def test_what_other_settings_cannot_use_is_forgotten_and_the_notice_says_why(setting: dict[str, Any], label: str):
    visit = Visit()
    visit.race()
    visit.race()
    update = visit.race(aded=setting)
    assert f"What ADED had learned from 2 prompts is forgotten: it cannot be used with another “{label}”." in said(update)
    assert (remembers(update), visit.prompts, len(visit.memories)) == ([None, 0], 1, 1)


def test_the_published_rule_keeps_a_place_a_successor_and_no_more():
    visit = Visit()
    visit.race(aded={"preset": "paper"})
    assert "forgotten" not in said(visit.race(aded={"preset": "paper", "successors": 12}))
    assert "another “Successors”" in said(visit.race(aded={"preset": "paper", "successors": 5}))


@pytest.mark.parametrize("what", [{}, {"methods": ("plain", "medusa")}, {"methods": (), "ablation": "c1"}])
def test_a_box_that_is_no_longer_ticked_makes_forget_and_the_notice_says_so(what: dict[str, Any]):
    visit = Visit()
    visit.race()
    update = visit.race(keep=False, **what)
    assert "What ADED had learned from 1 prompt is forgotten: “Remember prompts” is off." in said(update)
    assert visit.memories == {}
    assert "forgotten" not in said(visit.race(keep=False, **what))


def test_what_was_given_up_for_others_is_said_once():
    visit = Visit()
    visit.race()
    visit.race()
    visit.session.give_up()
    assert visit.session.kept == 0
    update = visit.race()
    assert "from 2 prompts is forgotten: the server needed the room for other visitors." in said(update)
    assert (remembers(update), visit.prompts) == ([None, 0], 1)
    assert "forgotten" not in said(visit.race())
    visit.session.give_up()
    assert "forgotten" in said(visit.race(methods=("plain", "medusa")))
    assert visit.memories == {}


def test_what_the_visitor_forgets_during_a_race_stays_forgotten():
    visit = Visit()
    for _ in range(2):
        update = visit.race(during=visit.memories.clear)
        assert visit.memories == {}
        assert lines(update, "status")[-1]["kept"] == {}
    assert remembers(visit.race()) == [None, 0]


def test_a_race_that_fails_teaches_nothing_and_nothing_is_forgotten_over_it(monkeypatch: pytest.MonkeyPatch):
    visit = Visit()
    visit.race()

    def broken(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(visit.engine, "race", broken)
        assert "The run failed" in said(visit.race(aded={"preset": "paper"}))
        assert "The run failed" in said(visit.race(keep=False))
    assert remembers(visit.race()) == [None, 1]


def test_a_race_that_is_stopped_says_what_it_made_forget():
    visit, control = Visit(), Control()
    visit.race()
    update = visit.race(control=control, during=lambda: control.stop("stopped"), aded={"preset": "paper"})
    assert said(update).startswith("Stopped.")
    assert "is forgotten" in said(update)
    assert remembers(visit.race(aded={"preset": "paper"})) == [None, 1]


def test_one_visitors_memory_is_no_other_visitors():
    one, other = Visit(), Visit()
    one.race()
    assert remembers(other.race()) == [None, 0]
    assert one.memories["aded"].drafter is not other.memories["aded"].drafter


def test_a_drafter_of_another_seed_and_other_settings_knows_what_was_learned():
    """The engine itself: the oracle is the knowledge of the drafter that learned it."""
    from fakes import tiny_target

    from ui.engine import Engine
    from ui.form import Entrant

    target, engine = tiny_target(), Engine()
    taught = engine.drafter(target, Entrant("aded", {"keep": True}), 0)
    taught.start([5, 17, 40, 8, 5, 17])
    new = engine.drafter(target, Entrant("aded", {"keep": True, "c1": 2, "feedback": False}), 1, taught)
    assert new is not taught
    assert (new.seed, new.options.c1) == (1, 2)
    for name, array in new.state_dict().items():
        assert np.array_equal(array, taught.state_dict()[name]), name

"""Effects of updates on the page's widgets."""

from __future__ import annotations

from ui.page import race_chooser
from ui.run import Update


def test_no_recorded_race_can_be_chosen_during_a_race_and_the_list_has_no_selection():
    choice = race_chooser(Update(view="race"))
    assert (choice["value"], choice["interactive"]) == (None, False)
    choice = race_chooser(Update(view="race", running=False))
    assert (choice["value"], choice["interactive"]) == (None, True)


def test_a_queued_or_failed_race_keeps_the_race_on_screen_and_its_name_in_the_list():
    assert "interactive" not in race_chooser(Update())
    choice = race_chooser(Update(running=False))
    assert "value" not in choice and choice["interactive"]

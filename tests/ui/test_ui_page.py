"""Effects of updates on the page's widgets."""

from __future__ import annotations

from ui.page import race_choosers
from ui.run import Update


def test_other_races_cannot_be_opened_during_a_race_and_the_dropdown_has_no_selection():
    choice, upload = race_choosers(Update(view="race"))
    assert (choice["value"], choice["interactive"], upload["interactive"]) == (None, False, False)
    choice, upload = race_choosers(Update(view="race", running=False))
    assert (choice["value"], choice["interactive"], upload["interactive"]) == (None, True, True)


def test_a_queued_or_failed_race_keeps_the_race_on_screen_and_its_name_in_the_dropdown():
    assert all("interactive" not in change for change in race_choosers(Update()))
    choice, upload = race_choosers(Update(running=False))
    assert "value" not in choice and choice["interactive"] and upload["interactive"]

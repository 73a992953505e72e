"""What updates of a run do to the page's widgets."""

from __future__ import annotations

from ui.page import ways_to_another
from ui.run import Update


def test_other_races_are_closed_while_lanes_are_written_and_the_list_holds_none_of_them():
    choice, upload = ways_to_another(Update(view="race"))
    assert (choice["value"], choice["interactive"], upload["interactive"]) == (None, False, False)
    choice, upload = ways_to_another(Update(view="race", running=False))
    assert (choice["value"], choice["interactive"], upload["interactive"]) == (None, True, True)


def test_a_run_that_waits_or_fails_leaves_the_race_on_screen_and_its_name_in_the_list():
    assert all("interactive" not in change for change in ways_to_another(Update()))
    choice, upload = ways_to_another(Update(running=False))
    assert "value" not in choice and choice["interactive"] and upload["interactive"]

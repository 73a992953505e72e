"""Effects of updates on the page's widgets."""

from __future__ import annotations

import pytest

from ui.page import to_page
from ui.run import Update


@pytest.mark.parametrize("running", [True, False])
def test_a_race_can_be_started_unless_one_runs(running: bool):
    _, _, start, ablate, stop, _ = to_page(Update(view="race", running=running))
    assert [part["interactive"] for part in (start, ablate, stop)] == [not running, not running, running]

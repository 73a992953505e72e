"""The least recently used entry is removed first."""

from __future__ import annotations

from aded.core.lru import recent


def test_the_least_recently_used_entry_is_removed_and_existing_ones_are_not_made_again() -> None:
    kept: dict[str, int] = {}
    made: list[str] = []

    def ask(key: str) -> int:
        return recent(kept, key, lambda: made.append(key) or len(made), 2)

    assert [ask(key) for key in "abacab"] == [1, 2, 1, 3, 1, 4]
    assert made == ["a", "b", "c", "b"] and list(kept) == ["a", "b"]
    assert recent({"empty": 0}, "empty", lambda: 1, 2) == 0, "whatever it is, it is there"

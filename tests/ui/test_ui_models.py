"""The models that visitors may use, by the names that they see."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from waiting import HANG, until

from aded.core.errors import AdedError
from ui.race.models import ModelHolder, Models


def test_a_file_or_folder_is_named_by_its_last_part_and_found_by_its_full_path_too(tmp_path: Path):
    folder, file = str(tmp_path / "large"), str(tmp_path / "small.gguf")
    models = Models(("default", folder, "someone/model", file))
    assert models.names == ["default", "large", "someone/model", "small.gguf"]
    assert models.find("large") is models.find(folder)
    assert models.find("small.gguf").spec == file
    with pytest.raises(AdedError) as raised:
        models.find("large2")
    assert str(tmp_path) not in str(raised.value)


def test_two_models_with_the_same_name_get_different_names(tmp_path: Path):
    folders = [str(tmp_path / place / "large") for place in "ab"]
    models = Models(folders)
    assert models.names == ["large", folders[1]]
    assert [models.find(name).spec for name in models.names] == folders


def test_a_failed_load_is_reported_until_another_one_has_ended():
    permits, outcomes = threading.Semaphore(1), iter(("no weights", "no memory", ""))

    def load(*_: object) -> str:
        assert permits.acquire(timeout=HANG)
        if error := next(outcomes):
            raise AdedError(error)
        return "model"

    holder = ModelHolder(loader=load)
    holder.start()
    until(lambda: not holder.busy)
    for error in ("no weights", "no memory"):
        holder.start()  # another visitor tries again
        with pytest.raises(AdedError, match=error):
            _ = holder.model
        permits.release()
        until(lambda: not holder.busy)
    assert holder.model == "model"

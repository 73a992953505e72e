"""The models that visitors may use, by the names that they see."""

from __future__ import annotations

from pathlib import Path

import pytest

from aded.core.errors import AdedError
from ui.race.models import Models


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

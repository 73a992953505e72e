"""The models that visitors may use, by the names that they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from aded.core.errors import AdedError
from ui.models import Models


def test_a_file_or_folder_is_called_by_its_last_name_and_found_by_its_whole_one_too(tmp_path: Path):
    folder, file = str(tmp_path / "large"), str(tmp_path / "small.gguf")
    models = Models(("default", folder, "someone/model", file))
    assert models.names == ["default", "large", "someone/model", "small.gguf"]
    assert models.find("large") is models.find(folder)
    assert models.find("small.gguf").spec == file
    with pytest.raises(AdedError) as refused:
        models.find("large2")
    assert str(tmp_path) not in str(refused.value)


def test_two_models_of_one_name_are_told_apart(tmp_path: Path):
    folders = [str(tmp_path / place / "large") for place in "ab"]
    models = Models(folders)
    assert models.names == ["large", folders[1]]
    assert [models.find(name).spec for name in models.names] == folders

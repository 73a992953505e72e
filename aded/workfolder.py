"""What a long job has done so far, in a folder beside its result: files that are whole or not there."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from aded.errors import AdedError
from aded.trace import write_atomically

FORMAT = "aded-work"
MANIFEST = "manifest.json"


class WorkFolder:
    """The folder ``OUT.part`` of a job that writes ``OUT``; used as a context, which makes it.

    It is there until ``remove``: a job that was stopped, however, goes on from its files. One that failed before its first
    file leaves nothing.

    Attributes:
        settings: choices of whoever began the job, JSON values, so that others who go on make the same; fill in before entering.
    """

    def __init__(self, out: str, identity: dict[str, Any], restart: bool = False) -> None:
        """identity: what the files depend on, JSON values; restart: drop what another run has left.

        Raises:
            AdedError: the folder belongs to something else.
        """
        self.folder = Path(f"{Path(out).resolve()}.part")
        self._identity = json.loads(json.dumps(identity))
        self.settings: dict[str, Any] = {}
        if self._files():
            manifest = self._manifest()
            if restart:
                self.remove()
            elif manifest["identity"] != self._identity:
                raise AdedError(
                    f"{self.folder} holds another build that was stopped; add --restart to drop it, or choose another --out"
                )
            else:
                self.settings = manifest["settings"]

    def __enter__(self) -> WorkFolder:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise AdedError(f"cannot write {self.folder}: {error.strerror}; choose another --out") from None
        body = {"format": FORMAT, "identity": self._identity, "settings": self.settings}
        store(self.folder / MANIFEST, json.dumps(body, indent=1).encode())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if error is not None and self._files() <= {MANIFEST}:
            self.remove()

    def path(self, name: str) -> Path:
        return self.folder / name

    def remove(self) -> None:
        """Drop the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> set[str]:
        """Names of the files there, but for what a stopped write has left."""
        try:
            return {path.name for path in self.folder.iterdir() if not path.name.startswith(".")}
        except OSError:
            return set()

    def _manifest(self) -> dict[str, Any]:
        try:
            body = json.loads((self.folder / MANIFEST).read_bytes())
            if body["format"] == FORMAT and isinstance(body["settings"], dict) and "identity" in body:
                return body
        except (OSError, ValueError, KeyError, TypeError):
            pass
        raise AdedError(f"{self.folder} is no folder of a stopped build; move it away, or choose another --out")


def store(path: Path, data: bytes) -> None:
    """Write a file of a work folder: whole or not at all.

    Raises:
        AdedError: the disk is full or cannot be written.
    """
    try:
        write_atomically(path, data)
    except AdedError as error:
        reason = str(error).rpartition("; ")[0]
        raise AdedError(f"{reason}; make room and run the command again: it goes on where it stopped") from None


def npy_bytes(array: np.ndarray) -> bytes:
    """The array as a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()

"""What a long job has done so far, in a folder beside its result: files that are whole or not there."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from aded.core.errors import AdedError
from aded.core.trace import write_atomically

FORMAT = "aded-work"
MANIFEST, LOCK = "manifest.json", ".lock"
KINDS = (".npy", ".npz")
"""Endings of a job's files beside its manifest."""
GOES_ON = "run the command again: it goes on where it stopped"
Read = TypeVar("Read")


class Halted(AdedError):
    """What halted a job was not its input: what it left is worth keeping."""


class WorkFolder:
    """The folder ``OUT.part`` of a job that writes ``OUT``; used as a context, which makes it and locks it.

    A job that was stopped, however, goes on from its files; one that ends well leaves none. Files of another job are dropped
    where they are of no use to anybody: that job failed by its input, or its input was changed since.

    Attributes:
        settings: choices of whoever began the job, JSON values, so that others who go on make the same.
        damaged: names of files that were there but damaged, and so are made again.
    """

    def __init__(self, out: str, identity: dict[str, Any], inputs: Any = None, restart: bool = False) -> None:
        """
        Args:
            out: the job's result.
            identity: what was asked for, JSON values.
            inputs: the state of the files that the job reads, JSON values.
            restart: drop what another run has left.
        """
        from filelock import FileLock

        self.folder = work_folder(out)
        self.settings: dict[str, Any] = {}
        self.damaged: list[str] = []
        self._identity, self._inputs = json.loads(json.dumps([identity, inputs]))
        self._restart = restart
        self._lock = FileLock(self.folder / LOCK)

    def __enter__(self) -> WorkFolder:
        """
        Raises:
            AdedError: the folder is in use, belongs to something else or to a build that was stopped, or cannot be written.
        """
        from filelock import Timeout

        try:
            self.folder.mkdir(exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise AdedError(f"another build writes to {self.folder}; wait for it, or choose another --out") from None
        except OSError as error:
            raise AdedError(f"cannot write {self.folder}: {error.strerror}; choose another --out") from None
        try:
            self._take_over()
            self._write_manifest()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if error is None or self._files() <= {MANIFEST}:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.release()
            return
        if isinstance(error, AdedError) and not isinstance(error, Halted):
            with suppress(AdedError):
                self._write_manifest(failed=True)
        self._leave()

    def path(self, name: str) -> Path:
        return self.folder / name

    def settle(self, **choices: Any) -> None:
        """Make choices, but for those that were made when the job began."""
        self.settings = {**choices, **self.settings}
        self._write_manifest()

    def read(self, name: str, reader: Callable[[Path], Read]) -> Read | None:
        """What ``reader`` makes of a file; None where there is none, or a damaged one: it is to be made."""
        path = self.path(name)
        if not path.exists():
            return None
        try:
            return reader(path)
        except AdedError:
            self.damaged.append(name)
            return None

    def _take_over(self) -> None:
        """Find out whose files are there: go on with this job's own, drop what is of no use, leave all else alone."""
        files, found = self._files(), self._manifest()
        if files and not (MANIFEST in files and all(name == MANIFEST or name.endswith(KINDS) for name in files)):
            raise AdedError(f"{self.folder} is no folder of a stopped build; move it away, or choose another --out")
        if files and not self._restart:
            if found is None:
                raise AdedError(f"{self.folder / MANIFEST} is damaged; add --restart to drop what the build there has left")
            same = found["identity"] == self._identity
            if same and found.get("inputs") == self._inputs:
                self.settings = found["settings"]
                return
            if not same and not found.get("failed"):
                raise AdedError(
                    f"{self.folder} holds another build that was stopped; add --restart to drop it, or choose another --out"
                )
        self._drop()

    def _drop(self) -> None:
        for path in self.folder.iterdir():
            if path.name != LOCK:
                path.unlink(missing_ok=True)

    def _leave(self) -> None:
        """Unlock; where there is nothing but the lock, nothing is left."""
        files = self._files()
        if MANIFEST not in files:
            (self.folder / LOCK).unlink(missing_ok=True)
        if not files:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def _files(self) -> set[str]:
        """Names of the files there, but for the lock and what a stopped write has left."""
        try:
            return {path.name for path in self.folder.iterdir() if not path.name.startswith(".")}
        except OSError:
            return set()

    def _manifest(self) -> dict[str, Any] | None:
        """None: there is none, or a damaged one."""
        try:
            body = json.loads((self.folder / MANIFEST).read_bytes())
            return body if body["format"] == FORMAT and isinstance(body["settings"], dict) and "identity" in body else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write_manifest(self, failed: bool = False) -> None:
        body = {"format": FORMAT, "identity": self._identity, "inputs": self._inputs, "settings": self.settings}
        store(self.folder / MANIFEST, json.dumps({**body, "failed": failed}, indent=1).encode())


def work_folder(out: str) -> Path:
    """Where a job that writes ``out`` keeps what it has done."""
    return Path(f"{Path(out).resolve()}.part")


def store(path: Path, data: bytes) -> None:
    """Write a file of a work folder: whole or not at all.

    Raises:
        Halted: the disk is full or cannot be written.
    """
    try:
        write_atomically(path, data)
    except AdedError as error:
        reason = str(error).rpartition("; ")[0]
        raise Halted(f"{reason}; make room and {GOES_ON}") from None


def npy_bytes(array: np.ndarray) -> bytes:
    """The array as a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()

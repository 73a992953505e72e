"""Intermediate files of a long job in a folder next to its output, so that an interrupted job can resume.

Files are written atomically: each is either complete or absent.
"""

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

from aded.core.errors import RESUME_HINT, AdedError, InterruptedJobError
from aded.core.trace import write_atomically

FORMAT = "aded-work"
MANIFEST, LOCK, SPILL = "manifest.json", ".lock", ".spill"
"""Names in the folder: the job's identity, the lock, and a folder for what does not fit in memory."""
SUFFIXES = (".npy", ".npz", ".jsonl")
"""Suffixes of a job's files other than the manifest."""
T = TypeVar("T")


class WorkFolder:
    """The folder ``OUT.part`` of a job that writes ``OUT``; a context manager that creates and locks it.

    An interrupted job resumes from these files; a job that succeeds deletes the folder, unless it sets ``keep``. Files of another
    job are deleted only if they are useless: that job succeeded or failed because of its input, or its input has changed since.

    Attributes:
        settings: settings chosen by the run that started the job, JSON values; a resumed run uses the same.
        damaged: names of files that were damaged and have to be rebuilt.
        keep: keep the folder after success.
    """

    def __init__(
        self,
        out: str,
        identity: dict[str, Any],
        inputs: Any = None,
        restart: bool = False,
        elsewhere: str = "choose another --out",
    ) -> None:
        """
        Args:
            out: the job's output file.
            identity: the parameters of the job, JSON values.
            inputs: the state of the files that the job reads, JSON values.
            restart: delete the files of an earlier run.
            elsewhere: the remedy for a folder that cannot be used, in messages.
        """
        from filelock import FileLock

        self.folder = work_folder(out)
        self.settings: dict[str, Any] = {}
        self.damaged: list[str] = []
        self.keep = False
        self._elsewhere = elsewhere
        self._identity, self._inputs = json.loads(json.dumps([identity, inputs]))
        self._restart = restart
        self._lock = FileLock(self.folder / LOCK)

    def __enter__(self) -> WorkFolder:
        """
        Raises:
            AdedError: the folder is in use, is not a work folder, belongs to a different interrupted build, or cannot be written.
        """
        from filelock import Timeout

        try:
            self.folder.mkdir(exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise AdedError(f"another build writes to {self.folder}; wait for it, or {self._elsewhere}") from None
        except OSError as error:
            raise AdedError(f"cannot write {self.folder}: {error.strerror}; {self._elsewhere}") from None
        try:
            self._resume_or_clear()
            self._write_manifest()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if (error is None and not self.keep) or self._files() <= {MANIFEST}:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.release()
            return
        if error is None or (isinstance(error, AdedError) and not isinstance(error, InterruptedJobError)):
            with suppress(AdedError):
                self._write_manifest(ended=True)
        self._release()

    def path(self, name: str) -> Path:
        return self.folder / name

    def settle(self, **defaults: Any) -> None:
        """Add settings; settings from the start of the job are not changed."""
        self.settings = {**defaults, **self.settings}
        self._write_manifest()

    def change(self, **settings: Any) -> None:
        """Change settings."""
        self.settings |= settings
        self._write_manifest()

    def read(self, name: str, reader: Callable[[Path], T]) -> T | None:
        """``reader`` applied to a file; None if the file is missing or damaged and has to be built."""
        path = self.path(name)
        if not path.exists():
            return None
        try:
            return reader(path)
        except AdedError:
            self.damaged.append(name)
            return None

    def _resume_or_clear(self) -> None:
        """Keep the files of this job, delete useless files of another job, and refuse any other folder."""
        files, found = self._files(), self._manifest()
        if files and not (MANIFEST in files and all(name == MANIFEST or name.endswith(SUFFIXES) for name in files)):
            raise AdedError(f"{self.folder} is not the folder of an interrupted build; move it away, or {self._elsewhere}")
        if files and not self._restart:
            if found is None:
                raise AdedError(f"{self.folder / MANIFEST} is damaged; add --restart to delete the files of that build")
            same = found["identity"] == self._identity
            if same and found.get("inputs") == self._inputs:
                self.settings = found["settings"]
                return
            if not same and not found.get("ended"):
                raise AdedError(
                    f"{self.folder} holds a different interrupted build; add --restart to delete it, or {self._elsewhere}"
                )
        self._clear()

    def _clear(self) -> None:
        for path in self.folder.iterdir():
            if path.name not in (LOCK, SPILL):
                path.unlink(missing_ok=True)

    def _release(self) -> None:
        """Release the lock; delete the folder if it holds nothing else."""
        files = self._files()
        if MANIFEST not in files:
            (self.folder / LOCK).unlink(missing_ok=True)
        if not files:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def _files(self) -> set[str]:
        """Names of the files, without the lock and temporary files of interrupted writes."""
        try:
            return {path.name for path in self.folder.iterdir() if not path.name.startswith(".")}
        except OSError:
            return set()

    def _manifest(self) -> dict[str, Any] | None:
        """The manifest; None if it is missing or damaged."""
        try:
            body = json.loads((self.folder / MANIFEST).read_bytes())
            return body if body["format"] == FORMAT and isinstance(body["settings"], dict) and "identity" in body else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write_manifest(self, ended: bool = False) -> None:
        body = {"format": FORMAT, "identity": self._identity, "inputs": self._inputs, "settings": self.settings}
        store(self.folder / MANIFEST, json.dumps({**body, "ended": ended}, indent=1).encode())


def work_folder(out: str) -> Path:
    """The work folder of a job that writes ``out``."""
    return Path(f"{Path(out).resolve()}.part")


def store(path: Path, data: bytes) -> None:
    """Write a file of a work folder atomically.

    Raises:
        InterruptedJobError: the disk is full or cannot be written.
    """
    try:
        write_atomically(path, data)
    except AdedError as error:
        reason = str(error).rpartition("; ")[0]
        raise InterruptedJobError(f"{reason}; free disk space and {RESUME_HINT}") from None


def npy_bytes(array: np.ndarray) -> bytes:
    """The array in ``.npy`` format."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()

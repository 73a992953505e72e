"""Uploads: checked while they stream, limited individually and in total, and deleted when others need their space.

A file is only needed at the moment when it is opened. There is no quota per visitor, because visitors cannot be identified
reliably: if space is needed, the oldest file is deleted, and if no complete file is left, the oldest upload in progress is
aborted.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from gradio_client.utils import strip_invalid_filename_characters
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.formparsers import MultiPartException

from ui.serving import temporary_files
from ui.serving.asgi import App, Message, Problem, Receive, Scope, Send

CAPACITY = 256 << 20
"""Maximum size in bytes of all uploads together, including those in progress."""
MIN_COUNTED_BYTES = 1 << 20
"""Every file counts at least this many bytes, which limits the number of files."""
FORM_OVERHEAD = 1 << 16
"""Maximum size in bytes of an upload's form without its file."""
MAX_SECONDS = 600.0
"""Maximum duration of an upload; remains of aborted uploads are deleted after this time."""
EMPTY_SECONDS = 60.0
"""After this time empty files and folders are deleted: Gradio leaves one for each file that is opened or removed."""
FIELD = b"files"
NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that are not allowed in file names: control characters, surrogates, line separators."""

ABSENT: Problem = (400, "malformed", "the upload contains no named file; send one as 'files' in multipart/form-data")
SEVERAL: Problem = (400, "malformed", "the upload contains more than one file; send one file at a time, and no other fields")
BROKEN: Problem = (400, "malformed", "the upload is not complete multipart/form-data; send the file again")
FULL: Problem = (503, "uploads", "too many files are being uploaded; send the file again")
ENDING: Problem = (503, "uploads", "the server is shutting down; send the file again later")
SLOW: Problem = (408, "uploads", f"the upload took more than {MAX_SECONDS:g} seconds; send the file again")


class Refused(MultiPartException):
    """Aborts an upload; a subclass of the exception that Gradio answers."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem[2])
        self.problem = problem


class Uploads:
    """All uploads of a server.

    Args:
        folder: where Gradio keeps them: each complete file in its own folder, and files in progress next to these.
        largest: maximum size of a file in bytes.
        capacity: maximum size of all files in bytes.
        clock: seconds, monotonic.
    """

    def __init__(self, folder: Path, largest: int, capacity: int = CAPACITY, clock: Callable[[], float] = time.monotonic) -> None:
        self.largest = largest
        self._folder, self._capacity, self._clock = folder, capacity, clock
        self._active: list[Upload] = []
        self._kept: dict[Path, int] = {}
        self._unfinished: dict[Path, float] = {}

    def is_upload(self, path: str) -> bool:
        """Whether a path is that of an upload, existing or deleted."""
        self._scan()
        if any(unicodedata.category(letter) in NO_NAME for letter in path):
            return False
        try:
            return self._folder.resolve() in Path(path).resolve().parents
        except (OSError, ValueError):  # not a valid path
            return False

    @property
    def used(self) -> int:
        """Bytes that count, of complete files and of uploads in progress."""
        return sum(self._kept.values()) + sum(upload.size for upload in self._active)

    async def forward(self, app: App, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Forward an upload to ``app``; returns what was wrong with it, if anything: then nothing was answered yet."""
        self._scan()
        try:
            upload = Upload(
                self, dict(reversed(scope["headers"])), receive, self._clock
            )  # like Gradio, use the first of equal headers
        except Refused as refused:
            return refused.problem
        self._active.append(upload)
        try:
            with temporary_files.cleanup():
                await app(
                    {**scope, "query_string": b""}, upload.receive, upload.sender(send)
                )  # Gradio would report progress to others
        except Refused as refused:
            upload.problem = refused.problem
        except OSError as error:
            words = f"the file could not be stored ({error.strerror or error}); try again later"
            upload.problem = upload.problem or (507, "disk", words)
        finally:
            self._active.remove(upload)
            self._scan()
        return upload.problem

    def free_space(self, upload: Upload) -> None:
        """Delete the oldest files until everything fits.

        Raises:
            Refused: it does not fit even then.
        """
        while self.used > self._capacity:
            others = [other for other in self._active if other is not upload and other.incoming]
            if self._kept:
                self._remove(next(iter(self._kept)))
            elif others:
                others[0].abort(FULL)
            else:
                raise Refused(FULL)

    def _scan(self) -> None:
        """Update the list of complete files, oldest first, and delete remains of aborted uploads."""
        whole = {file: max(size, MIN_COUNTED_BYTES) for file in self._folder.glob("*/*") if (size := size_of(file)) is not None}
        first = [file for file in self._kept if file in whole]
        self._kept = {file: whole[file] for file in dict.fromkeys([*first, *whole])}
        now = self._clock()
        found = {file: size for file in self._folder.glob("*") if (size := size_of(file)) is not None}
        found |= dict.fromkeys(self._empty_folders(), 0)
        self._unfinished = {file: self._unfinished.get(file, now) for file in found}
        for file, seen in self._unfinished.items():
            if now - seen > (MAX_SECONDS if found[file] else EMPTY_SECONDS):
                with suppress(OSError):
                    file.rmdir() if file.is_dir() else file.unlink(missing_ok=True)

    def _empty_folders(self) -> list[Path]:
        """Folders whose file Gradio has removed."""
        holding = {file.parent for file in self._folder.glob("*/*")}
        return [folder for folder in self._folder.glob("*") if folder.is_dir() and folder not in holding]

    def end(self) -> None:
        """Abort all uploads, from any thread: the server shuts down."""
        for upload in list(self._active):
            with suppress(RuntimeError):  # its event loop is closed
                upload.loop.call_soon_threadsafe(upload.abort, ENDING)

    def _remove(self, file: Path) -> None:
        del self._kept[file]
        with suppress(OSError):
            file.unlink(missing_ok=True)
            file.parent.rmdir()


class Upload:
    """An upload in progress.

    Attributes:
        size: bytes received, as long as they count.
        incoming: whether more is expected.
        problem: why it was aborted; None if it was not.
        loop: its event loop.
    """

    def __init__(self, uploads: Uploads, headers: dict[bytes, bytes], receive: Receive, clock: Callable[[], float]) -> None:
        self.size, self.incoming = 0, True
        self.problem: Problem | None = None
        self._uploads, self._receive, self._clock = uploads, receive, clock
        self._until = clock() + MAX_SECONDS
        self._broken = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._form = Form(headers.get(b"content-type", b""), uploads.largest)
        if int(_digits(headers.get(b"content-length", b""))) > uploads.largest + FORM_OVERHEAD:
            raise Refused(too_large(uploads.largest))

    async def receive(self) -> Message:
        """The next part of the body.

        Raises:
            Refused: the upload is aborted.
        """
        if self.problem is not None:
            raise Refused(self.problem)
        if not self.incoming:
            return await self._receive()
        try:
            message = await self._next()
            if message["type"] == "http.disconnect":
                raise Refused(BROKEN)
            self._take(message.get("body", b""))
            if not message.get("more_body", False):
                self.incoming = False
                self._form.end()
        except Refused as refused:
            self.abort(refused.problem)
            raise
        return message

    def abort(self, problem: Problem) -> None:
        """Accept no more data, and free its space."""
        self.problem, self.incoming, self.size = problem, False, 0
        self._broken.set()

    def sender(self, send: Send) -> Send:
        """A ``send`` that suppresses Gradio's answer to an aborted upload."""

        async def filtered(message: Message) -> None:
            if self.problem is None:
                await send(message)

        return filtered

    async def _next(self) -> Message:
        incoming, broken = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._broken.wait())
        try:
            left = max(0.0, self._until - self._clock())
            await asyncio.wait({incoming, broken}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self._broken.is_set() or not incoming.done():
                raise Refused(self.problem or SLOW)
            return incoming.result()
        finally:
            incoming.cancel()
            broken.cancel()

    def _take(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._uploads.largest + FORM_OVERHEAD:
            raise Refused(too_large(self._uploads.largest))
        self._form.write(data)
        self._uploads.free_space(self)


class Form:
    """An incremental parser of a form that contains one named file and nothing else.

    Args:
        kind: the content type.
        largest: maximum size of the file in bytes.
    """

    def __init__(self, kind: bytes, largest: int) -> None:
        name, options = parse_options_header(kind)
        if name != b"multipart/form-data" or not options.get(b"boundary"):
            raise Refused(ABSENT)
        self._largest = largest
        self._parts = self._size = 0
        self._whole = False
        self._name = self._value = self._disposition = b""
        callbacks: Any = {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._head("_name", data[start:end]),
            "on_header_value": lambda data, start, end: self._head("_value", data[start:end]),
            "on_header_end": self._head_ends,
            "on_headers_finished": self._heads_end,
            "on_part_data": lambda data, start, end: self._count(end - start),
            "on_end": self._end,
        }
        try:
            self._parser = MultipartParser(options[b"boundary"], callbacks)
        except FormParserError:
            raise Refused(BROKEN) from None

    def write(self, data: bytes) -> None:
        """Parse the next part.

        Raises:
            Refused: it contains something else, or too much.
        """
        try:
            self._parser.write(data)
        except FormParserError:
            raise Refused(BROKEN) from None

    def end(self) -> None:
        """The body has ended.

        Raises:
            Refused: the file is incomplete or missing.
        """
        if not self._whole:
            raise Refused(BROKEN if self._parts else ABSENT)

    def _begin(self) -> None:
        self._parts += 1
        self._disposition = b""
        if self._parts > 1:
            raise Refused(SEVERAL)

    def _head(self, part: str, data: bytes) -> None:
        setattr(self, part, getattr(self, part) + data)

    def _head_ends(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = self._value
        self._name = self._value = b""

    def _heads_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        if options.get(b"name") != FIELD or not file_name(options.get(b"filename", b"")):
            raise Refused(ABSENT)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._largest:
            raise Refused(too_large(self._largest))

    def _end(self) -> None:
        self._whole = self._parts == 1


def file_name(sent: bytes) -> str:
    """The name under which Gradio would store a file; empty if it is not valid."""
    name = PurePath(sent.decode("utf-8", "replace")).name
    return strip_invalid_filename_characters(name) if name.strip(". ") else ""


def size_of(file: Path) -> int | None:
    """Size of a file in bytes; None if it does not exist."""
    try:
        return file.stat().st_size if file.is_file() else None
    except OSError:
        return None


def too_large(largest: int) -> Problem:
    """The refusal of a file with more than ``largest`` bytes."""
    return 413, "large", f"the file is larger than {largest >> 20} MB; send a smaller one"


def _digits(text: bytes) -> bytes:
    return text if text.isdigit() and len(text) < 16 else b"0"

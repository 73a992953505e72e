"""Uploads: looked at as they stream, bounded one by one and all together, and gone when others need their room.

A file is needed for the moment in which it is opened. So there is no share for each visitor, whom nothing tells apart for sure:
where room is needed, the file that came first goes, and where no whole one is left, the upload that began first is broken off.
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

from ui.serving import parts
from ui.serving.asgi import App, Message, Problem, Receive, Scope, Send

ROOM = 256 << 20
"""Bytes that all uploads together may take, those on their way too."""
LEAST = 1 << 20
"""Bytes that a file counts for at least, which bounds their number."""
HEADS = 1 << 16
"""Bytes of an upload beside its file: what stands between the parts of a form."""
LONGEST_SECONDS = 600.0
"""How long an upload may take; what is left on the disk of one that was broken off goes after that."""
EMPTY_SECONDS = 60.0
"""How long an empty file or folder may lie there: Gradio leaves one each time that a file is opened, and of each it removes."""
FIELD = b"files"
NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Kinds of letters that no file's name holds: control characters, halves of letters, ends of lines."""

ABSENT: Problem = (400, "malformed", "the upload holds no file with a name; send one as 'files' in multipart/form-data")
SEVERAL: Problem = (400, "malformed", "the upload holds more than a file; send one file at a time, and nothing beside it")
BROKEN: Problem = (400, "malformed", "the upload is no whole multipart/form-data; send the file again")
FULL: Problem = (503, "uploads", "too many files are being sent; send the file again")
ENDING: Problem = (503, "uploads", "the server ends; send the file again later")
SLOW: Problem = (408, "uploads", f"the upload took more than {LONGEST_SECONDS:g} seconds; send the file again")


class Refused(MultiPartException):
    """Ends an upload; of this class because then Gradio answers it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem[2])
        self.problem = problem


class Uploads:
    """All uploads of a server.

    Args:
        folder: where Gradio keeps them: each whole file in a folder of its own, and beside those what is being written.
        largest: bytes of a file.
        room: bytes of all of them.
        clock: seconds, monotonic.
    """

    def __init__(self, folder: Path, largest: int, room: int = ROOM, clock: Callable[[], float] = time.monotonic) -> None:
        self.largest = largest
        self._folder, self._room, self._clock = folder, room, clock
        self._coming: list[Upload] = []
        self._kept: dict[Path, int] = {}
        self._unfinished: dict[Path, float] = {}

    def holds(self, path: str) -> bool:
        """Whether a file that was sent has, or had, this path."""
        self._look()
        if any(unicodedata.category(letter) in NO_NAME for letter in path):
            return False
        try:
            return self._folder.resolve() in Path(path).resolve().parents
        except (OSError, ValueError):  # a path that no file system could have
            return False

    @property
    def used(self) -> int:
        """Bytes that count, of whole files and of what has come of others."""
        return sum(self._kept.values()) + sum(upload.size for upload in self._coming)

    async def pass_on(self, app: App, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Let an upload through to ``app``; what was wrong with it, if anything: then nothing was answered yet."""
        self._look()
        try:
            upload = Upload(self, dict(reversed(scope["headers"])), receive, self._clock)  # of several, Gradio reads the first
        except Refused as refused:
            return refused.problem
        self._coming.append(upload)
        try:
            with parts.removed():
                await app({**scope, "query_string": b""}, upload.receive, upload.sender(send))  # Gradio would tell its progress
        except Refused as refused:
            upload.problem = refused.problem
        except OSError as error:
            words = f"the file could not be kept here ({error.strerror or error}); try again later"
            upload.problem = upload.problem or (507, "disk", words)
        finally:
            self._coming.remove(upload)
            self._look()
        return upload.problem

    def make_room(self, upload: Upload) -> None:
        """Remove what came first, until all that is left has room.

        Raises:
            Refused: there is none, whatever goes.
        """
        while self.used > self._room:
            others = [other for other in self._coming if other is not upload and other.on]
            if self._kept:
                self._remove(next(iter(self._kept)))
            elif others:
                others[0].break_off(FULL)
            else:
                raise Refused(FULL)

    def _look(self) -> None:
        """Take note of what is there: whole files, the first that was seen first, and what broken-off uploads have left."""
        whole = {file: max(size, LEAST) for file in self._folder.glob("*/*") if (size := size_of(file)) is not None}
        first = [file for file in self._kept if file in whole]
        self._kept = {file: whole[file] for file in dict.fromkeys([*first, *whole])}
        now = self._clock()
        found = {file: size for file in self._folder.glob("*") if (size := size_of(file)) is not None}
        found |= dict.fromkeys(self._empty_folders(), 0)
        self._unfinished = {file: self._unfinished.get(file, now) for file in found}
        for file, seen in self._unfinished.items():
            if now - seen > (LONGEST_SECONDS if found[file] else EMPTY_SECONDS):
                with suppress(OSError):
                    file.rmdir() if file.is_dir() else file.unlink(missing_ok=True)

    def _empty_folders(self) -> list[Path]:
        """Folders of files that Gradio has removed."""
        holding = {file.parent for file in self._folder.glob("*/*")}
        return [folder for folder in self._folder.glob("*") if folder.is_dir() and folder not in holding]

    def end(self) -> None:
        """Break off what is on its way, from whichever thread: the server ends."""
        for upload in list(self._coming):
            with suppress(RuntimeError):  # its loop is closed already
                upload.loop.call_soon_threadsafe(upload.break_off, ENDING)

    def _remove(self, file: Path) -> None:
        del self._kept[file]
        with suppress(OSError):
            file.unlink(missing_ok=True)
            file.parent.rmdir()


class Upload:
    """One that is on its way.

    Attributes:
        size: bytes that have come, as long as they take room.
        on: whether more is to come.
        problem: why it was broken off.
        loop: the one that it comes in.
    """

    def __init__(self, uploads: Uploads, headers: dict[bytes, bytes], receive: Receive, clock: Callable[[], float]) -> None:
        self.size, self.on = 0, True
        self.problem: Problem | None = None
        self._uploads, self._receive, self._clock = uploads, receive, clock
        self._until = clock() + LONGEST_SECONDS
        self._broken = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._form = Form(headers.get(b"content-type", b""), uploads.largest)
        if int(_digits(headers.get(b"content-length", b""))) > uploads.largest + HEADS:
            raise Refused(too_large(uploads.largest))

    async def receive(self) -> Message:
        """The next piece of the body.

        Raises:
            Refused: it is not to go on.
        """
        if self.problem is not None:
            raise Refused(self.problem)
        if not self.on:
            return await self._receive()
        try:
            message = await self._next()
            if message["type"] == "http.disconnect":
                raise Refused(BROKEN)
            self._take(message.get("body", b""))
            if not message.get("more_body", False):
                self.on = False
                self._form.end()
        except Refused as refused:
            self.break_off(refused.problem)
            raise
        return message

    def break_off(self, problem: Problem) -> None:
        """Let nothing more of it come, and give its room back."""
        self.problem, self.on, self.size = problem, False, 0
        self._broken.set()

    def sender(self, send: Send) -> Send:
        """A ``send`` that keeps back what Gradio says of an upload that was broken off."""

        async def told(message: Message) -> None:
            if self.problem is None:
                await send(message)

        return told

    async def _next(self) -> Message:
        coming, broken = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._broken.wait())
        try:
            left = max(0.0, self._until - self._clock())
            await asyncio.wait({coming, broken}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self._broken.is_set() or not coming.done():
                raise Refused(self.problem or SLOW)
            return coming.result()
        finally:
            coming.cancel()
            broken.cancel()

    def _take(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._uploads.largest + HEADS:
            raise Refused(too_large(self._uploads.largest))
        self._form.write(data)
        self._uploads.make_room(self)


class Form:
    """A form that holds one file with a name, and nothing beside it, as it comes.

    Args:
        kind: the header that says what the body is.
        largest: bytes of the file.
    """

    def __init__(self, kind: bytes, largest: int) -> None:
        name, options = parse_options_header(kind)
        if name != b"multipart/form-data" or not options.get(b"boundary"):
            raise Refused(ABSENT)
        self._largest = largest
        self._parts = self._size = 0
        self._whole = False
        self._name = self._value = self._disposition = b""
        told: Any = {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._head("_name", data[start:end]),
            "on_header_value": lambda data, start, end: self._head("_value", data[start:end]),
            "on_header_end": self._head_ends,
            "on_headers_finished": self._heads_end,
            "on_part_data": lambda data, start, end: self._count(end - start),
            "on_end": self._end,
        }
        try:
            self._parser = MultipartParser(options[b"boundary"], told)
        except FormParserError:
            raise Refused(BROKEN) from None

    def write(self, data: bytes) -> None:
        """Look at the next piece.

        Raises:
            Refused: it holds what is not to come.
        """
        try:
            self._parser.write(data)
        except FormParserError:
            raise Refused(BROKEN) from None

    def end(self) -> None:
        """There is no more.

        Raises:
            Refused: the file is not whole, or there was none.
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
    """What a file would be kept under, as Gradio makes it of a name; empty where no file can have it."""
    name = PurePath(sent.decode("utf-8", "replace")).name
    return strip_invalid_filename_characters(name) if name.strip(". ") else ""


def size_of(file: Path) -> int | None:
    """Bytes of a file; None where there is none, or none any more."""
    try:
        return file.stat().st_size if file.is_file() else None
    except OSError:
        return None


def too_large(largest: int) -> Problem:
    """What is said of a file with more bytes than these."""
    return 413, "large", f"the file is larger than {largest >> 20} MB; send a smaller one"


def _digits(text: bytes) -> bytes:
    return text if text.isdigit() and len(text) < 16 else b"0"

"""Files of lines, such as JSON lines: a line ends at a newline and nowhere else.

``str.splitlines`` also ends a line at U+2028, U+2029 and U+0085, among others, which a text in JSON may hold as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from aded.core.errors import AdedError


def numbered_lines(path: str | os.PathLike[str], remedy: str) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file that are not blank, each with its number, from 1.

    Args:
        remedy: what the message ends with, such as "give a text file".

    Raises:
        AdedError: the file cannot be read or is not UTF-8 text.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as error:
        raise AdedError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}; {remedy}") from None

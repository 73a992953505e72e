"""Reading of line-based files such as JSON Lines. Only a newline character ends a line.

``str.splitlines`` also splits at U+2028, U+2029, U+0085 and others, which may occur unescaped in JSON strings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from aded.core.errors import AdedError


def numbered_lines(path: str | os.PathLike[str], remedy: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each non-blank line of a UTF-8 file.

    Args:
        remedy: end of the error message, such as "give a text file".

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

"""The command ``lesson``: a new lesson for the page, and the check of a lesson."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError
from aded.core.validation import check_file


def add_options(actions: Any) -> None:
    """Add the actions ``new`` and ``check``."""
    new = actions.add_parser("new", help="write a template with explanations, which passes the check")
    new.add_argument("file", metavar="FILE", help="such as my-lesson.json")
    new.set_defaults(run=_new)
    check = actions.add_parser("check", help="say every error of a lesson, with its place and its remedy")
    check.add_argument("file", metavar="FILE")
    check.set_defaults(run=_check)


def _new(options: argparse.Namespace) -> None:
    from aded.core.trace import write_atomically
    from aded.lessons.template import template

    path = Path(options.file)
    if path.suffix.lower() != ".json":
        raise AdedError(f"{path} is not a name for a lesson; give one that ends with .json")
    if path.exists():
        raise AdedError(f"{path} exists; give another name, or remove it first")
    check_file(options.file)
    write_atomically(path, template(re.sub("[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "lesson").encode())
    print(f"{path}: a lesson with explanations; edit it, then `python -m aded lesson check {path}`")


def _check(options: argparse.Namespace) -> int:
    from aded.lessons import checks

    body, faults = checks.check(Path(options.file))
    for fault in faults:
        print(f"{options.file}: {checks.sentence(fault)}")
    if body is None or faults:
        return 2
    exercises = sum("exercise" in part for part in body["parts"])
    languages = ", ".join(body["title"]) if isinstance(body["title"], dict) else "one language"
    parts = len(body["parts"])
    print(f"{options.file}: no errors; {parts} parts, {exercises} exercises, {body['minutes']} minutes ({languages})")
    return 0

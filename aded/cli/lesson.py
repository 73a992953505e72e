"""The command ``lesson``: a new lesson for the page, the check of a lesson, and what a lesson can refer to in a race."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError
from aded.core.validation import check_file

if TYPE_CHECKING:
    from aded.core.trace import Step


def add_options(actions: Any) -> None:
    """Add the actions ``new``, ``check`` and ``race``."""
    new = actions.add_parser("new", help="write a template with explanations, which passes the check")
    new.add_argument("file", metavar="FILE", help="such as my-lesson.json")
    new.set_defaults(run=_new)
    check = actions.add_parser("check", help="list the errors of a lesson, with their places and remedies")
    check.add_argument("file", metavar="FILE")
    check.set_defaults(run=_check)
    race = actions.add_parser("race", help="list the steps of a run, or the nodes of a step, with the numbers that a lesson uses")
    race.add_argument("race", metavar="RACE", help="title of a recorded race, such as 'A maths teacher', or a file")
    race.add_argument("--method", metavar="M", help="the run (default: the first that drafts)")
    race.add_argument("--step", type=int, metavar="N", help="a step, counted from 1: list its nodes")
    race.set_defaults(run=_race)


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


def _race(options: argparse.Namespace) -> None:
    from aded.core import trace
    from aded.lessons import checks

    files = checks.race_files()
    race = trace.load(files.get(options.race, Path(options.race)))
    run = checks.run_named(race, options.method)
    if run is None:
        known = ", ".join(dict.fromkeys(one.header.method for one in race.lanes))
        raise AdedError(f"the race has no run '{options.method}'; it has {known}")
    if options.step is None:
        print("\n".join(_step_line(number, step) for number, step in enumerate(run.steps, 1)))
    elif 1 <= options.step <= len(run.steps):
        print("\n".join(_node_lines(run.steps[options.step - 1])))
    else:
        raise AdedError(f"there is no step {options.step}; the run has {len(run.steps)}, counted from 1")


def _step_line(number: int, step: Step) -> str:
    drafted, texts = len(step.tree.tokens) - 1, "".join(step.texts)
    return f"step {number}: {drafted} drafted, {step.accepted} accepted after {step.tree.texts[0]!r}: {texts!r}"


def _node_lines(step: Step) -> list[str]:
    """One line per node: number, parent, token, verdict, and the columns of the tree."""
    tree, lines = step.tree, []
    for node, text in enumerate(tree.texts):
        columns = {**{name: values[node] for name, values in tree.columns.items()}, "target": tree.probability[node]}
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in columns.items() if value is not None)
        lines.append(f"node {node} (parent {tree.parents[node]}) {text!r} {tree.verdict[node]}: {numbers}")
    return lines

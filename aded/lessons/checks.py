"""Checks of a lesson beyond its form: names, languages, places in a race, and measured numbers against their sources."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.paths import ASSETS
from aded.lessons.format import KINDS, NODE, RECORD, RUN, Fault, read, texts

FOLDER = ASSETS / "lessons"
RACES = (ASSETS / "traces", FOLDER / "runs")
"""Folders of recorded races: those of the page, and further ones that only lessons show."""
ROOT = ASSETS.parent
SLOT = re.compile(r"\{([\w-]+)\}")
TERM = re.compile(r"\[[^\]]+\]\(term:([^)]*)\)")
PLAIN = re.compile(r"`[^`]*`|\[[^\]]+\]\([^)]*\)|\{[^}]*\}")
"""What is not looked at for numbers."""
DECIMAL = re.compile(r"\d\.\d")


def bundled() -> list[Path]:
    """The files of the bundled lessons in their order."""
    return [FOLDER / f"{name}.json" for name in json.loads((FOLDER / "order.json").read_text("utf-8"))]


def title_of(path: Path) -> str:
    """The title of a recorded race by its file: ``01-a-short_story.json`` becomes "A short story"."""
    text = path.stem.lstrip("0123456789-_ ").replace("-", " ").replace("_", " ") or path.stem
    return text[:1].upper() + text[1:]


def race_files() -> dict[str, Path]:
    """The recorded races by title."""
    return {title_of(file): file for folder in RACES for file in sorted(folder.glob("*.json"))}


def terms() -> set[str]:
    """The names of the glossary."""
    keys = json.loads((ASSETS / "page" / "learn" / "en.json").read_text("utf-8"))
    return {found[1] for key in keys if (found := re.fullmatch(r"term\.([\w-]+)", key))}


@cache
def _sentences() -> dict[str, str]:
    table = json.loads((ASSETS / "page" / "lessons" / "en.json").read_text("utf-8"))
    return {key.removeprefix("lesson.fault."): text for key, text in table.items() if key.startswith("lesson.fault.")}


def sentence(fault: Fault) -> str:
    """A fault in English, with its place and its remedy, as the page says it."""
    values = {name: str(value) for name, value in fault.values.items()}
    text = re.sub(r"\{(\w+)\}", lambda slot: values.get(slot[1], slot[0]), _sentences()[fault.key])
    return f"{fault.where}: {text}" if fault.where else text


def check(path: Path) -> tuple[dict[str, Any] | None, list[Fault]]:
    """Read a lesson and check it.

    Returns:
        The fields of the lesson, None if it cannot be read, and all faults: of its form, or if it has none, all others.

    Raises:
        AdedError: the file cannot be read.
    """
    try:
        body, faults = read(path.read_bytes())
    except OSError as error:
        raise AdedError(f"cannot read {path}: {error.strerror}; make a lesson with `python -m aded lesson new {path}`") from None
    if body is not None and not faults:
        faults = [*_texts(body), *_values(body), *_parts(body, path.parent), *_sources(body)]
    return body, faults


def _texts(body: dict[str, Any]) -> Iterator[Fault]:
    """All texts are in the same languages, and name facts and terms that exist."""
    languages, known = _languages(body["title"]), terms()
    for where, text in texts(body):
        if _languages(text) != languages:
            yield Fault(where, "languages", {"languages": ", ".join(languages) or "one string"})
        for part in text.values() if isinstance(text, dict) else [text]:
            yield from (Fault(where, "fact", {"name": name}) for name in SLOT.findall(part) if name not in body.get("facts", {}))
            yield from (Fault(where, "term", {"name": name}) for name in TERM.findall(part) if name not in known)
            if not where.endswith(".at") and (decimal := DECIMAL.search(PLAIN.sub("", part))):
                yield Fault(where, "decimal", {"text": decimal[0]})


def _languages(text: Any) -> list[str]:
    return sorted(text) if isinstance(text, dict) else []


def values(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """All values of a lesson by place, also those inside calculations."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        place = f"{where}[{key}]" if isinstance(value, list) else f"{where}.{key}" if where else str(key)
        if key in ("value", "answer", "series") and part is not None and ".source" not in place:
            yield from _of(part, place)
        elif key not in ("source", "show", "which"):
            yield from values(part, place)


def _of(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    yield where, value
    if isinstance(value, dict):
        for i, part in enumerate(value.get("of", [])):
            yield from _of(part, f"{where}.of[{i}]")


def _values(body: dict[str, Any]) -> Iterator[Fault]:
    """Named facts exist and do not contain themselves."""
    facts = body.get("facts", {})
    for where, value in values(body):
        if isinstance(value, str) and value not in facts:
            yield Fault(where, "fact", {"name": value})
    used = used_facts(body)
    yield from (Fault(f"facts.{name}", "unused") for name in facts if name not in used)
    for name in facts:
        if _contains(name, facts[name]["value"], facts, set()):
            yield Fault(f"facts.{name}", "circle", {"name": name})


def used_facts(part: dict[str, Any]) -> set[str]:
    """The names of the facts that texts and values of a lesson, or of a part of it, use."""
    said = [one for _, text in texts(part) for one in (text.values() if isinstance(text, dict) else [text])]
    named = {value for _, value in values(part) if isinstance(value, str)}
    return named | {name for text in said for name in SLOT.findall(text)}


def _contains(name: str, value: Any, facts: dict[str, Any], seen: set[str]) -> bool:
    used = {one for _, one in _of(value, "") if isinstance(one, str)} - seen
    return name in used or any(_contains(name, facts[one]["value"], facts, seen | used) for one in used if one in facts)


def _parts(body: dict[str, Any], folder: Path) -> Iterator[Fault]:
    """What a part shows exists, and its exercise has what its kind needs."""
    shown: dict[str, Any] = {}
    facts = body.get("facts", {})
    broken = False
    for i, part in enumerate(body["parts"]):
        where = f"parts[{i}]"
        shown = merged(shown, part.get("show"))
        if "show" in part or i == 0:
            yield from (places := list(_shown(shown, f"{where}.show", folder)))
            broken = bool(places)
        if "exercise" in part:
            yield from _exercise(part["exercise"], f"{where}.exercise")
        figure = part.get("figure")
        if figure and bool(figure.get("bars")) == ("series" in figure):
            yield Fault(f"{where}.figure", "figure")
        used = [] if broken else [*values(part, where), *_used_values(used_facts(part), facts)]
        for place, value in used:
            if isinstance(value, dict) and "record" in value:
                yield from _reference(value, shown, place, folder)


def _used_values(names: set[str], facts: dict[str, Any], seen: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """The values of facts, and of those that they are calculated from."""
    for name in sorted(names & set(facts) - seen):
        found = list(_of(facts[name]["value"], f"facts.{name}.value"))
        yield from found
        yield from _used_values({value for _, value in found if isinstance(value, str)}, facts, seen | names)


def merged(before: dict[str, Any], show: dict[str, Any] | None) -> dict[str, Any]:
    """What a part shows: race and method as in the part before if it names no race, everything if it has no ``show``."""
    if show is None or "race" in show or "file" in show:
        return show or before
    kept: dict[str, Any] = {name: before[name] for name in ("race", "file", "method") if name in before}
    return {**kept, **show}


def _exercise(exercise: dict[str, Any], where: str) -> Iterator[Fault]:
    kind = exercise["kind"]
    yield from (Fault(where, "needs", {"kind": kind, "field": name}) for name in KINDS[kind] if name not in exercise)
    correct, options = exercise.get("correct"), exercise.get("options", [])
    if kind == "choice" and "correct" in exercise:
        compared = correct in ("greatest", "least")
        if compared and not all("value" in option for option in options):
            yield Fault(f"{where}.options", "compared")
        if not compared and (type(correct) is not int or not 0 <= correct < len(options)):
            yield Fault(f"{where}.correct", "option", {"count": len(options)})


def _race(shown: dict[str, Any], folder: Path) -> trace.Race | None:
    """The race that a part shows; None if it is not there or not valid."""
    file = race_files().get(shown["race"]) if "race" in shown else folder / shown["file"] if "file" in shown else None
    return None if file is None else _load(file)


@cache
def _load(file: Path) -> trace.Race | None:
    try:
        return trace.load(file)
    except AdedError:
        return None


def run_named(race: trace.Race, method: str | None) -> trace.Trace | None:
    """The run of a method, or, without a name, the first one that drafts; ``aded~2`` is the second run of ADED."""
    names: list[str] = []
    for run in race.lanes:
        before = sum(one.header.method == run.header.method for one in race.lanes[: len(names)])
        names.append(run.header.method if not before else f"{run.header.method}~{before + 1}")
    if method is None:
        return next((run for run in race.lanes if run.header.method != "plain"), race.lanes[0])
    return race.lanes[names.index(method)] if method in names else None


def _shown(shown: dict[str, Any], where: str, folder: Path) -> Iterator[Fault]:
    if ("race" in shown) == ("file" in shown):
        yield Fault(where, "which")
    elif "race" in shown and shown["race"] not in race_files():
        yield Fault(f"{where}.race", "race", {"name": shown["race"], "list": ", ".join(race_files())})
    elif (race := _race(shown, folder)) is None:
        yield Fault(f"{where}.file", "file", {"name": shown.get("file", shown.get("race"))})
    else:
        yield from _place(race, shown, where)


def _place(race: trace.Race, place: dict[str, Any], where: str) -> Iterator[Fault]:
    """Method, step and node exist."""
    run = run_named(race, place.get("method"))
    if run is None:
        methods = ", ".join(dict.fromkeys(one.header.method for one in race.lanes))
        yield Fault(f"{where}.method", "method", {"name": place["method"], "list": methods})
    elif (step := place.get("step")) is not None and step > len(run.steps):
        yield Fault(f"{where}.step", "step", {"number": step, "count": len(run.steps)})
    elif step is not None and (node := place.get("node")) is not None and node >= len(run.steps[step - 1].tree.tokens):
        yield Fault(f"{where}.node", "node", {"number": node, "count": len(run.steps[step - 1].tree.tokens)})


def _reference(value: dict[str, Any], shown: dict[str, Any], where: str, folder: Path) -> Iterator[Fault]:
    """A reference has the step and the node that it needs, of itself or of what is shown, and they exist."""
    place: dict[str, Any] = {**{name: shown[name] for name in ("method", "step", "node") if name in shown}, **value}
    level = RECORD[value["record"]]
    needed = () if level == RUN else ("step", "node") if level == NODE else ("step",)
    missing = [name for name in needed if place.get(name) is None]
    yield from (Fault(where, "place", {"field": name, "record": value["record"]}) for name in missing)
    if not missing and (race := _race(shown, folder)):
        yield from _place(race, place, where)


def _sources(body: dict[str, Any]) -> Iterator[Fault]:
    """A fact that is a number names its source, and is the number there; an installed package has no such files."""
    for name, fact in body.get("facts", {}).items():
        where = f"facts.{name}"
        if not isinstance(fact["value"], (int, float)):
            continue
        if "source" not in fact:
            yield Fault(where, "unsourced")
        elif (ROOT / fact["source"]["file"]).is_file():
            found = written(fact["source"])
            if found is None:
                yield Fault(f"{where}.source", "nosource", {"file": fact["source"]["file"]})
            elif not math.isclose(found, fact["value"], rel_tol=1e-9):
                yield Fault(where, "differs", {"value": fact["value"], "file": fact["source"]["file"], "found": found})


def written(source: dict[str, Any]) -> float | None:
    """The number that a source names; None if there is none, or more than one row fits."""
    body = json.loads((ROOT / source["file"]).read_text("utf-8"))
    if row := source.get("row"):
        both = [*body.get("rows", []), *body.get("summary", [])]
        rows = [one for one in both if all(one.get(key) == value for key, value in row.items())]
        body = rows[0] if len(rows) == 1 else {}
    for key in source["field"].split("."):
        body = body.get(key) if isinstance(body, dict) else None
    return body if isinstance(body, (int, float)) and not isinstance(body, bool) else None

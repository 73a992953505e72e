"""The format of a lesson: a JSON file, described in ``docs/lessons.md``.

``assets/page/lessons/format.js`` is its twin in the browser, which gets the fields from ``schema``.
A key ``//`` of any object is a comment. A text is a string, or one string per language.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as default
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, WithJsonSchema

from aded.core.trace import MAX_FIELDS, STRICT

FORMAT, VERSION = "aded-lesson", 1
COMMENT = "//"
KINDS = {
    "path": (),
    "number": ("answer", "tolerance"),
    "choice": ("options", "correct"),
    "node": ("which",),
}
"""Kinds of exercises, and the fields that each of them needs besides the question."""
RUN, STEP, NODE = "run", "step", "node"
RECORD = {
    "steps": RUN,
    "tokens": RUN,
    "tokens-per-step": RUN,
    "accepted": RUN,
    "accepted-per-step": RUN,
    "acceptance-rate": RUN,
    "tokens-per-second": RUN,
    "speed-up": RUN,
    "run-field": RUN,
    "tokens-by-step": RUN,
    "accepted-by-step": RUN,
    "drafted": STEP,
    "accepted-in-step": STEP,
    "tokens-in-step": STEP,
    "simulations": STEP,
    "residual-probability": STEP,
    "step-field": STEP,
    "token": NODE,
    "depth": NODE,
    "prior": NODE,
    "visits": NODE,
    "value": NODE,
    "parent-visits": NODE,
    "exploration": NODE,
    "score": NODE,
    "target-probability": NODE,
    "target-rank": NODE,
    "p": NODE,
    "q": NODE,
    "ratio": NODE,
    "uniform": NODE,
    "rejection": NODE,
}
"""What can be read from the record of the race that a part shows, and what it belongs to."""
FIELDS_OF_RECORD = ("run-field", "step-field")
"""Those that need a ``path``."""
COMPUTE = {
    "add": 2,
    "subtract": 2,
    "multiply": 2,
    "divide": 2,
    "power": 2,
    "smaller": 2,
    "larger": 2,
    "logarithm": 1,
    "root": 1,
    "expected-tokens": 2,
}
"""Calculations and their number of values. ``expected-tokens`` is (1 - a^(g + 1)) / (1 - a) of the acceptance rate a and the
draft length g (arXiv 2211.17192, equation 1)."""
REFERENCE = {"record", "path", "method", "step", "node", "moment"}


def _check_text(text: Any) -> Any:
    languages = text.values() if isinstance(text, dict) else [text]
    if not languages or not all(isinstance(part, str) and part.strip() for part in languages):
        raise ValueError("give a text, or an object with a text per language, such as {'en': '…', 'zh': '…'}")
    return text


def _check_value(value: Any) -> Any:
    if isinstance(value, dict):
        kind = "record" if "record" in value else "compute"
        if value.get(kind) not in (RECORD if kind == "record" else COMPUTE):
            raise ValueError(f"there is no {kind} {str(value.get(kind))[:40]!r}; docs/lessons.md lists all names")
        if set(value) - (REFERENCE if kind == "record" else {"compute", "of"}):
            raise ValueError("it has a field that is not known")
        if kind == "record":
            _check_reference(value)
        else:
            _check_calculation(value)
    elif isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("give a number, the name of a fact, or an object with 'record' or 'compute'")
    return value


def _check_reference(value: dict[str, Any]) -> None:
    if ("path" in value) != (value["record"] in FIELDS_OF_RECORD) or not isinstance(value.get("path", ""), str):
        raise ValueError(f"'path' is needed by {' and '.join(FIELDS_OF_RECORD)}, and by no other name")
    if not isinstance(value.get("method", ""), str):
        raise ValueError("'method' is the name of a run, such as aded")
    for name, least in (("step", 1), ("node", 0), ("moment", 0)):
        if name in value and (type(value[name]) is not int or value[name] < least):
            raise ValueError(f"'{name}' is a whole number, at least {least}")


def _check_calculation(value: dict[str, Any]) -> None:
    needed = COMPUTE[value["compute"]]
    if not isinstance(value.get("of"), list) or len(value["of"]) != needed:
        raise ValueError(f"'{value['compute']}' needs a list 'of' {needed} values")
    for part in value["of"]:
        _check_value(part)


Text = Annotated[Any, AfterValidator(_check_text), WithJsonSchema({"check": "text"})]
"""A string, or one string per language."""
Value = Annotated[Any, AfterValidator(_check_value), WithJsonSchema({"check": "value"})]
"""A number, the name of a fact, a reference to the record, or a calculation."""
Name = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]*$")]
Whole = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Source:
    """Where a measured number is written: a committed JSON file."""

    file: str  # from the root of the repository
    field: str  # of the row, or of the file; with points, such as categories.math
    row: dict[str, Any] = default(default_factory=dict)  # what the row has that is meant; empty: the file itself


@dataclass(frozen=True)
class Fact:
    """A named number that texts, exercises and figures use: of the record, calculated, or from a committed result."""

    value: Value
    source: Source | None = None  # needed by a measured number that is not of the record
    digits: Annotated[int, Field(ge=0, le=6)] | None = None  # decimals; None: 2, and none for a whole number
    percent: bool = False


@dataclass(frozen=True)
class Show:
    """What the page shows; steps are counted from 1, as on the page."""

    race: str | None = None  # title of a recorded race
    file: str | None = None  # name of a saved race that the reader opens
    method: str | None = None
    step: Annotated[int, Field(ge=1)] | None = None
    tab: Literal["draft", "pass", "verify", "learn"] | None = None
    node: Annotated[int, Field(ge=-1)] | None = None
    moment: Whole | None = None  # of the search: its phases so far, four per simulation
    panel: str | None = None  # ``data-part`` of an element to open and to frame


@dataclass(frozen=True)
class Which:
    """The nodes that are right: those with all these properties, and of these the ones with the greatest or least value."""

    children_of: Whole | None = None
    verdict: Literal["accepted", "rejected", "unreached"] | None = None
    greatest: Literal["score", "visits", "prior", "value", "probability", "depth"] | None = None
    least: Literal["score", "visits", "prior", "value", "probability", "depth"] | None = None


@dataclass(frozen=True)
class Option:
    """An option of a choice."""

    text: Text
    value: Value | None = None  # compared if ``correct`` is greatest or least


@dataclass(frozen=True)
class Exercise:
    """A question with a judged answer."""

    kind: Literal["path", "number", "choice", "node"]
    question: Text
    why: Text  # shown with the verdict
    hint: Text | None = None
    cover: bool = False  # whether the verification of the step is hidden until it is answered; always so for a path
    answer: Value | None = None
    tolerance: Annotated[float, Field(ge=0)] | None = None
    options: list[Option] = default(default_factory=list)
    correct: Annotated[Any, WithJsonSchema({"check": "correct"})] = None  # number of the option, from 0; greatest or least
    which: Which | None = None


@dataclass(frozen=True)
class Bar:
    label: Text
    value: Value


@dataclass(frozen=True)
class Figure:
    """A bar chart: of values, or of a list in the record."""

    title: Text
    y: Text  # title of the axis, with the unit
    x: Text | None = None
    bars: list[Bar] = default(default_factory=list)
    series: Value | None = None  # tokens-by-step or accepted-by-step, instead of bars


@dataclass(frozen=True)
class Reading:
    """An exact reference."""

    title: str  # authors, year and title
    at: Text  # section, equation, figure
    arxiv: Annotated[str, Field(pattern=r"^\d{4}\.\d{4,5}$")] | None = None


@dataclass(frozen=True)
class Part:
    title: Text
    text: Annotated[list[Text], Field(min_length=1)]  # paragraphs
    show: Show | None = None  # None: as in the part before
    exercise: Exercise | None = None
    figure: Figure | None = None
    ablation: bool = False  # whether a button opens the controls of an ablation, if the page has a model
    reading: list[Reading] = default(default_factory=list)


@dataclass(frozen=True)
class Lesson:
    __pydantic_config__ = STRICT
    name: Name  # that of its file and in links
    title: Text
    about: Text  # one sentence for the list
    minutes: Annotated[int, Field(ge=1, le=120)]
    parts: Annotated[list[Part], Field(min_length=1)]
    facts: dict[str, Fact] = default(default_factory=dict)


LESSON = TypeAdapter(Lesson)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a lesson.

    Attributes:
        where: the place, such as ``parts[2].exercise.answer``.
        key: of the sentence in the page's texts, after ``lesson.fault.``; it says the remedy.
        values: of the sentence.
    """

    where: str
    key: str
    values: dict[str, Any] = default(default_factory=dict)


def read(text: str | bytes) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The fields of a lesson without comments, and the faults of their form; None if it cannot be read at all."""
    try:
        body = without_comments(json.loads(text))
    except (ValueError, RecursionError) as error:
        return None, [Fault("", "syntax", {"reason": str(error)[:120]})]
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        return None, [Fault("format", "foreign")]
    if body.get("version") != VERSION:
        return None, [Fault("version", "version", {"version": VERSION})]
    body = {key: value for key, value in body.items() if key not in ("format", "version")}
    try:
        LESSON.validate_json(json.dumps(body))
    except ValidationError as error:
        return body, [_fault(found) for found in error.errors(include_url=False, include_context=False, include_input=False)]
    return body, []


def _fault(found: Any) -> Fault:
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in found["loc"]).removeprefix(".")
    kind = {"missing": "missing", "unexpected_keyword_argument": "unknown", "extra_forbidden": "unknown"}.get(
        found["type"], "form"
    )
    return Fault(where, kind, {"reason": found["msg"].removeprefix("Value error, ")} if kind == "form" else {})


def without_comments(value: Any) -> Any:
    """A JSON value without the keys that are comments."""
    if isinstance(value, list):
        return [without_comments(part) for part in value]
    if isinstance(value, dict):
        return {key: without_comments(part) for key, part in value.items() if key != COMMENT}
    return value


def texts(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """All texts of a lesson by place: a string, or a dict with one string per language."""
    named = {"title", "about", "question", "why", "hint", "label", "at", "x", "y"}
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        place = f"{where}[{key}]" if isinstance(value, list) else f"{where}.{key}" if where else str(key)
        if key == "text":
            yield from ((f"{place}[{i}]", one) for i, one in enumerate(part)) if isinstance(part, list) else [(place, part)]
        elif key in named and not (key == "title" and ".reading[" in place):
            yield place, part
        elif key not in ("facts", "source", "which", "show"):
            yield from texts(part, place)


def schema() -> dict[str, Any]:
    """The fields of a lesson as JSON Schema; the keyword ``check`` names a further check."""
    return LESSON.json_schema()


def limits() -> dict[str, Any]:
    """What the browser needs to check a lesson."""
    names = {"kinds": KINDS, "record": RECORD, "paths": FIELDS_OF_RECORD, "compute": COMPUTE}
    return {"format": FORMAT, "version": VERSION, "fields": MAX_FIELDS, **names}

"""The record of a decode: typed, versioned JSON that the page draws and the terminal replays.

Knows nothing of the engine: numbers and texts only. Every number is finite; what does not apply is null.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import tempfile
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aded.core.errors import AdedError, check_text, first_line

VERSION = 3
READABLE = (1, 2, 3)
"""Versions that can be read: the first has neither ``RowChange.learned`` nor ``Step.size``, the second no ``Header.cost`` yet."""
DEEPEST = 8
REMEDY = "record one with `python -m aded generate --trace FILE`"
LONGEST_SECONDS = 1e6

Problem = Literal["missing", "syntax", "foreign", "version", "damaged"]
"""Of a file: it cannot be read, is no JSON, is no trace, is one of another version, or is damaged."""
Verdict = Literal["root", "accepted", "rejected", "unreached"]
"""``rejected``: the target stood at its parent and chose another token; ``unreached``: it never stood there."""
Reason = Literal[
    "root",
    "target chose it",
    "target chose a sibling",
    "target chose an undrafted token",
    "parent not accepted",
    "cut at the end",
]
"""Why a node got its verdict; ``cut at the end``: verified, but the text ended before it."""
Origin = Literal["draft", "target"]
"""Who wrote a token: an accepted draft, or the target itself."""
FinishReason = Literal["eos", "stop", "length", "context", "cancelled"]
"""End-of-text token, stop string, new-token limit, context limit, stopped by the user."""


@dataclass(frozen=True)
class TreeRecord:
    """A draft tree after verification; every list has one entry a node, in topological order."""

    tokens: list[int]
    parents: list[int]  # -1 for the root
    texts: list[str]
    columns: dict[str, list[float | None]]  # any of prior, visits, value, exploration, score
    probability: list[float | None]  # the target's probability of this token at its parent, after all sampling settings
    rank: list[int | None]  # its rank there, 1 = most probable
    verdict: list[Verdict]
    reason: list[Reason]


@dataclass(frozen=True)
class Choice:
    """What the target said at one node of the accepted path: a row of the verification walk."""

    node: int
    token: int
    text: str
    probability: float
    rank: int
    drafted: bool  # whether a child of the node held this token
    top_tokens: list[int]
    top_texts: list[str]
    top_probabilities: list[float]
    draw: float | None = None  # the token's uniform random number at this position; null when greedy


@dataclass(frozen=True)
class RowChange:
    """A matrix row that the step changed: successors of a pair of tokens, before and after."""

    key: list[int]
    key_texts: list[str]
    tokens: list[int]  # union of the successors before and after, most probable after first
    texts: list[str]
    before: list[float]
    after: list[float]
    learned: list[float] = field(default_factory=list)  # the session's part of ``after``, the rest is the base's; empty: unknown


@dataclass(frozen=True)
class Agreement:
    """How near one representative of the model was to it at the step's root; see ``aded.ngram.representative``."""

    who: Literal["base", "overlay", "session"]
    unseen: bool  # the pair of newest tokens had no row there
    total_variation: float
    top_1: float  # the share of the target's most probable 1, 4 and 12 tokens that were also the representative's
    top_4: float
    top_12: float


@dataclass(frozen=True)
class Size:
    """The matrix after the step: rows and bytes of memory of the base, and of what the overlay uses."""

    base_rows: int
    base_bytes: int
    overlay_rows: int
    overlay_bytes: int


@dataclass(frozen=True)
class SimulationRecord:
    """One simulation of the search; nodes are those of the tree, -1 one that did not get into the draft."""

    selected: list[int]
    expanded: int
    reward: float


@dataclass(frozen=True)
class Budget:
    """How many nodes the draft was allowed, and why."""

    nodes: int
    why: str


@dataclass(frozen=True)
class Seconds:
    """Time of one step on the lane's own clock, in seconds; drawing and recording are in none of them."""

    draft: float = 0.0
    verify: float = 0.0
    commit: float = 0.0
    update: float = 0.0

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.commit + self.update


@dataclass(frozen=True)
class Step:
    """One round: a draft, its verification, what was kept."""

    index: int
    position: int  # absolute position of the root
    tree: TreeRecord
    path: list[int]  # accepted nodes, the root first
    choices: list[Choice]  # one a node of the path
    emitted: list[int]
    texts: list[str]  # one an emitted token; a character of several tokens stands with the last of them
    origins: list[Origin]
    budget: Budget
    seconds: Seconds
    rows: list[RowChange] = field(default_factory=list)
    simulations: list[SimulationRecord] = field(default_factory=list)
    agreement: list[Agreement] = field(default_factory=list)
    size: Size | None = None  # None for a method without a matrix
    note: str | None = None

    @property
    def accepted(self) -> int:
        """Drafted tokens that were kept."""
        return self.origins.count("draft")


@dataclass(frozen=True)
class Cost:
    """What a step was measured to cost where the record was made; see ``aded.engine.cost_model.StepCost``."""

    sizes: list[int]  # of trees, ascending
    contexts: list[int]  # tokens, ascending
    seconds: list[list[float]]  # [contexts][sizes]
    padded: bool  # whether a tree costs what the next measured size costs


@dataclass(frozen=True)
class Header:
    """What was run, on what, how."""

    method: str
    label: str
    lossless: bool
    model: str
    fingerprint: str
    device: str
    dtype: str
    versions: dict[str, str]
    settings: dict[str, Any]
    method_settings: dict[str, Any]
    seed: int
    prompt: str
    prompt_tokens: list[int]
    prompt_texts: list[str]
    notice: str | None = None  # what the model cannot do, for example verify trees, and why a draft model stopped drafting
    cost: Cost | None = None  # None where it was not measured


@dataclass(frozen=True)
class Footprint:
    """What the engine held on a card when the record was made: weights, caches, graphs, of all decodes together."""

    bytes: int
    captured_steps: int  # step shapes recorded as CUDA graphs so far
    capture_seconds: float  # what that took, outside of all timing


@dataclass(frozen=True)
class Trace:
    """A whole decode."""

    header: Header
    steps: list[Step] = field(default_factory=list)
    prefill_seconds: float = 0.0
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    footprint: Footprint | None = None  # None where the model is not on a card

    @property
    def decode_seconds(self) -> float:
        """Seconds of all steps: the prompt's prefill and all recording are not in it."""
        return sum(step.seconds.total for step in self.steps)

    @property
    def tokens_per_step(self) -> float:
        """New tokens per forward pass of the target."""
        return len(self.token_ids) / len(self.steps) if self.steps else 0.0

    @property
    def accepted_per_step(self) -> float:
        return sum(step.accepted for step in self.steps) / len(self.steps) if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        return len(self.token_ids) / self.decode_seconds if self.decode_seconds > 0 else 0.0

    def summary(self) -> dict[str, Any]:
        """The decode in one flat object, as ``generate --json`` prints it."""
        seconds = [step.seconds for step in self.steps]
        head = self.header
        return {
            "method": head.method,
            "model": head.model,
            "device": head.device,
            "dtype": head.dtype,
            "text": self.text,
            "token_ids": self.token_ids,
            "finish_reason": self.finish_reason,
            "steps": len(self.steps),
            "tokens_per_step": self.tokens_per_step,
            "accepted_per_step": self.accepted_per_step,
            "prompt_tokens": len(head.prompt_tokens),
            "prefill_seconds": self.prefill_seconds,
            "decode_seconds": self.decode_seconds,
            "draft_seconds": sum(s.draft for s in seconds),
            "verify_seconds": sum(s.verify for s in seconds),
            "commit_seconds": sum(s.commit for s in seconds),
            "update_seconds": sum(s.update for s in seconds),
            "tokens_per_second": self.tokens_per_second,
            "lossless": head.lossless,
            "seed": head.seed,
            "notice": head.notice,
        }


@dataclass(frozen=True)
class Race:
    """Several methods on one prompt: what the page shows and saves."""

    lanes: list[Trace]


_FORMATS: dict[type, str] = {Trace: "aded-trace", Race: "aded-race"}


class TraceError(AdedError):
    """A file that is no trace, or none that can be read.

    Attributes:
        kind: what is wrong with it; ``where``: the field that is damaged, as ``race.lanes[0].steps[3]``, where that is known.
    """

    def __init__(self, kind: Problem, message: str, where: str = "") -> None:
        self.kind, self.where = kind, where
        super().__init__(message)


class _Fault(ValueError):
    """What is wrong in a record, and where."""

    def __init__(self, where: str, what: str) -> None:
        self.where = where
        super().__init__(f"{where} {what}")


def to_json(record: Any) -> Any:
    """Any record of this module as plain lists and dictionaries (``Trace`` and ``Race`` with format and version)."""
    body = _plain(record)
    name = _FORMATS.get(type(record))
    return {"format": name, "version": VERSION, **body} if name else body


def dumps(record: Any) -> str:
    """``record`` as compact JSON text.

    Raises:
        AdedError: a number in it is not finite, or a value is none of JSON's.
    """
    try:
        return json.dumps(to_json(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise AdedError(f"the record cannot be written as JSON ({first_line(error)}); record it again") from None


def loads(text: str | bytes) -> Race:
    """Read a trace or a race; a single trace becomes a race of one lane.

    Raises:
        TraceError: not JSON, another format or version, a missing or wrong field, or a number that is not finite.
    """
    try:
        body = json.loads(text, parse_constant=_no_constant)
    except _Fault as fault:
        raise TraceError("damaged", f"damaged trace: {fault}; record it again") from None
    except (ValueError, RecursionError):
        raise TraceError("syntax", f"not a trace: it is not JSON; {REMEDY}") from None
    return from_json(body)


def from_json(body: Any) -> Race:
    """As ``loads``, from parsed JSON."""
    name = body.get("format") if isinstance(body, dict) else None
    if name not in _FORMATS.values():
        raise TraceError("foreign", f"not a trace: the field 'format' is missing; {REMEDY}")
    if body.get("version") not in READABLE:
        known = f"this program reads versions {READABLE[0]} to {READABLE[-1]}"
        raise TraceError("version", f"trace version {body.get('version')!r} cannot be read, {known}; record it again")
    fields = {k: v for k, v in body.items() if k not in ("format", "version")}
    try:
        if name == _FORMATS[Race]:
            lanes = [{k: v for k, v in lane.items() if k not in ("format", "version")} for lane in fields.pop("lanes")]
            race = _typed(Race, {"lanes": lanes, **fields}, "race")
        else:
            race = Race([_typed(Trace, fields, "trace")])
        for number, lane in enumerate(race.lanes):
            _check(lane, f"race.lanes[{number}]" if name == _FORMATS[Race] else "trace")
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        where = getattr(error, "where", "")
        raise TraceError("damaged", f"damaged trace: {first_line(error)}; record it again", where) from None
    return race


def save(record: Trace | Race, path: str | os.PathLike[str]) -> None:
    """Write atomically: the file is whole or not there."""
    write_atomically(Path(path), dumps(record).encode())


def load(path: str | os.PathLike[str]) -> Race:
    """Read a file written by ``save``.

    Raises:
        TraceError: the file is missing, damaged or of another version.
    """
    try:
        return loads(Path(path).read_bytes())
    except OSError as error:
        raise TraceError("missing", f"cannot read {path}: {error.strerror}; give the path of a recorded trace") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and rename it into place; a link is followed.

    Raises:
        AdedError: the folder is missing or not writable, the disk is full, or ``path`` is no ordinary file.
    """
    temporary = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise AdedError(f"cannot write {path}: it is not an ordinary file; choose another path")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary:
            temporary.unlink(missing_ok=True)
        raise AdedError(f"cannot write {path}: {error.strerror}; choose another path") from None


def finite(values: Iterable[float]) -> list[float | None]:
    """Numbers as the record takes them: six digits, NaN and infinities become None."""
    return [rounded(v) if math.isfinite(v) else None for v in values]


def writable(value: Any) -> Any:
    """Settings of any kind as JSON can hold them: NaN and infinities become None, what JSON does not know becomes text."""
    if isinstance(value, dict):
        return {str(key): writable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [writable(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def rounded(value: float) -> float:
    """Six digits: more than anyone reads, and a third of the file."""
    return float(f"{value:.6g}")


def _no_constant(name: str) -> float:
    raise _Fault(name, "is not a finite number")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return value


def _typed(kind: Any, value: Any, where: str) -> Any:
    """``value`` as ``kind``: dataclasses, lists, dictionaries, unions with None, literals and scalars."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        _check_any(value, where)
        return value
    if dataclasses.is_dataclass(kind):
        return _typed_record(kind, value, where)
    if origin is list:
        if not isinstance(value, list):
            raise _Fault(where, "is not a list")
        return [_typed(args[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise _Fault(where, "is not an object")
        return {k: _typed(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin in (typing.Union, types.UnionType):
        inner = [a for a in args if a is not type(None)]
        return None if value is None and len(inner) < len(args) else _typed(inner[0], value, where)
    if origin is Literal:
        if value not in args:
            raise _Fault(where, f"is {value!r}, not one of {', '.join(map(repr, args))}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)  # OverflowError where it is none
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _Fault(where, f"is not of type {kind.__name__}")
    if kind is float and not math.isfinite(value):
        raise _Fault(where, "is not a finite number")
    if kind is str:
        check_text(value, where)
    return value


def _check_any(value: Any, where: str, depth: int = 0) -> None:
    """Settings may be any JSON that can be written again: finite numbers, valid text, a few levels."""
    if depth > DEEPEST:
        raise _Fault(where, "is nested too deeply")
    if isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, (int, float)) and not math.isfinite(value):
        raise _Fault(where, "is not a finite number")
    elif isinstance(value, list):
        for item in value:
            _check_any(item, where, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_text(key, where)
            _check_any(item, f"{where}.{key}", depth + 1)


_hints = functools.cache(typing.get_type_hints)


def _typed_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _Fault(where, "is not an object")
    hints = _hints(kind)
    for f in dataclasses.fields(kind):
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if f.name not in value and required:
            raise _Fault(f"{where}.{f.name}", "is missing")
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise _Fault(f"{where}.{unknown[0]}", "is not a known field")
    return kind(**{name: _typed(hints[name], v, f"{where}.{name}") for name, v in value.items()})


def _check(trace: Trace, lane: str) -> None:
    """What types cannot say: lists of one length, indices in range, ids that add up; ``lane`` says which it is."""
    _check_cost(trace.header.cost, f"{lane}.header.cost")
    for number, step in enumerate(trace.steps):
        tree, where = step.tree, f"{lane}.steps[{number}]"
        n = len(tree.tokens)
        columns: list[list[Any]] = [
            tree.parents,
            tree.texts,
            tree.probability,
            tree.rank,
            tree.verdict,
            tree.reason,
            *tree.columns.values(),
        ]
        if n < 1 or any(len(c) != n for c in columns):
            raise _Fault(where, "has lists of the tree that differ in length")
        if tree.parents[0] != -1 or any(not 0 <= p < i for i, p in enumerate(tree.parents[1:], 1)):
            raise _Fault(where, "has parents of the tree out of order")
        parts = (step.seconds.draft, step.seconds.verify, step.seconds.commit, step.seconds.update)
        if any(not 0 <= s <= LONGEST_SECONDS for s in parts):
            raise _Fault(where, "has seconds that are no durations")
        if any(not 0 <= node < n for node in step.path):
            raise _Fault(where, "has a path that leaves the tree")
        if not len(step.emitted) == len(step.texts) == len(step.origins):
            raise _Fault(where, "has emitted tokens, texts and origins that differ in length")
        if any(row.learned and len(row.learned) != len(row.tokens) for row in step.rows):
            raise _Fault(where, "has a row whose tokens and what was learned of them differ in length")
    if not 0 <= trace.prefill_seconds <= LONGEST_SECONDS:
        raise _Fault(f"{lane}.prefill_seconds", "is no duration")
    if trace.finish_reason and [t for step in trace.steps for t in step.emitted] != trace.token_ids:
        raise _Fault(f"{lane}.token_ids", "are not the steps' tokens")


def _check_cost(cost: Cost | None, where: str) -> None:
    if cost is None:
        return
    rows = cost.seconds
    if len(rows) != len(cost.contexts) or any(len(row) != len(cost.sizes) for row in rows) or not (rows and cost.sizes):
        raise _Fault(where, "has sizes, contexts and seconds that do not fit each other")
    if any(numbers != sorted(set(numbers)) or numbers[0] < 0 for numbers in (cost.sizes, cost.contexts)):
        raise _Fault(where, "has sizes or contexts that do not ascend")
    if any(not 0 < seconds <= LONGEST_SECONDS for row in rows for seconds in row):
        raise _Fault(where, "has seconds that are no durations")

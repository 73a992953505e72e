"""Record of a decode: typed, versioned JSON that the page displays and ``aded replay`` prints.

Independent of the engine: it holds only numbers and text. Every number is finite; a value that does not apply is null.
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
"""Versions that can be read: version 1 lacks ``RowChange.learned`` and ``Step.size``, versions 1 and 2 lack ``Header.cost``."""
MAX_NESTING = 8
REMEDY = "record one with `python -m aded generate --trace FILE`"
MAX_SECONDS = 1e6

Problem = Literal["missing", "syntax", "foreign", "version", "damaged"]
"""Why a file is refused: it cannot be read, is not JSON, is not a trace, has an unknown version, or is damaged."""
Verdict = Literal["root", "accepted", "rejected", "unreached"]
"""``rejected``: the target chose another token after its accepted parent. ``unreached``: its parent was not accepted, or the text
ended before it."""
Reason = Literal[
    "root",
    "target chose it",
    "target chose a sibling",
    "target chose an undrafted token",
    "parent not accepted",
    "cut at the end",
]
"""Why a node got its verdict; ``cut at the end``: the text ended before it."""
Origin = Literal["draft", "target"]
"""Source of a token: an accepted draft token, or the target's bonus or correction token."""
FinishReason = Literal["eos", "stop", "length", "context", "cancelled"]
"""End-of-text token, stop string, max new tokens, context length, cancelled by the user."""


@dataclass(frozen=True)
class TreeRecord:
    """A draft tree after verification; every list has one entry per node, in topological order."""

    tokens: list[int]
    parents: list[int]  # -1 for the root
    texts: list[str]
    columns: dict[str, list[float | None]]  # by name: prior P, visits N, value Q, exploration U, score of PUCT
    probability: list[
        float | None
    ]  # the target's probability of this token given its parent's prefix, after all sampling settings
    rank: list[int | None]  # its rank in the target's distribution, 1 = most probable
    verdict: list[Verdict]
    reason: list[Reason]


@dataclass(frozen=True)
class Choice:
    """The target's choice at one node of the accepted path."""

    node: int
    token: int
    text: str
    probability: float
    rank: int
    drafted: bool  # whether a child of the node held this token
    top_tokens: list[int]
    top_texts: list[str]
    top_probabilities: list[float]
    draw: float | None = None  # uniform random number of the choice; None if greedy


@dataclass(frozen=True)
class RowChange:
    """A row of the tri-gram matrix that the step changed: the successors of a bigram, before and after."""

    key: list[int]
    key_texts: list[str]
    tokens: list[int]  # union of the successors before and after, by descending probability after
    texts: list[str]
    before: list[float]
    after: list[float]
    learned: list[float] = field(default_factory=list)  # share of ``after`` from session counts; empty if unknown


@dataclass(frozen=True)
class Agreement:
    """Agreement of an LLM representative with the target at the root of a step; see ``aded.ngram.representative``."""

    who: Literal["base", "overlay", "session"]
    unseen: bool  # whether the matrix has no row for the last bigram
    total_variation: float  # distance
    top_1: float  # share of the target's 1, 4 and 12 most probable tokens that are also the representative's
    top_4: float
    top_12: float


@dataclass(frozen=True)
class Size:
    """Size of the tri-gram matrix after the step: rows and bytes of base counts and of session counts (overlay)."""

    base_rows: int
    base_bytes: int
    overlay_rows: int
    overlay_bytes: int


@dataclass(frozen=True)
class SimulationRecord:
    """One simulation of the tree search. Node indices refer to the draft tree; -1 is a node that is not in the draft."""

    selected: list[int]
    expanded: int
    reward: float


@dataclass(frozen=True)
class Budget:
    """Maximum number of nodes of the draft, and the reason for it."""

    nodes: int
    why: str


@dataclass(frozen=True)
class Seconds:
    """Decode time of one step by phase, in seconds, without recording and display. ``commit`` is KV-cache compaction."""

    draft: float = 0.0
    verify: float = 0.0
    commit: float = 0.0
    update: float = 0.0

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.commit + self.update


@dataclass(frozen=True)
class Step:
    """One step: a draft, its verification and the emitted tokens."""

    index: int
    position: int  # absolute position of the root
    tree: TreeRecord
    path: list[int]  # accepted nodes, starting with the root
    choices: list[Choice]  # one per node of the path
    emitted: list[int]
    texts: list[str]  # one per emitted token; a character of several tokens belongs to the last of them
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
        """Number of accepted draft tokens."""
        return self.origins.count("draft")


@dataclass(frozen=True)
class Cost:
    """Measured time of a step on the recording machine; see ``aded.engine.cost_model.StepCost``."""

    sizes: list[int]  # tree sizes in nodes, ascending
    contexts: list[int]  # context lengths in tokens, ascending
    seconds: list[list[float]]  # [contexts][sizes]
    padded: bool  # whether trees are padded to the next measured size


@dataclass(frozen=True)
class Header:
    """Method, model, device and settings of a decode."""

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
    notice: str | None = None  # a limitation, such as no tree attention, or why a draft model stopped drafting
    cost: Cost | None = None  # None if not measured


@dataclass(frozen=True)
class Footprint:
    """GPU memory of the engine at recording: weights, KV caches and CUDA graphs of all decodes."""

    bytes: int
    captured_steps: int  # step shapes captured as CUDA graphs so far
    capture_seconds: float  # time of these captures, not part of the decode time


@dataclass(frozen=True)
class Trace:
    """A complete decode."""

    header: Header
    steps: list[Step] = field(default_factory=list)
    prefill_seconds: float = 0.0
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    footprint: Footprint | None = None  # None if the model is not on a GPU

    @property
    def decode_seconds(self) -> float:
        """Seconds of all steps, without prefill and recording."""
        return sum(step.seconds.total for step in self.steps)

    @property
    def tokens_per_step(self) -> float:
        """New tokens per step, including bonus and correction tokens (block efficiency)."""
        return len(self.token_ids) / len(self.steps) if self.steps else 0.0

    @property
    def accepted_per_step(self) -> float:
        """Accepted draft tokens per step."""
        return sum(step.accepted for step in self.steps) / len(self.steps) if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """New tokens per second of decode time."""
        return len(self.token_ids) / self.decode_seconds if self.decode_seconds > 0 else 0.0

    def summary(self) -> dict[str, Any]:
        """The decode as one flat object, as printed by ``generate --json``."""
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
    """Runs of several methods on one prompt."""

    lanes: list[Trace]


_FORMATS: dict[type, str] = {Trace: "aded-trace", Race: "aded-race"}


class TraceError(AdedError):
    """A trace that cannot be read.

    Attributes:
        kind: what is wrong.
        where: the damaged field, such as ``race.lanes[0].steps[3]``; empty if unknown.
    """

    def __init__(self, kind: Problem, message: str, where: str = "") -> None:
        self.kind, self.where = kind, where
        super().__init__(message)


class _FieldError(ValueError):
    """An invalid field of a record."""

    def __init__(self, where: str, what: str) -> None:
        self.where = where
        super().__init__(f"{where} {what}")


def to_json(record: Any) -> Any:
    """A record of this module as lists and dictionaries; ``Trace`` and ``Race`` get a format and a version."""
    body = _to_plain(record)
    name = _FORMATS.get(type(record))
    return {"format": name, "version": VERSION, **body} if name else body


def dumps(record: Any) -> str:
    """``record`` as compact JSON text.

    Raises:
        AdedError: a number is not finite, or a value has no JSON form.
    """
    try:
        return json.dumps(to_json(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise AdedError(f"the record cannot be written as JSON ({first_line(error)}); record it again") from None


def loads(text: str | bytes) -> Race:
    """Parse a trace or a race; a trace becomes a race with one run.

    Raises:
        TraceError: not JSON, unknown format or version, a missing or invalid field, or a number that is not finite.
    """
    try:
        body = json.loads(text, parse_constant=_refuse_constant)
    except _FieldError as fault:
        raise TraceError("damaged", f"damaged trace: {fault}; record it again") from None
    except (ValueError, RecursionError):
        raise TraceError("syntax", f"not a trace: it is not JSON; {REMEDY}") from None
    return from_json(body)


def from_json(body: Any) -> Race:
    """Like ``loads``, for parsed JSON."""
    name = body.get("format") if isinstance(body, dict) else None
    if name not in _FORMATS.values():
        raise TraceError("foreign", f"not a trace: the field 'format' is missing; {REMEDY}")
    if body.get("version") not in READABLE:
        readable = f"this program reads versions {READABLE[0]} to {READABLE[-1]}"
        raise TraceError("version", f"trace version {body.get('version')!r} cannot be read, {readable}; record it again")
    fields = {k: v for k, v in body.items() if k not in ("format", "version")}
    try:
        if name == _FORMATS[Race]:
            runs = [{k: v for k, v in run.items() if k not in ("format", "version")} for run in fields.pop("lanes")]
            race = _parse(Race, {"lanes": runs, **fields}, "race")
        else:
            race = Race([_parse(Trace, fields, "trace")])
        for number, run in enumerate(race.lanes):
            _check_trace(run, f"race.lanes[{number}]" if name == _FORMATS[Race] else "trace")
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        where = getattr(error, "where", "")
        raise TraceError("damaged", f"damaged trace: {first_line(error)}; record it again", where) from None
    return race


def save(record: Trace | Race, path: str | os.PathLike[str]) -> None:
    """Write a record atomically."""
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
    """Write ``data`` to a temporary file in the same folder and rename it to ``path``; links are followed.

    Raises:
        AdedError: the folder is missing or not writable, the disk is full, or ``path`` is not an ordinary file.
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
    """Numbers rounded to six significant digits; NaN and infinities become None."""
    return [rounded(v) if math.isfinite(v) else None for v in values]


def writable(value: Any) -> Any:
    """Settings as JSON values: NaN and infinities become None, values of other types become text."""
    if isinstance(value, dict):
        return {str(key): writable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [writable(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def rounded(value: float) -> float:
    """A number rounded to six significant digits, which keeps files small."""
    return float(f"{value:.6g}")


def _refuse_constant(name: str) -> float:
    raise _FieldError(name, "is not a finite number")


def _to_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_to_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _to_plain(v) for k, v in value.items()}
    return value


def _parse(kind: Any, value: Any, where: str) -> Any:
    """Convert a JSON value to ``kind``: a dataclass, list, dictionary, optional, literal or scalar."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        _check_json(value, where)
        return value
    if dataclasses.is_dataclass(kind):
        return _parse_record(kind, value, where)
    if origin is list:
        if not isinstance(value, list):
            raise _FieldError(where, "is not a list")
        return [_parse(args[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise _FieldError(where, "is not an object")
        return {k: _parse(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin in (typing.Union, types.UnionType):
        inner = [a for a in args if a is not type(None)]
        return None if value is None and len(inner) < len(args) else _parse(inner[0], value, where)
    if origin is Literal:
        if value not in args:
            raise _FieldError(where, f"is {value!r}, not one of {', '.join(map(repr, args))}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)  # OverflowError if too large
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _FieldError(where, f"is not of type {kind.__name__}")
    if kind is float and not math.isfinite(value):
        raise _FieldError(where, "is not a finite number")
    if kind is str:
        check_text(value, where)
    return value


def _check_json(value: Any, where: str, depth: int = 0) -> None:
    """Check a field of any JSON value: finite numbers, valid Unicode, limited nesting."""
    if depth > MAX_NESTING:
        raise _FieldError(where, "is nested too deeply")
    if isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, (int, float)) and not math.isfinite(value):
        raise _FieldError(where, "is not a finite number")
    elif isinstance(value, list):
        for item in value:
            _check_json(item, where, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_text(key, where)
            _check_json(item, f"{where}.{key}", depth + 1)


_type_hints = functools.cache(typing.get_type_hints)


def _parse_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _FieldError(where, "is not an object")
    hints = _type_hints(kind)
    for f in dataclasses.fields(kind):
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if f.name not in value and required:
            raise _FieldError(f"{where}.{f.name}", "is missing")
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise _FieldError(f"{where}.{unknown[0]}", "is not a known field")
    return kind(**{name: _parse(hints[name], v, f"{where}.{name}") for name, v in value.items()})


def _check_trace(trace: Trace, name: str) -> None:
    """Check what types cannot express: equal lengths, indices in range, tokens that match the steps.

    Args:
        name: of the trace in messages.
    """
    _check_cost(trace.header.cost, f"{name}.header.cost")
    for number, step in enumerate(trace.steps):
        tree, where = step.tree, f"{name}.steps[{number}]"
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
            raise _FieldError(where, "has tree lists of different lengths")
        if tree.parents[0] != -1 or any(not 0 <= p < i for i, p in enumerate(tree.parents[1:], 1)):
            raise _FieldError(where, "has tree parents out of order")
        durations = (step.seconds.draft, step.seconds.verify, step.seconds.commit, step.seconds.update)
        if any(not 0 <= s <= MAX_SECONDS for s in durations):
            raise _FieldError(where, "has invalid durations")
        if any(not 0 <= node < n for node in step.path):
            raise _FieldError(where, "has a path with nodes outside the tree")
        if not len(step.emitted) == len(step.texts) == len(step.origins):
            raise _FieldError(where, "has emitted tokens, texts and origins of different lengths")
        if any(row.learned and len(row.learned) != len(row.tokens) for row in step.rows):
            raise _FieldError(where, "has a matrix row with tokens and learned shares of different lengths")
    if not 0 <= trace.prefill_seconds <= MAX_SECONDS:
        raise _FieldError(f"{name}.prefill_seconds", "is not a valid duration")
    if trace.finish_reason and [t for step in trace.steps for t in step.emitted] != trace.token_ids:
        raise _FieldError(f"{name}.token_ids", "are not the tokens of the steps")


def _check_cost(cost: Cost | None, where: str) -> None:
    if cost is None:
        return
    rows = cost.seconds
    if len(rows) != len(cost.contexts) or any(len(row) != len(cost.sizes) for row in rows) or not (rows and cost.sizes):
        raise _FieldError(where, "has sizes, contexts and seconds whose dimensions do not match")
    if any(numbers != sorted(set(numbers)) or numbers[0] < 0 for numbers in (cost.sizes, cost.contexts)):
        raise _FieldError(where, "has sizes or contexts that are not ascending")
    if any(not 0 < seconds <= MAX_SECONDS for row in rows for seconds in row):
        raise _FieldError(where, "has invalid durations")

"""The trace of a decode, the record of all its steps: typed, versioned JSON that the page displays and ``aded replay`` prints.

Independent of the engine: a trace has only numbers and text. Every number is finite; a value that does not apply is null.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, FailFast, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from aded.core.errors import AdedError, as_text, first_line

VERSION = 4
READABLE = (1, 2, 3, 4)
"""Versions that can be read. Version 1 lacks ``RowChange.learned`` and ``Step.size``; versions 1 and 2 lack ``Header.cost``;
versions 1 to 3 lack ``Choice.rejection``, ``Choice.typical``, ``Choice.logits``, ``Step.agreement_after`` and
``Trace.repeat_seconds``. Older files of version 4 lack the last three of these, or a field of ``Step`` from ``block`` on."""
MAX_NESTING = 8
"""Maximum nesting of settings in a file."""
MAX_FIELDS = 1000
"""Maximum fields of a JSON object in a file."""
REMEDY = "record one with `python -m aded generate --trace FILE`"
MAX_SECONDS = 1e6
"""Maximum of a duration in a file."""
TEMPERATURES = (0.5, 1.0, 1.5, 2.0)
"""Temperatures for which ``LogitsRecord.others`` is recorded, in addition to that of the run."""
MAX_LOG_PROBABILITY = 1e-3
"""Maximum of a log-probability in a file: rounding may raise one above 0."""

Problem = Literal["missing", "syntax", "foreign", "version", "damaged"]
"""Why a file is refused: it cannot be read, is not JSON, is not a trace, has an unknown version, or is damaged."""
Verdict = Literal["root", "accepted", "rejected", "unreached"]
"""``rejected``: its parent was accepted, and the target chose another token after it. ``unreached``: its parent was not accepted,
or the text ended before it."""
Reason = Literal[
    "root",
    "target chose it",
    "target chose a sibling",
    "target chose an undrafted token",
    "parent not accepted",
    "cut at the end",
]
"""Why a node got its verdict. ``cut at the end``: the text ended before it."""
Origin = Literal["draft", "target"]
"""Source of a token: an accepted draft token, or the target's bonus or correction token."""
FinishReason = Literal["eos", "stop", "length", "context", "cancelled"]
"""In order: end-of-text token, stop string, max new tokens reached, context length reached, cancelled by the user."""
T = TypeVar("T")
List = Annotated[list[T], FailFast()]
"""A list whose validation stops at the first invalid item."""
Duration = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
"""Seconds."""
Count = Annotated[int, Field(ge=0)]
"""An integer of at least 0."""
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""Types are not converted; unknown fields and numbers that are not finite are refused."""


@dataclass(frozen=True)
class TreeRecord:
    """A draft tree after verification; each list has one entry per node, parents before children."""

    tokens: List[int]
    parents: List[int]  # -1 for the root
    texts: List[str]
    columns: dict[str, List[float | None]]  # prior P, visits N, value Q, exploration U and score Q + U of PUCT, by name
    probability: List[float | None]  # the target's probability of the node's token after its parent, after all sampling settings
    rank: List[int | None]  # rank of the token in this distribution of the target, 1 = most probable
    verdict: List[Verdict]
    reason: List[Reason]


@dataclass(frozen=True)
class RejectionTrial:
    """A drafted child with token x that rejection sampling tried at a node (see ``aded.verification.rejection_sampler``).

    p is the target's distribution at the node, or, after a rejected sibling, the residual distribution. q is the draft
    distribution that x was drawn from; if children are drawn without replacement, without the rejected siblings.
    """

    node: int  # the child
    token: int  # x
    p: float  # p(x)
    q: float  # q(x)
    uniform: float  # random number u
    ratio: float  # min(1, p(x) / q(x))
    accepted: bool  # whether u <= ratio
    rejection: float  # probability that a token drawn from q is rejected: sum of max(0, p - q)
    top_p: List[float]  # p of each of ``RejectionRecord.tokens``
    top_q: List[float]  # q of the same tokens
    logits_q: List[float] = field(default_factory=list)  # q of ``LogitsRecord.tokens``; empty if not recorded


@dataclass(frozen=True)
class RejectionRecord:
    """Rejection sampling at one node of the accepted path.

    The distributions are given for a few tokens; the others together have the probability 1 minus the sum.
    """

    trials: List[RejectionTrial]  # the children tried, in order; all but the last were rejected
    tokens: List[int]  # tried and chosen tokens, and the most probable ones of the first and last p and q and of the residual
    texts: List[str]
    residual: List[float]  # of ``tokens`` in the distribution that the correction or bonus token was drawn from
    residual_probability: float | None  # probability of the drawn token; None, and ``residual`` empty, if a child was accepted


@dataclass(frozen=True)
class BlockTest:
    """The test of the prefix of a chain that ends with a drafted token x (see ``aded.verification.block_verifier``)."""

    node: int  # the node with token x
    p: float  # the target's probability of x
    q: float  # the draft probability of x
    weight: float  # w of the prefix: min(1, weight of the prefix before · p / q)
    left: float | None  # S: sum of max(0, w · p - q) over the next token; None for the whole chain
    passes: float  # probability that the prefix passes: S / (S + 1 - w), for the whole chain w
    uniform: float  # random number u
    passed: bool  # whether u <= passes; the longest prefix that passed is accepted


@dataclass(frozen=True)
class BlockRecord:
    """Block verification of a chain, and the draw of the correction or bonus token.

    p and q, the distributions after the accepted prefix, are given for a few tokens. If the whole chain is accepted, ``q`` is
    empty and the bonus token is drawn from p. Else the correction token is drawn from the residual distribution
    max(0, weight · p - q), normalized.
    """

    tests: List[BlockTest]  # of every prefix, the shortest first
    weight: float  # w of the accepted prefix, 1 if it is empty
    left: float  # sum of max(0, weight · p - q); 1 if the whole chain is accepted
    tokens: List[int]  # the drawn token, the one drafted there, and the most probable ones of p, q and the residual distribution
    texts: List[str]
    p: List[float]
    q: List[float]
    residual: List[float]
    residual_probability: float  # probability of the drawn token in the residual distribution


@dataclass(frozen=True)
class TypicalTrial:
    """A drafted child that typical acceptance tested."""

    node: int  # the child
    p: float  # the target's probability of its token
    typical: bool  # whether p is above the threshold; the longest path of typical tokens is accepted


@dataclass(frozen=True)
class TypicalRecord:
    """Typical acceptance at one node of the accepted path (see ``aded.verification.typical_acceptance``)."""

    entropy: float  # entropy of the target's distribution, in nats
    threshold: float  # the probability above which a child is accepted
    trials: List[TypicalTrial]  # one per child


@dataclass(frozen=True)
class LogitsRecord:
    """The target's logits at one node, after the repetition penalty and before temperature, top-k, top-p and min-p.

    They give the distribution for another temperature T, top-k and top-p: a token with log-probability v has the weight
    exp(v / T). For the tokens that are not recorded, only the sum of these weights is known: exactly at ``TEMPERATURES`` and the
    temperature of the run, elsewhere within bounds, since its logarithm is a convex function of 1 / T and none of these tokens is
    more probable than the last of the most probable ones. So probabilities of recorded tokens are exact or bounded.
    Values are rounded to five significant digits.
    """

    tokens: List[int]  # the most probable ones, in descending order, then tried children and the chosen token if not among these
    texts: List[str]
    values: List[float]  # log-probabilities at temperature 1, in nats: logits minus their log-sum-exp
    ranked: Count  # how many of ``tokens`` are the most probable ones
    others: List[float]  # sum of exp(v / T) over all other tokens, for each T of ``TEMPERATURES`` and the run's T (1 if greedy)


@dataclass(frozen=True)
class Choice:
    """The target's choice of the token after one node of the accepted path."""

    node: int
    token: int  # the chosen token
    text: str
    probability: float  # the target's probability of the token, after all sampling settings
    rank: Count  # its rank, 1 = most probable
    drafted: bool  # whether a child of the node has this token
    top_tokens: List[int]  # the target's most probable tokens
    top_texts: List[str]
    top_probabilities: List[float]
    draw: float | None = None  # uniform random number of the choice; None if greedy
    rejection: Annotated[RejectionRecord, AfterValidator(_check_rejection)] | None = None  # None for other verifications
    typical: TypicalRecord | None = None  # None for other verifications
    logits: Annotated[LogitsRecord, AfterValidator(_check_logits)] | None = None  # None if not recorded


@dataclass(frozen=True)
class RowChange:
    """A row of the tri-gram matrix that the step changed: the successors of a bigram, before and after."""

    key: List[int]  # the bigram
    key_texts: List[str]
    tokens: List[int]  # union of the successors before and after the step, by descending probability after it
    texts: List[str]
    before: List[float]  # probability of each successor before the step
    after: List[float]  # and after it
    learned: List[float] = field(default_factory=list)  # share of ``after`` from session counts; empty if unknown


@dataclass(frozen=True)
class Agreement:
    """Agreement of an LLM representative with the target at the root of a step; see ``aded.ngram.representative``."""

    who: Literal["base", "overlay", "session"]  # base counts, session counts, both together
    unseen: bool  # whether the LLM representative has no row for the last bigram
    total_variation: float  # total variation distance, 0 to 1
    top_1: float  # share of the target's 1, 4 and 12 most probable tokens that are also among the LLM representative's
    top_4: float
    top_12: float


@dataclass(frozen=True)
class Size:
    """Size of the tri-gram matrix after the step: rows and bytes of the base counts and of the session counts (``overlay``)."""

    base_rows: Count
    base_bytes: Count
    overlay_rows: Count
    overlay_bytes: Count


@dataclass(frozen=True)
class SimulationRecord:
    """One simulation of the tree search (MCTS). Node indices refer to the draft tree; -1 is a node that is not in the draft."""

    selected: List[int]  # path of the selection, from the root
    expanded: int  # the node that was expanded and evaluated
    reward: float  # the value that was backed up


@dataclass(frozen=True)
class LatticeRecord:
    """The predictions of one Medusa head for its position (see ``aded.drafters.methods.blockwise``); one entry per token."""

    tokens: List[int]  # most probable first
    texts: List[str]
    heads: List[float]  # probability by the head
    rescored: List[float]  # after rescoring, given the best path before it; empty without rescoring


@dataclass(frozen=True)
class PoolRecord:
    """The n-grams of a pool that begin with one token, the node of the draft that they continue; latest first."""

    size: Count  # number of n-grams in the whole pool
    token: int
    text: str
    phrases: List[List[int]]  # the further tokens of each n-gram
    texts: List[List[str]]
    drafted: Count  # how many of these n-grams, from the first on, are in the draft


@dataclass(frozen=True)
class LevelRecord:
    """One level of a beam search: its most probable candidates, one entry each."""

    candidates: Count  # number of all candidates of the level
    tokens: List[int]  # by cumulative draft probability, highest first
    texts: List[str]
    parent_texts: List[str]  # text of the token before each
    cumulative: List[float]  # cumulative draft probability
    kept: List[bool]  # whether the draft contains it


@dataclass(frozen=True)
class AttendedRecord:
    """The verified tokens to which a head of GliDe attended most when it drafted a token; one entry per verified token."""

    positions: List[Count]  # in the text, most attended first
    tokens: List[int]
    texts: List[str]
    weights: List[float]  # attention weights, means over the attention heads


@dataclass(frozen=True)
class LensPosition:
    """The predictions of each layer at one node (see ``aded.decoding.logit_lens``); one entry per layer."""

    tokens: List[int]  # the layer's most probable token
    texts: List[str]
    probabilities: List[float]  # the layer's probability of it, before penalties and sampling settings
    chosen: List[float]  # the layer's probability of the token that the target chose
    ranks: List[Annotated[int, Field(ge=1)]]  # the layer's rank of that token, 1 = most probable


@dataclass(frozen=True)
class LensRecord:
    """The logit lens at the nodes of the accepted path."""

    layers: List[Count]  # the layers that were read, ascending, from 0, the embedding, to the last layer of the model
    eagle: List[Count]  # those of them that an EAGLE-3 head reads
    positions: List[LensPosition]  # one per choice


@dataclass(frozen=True)
class Budget:
    """Maximum number of nodes of the draft, and the reason for it."""

    nodes: Count
    why: str


@dataclass(frozen=True)
class Seconds:
    """Decode time of one step by phase, in seconds, without recording and display. ``commit`` is KV-cache compaction."""

    draft: Duration = 0.0
    verify: Duration = 0.0
    commit: Duration = 0.0
    update: Duration = 0.0

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.commit + self.update


@dataclass(frozen=True)
class Step:
    """One step: a draft, its verification and the emitted tokens."""

    index: Count  # number of the step, from 0
    position: Count  # position of the root in prompt and output
    tree: Annotated[TreeRecord, AfterValidator(_check_tree)]
    path: List[int]  # accepted nodes, starting with the root
    choices: List[Annotated[Choice, AfterValidator(_check_choice)]]  # one per emitted token, at the node before it
    emitted: List[int]  # the new tokens: accepted draft tokens, then the bonus or correction token
    texts: List[str]  # one per emitted token; a character of several tokens belongs to the last of them
    origins: List[Origin]  # one per emitted token
    budget: Budget
    seconds: Seconds
    rows: List[Annotated[RowChange, AfterValidator(_check_row)]] = field(default_factory=list)
    simulations: List[SimulationRecord] = field(default_factory=list)
    agreement: List[Agreement] = field(default_factory=list)
    agreement_after: List[Agreement] = field(default_factory=list)  # at the same root, after the matrix has learned the step
    size: Size | None = None  # None for a method without a matrix
    note: str | None = None  # why the draft is empty or smaller than its budget
    block: Annotated[BlockRecord, AfterValidator(_check_block)] | None = None  # None for other verifications
    lattice: List[Annotated[LatticeRecord, AfterValidator(_check_lattice)]] = field(default_factory=list)  # one per head
    pool: Annotated[PoolRecord, AfterValidator(_check_pool)] | None = None  # None for a method without a pool of n-grams
    levels: List[Annotated[LevelRecord, AfterValidator(_check_level)]] = field(default_factory=list)  # of a beam search
    attended: List[Annotated[AttendedRecord, AfterValidator(_check_attended)]] = field(
        default_factory=list
    )  # one per chain token
    lens: Annotated[LensRecord, AfterValidator(_check_lens)] | None = None  # None if not recorded

    @property
    def accepted(self) -> int:
        """Number of accepted draft tokens."""
        return self.origins.count("draft")


@dataclass(frozen=True)
class Cost:
    """Measured time of a step on the recording machine; see ``aded.engine.cost_model.StepCost``."""

    sizes: List[int]  # tree sizes in nodes, ascending
    contexts: List[int]  # context lengths in tokens, ascending
    seconds: List[List[Annotated[float, Field(gt=0, le=MAX_SECONDS)]]]  # [contexts][sizes]
    padded: bool  # whether trees are padded to the next measured size


@dataclass(frozen=True)
class Header:
    """Method, model, device and settings of a decode."""

    method: str
    label: str
    lossless: bool
    model: str
    fingerprint: str  # of the tokenizer
    device: str
    dtype: str
    versions: dict[str, str]
    settings: Annotated[dict[str, Any], AfterValidator(_check_json)]  # fields of ``GenerationSettings``
    method_settings: Annotated[dict[str, Any], AfterValidator(_check_json)]  # from ``Drafter.settings``
    seed: int
    prompt: str
    prompt_tokens: List[int]
    prompt_texts: List[str]
    notice: str | None = None  # a limitation, such as no tree attention, or why a draft model stopped drafting
    cost: Annotated[Cost, AfterValidator(_check_cost)] | None = None  # None if not measured


@dataclass(frozen=True)
class Footprint:
    """GPU memory when the trace was made: weights, KV caches and CUDA graphs of all decodes."""

    bytes: Count  # allocated memory
    captured_steps: Count  # step shapes captured as CUDA graphs so far
    capture_seconds: float  # time of these captures, not in the decode time


@dataclass(frozen=True)
class Trace:
    """A complete decode."""

    __pydantic_config__ = STRICT
    header: Header
    steps: List[Annotated[Step, AfterValidator(_check_step)]] = field(default_factory=list)
    prefill_seconds: Duration = 0.0
    text: str = ""
    token_ids: List[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    footprint: Footprint | None = None  # None if the model is not on a GPU
    repeat_seconds: List[Duration] = field(default_factory=list)  # decode time of each repetition of the decode

    @property
    def decode_seconds(self) -> float:
        """Decode time in seconds: all steps, without prefill and recording."""
        return sum(step.seconds.total for step in self.steps)

    @property
    def tokens_per_step(self) -> float:
        """Mean acceptance length τ (block efficiency): new tokens per step, bonus and correction tokens included."""
        return len(self.token_ids) / len(self.steps) if self.steps else 0.0

    @property
    def accepted_per_step(self) -> float:
        """Accepted draft tokens per step, without bonus and correction tokens."""
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
    """Runs of several methods on one prompt. ``lanes``, the runs, keeps this name so that older files can be read."""

    __pydantic_config__ = STRICT
    lanes: Annotated[List[Annotated[Trace, BeforeValidator(_without_format), AfterValidator(_check_trace)]], Field(min_length=1)]


_FORMATS: dict[type[Trace] | type[Race], str] = {Trace: "aded-trace", Race: "aded-race"}


class TraceError(AdedError):
    """A trace that cannot be read.

    Attributes:
        kind: what is wrong.
        where: the damaged field, such as ``race.lanes[0].steps[3]``; empty if unknown.
    """

    def __init__(self, kind: Problem, message: str, where: str = "") -> None:
        self.kind, self.where = kind, where
        super().__init__(message)


def to_json(record: Any) -> Any:
    """A record of this module as JSON values; ``Trace`` and ``Race`` get the fields ``format`` and ``version``."""
    body = to_jsonable_python(record)
    name = _FORMATS.get(type(record))
    return {"format": name, "version": VERSION, **body} if name else body


def dumps(record: Any) -> str:
    """``record`` as compact JSON text.

    Raises:
        AdedError: a number is not finite, a value has no JSON form, or ``loads`` would refuse the trace.
    """
    try:
        text = json.dumps(to_json(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise AdedError(f"the record cannot be written as JSON ({first_line(error)}); record it again") from None
    if type(record) in _FORMATS:
        loads(text)
    return text


def loads(text: str | bytes) -> Race:
    """Parse a trace or a race; a trace becomes a race with one run.

    Raises:
        TraceError: not JSON, unknown format or version, a missing or invalid field, or a number that is not finite.
    """
    kind = _kind(text)
    try:
        return _RACE.validate_json(text) if kind is Race else Race([_TRACE.validate_json(text)])
    except ValidationError as error:
        where, message = first_fault(error, kind.__name__.lower())
        raise TraceError("damaged", f"damaged trace: {where}: {message}; record it again", where) from None


def first_fault(error: ValidationError, root: str) -> tuple[str, str]:
    """The first field that is not valid, such as ``race.lanes[0].steps``, and why, in one line.

    Args:
        root: name of the whole value.
    """
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = root + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in fault["loc"])
    return where, fault["msg"].removeprefix("Value error, ").splitlines()[0]


def schema() -> dict[str, Any]:
    """The fields of a race as JSON Schema, without conditions on several fields. A missing optional list is empty."""
    return _RACE.json_schema()


def save(record: Trace | Race, path: str | os.PathLike[str]) -> None:
    """Write a record to a file atomically.

    Raises:
        AdedError: see ``dumps`` and ``write_atomically``.
    """
    write_atomically(Path(path), dumps(record).encode())


def load(path: str | os.PathLike[str]) -> Race:
    """Read a file written by ``save``.

    Raises:
        TraceError: the file is missing, damaged or of another version.
    """
    try:
        return loads(Path(path).read_bytes().removeprefix(codecs.BOM_UTF8))
    except OSError as error:
        raise TraceError("missing", f"cannot read {path}: {error.strerror}; give the path of a recorded trace") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to a temporary file in the same folder and rename it to ``path``; symbolic links are followed.

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


def writable(value: Any, depth: int = 0) -> Any:
    """Settings as JSON values that ``loads`` accepts.

    NaN, infinities and integers above the largest float become None. Values of other types, and those that are nested too deeply,
    become text. Of a dict, the first ``MAX_FIELDS`` fields are kept.
    """
    if isinstance(value, dict) and depth < MAX_NESTING:
        return {as_text(key): writable(value[key], depth + 1) for key in list(value)[:MAX_FIELDS]}
    if isinstance(value, (list, tuple)) and depth < MAX_NESTING:
        return [writable(item, depth + 1) for item in value]
    if isinstance(value, (int, float)):
        value = value if isinstance(value, int) else float(value)
        return value if abs(value) <= sys.float_info.max else None
    return None if value is None else as_text(str(value))


def rounded(value: float, digits: int = 6) -> float:
    """A number rounded to ``digits`` significant digits, which keeps files small."""
    return float(f"{value:.{digits}g}")


def _kind(text: str | bytes) -> type[Trace] | type[Race]:
    """Whether a file holds a trace or a race; checks its format and version."""
    try:
        body = json.loads(text, object_pairs_hook=_object)
    except TraceError:
        raise
    except (ValueError, RecursionError):
        raise TraceError("syntax", f"not a trace: it is not JSON; {REMEDY}") from None
    name, version = (body.get("format"), body.get("version")) if isinstance(body, dict) else (None, None)
    kind = next((kind for kind, known in _FORMATS.items() if name == known), None)
    if kind is None:
        raise TraceError("foreign", f"not a trace: the field 'format' is missing; {REMEDY}")
    if isinstance(version, bool) or version not in READABLE:
        readable = f"this program reads versions {READABLE[0]} to {READABLE[-1]}"
        raise TraceError("version", f"trace version {version!r} cannot be read, {readable}; record it again")
    return kind


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, refused if it has too many fields, since validation collects an error for every invalid field."""
    if len(fields) > MAX_FIELDS:
        raise TraceError("damaged", f"damaged trace: an object has more than {MAX_FIELDS} fields; record it again")
    return dict(fields)


def _without_format(body: Any) -> Any:
    """The fields of a trace or race without ``format`` and ``version``."""
    return {k: v for k, v in body.items() if k not in ("format", "version")} if isinstance(body, dict) else body


def _check_json(value: Any, depth: int = 0) -> Any:
    """Check a JSON value of any type: finite numbers, limited nesting."""
    if depth > MAX_NESTING:
        raise ValueError("nested too deeply")
    if isinstance(value, (int, float)) and not abs(value) <= sys.float_info.max:
        raise ValueError("a number is not finite")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_json(item, depth + 1)
    return value


def _check_tree(tree: TreeRecord) -> TreeRecord:
    n = len(tree.tokens)
    columns: list[list[Any]] = [tree.parents, tree.texts, tree.probability, tree.rank, tree.verdict, tree.reason]
    if n < 1 or any(len(column) != n for column in (*columns, *tree.columns.values())):
        raise ValueError("the lists have different lengths")
    if tree.parents[0] != -1 or any(not 0 <= p < i for i, p in enumerate(tree.parents[1:], 1)):
        raise ValueError("the parents are out of order")
    return tree


def _check_row(row: RowChange) -> RowChange:
    if row.learned and len(row.learned) != len(row.tokens):
        raise ValueError("tokens and learned shares have different lengths")
    return row


def _check_lattice(record: LatticeRecord) -> LatticeRecord:
    if any(len(values) != len(record.tokens) for values in (record.texts, record.heads, record.rescored or record.heads)):
        raise ValueError("tokens and probabilities have different lengths")
    return record


def _check_pool(record: PoolRecord) -> PoolRecord:
    if [len(phrase) for phrase in record.phrases] != [len(texts) for texts in record.texts]:
        raise ValueError("tokens and texts have different lengths")
    if not 0 <= record.drafted <= len(record.phrases) <= record.size:
        raise ValueError("the numbers of n-grams do not match")
    return record


def _check_level(record: LevelRecord) -> LevelRecord:
    lists: list[list[Any]] = [record.texts, record.parent_texts, record.cumulative, record.kept]
    if any(len(values) != len(record.tokens) for values in lists) or record.candidates < len(record.tokens):
        raise ValueError("tokens and probabilities have different lengths")
    return record


def _check_attended(record: AttendedRecord) -> AttendedRecord:
    if not len(record.positions) == len(record.tokens) == len(record.texts) == len(record.weights):
        raise ValueError("positions, tokens and weights have different lengths")
    return record


def _check_lens(record: LensRecord) -> LensRecord:
    layers = record.layers
    if not layers or layers != sorted(set(layers)) or not set(record.eagle) <= set(layers):
        raise ValueError("the layers are not ascending, or one that a head reads is missing")
    for at in record.positions:
        if any(len(values) != len(layers) for values in (at.tokens, at.texts, at.probabilities, at.chosen, at.ranks)):
            raise ValueError("layers and predictions have different lengths")
    return record


def _check_rejection(record: RejectionRecord) -> RejectionRecord:
    lists: list[list[Any]] = [record.texts, *(numbers for trial in record.trials for numbers in (trial.top_p, trial.top_q))]
    if record.residual_probability is not None:
        lists.append(record.residual)
    if any(len(numbers) != len(record.tokens) for numbers in lists):
        raise ValueError("tokens and probabilities have different lengths")
    return record


def _check_block(record: BlockRecord) -> BlockRecord:
    lists: list[list[Any]] = [record.texts, record.p, record.residual, record.q or record.p]
    if any(len(numbers) != len(record.tokens) for numbers in lists) or not record.tests:
        raise ValueError("tokens and probabilities have different lengths, or there is no test")
    return record


def _check_logits(record: LogitsRecord) -> LogitsRecord:
    if not len(record.tokens) == len(record.texts) == len(record.values) >= record.ranked >= 1:
        raise ValueError("tokens, texts and log-probabilities have different lengths")
    if max(record.values) > MAX_LOG_PROBABILITY:
        raise ValueError("a log-probability is above 0")
    if len(record.others) != len(TEMPERATURES) + 1 or min(record.others) < 0:
        raise ValueError(f"the sums over other tokens are not {len(TEMPERATURES) + 1} numbers of at least 0")
    return record


def _check_choice(choice: Choice) -> Choice:
    trials = choice.rejection.trials if choice.rejection else []
    if any(trial.logits_q and (not choice.logits or len(trial.logits_q) != len(choice.logits.tokens)) for trial in trials):
        raise ValueError("the draft probabilities are not those of the tokens with logits")
    return choice


def _check_step(step: Step) -> Step:
    if any(not 0 <= node < len(step.tree.tokens) for node in step.path):
        raise ValueError("the path has nodes outside the tree")
    trials = [
        trial for choice in step.choices for record in (choice.rejection, choice.typical) if record for trial in record.trials
    ]
    nodes = [trial.node for trial in [*trials, *(step.block.tests if step.block else [])]]
    if any(not 0 < node < len(step.tree.tokens) for node in nodes):
        raise ValueError("a tried child is outside the tree")
    if step.lens and len(step.lens.positions) != len(step.choices):
        raise ValueError("the predictions of the layers are not those at the choices")
    if not len(step.emitted) == len(step.texts) == len(step.origins):
        raise ValueError("emitted tokens, texts and origins have different lengths")
    return step


def _check_trace(trace: Trace) -> Trace:
    if trace.finish_reason and [token for step in trace.steps for token in step.emitted] != trace.token_ids:
        raise ValueError("token_ids are not the tokens of the steps")
    return trace


def _check_cost(cost: Cost) -> Cost:
    rows = cost.seconds
    if len(rows) != len(cost.contexts) or any(len(row) != len(cost.sizes) for row in rows) or not (rows and cost.sizes):
        raise ValueError("the dimensions of sizes, contexts and seconds do not match")
    if any(numbers != sorted(set(numbers)) or numbers[0] < 0 for numbers in (cost.sizes, cost.contexts)):
        raise ValueError("sizes or contexts are not ascending")
    return cost


_TRACE: TypeAdapter[Trace] = TypeAdapter(Annotated[Trace, BeforeValidator(_without_format), AfterValidator(_check_trace)])
_RACE: TypeAdapter[Race] = TypeAdapter(Annotated[Race, BeforeValidator(_without_format)])

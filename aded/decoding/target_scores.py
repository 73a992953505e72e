"""The target's scores at the nodes of drafts, for the trace: computed on its device and copied to the host in one transfer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from aded.core.trace import TEMPERATURES
from aded.core.tree import DraftTree
from aded.sampling.logits_pipeline import Rule

TOP_SHOWN = 6
"""How many of the target's most probable tokens are recorded at each node of the accepted path."""
MIN_LOGITS, MAX_LOGITS = 24, 64
"""How many of the target's most probable tokens have their logits recorded at each node of the accepted path: as many as top-k
keeps, within these limits."""
MAX_SCORES = 1 << 24
"""Numbers that are scored together at most, which bounds the memory."""
RANKED_AT_ONCE = 64
"""Number of tokens whose ranks a GPU computes at a time; each takes a temporary row of the size of the vocabulary."""


class LogProbabilities(NamedTuple):
    """Log-probabilities (nats) at a node, after penalties and processors, before temperature, top-k, top-p and min-p.

    Attributes:
        tokens: the most probable tokens, in descending order, then the other requested ones by id; none of probability 0.
        values: their log-probabilities v.
        ranked: how many of ``tokens`` are the most probable ones; the rest was requested.
        others: sum of exp(v / T) over all other tokens, for each T of ``TEMPERATURES`` and that of the run (1 if greedy).
    """

    tokens: list[int]
    values: list[float]
    ranked: int
    others: list[float]


class ChoiceScores(NamedTuple):
    """Scores at a node of the accepted path, where the target chose a token.

    Attributes:
        probability, rank: of the chosen token in the target's distribution; 1 is the most probable one.
        top_tokens, top_probabilities: the ``TOP_SHOWN`` most probable tokens.
        logits: see `LogProbabilities`; the requested tokens are the chosen one and those of ``tried`` (see `score`).
    """

    probability: float
    rank: int
    top_tokens: list[int]
    top_probabilities: list[float]
    logits: LogProbabilities


class TargetScores(NamedTuple):
    """The target's scores of a draft of ``n`` nodes.

    Attributes:
        probability: the target's probability of each node's token after its parent, without the root, ``[n - 1]``; not finite
            where the logits are not.
        rank: the ranks of these tokens in the target's distribution, from 1, ``[n - 1]``.
        choices: scores at the nodes of the accepted path.
        distributions: the target's distributions at the nodes ``at``, float64 ``[k, vocab]`` on its device.
        at: nodes with a child or on the accepted path, ascending, int64 ``[k]``.
    """

    probability: list[float]
    rank: list[int]
    choices: list[ChoiceScores]
    distributions: torch.Tensor
    at: np.ndarray

    def distribution(self, node: int) -> torch.Tensor:
        """The target's distribution at one of the nodes ``at``, float64 ``[vocab]``."""
        return self.distributions[int(np.searchsorted(self.at, node))]


class Scoring(NamedTuple):
    """What will be scored of a draft of ``n`` nodes. It is a copy, so later forward passes do not change it.

    Attributes:
        rows: the target's scores after penalties and processors at the nodes ``at``, float32 ``[k, vocab]`` on its device.
        at: nodes with a child or on the accepted path, ascending, ``[k]``.
        in_rows: the row of each child's parent, then of each choice.
        tokens: the token of each node but the root, then of each choice.
        wanted: at each choice the chosen token, then the others whose log-probabilities are wanted.
    """

    rows: torch.Tensor
    at: np.ndarray
    in_rows: np.ndarray
    tokens: list[int]
    wanted: list[list[int]]

    @property
    def children(self) -> int:
        """Number of nodes without the root."""
        return len(self.tokens) - len(self.wanted)


def scoring(
    rule: Rule,
    logits: torch.Tensor,
    tree: DraftTree,
    prefix: np.ndarray,
    path: Sequence[int],
    chosen: Sequence[int],
    tried: Sequence[Sequence[int]],
) -> Scoring:
    """Copy what ``score`` needs.

    Args:
        rule: the sampling settings and processors.
        logits: the target's logits at each node, ``[n, vocab]``.
        tree: the draft.
        prefix: the committed tokens, int32 ``[length]``.
        path: nodes of the accepted path after which a token was emitted, the root first.
        chosen: the token that was emitted after each node of ``path``.
        tried: further tokens after each of these nodes whose log-probabilities are requested.
    """
    parents = tree.parents[1:]
    at = np.unique(np.concatenate([parents, path])).astype(np.int64)
    prefixes = [
        [*prefix.tolist(), *tree.tokens[tree.path_to(int(node))[1:]].tolist()] if rule.needs_prefix else [] for node in at
    ]
    rows = rule.unscaled_rows(logits[torch.from_numpy(at).to(logits.device)], prefixes)
    in_rows = np.searchsorted(at, [*parents.tolist(), *path])
    wanted = [[token, *more] for token, more in zip(chosen, tried)]
    return Scoring(rows, at, in_rows, [*tree.tokens[1:].tolist(), *chosen], wanted)


def score(rule: Rule, drafts: Sequence[Scoring]) -> list[TargetScores]:
    """Score drafts together.

    The softmax is over the full vocabulary, after all sampling settings (at temperature 0: the penalties).
    """
    made: list[TargetScores] = []
    for several in _bounded(drafts):
        made += _score(rule, several)
    return made


def _bounded(drafts: Sequence[Scoring]) -> Iterator[list[Scoring]]:
    """The drafts in groups of at most ``MAX_SCORES`` scores, or of one."""
    group, size = list[Scoring](), 0
    for draft in drafts:
        size += draft.rows.numel()
        if group and size > MAX_SCORES:
            yield group
            group, size = [], draft.rows.numel()
        group.append(draft)
    if group:
        yield group


def _score(rule: Rule, drafts: Sequence[Scoring]) -> list[TargetScores]:
    unscaled = torch.cat([draft.rows for draft in drafts]) if len(drafts) > 1 else drafts[0].rows
    starts = np.cumsum([0, *(len(draft.at) for draft in drafts)])
    children = [draft.children for draft in drafts]
    counts = [len(draft.wanted) for draft in drafts]
    in_rows = [start + draft.in_rows for start, draft in zip(starts, drafts)]
    placed, tokens, requested, choices = _indices(
        unscaled,
        np.concatenate(in_rows),
        np.concatenate([draft.tokens for draft in drafts]),
        _padded([want for draft in drafts for want in draft.wanted]),
        np.concatenate([rows[n:] for rows, n in zip(in_rows, children)]),
    )
    distributions = torch.softmax(rule.scaled(unscaled).double(), dim=-1)
    probability = distributions[placed, tokens]
    top, *more = _log_probabilities(rule, unscaled[choices], requested.view(len(choices), -1))
    shown = distributions[choices].gather(1, top[:, :TOP_SHOWN])
    read = _read([probability, _count_above(distributions, placed, probability), shown, top, *more])
    scores, rows = zip(read[0], [1 + int(count) for count in read[1]]), zip(*read[2:])
    made = []
    for draft, n, count, start in zip(drafts, children, counts, starts):
        nodes, found = list(islice(scores, n)), []
        for (p, rank), want, (top_shown, top_tokens, *logs) in zip(islice(scores, count), draft.wanted, islice(rows, count)):
            found.append(ChoiceScores(p, rank, _ints(top_tokens[:TOP_SHOWN]), top_shown, _ranked(want, top_tokens, *logs)))
        own = distributions[start : start + len(draft.at)]
        made.append(TargetScores([p for p, _ in nodes], [rank for _, rank in nodes], found, own, draft.at))
    return made


def _log_probabilities(rule: Rule, unscaled: torch.Tensor, requested: torch.Tensor) -> list[torch.Tensor]:
    """The most probable tokens, their log-probabilities, those of ``requested``, and the sums over all others; one row per node.

    Args:
        unscaled: scores before the temperature, float32 ``[m, vocab]``.
        requested: requested tokens, int64 ``[m, width]``.
    """
    settings, values = rule.settings, unscaled.double().log_softmax(-1)
    top = unscaled.topk(min(max(MIN_LOGITS, min(settings.top_k, MAX_LOGITS)), values.shape[1])).indices
    others = values.scatter(1, torch.cat([top, requested], 1), -math.inf)
    temperatures = (*TEMPERATURES, 1.0 if settings.greedy else settings.temperature)
    at_once = len(temperatures) if values.is_cuda else 1  # one kernel for all; on a CPU what fits its cache
    parts = others.new_tensor(temperatures).split(at_once)
    sums = torch.cat([(others[:, None] / part[:, None]).exp_().sum(-1) for part in parts], 1)
    return [top, values.gather(1, top), values.gather(1, requested), sums]


def _ranked(
    wanted: list[int], top: list[float], values: list[float], requested: list[float], others: list[float]
) -> LogProbabilities:
    """`LogProbabilities` from lists; the chosen token, ``wanted[0]``, comes before equally probable ones."""
    known = {token: value for token, value in zip(_ints(top), values) if math.isfinite(value)}
    ranked = sorted(known, key=lambda token: (-known[token], token != wanted[0], token))
    more = {token: value for token, value in zip(wanted, requested) if token not in known and math.isfinite(value)}
    tokens = ranked + sorted(more)
    return LogProbabilities(tokens, [(known | more)[token] for token in tokens], len(ranked), others)


def _count_above(distributions: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """How many tokens of each distribution in ``rows`` have a probability above that in ``values``."""
    size = RANKED_AT_ONCE if distributions.is_cuda else 1
    parts = zip(rows.split(size), values.split(size))
    return torch.cat([(distributions[row] > value[:, None]).sum(-1) for row, value in parts])


def _read(parts: Sequence[torch.Tensor]) -> list[list]:
    """Copy tensors from a device in one transfer, as (nested) lists of floats; token ids and counts are exact in float64."""
    flat = torch.cat([part.double().flatten() for part in parts]).cpu().numpy()
    pieces = np.split(flat, np.cumsum([part.numel() for part in parts])[:-1])
    return [piece.reshape(part.shape).tolist() for piece, part in zip(pieces, parts)]


def _indices(like: torch.Tensor, *parts: Sequence[int] | np.ndarray) -> tuple[torch.Tensor, ...]:
    """Copy lists of indices to the device of ``like`` in one transfer, as int64 tensors."""
    arrays = [np.asarray(part, dtype=np.int64) for part in parts]
    return torch.from_numpy(np.concatenate(arrays)).to(like.device).split([len(array) for array in arrays])


def _padded(wanted: Sequence[Sequence[int]]) -> np.ndarray:
    """All lists concatenated, each padded with its first token to the length of the longest."""
    width = max(map(len, wanted))
    return np.array([[*tokens, *[tokens[0]] * (width - len(tokens))] for tokens in wanted]).ravel()


def _ints(values: Sequence[float]) -> list[int]:
    return [int(value) for value in values]

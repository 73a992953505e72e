"""The target's scores at the nodes of a draft, for the record: computed on its device and read in one transfer."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
RANKED_AT_ONCE = 64
"""Number of tokens whose ranks a GPU computes at the same time, which bounds the memory."""


class LogProbabilities(NamedTuple):
    """Log-probabilities before temperature, top-k and top-p.

    Attributes:
        tokens: the most probable tokens, in descending order, then those that were asked for; none whose probability is 0.
        values: their log-probabilities.
        ranked: number of most probable tokens.
        others: sum of exp(v / T) over all other tokens, for ``TEMPERATURES`` and the run's T (1 if greedy).
    """

    tokens: list[int]
    values: list[float]
    ranked: int
    others: list[float]


class ChoiceScores(NamedTuple):
    """Scores at a node at which the target chose a token.

    Attributes:
        probability, rank: of the chosen token.
        top_tokens, top_probabilities: the ``TOP_SHOWN`` most probable tokens.
        logits: see `LogProbabilities`; the tokens asked for are the chosen one and those of ``tried``.
    """

    probability: float
    rank: int
    top_tokens: list[int]
    top_probabilities: list[float]
    logits: LogProbabilities


class TargetScores(NamedTuple):
    """The target's scores of a draft of ``n`` nodes.

    Attributes:
        probability: of each node but the root, not finite where the logits are not, ``[n - 1]``.
        rank: their ranks among all tokens, from 1.
        choices: scores at the nodes of the accepted path.
        distributions: the target's distributions at the nodes ``at``, float64 ``[k, vocab]`` on its device.
        at: nodes with a child or on the accepted path, ascending, ``[k]``.
    """

    probability: list[float]
    rank: list[int]
    choices: list[ChoiceScores]
    distributions: torch.Tensor
    at: np.ndarray

    def distribution(self, node: int) -> torch.Tensor:
        """The target's distribution at one of the nodes ``at``, float64 ``[vocab]``."""
        return self.distributions[int(np.searchsorted(self.at, node))]


def score(
    rule: Rule,
    logits: torch.Tensor,
    tree: DraftTree,
    prefix: np.ndarray,
    path: Sequence[int],
    chosen: Sequence[int],
    tried: Sequence[Sequence[int]],
) -> TargetScores:
    """Score a draft; the softmax is over the full vocabulary, after all sampling settings (at temperature 0: the penalties).

    Args:
        logits: at each node, ``[n, vocab]``.
        prefix: the committed tokens, int32 ``[length]``.
        path: nodes of the accepted path at which a token was emitted, the root first.
        chosen: the token that the target chose at each of them.
        tried: other tokens at each of them whose log-probabilities are wanted.
    """
    parents = tree.parents[1:]
    at = np.unique(np.concatenate([parents, path])).astype(np.int64)
    wanted = [[token, *more] for token, more in zip(chosen, tried)]
    rows = np.searchsorted(at, [*parents.tolist(), *path])  # of each child, then of each choice
    nodes, in_rows, tokens, asked = _indices(logits, at, rows, [*tree.tokens[1:].tolist(), *chosen], _padded(wanted))
    prefixes = [
        [*prefix.tolist(), *tree.tokens[tree.path_to(int(node))[1:]].tolist()] if rule.needs_prefix else [] for node in at
    ]
    unscaled = rule.unscaled_rows(logits[nodes], prefixes)
    distributions = torch.softmax(rule.scaled(unscaled).double(), dim=-1)
    probability, on_path = distributions[in_rows, tokens], in_rows[len(parents) :]
    top, *more = _log_probabilities(rule, unscaled[on_path], asked.view(len(path), -1))
    shown = distributions[on_path].gather(1, top[:, :TOP_SHOWN])
    n, read = len(parents), _read([probability, _count_above(distributions, in_rows, probability), shown, top, *more])
    probabilities, ranks = read[0], [1 + int(count) for count in read[1]]
    choices = [
        ChoiceScores(p, rank, _ints(top_tokens[:TOP_SHOWN]), top_shown, _ranked(want, top_tokens, *logs))
        for p, rank, want, top_shown, top_tokens, *logs in zip(probabilities[n:], ranks[n:], wanted, *read[2:])
    ]
    return TargetScores(probabilities[:n], ranks[:n], choices, distributions, at)


def _log_probabilities(rule: Rule, unscaled: torch.Tensor, asked: torch.Tensor) -> list[torch.Tensor]:
    """The most probable tokens, their log-probabilities, those of ``asked``, and the sums over all others; one row per node."""
    settings, values = rule.settings, unscaled.double().log_softmax(-1)
    top = unscaled.topk(min(max(MIN_LOGITS, min(settings.top_k, MAX_LOGITS)), values.shape[1])).indices
    others = values.scatter(1, torch.cat([top, asked], 1), -math.inf)
    temperatures = (*TEMPERATURES, 1.0 if settings.greedy else settings.temperature)
    at_once = len(temperatures) if values.is_cuda else 1  # a kernel for all, or as much as fits a CPU's cache
    parts = others.new_tensor(temperatures).split(at_once)
    sums = torch.cat([(others[:, None] / part[:, None]).exp_().sum(-1) for part in parts], 1)
    return [top, values.gather(1, top), values.gather(1, asked), sums]


def _ranked(
    wanted: list[int], top: list[float], values: list[float], asked: list[float], others: list[float]
) -> LogProbabilities:
    """Lists on the host as `LogProbabilities`; the chosen token, ``wanted[0]``, comes before equally probable ones."""
    known = {token: value for token, value in zip(_ints(top), values) if math.isfinite(value)}
    ranked = sorted(known, key=lambda token: (-known[token], token != wanted[0], token))
    more = {token: value for token, value in zip(wanted, asked) if token not in known and math.isfinite(value)}
    tokens = ranked + sorted(more)
    return LogProbabilities(tokens, [(known | more)[token] for token in tokens], len(ranked), others)


def _count_above(distributions: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """How many tokens of each distribution in ``rows`` have a probability above that in ``values``."""
    size = RANKED_AT_ONCE if distributions.is_cuda else 1
    parts = zip(rows.split(size), values.split(size))
    return torch.cat([(distributions[row] > value[:, None]).sum(-1) for row, value in parts])


def _read(parts: Sequence[torch.Tensor]) -> list[list]:
    """Tensors on a device as lists of floats, in one transfer; token ids and counts are exact in float64."""
    flat = torch.cat([part.double().flatten() for part in parts]).cpu().numpy()
    pieces = np.split(flat, np.cumsum([part.numel() for part in parts])[:-1])
    return [piece.reshape(part.shape).tolist() for piece, part in zip(pieces, parts)]


def _indices(like: torch.Tensor, *parts: Sequence[int] | np.ndarray) -> tuple[torch.Tensor, ...]:
    """Lists of indices on the device of ``like``, in one transfer."""
    arrays = [np.asarray(part, dtype=np.int64) for part in parts]
    return torch.from_numpy(np.concatenate(arrays)).to(like.device).split([len(array) for array in arrays])


def _padded(wanted: Sequence[Sequence[int]]) -> np.ndarray:
    """All lists one after another, each filled up to the length of the longest with its first token."""
    width = max(map(len, wanted))
    return np.array([[*tokens, *[tokens[0]] * (width - len(tokens))] for tokens in wanted]).ravel()


def _ints(values: Sequence[float]) -> list[int]:
    return [int(value) for value in values]

"""The verdict on a draft: which of its nodes the target would have written itself.

Losslessness is decided here alone. One token is drawn at each *node* that the walk stands on, from the target's own
distribution there, and the walk descends if a child holds it: the text is then the target's, whatever was drafted. (Drawing once
for each drafted candidate instead would favour drafted tokens.) The draw at a position depends on the seed and
that position only, so a sampled speculative run writes what the sampled plain run writes. A draft that was sampled itself and
says what from is judged in ``aded.sampling.rejection_sampler``: just as lossless, but equal to plain in distribution only, not
by seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.sampling.rng import exponentials, key_of, signed, uniform

COLDEST = 1e-5
"""Temperatures up to this are greedy: nothing is ever divided by them."""

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A logits processor of Transformers' form: (ids ``[1, length]``, scores ``[1, vocab]``) to scores ``[1, vocab]``."""


@dataclass(frozen=True)
class SamplingSettings:
    """How the target's next token is chosen from its logits.

    Attributes:
        temperature: 0 is greedy.
        top_k: keep the k most probable tokens; 0 keeps all.
        top_p: keep the smallest set of most probable tokens with this mass; 1 keeps all.
        min_p: keep tokens with at least this share of the most probable one's probability; 0 keeps all.
        repetition_penalty: above 1 makes tokens of the prefix less probable (CTRL, arXiv 1909.05858); 1 is none.
        seed: of the draws.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.temperature >= 0 and math.isfinite(self.temperature), "temperature", self.temperature, "0 (greedy) or more")
        _require(self.top_k >= 0 and self.top_k == int(self.top_k), "top-k", self.top_k, "a whole number, 0 for no limit")
        _require(0 < self.top_p <= 1, "top-p", self.top_p, "above 0 and at most 1")
        _require(0 <= self.min_p <= 1, "min-p", self.min_p, "from 0 to 1")
        _require(
            0.01 <= self.repetition_penalty <= 100,
            "repetition penalty",
            self.repetition_penalty,
            "from 0.01 to 100",
        )
        _require(self.seed == int(self.seed) and 0 <= self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2**63 - 1")

    @property
    def greedy(self) -> bool:
        return self.temperature <= COLDEST


def _require(condition: bool, name: str, value: object, what: str) -> None:
    if not condition:
        raise AdedError(f"{name} is {value}; give {what}")


@dataclass(frozen=True)
class TypicalAcceptance:
    """Which drafted tokens are typical enough (Medusa, arXiv 2401.10774, section 2.3.1).

    A token of probability p, where the target's distribution has entropy H, is accepted if ``p > min(epsilon, delta exp(-H))``.

    Attributes:
        epsilon: what is always enough (``posterior_threshold`` of the published code).
        delta: scale of the threshold that falls with entropy (``posterior_alpha``).
    """

    epsilon: float = 0.09
    delta: float = 0.3

    def __post_init__(self) -> None:
        _require(0 < self.epsilon <= 1, "epsilon", self.epsilon, "above 0 and at most 1")
        _require(0 < self.delta <= 1, "delta", self.delta, "above 0 and at most 1")


@dataclass(frozen=True)
class Verification:
    """Where the walk went.

    Attributes:
        path: accepted nodes, the root first.
        next_token: the target's token at the end of the path, which no child held.
        draws: the random number of the token chosen at each node of the path; None when greedy.
        non_finite: the first node of the path whose logits hold NaN or infinity, where the choice means nothing; None if none.
    """

    path: list[int]
    next_token: int
    draws: list[float | None] = field(default_factory=list)
    non_finite: int | None = None

    def chosen(self, tree: DraftTree) -> list[int]:
        """The target's choice at each node of the path: what the step writes."""
        return [int(tree.tokens[node]) for node in self.path[1:]] + [self.next_token]


class Rule:
    """How the target chooses after a prefix: processors first, then temperature, top-k, top-p, min-p (Transformers' order)."""

    def __init__(
        self, settings: SamplingSettings, processors: Sequence[Processor] = (), typical: TypicalAcceptance | None = None
    ) -> None:
        """typical: accept what is typical of the target when sampling, which changes its distribution."""
        from transformers import generation as g

        self.settings = settings
        self.typical = None if settings.greedy else typical
        s, self._steps = settings, list(processors)
        self._needs_prefix = bool(self._steps) or s.repetition_penalty != 1.0
        if s.repetition_penalty != 1.0:
            self._steps.insert(0, g.RepetitionPenaltyLogitsProcessor(penalty=float(s.repetition_penalty)))
        if not s.greedy:
            if s.temperature != 1.0:
                self._steps.append(g.TemperatureLogitsWarper(float(s.temperature)))
            if s.top_k:
                self._steps.append(g.TopKLogitsWarper(top_k=int(s.top_k)))
            if s.top_p < 1.0:
                self._steps.append(g.TopPLogitsWarper(top_p=float(s.top_p)))
            if s.min_p > 0.0:
                self._steps.append(g.MinPLogitsWarper(min_p=float(s.min_p)))

    @property
    def changes_logits(self) -> bool:
        return bool(self._steps)

    @property
    def needs_prefix(self) -> bool:
        """Whether the choice at a node depends on the tokens before it, beside its logits."""
        return self._needs_prefix

    @property
    def judges_by_distribution(self) -> bool:
        """Whether a draft that says what it was drawn from is judged by that."""
        return not self.settings.greedy and self.typical is None

    def rejects_in_graph(self, tree: DraftTree) -> bool:
        """Whether the verdict is rejection sampling that needs each node's logits alone, as a captured graph gives it."""
        return self.judges_by_distribution and not self.needs_prefix and tree.drawn is not None

    def judges_in_step(self, tree: DraftTree) -> bool:
        """Whether the verdict needs each node's logits alone and one draw a node, as a captured step gives it."""
        return not self.needs_prefix and self.typical is None and (tree.drawn is None or self.settings.greedy)

    def process(self, row: torch.Tensor, prefix: Sequence[int]) -> torch.Tensor:
        """Logits ``[vocab]`` after ``prefix`` (all tokens, the node's own last) as processed scores, float32 ``[vocab]``."""
        scores = row.float()[None]
        if self._steps:
            ids: Any = torch.tensor([list(prefix)], device=row.device)
            scores = scores.clone()
            for step in self._steps:
                scores = step(ids, scores)
        return scores[0]

    def probabilities(self, row: torch.Tensor, prefix: Sequence[int]) -> torch.Tensor:
        """The target's distribution after ``prefix``, float64 ``[vocab]`` on the row's device."""
        return torch.softmax(self.process(row, prefix).double(), dim=-1)

    def choose(self, row: torch.Tensor, prefix: Sequence[int]) -> tuple[int, float | None]:
        """The token at position ``len(prefix)``, and its random number there (None when greedy)."""
        if self.settings.greedy:
            return int(self.process(row, prefix).argmax()), None
        key = key_of(self.settings.seed, len(prefix))
        token = sample(self.probabilities(row, prefix), key)
        return token, uniform(key, token)


def verify(
    tree: DraftTree,
    logits: torch.Tensor,
    prefix: Sequence[int] | np.ndarray,
    rule: Rule,
    graphs: dict[tuple[Any, ...], Any] | None = None,
) -> Verification:
    """Walk the tree along the target's own choices.

    Args:
        tree: ``n`` nodes.
        logits: the target's at every node, ``[n, vocab]``.
        prefix: all committed token ids; the last one is the root.
        rule: how the target chooses.
        graphs: where graphs of rejection sampling are kept; None: it runs without.
    """
    if not rule.settings.greedy and (tree.drawn is not None or rule.typical is not None):
        from aded.sampling import rejection_sampler
        from aded.sampling import typical_acceptance as typical_acceptance

        return (
            typical_acceptance.verify(tree, logits, prefix, rule)
            if rule.typical
            else rejection_sampler.verify(tree, logits, prefix, rule, graphs)
        )
    if rule.settings.greedy and not rule.changes_logits:
        best = logits.argmax(dim=-1).tolist()  # one transfer for the whole tree
        return walk(tree, lambda node, path: (best[node], None))
    ids = [int(i) for i in prefix]

    def choose(node: int, path: list[int]) -> tuple[int, float | None]:
        return rule.choose(logits[node], ids + [int(tree.tokens[i]) for i in path[1:]])

    return walk(tree, choose)


def walk(tree: DraftTree, choose: Callable[[int, list[int]], tuple[int, float | None]]) -> Verification:
    """From the root on: one choice a node; descend while a child holds it."""
    path, draws = [0], []
    while True:
        token, draw = choose(path[-1], path)
        draws.append(draw)
        child = tree.child(path[-1], token)
        if child is None:
            return Verification(path, token, draws)
        path.append(child)


def first_non_finite(path: Sequence[int], logits: torch.Tensor) -> int | None:
    """The first node of a path whose row of the logits ``[n, vocab]`` holds NaN or infinity (or only -infinity); None if none."""
    sound = logits[list(path)].amax(-1).isfinite().tolist()
    return None if all(sound) else path[sound.index(False)]


def sample(probabilities: torch.Tensor, key: int) -> int:
    """The token that the random numbers of ``key`` draw (see ``aded.sampling.rng``).

    Args:
        probabilities: float64 ``[vocab]``; those of probability 0 never win.
        key: of the position.
    """
    keys = torch.tensor([signed(key)], device=probabilities.device)
    return int((exponentials(keys, len(probabilities))[0] / probabilities).argmin())


Verdict = Literal["root", "accepted", "rejected", "unreached"]


def verdicts(tree: DraftTree, path: Sequence[int], kept: int) -> tuple[list[str], list[str]]:
    """Each node's verdict and reason (see ``aded.core.trace``).

    Args:
        tree: ``n`` nodes.
        path: accepted nodes, the root first.
        kept: how many of the step's tokens were kept; less than ``len(path)`` where the text ended inside the path.

    Returns:
        Two lists of ``n``.
    """
    on_path = {node: i for i, node in enumerate(path)}
    verdict, reason = ["root"], ["root"]
    for node in range(1, len(tree)):
        parent = int(tree.parents[node])
        if node in on_path:
            cut = on_path[node] > kept
            verdict.append("unreached" if cut else "accepted")
            reason.append("cut at the end" if cut else "target chose it")
        elif parent in on_path and on_path[parent] < max(kept, 1):
            verdict.append("rejected")
            reason.append("target chose a sibling" if parent != path[-1] else "target chose an undrafted token")
        else:
            verdict.append("unreached")
            reason.append("cut at the end" if parent in on_path else "parent not accepted")
    return verdict, reason

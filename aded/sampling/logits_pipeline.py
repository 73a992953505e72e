"""From the target's logits to its choice of a token: processors, temperature, top-k, top-p, min-p, then the draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from aded.core.tree import DraftTree
from aded.sampling.rng import exponentials, key_of, signed, uniform
from aded.sampling.settings import SamplingSettings, TypicalAcceptance

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A logits processor of Transformers' form: (ids ``[1, length]``, scores ``[1, vocab]``) to scores ``[1, vocab]``."""


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


def sample(probabilities: torch.Tensor, key: int) -> int:
    """The token that the random numbers of ``key`` draw (see ``aded.sampling.rng``).

    Args:
        probabilities: float64 ``[vocab]``; those of probability 0 never win.
        key: of the position.
    """
    keys = torch.tensor([signed(key)], device=probabilities.device)
    return int((exponentials(keys, len(probabilities))[0] / probabilities).argmin())

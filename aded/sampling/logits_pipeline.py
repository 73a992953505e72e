"""From the target's logits to a sampled token: logits processors, temperature, top-k, top-p, min-p, then the draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from aded.core.errors import AdedError, check_type, shown
from aded.core.tree import DraftTree
from aded.sampling import sampler
from aded.sampling.rng import exponentials, key_of, signed, uniform
from aded.sampling.settings import SamplingSettings, TypicalAcceptance

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A logits processor as in Transformers: (ids ``[1, length]``, scores ``[1, vocab]``) to scores ``[1, vocab]``."""
NO_TOKEN = -1
"""In place of a token where the processed scores contain NaN or +infinity, or only -infinity."""


class Rule:
    """How the target chooses the next token: repetition penalty, processors, temperature, top-k, top-p, min-p, then the draw."""

    def __init__(
        self, settings: SamplingSettings, processors: Sequence[Processor] = (), typical: TypicalAcceptance | None = None
    ) -> None:
        """Create a rule.

        Args:
            settings: sampling settings.
            processors: applied after the repetition penalty and before the other settings.
            typical: thresholds of typical acceptance, which is not lossless; ignored if greedy.

        Raises:
            AdedError: the processors or the thresholds are of another type.
        """
        from transformers import generation as g

        if not isinstance(processors, Sequence) or not all(map(callable, processors)):
            raise AdedError(f"the logits processors are {shown(processors)}; give a list of functions")
        thresholds = "the thresholds of typical acceptance are"
        check_type(typical, (TypicalAcceptance, type(None)), thresholds, "TypicalAcceptance(...) or None")
        self.settings = settings
        self.typical = None if settings.greedy else typical
        s, self._processors = settings, list(processors)
        self._warpers: list[Processor] = []
        if s.repetition_penalty != 1.0:
            self._processors.insert(0, g.RepetitionPenaltyLogitsProcessor(penalty=float(s.repetition_penalty)))
        if not s.greedy:
            if s.temperature != 1.0:
                self._warpers.append(g.TemperatureLogitsWarper(float(s.temperature)))
            if s.top_k:
                self._warpers.append(g.TopKLogitsWarper(top_k=int(s.top_k)))
            if s.top_p < 1.0:
                self._warpers.append(lambda _, scores: sampler.nucleus(scores, float(s.top_p)))
            if s.min_p > 0.0:
                self._warpers.append(g.MinPLogitsWarper(min_p=float(s.min_p)))

    @property
    def changes_logits(self) -> bool:
        """Whether any processor or sampling setting changes the logits."""
        return bool(self._processors or self._warpers)

    @property
    def needs_prefix(self) -> bool:
        """Whether the choice at a node depends on the token ids of its prefix in addition to its logits."""
        return bool(self._processors)

    @property
    def uses_rejection_sampling(self) -> bool:
        """Whether a draft with draft distributions is verified by rejection sampling."""
        return not self.settings.greedy and self.typical is None

    def rejection_fits_graph(self, tree: DraftTree) -> bool:
        """Whether the tree is verified by rejection sampling that a CUDA graph can run, because it needs only the logits."""
        return self.uses_rejection_sampling and not self.needs_prefix and tree.sampled_from is not None

    def verdict_fits_step(self, tree: DraftTree) -> bool:
        """Whether the captured step can sample one token per node, which is then enough for verification."""
        return not self.needs_prefix and self.typical is None and (tree.sampled_from is None or self.settings.greedy)

    def process(self, row: torch.Tensor, prefix: Sequence[int]) -> torch.Tensor:
        """Processed scores, float32 ``[vocab]``.

        Args:
            row: logits of a node, ``[vocab]``.
            prefix: all token ids up to and including the node.
        """
        return self.scaled(self.unscaled(row, prefix)[None])[0]

    def scaled(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores after temperature, top-k, top-p and min-p; ``scores``: from ``unscaled_rows``, ``[n, vocab]``."""
        no_ids = scores.new_empty((len(scores), 0), dtype=torch.long)  # none of these reads the prefix
        for warper in self._warpers:
            scores = warper(no_ids, scores)
        return scores

    def unscaled(self, row: torch.Tensor, prefix: Sequence[int]) -> torch.Tensor:
        """Scores after the repetition penalty and processors, before the temperature; arguments and result as in ``process``."""
        return _apply(self._processors, row.float(), prefix)

    def unscaled_rows(self, rows: torch.Tensor, prefixes: Sequence[Sequence[int]]) -> torch.Tensor:
        """``unscaled`` of several nodes, float32 ``[n, vocab]``; ``prefixes`` are read only if the rule ``needs_prefix``."""
        if not self._processors:
            return rows.float()
        return torch.stack([self.unscaled(row, prefix) for row, prefix in zip(rows, prefixes)])

    def probabilities(self, row: torch.Tensor, prefix: Sequence[int]) -> torch.Tensor:
        """The target's next-token distribution, float64 ``[vocab]`` on the row's device; arguments as in ``process``."""
        return torch.softmax(self.process(row, prefix).double(), dim=-1)

    def choose(self, row: torch.Tensor, prefix: Sequence[int]) -> tuple[int, float | None]:
        """The token at position ``len(prefix)`` and its uniform random number (None if greedy); arguments as in ``process``.

        ``NO_TOKEN`` if there is none; see ``finite_choice``.
        """
        if self.settings.greedy:
            scores = self.process(row, prefix)
            return finite_choice(int(scores.argmax()), scores), None
        key, probabilities = key_of(self.settings.seed, len(prefix)), self.probabilities(row, prefix)
        token = sample(probabilities, key)
        return finite_choice(token, probabilities), uniform(key, token)


def finite_choice(token: int, values: torch.Tensor) -> int:
    """The token chosen by scores or probabilities, ``[vocab]``, or ``NO_TOKEN`` where they allow no choice.

    An error here would be too early: the text may end before this node of the draft.
    """
    return token if math.isfinite(values[token]) else NO_TOKEN


def _apply(processors: Sequence[Processor], scores: torch.Tensor, prefix: Sequence[int]) -> torch.Tensor:
    """Scores ``[vocab]`` after the processors, in order; ``prefix``: token ids.

    Raises:
        AdedError: a processor does not return scores of the same shape.
    """
    if not processors:
        return scores
    ids, batch = torch.tensor([list(prefix)], device=scores.device), scores.clone()[None]
    for processor in processors:
        batch = processor(ids, batch)
        if not isinstance(batch, torch.Tensor) or batch.shape != (1, *scores.shape):
            raise AdedError(f"the logits processor {shown(processor)} returned no tensor {[1, *scores.shape]}; return the scores")
    return batch[0]


def sample(probabilities: torch.Tensor, key: int) -> int:
    """Draw a token with the random numbers of ``key`` (see ``aded.sampling.rng``).

    Args:
        probabilities: float64 ``[vocab]``; a token of probability 0 is never drawn.
        key: key of the position, from ``key_of``.
    """
    keys = torch.tensor([signed(key)], device=probabilities.device)
    return int((exponentials(keys, len(probabilities))[0] / probabilities).argmin())

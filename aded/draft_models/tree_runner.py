"""Drafts token trees with a draft model, level by level (SpecInfer, arXiv 2305.09781, section 3: expansion-based construction).

A shape fixes the number of children of each node before any token is sampled. With greedy decoding, a beam search can instead
build the tree of highest cumulative draft probability.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from aded.core.best_first import highest
from aded.core.compilation.cuda_graph import NODE_BUCKETS
from aded.core.errors import AdedError
from aded.core.inspection import BeamLevel
from aded.core.tree import DraftDistributions, DraftTree
from aded.core.tree_shape import Shape
from aded.draft_models.draft_limits import INITIAL_HEADROOM, levels_left, non_finite
from aded.engine.cost_model import SAMPLED, level_seconds
from aded.engine.outputs import DrafterNeeds
from aded.sampling import sampler as sampling
from aded.sampling.rng import exponentials, key_of, signed
from aded.sampling.settings import SamplingSettings
from aded.verification.rejection_sampler import draft_key

if TYPE_CHECKING:
    from aded.engine.outputs import TreeOutput
    from aded.engine.target_model import TargetModel


MAX_PENDING = 128
"""Maximum number of committed tokens that are read in one forward pass with tree attention; more are prefilled."""
BEAM = 8
"""Beam width of the beam search, and number of children of each expanded node."""
LOGITS, TOP_K = DrafterNeeds(), DrafterNeeds(top_k=BEAM)
"""Outputs of a forward pass that ``expand`` and ``expand_most_probable`` need."""


class Sampler:
    """Samples children from the draft model's distribution.

    Args:
        settings: sampling settings of the target; greedy takes the most probable tokens.
        coupled: use the target's random numbers: take the first arrivals of its exponential race.
        replacement: sample children independently, so that a token may occur twice; otherwise without replacement.
        model: index of the draft model; different models use independent random numbers.
    """

    def __init__(self, settings: SamplingSettings, coupled: bool, replacement: bool, model: int = 0) -> None:
        self.settings, self.coupled, self.replacement, self.model = settings, coupled, replacement and not coupled, model

    @property
    def needs_distributions(self) -> bool:
        """Whether verification needs the distributions of the draft model."""
        return not (self.settings.greedy or self.coupled)

    def draw(
        self, logits: torch.Tensor, width: int, position: int, parents: Sequence[int] | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, torch.Tensor | None]:
        """Sample the children of nodes of one level.

        Args:
            logits: the draft model's, ``[n, vocab]``.
            width: number of children of each node, at most the vocabulary size.
            position: text position of the children.
            parents: indices of the nodes in the tree, ``[n]``; different nodes use independent random numbers.

        Returns:
            Tokens, int64, and probabilities, float64, ``[n, width]`` each, in sampling order; probability 0 means that the child
            does not exist. Then the distributions that they were sampled from, float64 ``[n, vocab]``, or None if not needed.
        """
        if self.settings.greedy:
            result = torch.stack([values.double() for values in sampling.top(logits, width)]).cpu().numpy()
            return result[0].astype(np.int64), result[1], None
        values = sampling.parameters(self.settings).to(logits.device)
        q = sampling.distribution(logits, sampling.operations(self.settings), values)
        tokens = self._race(q, width, position, parents)
        result = torch.stack([tokens.double(), q.gather(1, tokens)]).cpu().numpy()
        return result[0].astype(np.int64), result[1], None if self.coupled else q

    def _race(self, q: torch.Tensor, width: int, position: int, parents: Sequence[int] | np.ndarray) -> torch.Tensor:
        """Sample by exponential races: the first ``width`` of one race (no replacement) or the winners of ``width`` races."""
        seed = self.settings.seed

        def arrivals(trial: int) -> torch.Tensor:
            if self.coupled:
                keys = [key_of(seed, position)]
            else:
                keys = [draft_key(seed, position, self.model, int(parent), trial) for parent in parents]
            return exponentials(torch.tensor([signed(key) for key in keys], device=q.device), q.shape[1]) / q

        if self.replacement:
            return torch.stack([arrivals(trial).argmin(-1) for trial in range(width)], dim=1)
        return arrivals(0).topk(width, largest=False).indices


class TreeRunner:
    """The draft model of one decode, with its KV cache; ``vocab_size``: vocabulary size of the target (see ``ChainRunner``).

    Attributes:
        notice: why drafting has stopped in this decode, or None.
    """

    def __init__(self, draft: TargetModel, vocab_size: int) -> None:
        if draft.mode != "tree":
            raise AdedError(f"{draft.label} cannot draft trees; use another --draft-model or another method")
        self.draft, self._vocab_size = draft, min(vocab_size, draft.vocab_size)
        self.notice: str | None = None
        self._session: Any = None

    @property
    def idle(self) -> bool:
        """Whether there is no prompt in the cache."""
        return self._session is None

    def start(self, prompt: Sequence[int]) -> None:
        """Prefill a prompt, if the model supports its length and its tokens."""
        self.close()
        self.notice = None
        if not self.levels(np.asarray(prompt)):
            return
        self._session = self.draft.session(len(prompt) + INITIAL_HEADROOM)
        self._session.prefill(prompt[:-1])

    def close(self) -> None:
        """Release the cache for the next decode."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def levels(self, context: np.ndarray) -> int:
        """Maximum depth of a tree after a text, int ``[n]``; if it is 0, ``notice`` gives the reason."""
        levels, reason = levels_left(self.draft, context)
        self.notice = self.notice or reason
        return 0 if self.notice else levels

    def prepare(self, context: np.ndarray, nodes: int, beam_search: bool) -> None:
        """Prepare ``expand`` or ``expand_most_probable`` to at most ``nodes`` nodes outside the timed step."""
        self._reserve(context, nodes)
        needs, cached = TOP_K if beam_search else LOGITS, self._session.length
        if len(context) - cached <= MAX_PENDING:
            self._session.prepare_run(len(context) - cached, needs, cached)
        sizes = NODE_BUCKETS[:-1]
        for size in sizes[: bisect_left(sizes, nodes) + 1]:
            self._session.prepare_run(size, needs, len(context) - 1)

    @torch.inference_mode()
    def expand(self, context: np.ndarray, shape: Shape, sampler: Sampler) -> DraftTree:
        """Draft a tree of a shape after the committed tokens, int ``[length]``; the last one is the root."""
        levels = Levels(shape, int(context[-1]))
        self._reserve(context, len(shape.parents))
        logits = self._catch_up(context, LOGITS).logits[-1:]
        for depth in range(1, levels.depth + 1):
            parents, width = levels.parents_at(depth)
            rows = logits[torch.from_numpy(parents).to(logits.device), : self._vocab_size]
            levels.add(depth, *sampler.draw(rows, min(width, rows.shape[1]), len(context) + depth - 1, parents))
            if depth < levels.depth:
                logits = self._session.run(levels.tree_so_far(), LOGITS).logits
        self._check_finite(levels.finite)
        return levels.tree(sampler)

    def expand_most_probable(self, context: np.ndarray, budget: int, depth: int) -> DraftTree:
        """Draft the ``budget`` nodes of highest cumulative draft probability that a beam search over ``depth`` levels finds.

        Each level expands its ``BEAM`` most probable nodes (as in EAGLE-2, arXiv 2406.16858); all children are candidates.
        """
        beam = Beam(int(context[-1]), self._vocab_size)
        self._reserve(context, beam_nodes(depth))
        output, rows = self._catch_up(context, TOP_K), np.array([-1])
        for level in range(depth):
            assert output.top_tokens is not None and output.top_probabilities is not None, "needs.top_k is set"
            beam.extend(output.top_tokens[rows].astype(np.int64), output.top_probabilities[rows])
            if level + 1 < depth:
                output, rows = self._session.run(beam.expanded(), TOP_K), beam.rows
        self._check_finite(beam.finite)
        return beam.best(budget)

    def _check_finite(self, finite: bool) -> None:
        """Stop drafting in this decode if the draft probabilities are not finite."""
        if not finite:
            self.notice = non_finite(self.draft)
            self._session.cache.wipe()

    def _reserve(self, context: np.ndarray, nodes: int) -> None:
        """If the cache is too small for a padded tree, prefill a larger one: captured steps need a fixed capacity."""
        needed = len(context) + 2 * max(nodes, MAX_PENDING)
        if needed > self._session.cache.capacity:
            self.close()
            self._session = self.draft.session(2 * needed)
            self._session.prefill(context[:-1].tolist())

    def _catch_up(self, context: np.ndarray, needs: DrafterNeeds) -> TreeOutput:
        """Read the tokens committed since the last tree; the last row of the output is the root's."""
        session, pending = self._session, context[self._session.length :].tolist()
        if len(pending) > MAX_PENDING:
            session.prefill(pending[:-1])
            pending = pending[-1:]
        output = session.run(DraftTree.chain(pending[0], pending[1:]), needs)
        session.compact(range(len(pending) - 1))
        return output


def beam_nodes(depth: int) -> int:
    """Maximum number of nodes that a beam search over ``depth`` levels runs through the model."""
    return 1 + BEAM * max(depth - 1, 0)


def level_cost(draft: TargetModel, greedy: bool) -> float:
    """Seconds per level of a tree (see ``aded.engine.cost_model``): of a beam search if greedy, otherwise of a sampled tree."""
    runner, sampler = TreeRunner(draft, draft.vocab_size), Sampler(SAMPLED, coupled=False, replacement=False)

    def draft_tree(context: np.ndarray, depth: int) -> None:
        if runner.idle:
            runner.start(context.tolist())
        if greedy:
            runner.expand_most_probable(context, BEAM * depth, depth)
        else:
            runner.expand(context, _comb(depth), sampler)

    try:
        return level_seconds(draft, "tree" if greedy else "drawn-tree", draft_tree)
    finally:
        runner.close()


def _comb(depth: int) -> Shape:
    """A shape with two nodes per level, both children of the first node of the level above."""
    levels = np.arange(1, depth + 1, dtype=np.int32).repeat(2)
    ranks, parents = np.tile(np.array([0, 1], dtype=np.int32), depth), np.maximum(2 * levels - 3, 0)
    root = np.zeros(1, dtype=np.int32)
    columns = (np.append(root, ranks), np.append(root - 1, parents), np.append(root, levels))
    return Shape(*columns, np.ones(2 * depth + 1))


class Expansions(NamedTuple):
    """The children of the candidates that a beam search has expanded, the root's first.

    Attributes:
        tokens: int64 ``[rows, children]``; ``probabilities``: their draft probabilities, highest first, float64.
        below: the row of each child; -1 if it is not expanded, int64 ``[rows, children]``.
        depths: depth of each expanded candidate, int64 ``[rows]``.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    below: np.ndarray
    depths: np.ndarray


class Beam:
    """The candidates of a beam search, and which of them are expanded.

    Attributes:
        rows: indices of the last expanded candidates in the tree of all expanded ones, int64 ``[m]``.
        finite: whether all probabilities were finite; others count as 0.
    """

    def __init__(self, root: int, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._tokens, self._parents = np.array([root]), np.array([-1])
        self._prior, self._cumulative = np.array([np.nan]), np.array([1.0])
        self._expanded = self._last_expanded = np.array([0])
        self.rows = np.array([0])
        self.finite = True

    def extend(self, tokens: np.ndarray, probabilities: np.ndarray) -> None:
        """Add the children of the last expanded candidates, ``[m, children]`` each, and expand the most probable ones.

        Tokens outside the target's vocabulary get probability 0.
        """
        self.finite &= bool(np.isfinite(probabilities).all())
        probabilities = np.where((tokens < self._vocab_size) & np.isfinite(probabilities), probabilities, 0.0)
        self._width = tokens.shape[1]
        first, parents = len(self._tokens), np.repeat(self._last_expanded, self._width)
        self._tokens, self._parents = np.append(self._tokens, tokens), np.append(self._parents, parents)
        self._prior = np.append(self._prior, probabilities)
        self._cumulative = np.append(self._cumulative, self._cumulative[parents] * probabilities.ravel())
        self._last_expanded = first + np.sort(highest(self._cumulative[first:], BEAM, 0.0))
        self.rows = len(self._expanded) + np.arange(len(self._last_expanded))
        self._expanded = np.append(self._expanded, self._last_expanded)

    def expanded(self) -> DraftTree:
        """The tree of all expanded candidates."""
        return self._tree(self._expanded)

    def levels(self, budget: int, shown: int) -> list[BeamLevel]:
        """Every level: its ``shown`` most probable candidates, and which of them ``best(budget)`` keeps."""
        depths, kept = np.zeros(len(self._tokens), dtype=int), np.zeros(len(self._tokens), dtype=bool)
        for candidate in range(1, len(depths)):
            depths[candidate] = depths[self._parents[candidate]] + 1
        kept[self._best(budget)] = True
        levels = []
        for depth in range(1, int(depths.max()) + 1):
            level = np.flatnonzero(depths == depth)
            best = level[np.argsort(-self._cumulative[level], kind="stable")][:shown]
            columns = self._tokens[best], self._tokens[self._parents[best]], self._cumulative[best], kept[best]
            levels.append(BeamLevel(len(level), *(tuple(column.tolist()) for column in columns)))
        return levels

    def expansions(self) -> Expansions:
        """The children of the expanded candidates."""
        tokens = self._tokens[1:].reshape(-1, self._width)
        rows = np.arange(1, len(tokens))
        above, rank = np.divmod(self._expanded[rows] - 1, self._width)
        below, depths = np.full(tokens.shape, -1), np.zeros(len(tokens), np.int64)
        below[above, rank] = rows
        for row, parent in zip(rows, above):
            depths[row] = depths[parent] + 1
        return Expansions(tokens, self._prior[1:].reshape(tokens.shape), below, depths)

    def best(self, budget: int) -> DraftTree:
        """The tree of the most probable candidates; a parent is at least as probable as its child."""
        return self._tree(self._best(budget))

    def _best(self, budget: int) -> np.ndarray:
        best = highest(self._cumulative, budget, 0.0)
        return np.sort(best[self._cumulative[best] > 0])

    def _tree(self, chosen: np.ndarray) -> DraftTree:
        parents = np.searchsorted(chosen, self._parents[chosen])
        parents[0] = -1
        return DraftTree(self._tokens[chosen], parents, {"prior": self._prior[chosen]})


class Levels:
    """A tree that is built level by level."""

    def __init__(self, shape: Shape, root: int) -> None:
        order = np.lexsort((shape.ranks, shape.parents, shape.depths))  # sorted by level
        new_index = np.empty(len(order), dtype=np.int64)
        new_index[order] = np.arange(len(order))
        self.depths, self.ranks = shape.depths[order], shape.ranks[order]
        self.parents = np.where(shape.parents[order] < 0, -1, new_index[shape.parents[order]])
        self.tokens = np.array([root])
        self._prior, self._rows = np.full(len(order), np.nan), np.full(len(order), -1, dtype=np.int32)
        self._distributions: list[torch.Tensor] = []
        self._row_count = 0  # number of distributions so far

    @property
    def depth(self) -> int:
        return int(self.depths.max())

    def parents_at(self, depth: int) -> tuple[np.ndarray, int]:
        """The parents of the nodes at ``depth``, and the maximum number of children of one of them."""
        level = self.depths == depth
        return np.unique(self.parents[level]), int(self.ranks[level].max()) + 1

    def add(self, depth: int, tokens: np.ndarray, probabilities: np.ndarray, q: torch.Tensor | None) -> None:
        """Add a level: the children sampled at ``parents_at(depth)``."""
        nodes = np.flatnonzero(self.depths == depth)
        row = np.searchsorted(np.unique(self.parents[nodes]), self.parents[nodes])
        column = np.minimum(self.ranks[nodes], tokens.shape[1] - 1)
        self.tokens = np.concatenate([self.tokens, tokens[row, column]])
        self._prior[nodes] = np.where(self.ranks[nodes] < tokens.shape[1], probabilities[row, column], 0.0)
        if q is not None:
            self._rows[nodes] = row + self._row_count
            self._distributions.append(q.clone())
            self._row_count += len(q)

    @property
    def finite(self) -> bool:
        """Whether all probabilities were finite."""
        return bool(np.isfinite(self._prior[1:]).all())

    def tree_so_far(self) -> DraftTree:
        return DraftTree(self.tokens, self.parents[: len(self.tokens)])

    def tree(self, sampler: Sampler) -> DraftTree:
        """The complete tree without children that do not exist."""
        drawn = None
        if sampler.needs_distributions and self._distributions:
            drawn = DraftDistributions(torch.cat(self._distributions), self._rows, sampler.replacement)
        columns = {} if sampler.coupled and not sampler.settings.greedy else {"prior": self._prior}
        tree = DraftTree(self.tokens, self.parents, columns, sampled_from=drawn)
        exists = self._prior > 0.0
        exists[0] = True
        for node in range(1, len(exists)):
            exists[node] &= exists[self.parents[node]]
        return tree if exists.all() else tree.select(np.flatnonzero(exists))

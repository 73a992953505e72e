"""Token trees expanded from a draft model, level by level (SpecInfer, arXiv 2305.09781, section 3: expansion-based construction).

How many children each node gets is decided by a shape before anything is drawn; which tokens they are, by the model. Where
nothing is drawn (greedy), a tree may also grow where the model is surest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.errors import AdedError
from aded.core.tree import DraftTree, Drawn
from aded.core.tree_shape import Shape
from aded.draft_models.draft_limits import levels_left, non_finite
from aded.engine.cost_model import SAMPLED, level_seconds
from aded.engine.outputs import DrafterNeeds
from aded.sampling.rejection_sampler import draft_key
from aded.sampling.rng import exponentials, key_of, signed
from aded.sampling.sampler import distribution, top
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    from aded.engine.outputs import TreeOutput
    from aded.engine.target_model import TargetModel


MOST_WAITING = 128
"""Committed tokens that are taken in by one pass; more are read like a prompt."""
BEAM = 8
"""Nodes of a level that are expanded where a tree grows by certainty, and children of each."""
FIRST_ROOM = 1024
"""Tokens behind the prompt that a cache has room for at first."""
LOGITS, SUREST = DrafterNeeds(), DrafterNeeds(top_k=BEAM)
"""What the two kinds of expansion read of a pass."""


class Sampler:
    """How children are taken from the draft model's distribution.

    Args:
        settings: as the target samples; greedy takes the most probable tokens.
        coupled: draw with the target's own random numbers: the first tokens to arrive in its race.
        replacement: draw children independently, so that a token may come twice; else each from what the ones before it left.
        model: which of several draft models it draws for, from 0: their draws are independent.
    """

    def __init__(self, settings: SamplingSettings, coupled: bool, replacement: bool, model: int = 0) -> None:
        self.settings, self.coupled, self.replacement, self.model = settings, coupled, replacement and not coupled, model

    @property
    def judged_by_distribution(self) -> bool:
        """Whether the verdict has to know what was drawn from."""
        return not (self.settings.greedy or self.coupled)

    def draw(
        self, logits: torch.Tensor, width: int, position: int, parents: Sequence[int] | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, torch.Tensor | None]:
        """Children of some nodes of one level.

        Args:
            logits: the draft model's, ``[n, vocab]``.
            width: children of each, at most the vocabulary.
            position: of the children in the text.
            parents: the nodes' numbers in the tree, ``[n]``: what is drawn at different nodes is independent.

        Returns:
            Their tokens int64 and probabilities float64, ``[n, width]``, in the order in which they were drawn, a probability of
            0 for a child that is not there; and what they were drawn from, float64 ``[n, vocab]``, if that is needed.
        """
        if self.settings.greedy:
            found = torch.stack([values.double() for values in top(logits, width)]).cpu().numpy()
            return found[0].astype(np.int64), found[1], None
        q = distribution(logits, self.settings)
        tokens = self._race(q, width, position, parents)
        found = torch.stack([tokens.double(), q.gather(1, tokens)]).cpu().numpy()
        return found[0].astype(np.int64), found[1], None if self.coupled else q

    def _race(self, q: torch.Tensor, width: int, position: int, parents: Sequence[int] | np.ndarray) -> torch.Tensor:
        """The winners of exponential races: of one race the first ``width`` (no replacement), or of as many races one each."""
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
    """One decode's draft model: its cache, and trees expanded on it; vocab_size: of the target (see ``ChainRunner``).

    Attributes:
        notice: why it stopped drafting in this decode, or None while it does.
    """

    def __init__(self, draft: TargetModel, vocab_size: int) -> None:
        if draft.mode != "tree":
            raise AdedError(f"{draft.label} cannot draft trees; use another --draft-model or another method")
        self.draft, self._vocab_size = draft, min(vocab_size, draft.vocab_size)
        self.notice: str | None = None
        self._session: Any = None

    @property
    def idle(self) -> bool:
        """Whether no prompt has been read."""
        return self._session is None

    def start(self, prompt: Sequence[int]) -> None:
        """Read a prompt, if the model can."""
        self.close()
        self.notice = None
        if not self.levels(np.asarray(prompt)):
            return
        self._session = self.draft.session(len(prompt) + FIRST_ROOM)
        self._session.prefill(prompt[:-1])

    def close(self) -> None:
        """Hand the cache to the next decode."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def levels(self, context: np.ndarray) -> int:
        """Deepest tree that the model can draft behind a text, int ``[n]``; where there is none, ``notice`` says why."""
        levels, reason = levels_left(self.draft, context)
        self.notice = self.notice or reason
        return 0 if self.notice else levels

    def prepare(self, context: np.ndarray, nodes: int, surest: bool) -> None:
        """Do what ``expand`` or ``expand_surest`` to a tree of at most ``nodes`` nodes needs done outside all timing."""
        self._make_room(context, nodes)
        needs, held = SUREST if surest else LOGITS, self._session.length
        if len(context) - held <= MOST_WAITING:
            self._session.prepare_run(len(context) - held, needs, held)
        sizes = self.draft.step_sizes
        for size in sizes[: bisect_left(sizes, nodes) + 1]:
            self._session.prepare_run(size, needs, len(context) - 1)

    @torch.inference_mode()
    def expand(self, context: np.ndarray, shape: Shape, sampler: Sampler) -> DraftTree:
        """Draft a tree of a shape behind the committed tokens, int ``[length]``, the root last."""
        levels = _Levels(shape, int(context[-1]))
        self._make_room(context, len(shape.parents))
        logits = self._catch_up(context, LOGITS).logits[-1:]
        for depth in range(1, levels.depth + 1):
            parents, width = levels.parents_at(depth)
            rows = logits[torch.from_numpy(parents).to(logits.device), : self._vocab_size]
            levels.add(depth, *sampler.draw(rows, min(width, rows.shape[1]), len(context) + depth - 1, parents))
            if depth < levels.depth:
                logits = self._session.run(levels.tree_so_far(), LOGITS).logits
        self._check(levels.finite)
        return levels.tree(sampler)

    def expand_surest(self, context: np.ndarray, budget: int, depth: int) -> DraftTree:
        """Draft the ``budget`` nodes of the highest joint probability that a beam search over ``depth`` levels finds.

        Of every level the surest nodes are expanded (as EAGLE-2 does, arXiv 2406.16858); all their children take part in it.
        """
        beam = _Beam(int(context[-1]), self._vocab_size)
        self._make_room(context, beam_nodes(depth))
        output, places = self._catch_up(context, SUREST), np.array([-1])
        for level in range(depth):
            assert output.top_tokens is not None and output.top_probabilities is not None, "asked for"
            beam.extend(output.top_tokens[places].astype(np.int64), output.top_probabilities[places])
            if level + 1 < depth:
                output, places = self._session.run(beam.expanded(), SUREST), beam.places
        self._check(beam.finite)
        return beam.best(budget)

    def _check(self, finite: bool) -> None:
        """Stop drafting where what was drafted has probabilities that are not finite."""
        if not finite:
            self.notice = non_finite(self.draft)
            self._session.cache.wipe()

    def _make_room(self, context: np.ndarray, nodes: int) -> None:
        """Where the cache gets too small for a padded tree, read the text into a larger one: captured steps bear no growth."""
        needed = len(context) + 2 * max(nodes, MOST_WAITING)
        if needed > self._session.cache.capacity:
            self.close()
            self._session = self.draft.session(2 * needed)
            self._session.prefill(context[:-1].tolist())

    def _catch_up(self, context: np.ndarray, needs: DrafterNeeds) -> TreeOutput:
        """Take in what was committed since the last tree; what the model says, after the root in the last row."""
        session, waiting = self._session, context[self._session.length :].tolist()
        if len(waiting) > MOST_WAITING:
            session.prefill(waiting[:-1])
            waiting = waiting[-1:]
        output = session.run(DraftTree.chain(waiting[0], waiting[1:]), needs)
        session.commit(range(len(waiting) - 1))
        return output


def beam_nodes(depth: int) -> int:
    """Nodes that a search for the surest ones over so many levels passes through the model at most."""
    return 1 + BEAM * max(depth - 1, 0)


def level_cost(draft: TargetModel, greedy: bool) -> float:
    """Seconds that one more level takes (see ``aded.engine.cost_model``): found by cumulative probability, or drawn."""
    runner, sampler = TreeRunner(draft, draft.vocab_size), Sampler(SAMPLED, coupled=False, replacement=False)

    def make(context: np.ndarray, depth: int) -> None:
        if runner.idle:
            runner.start(context.tolist())
        if greedy:
            runner.expand_surest(context, BEAM * depth, depth)
        else:
            runner.expand(context, _comb(depth), sampler)

    try:
        return level_seconds(draft, "tree" if greedy else "drawn-tree", make)
    finally:
        runner.close()


def _comb(depth: int) -> Shape:
    """Two children a level, of which the first has the next level's."""
    levels = np.arange(1, depth + 1, dtype=np.int32).repeat(2)
    ranks, parents = np.tile(np.array([0, 1], dtype=np.int32), depth), np.maximum(2 * levels - 3, 0)
    root = np.zeros(1, dtype=np.int32)
    columns = (np.append(root, ranks), np.append(root - 1, parents), np.append(root, levels))
    return Shape(*columns, np.ones(2 * depth + 1))


class _Beam:
    """Candidates for a tree, and which of them were expanded.

    Attributes:
        places: where the newest expanded candidates are in the tree of all expanded ones, int64 ``[m]``.
        finite: whether all probabilities were finite; others count as 0.
    """

    def __init__(self, root: int, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._tokens, self._parents = np.array([root]), np.array([-1])
        self._prior, self._joint = np.array([np.nan]), np.array([1.0])
        self._expanded = self._newest = np.array([0])
        self.places = np.array([0])
        self.finite = True

    def extend(self, tokens: np.ndarray, probabilities: np.ndarray) -> None:
        """Take in the children of the newest expanded candidates, ``[m, children]`` each, and expand the surest of them.

        One outside the target's vocabulary has no probability.
        """
        self.finite &= bool(np.isfinite(probabilities).all())
        probabilities = np.where((tokens < self._vocab_size) & np.isfinite(probabilities), probabilities, 0.0)
        first, parents = len(self._tokens), np.repeat(self._newest, tokens.shape[1])
        self._tokens, self._parents = np.append(self._tokens, tokens), np.append(self._parents, parents)
        self._prior = np.append(self._prior, probabilities)
        self._joint = np.append(self._joint, self._joint[parents] * probabilities.ravel())
        self._newest = first + np.sort(np.argsort(-self._joint[first:], kind="stable")[:BEAM])
        self.places = len(self._expanded) + np.arange(len(self._newest))
        self._expanded = np.append(self._expanded, self._newest)

    def expanded(self) -> DraftTree:
        """The tree of all expanded candidates."""
        return self._part(self._expanded)

    def best(self, budget: int) -> DraftTree:
        """The tree of the surest candidates; a parent is never less sure than its child."""
        best = np.argsort(-self._joint, kind="stable")[:budget]
        return self._part(np.sort(best[self._joint[best] > 0]))

    def _part(self, chosen: np.ndarray) -> DraftTree:
        place = np.searchsorted(chosen, self._parents[chosen])
        place[0] = -1
        return DraftTree(self._tokens[chosen], place, {"prior": self._prior[chosen]})


class _Levels:
    """A tree in the making, level by level."""

    def __init__(self, shape: Shape, root: int) -> None:
        order = np.lexsort((shape.ranks, shape.parents, shape.depths))  # a level's nodes lie together
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.depths, self.ranks = shape.depths[order], shape.ranks[order]
        self.parents = np.where(shape.parents[order] < 0, -1, place[shape.parents[order]])
        self.tokens = np.array([root])
        self._prior, self._rows = np.full(len(order), np.nan), np.full(len(order), -1, dtype=np.int32)
        self._distributions: list[torch.Tensor] = []
        self._seen = 0  # distributions so far

    @property
    def depth(self) -> int:
        return int(self.depths.max())

    def parents_at(self, depth: int) -> tuple[np.ndarray, int]:
        """The nodes whose children are the level ``depth``, and the most children that one of them has."""
        level = self.depths == depth
        return np.unique(self.parents[level]), int(self.ranks[level].max()) + 1

    def add(self, depth: int, tokens: np.ndarray, probabilities: np.ndarray, q: torch.Tensor | None) -> None:
        """Fill in a level with what was drawn at ``parents_at(depth)``."""
        nodes = np.flatnonzero(self.depths == depth)
        row = np.searchsorted(np.unique(self.parents[nodes]), self.parents[nodes])
        column = np.minimum(self.ranks[nodes], tokens.shape[1] - 1)
        self.tokens = np.concatenate([self.tokens, tokens[row, column]])
        self._prior[nodes] = np.where(self.ranks[nodes] < tokens.shape[1], probabilities[row, column], 0.0)
        if q is not None:
            self._rows[nodes] = row + self._seen
            self._distributions.append(q.clone())
            self._seen += len(q)

    @property
    def finite(self) -> bool:
        """Whether all probabilities were finite."""
        return bool(np.isfinite(self._prior[1:]).all())

    def tree_so_far(self) -> DraftTree:
        return DraftTree(self.tokens, self.parents[: len(self.tokens)])

    def tree(self, sampler: Sampler) -> DraftTree:
        """The whole tree, less children that are not there."""
        drawn = None
        if sampler.judged_by_distribution and self._distributions:
            drawn = Drawn(torch.cat(self._distributions), self._rows, sampler.replacement)
        columns = {} if sampler.coupled and not sampler.settings.greedy else {"prior": self._prior}
        tree = DraftTree(self.tokens, self.parents, columns, drawn=drawn)
        there = self._prior > 0.0
        there[0] = True
        for node in range(1, len(there)):
            there[node] &= there[self.parents[node]]
        return tree if there.all() else tree.select(np.flatnonzero(there))

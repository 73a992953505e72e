"""SpecInfer (arXiv 2305.09781): token trees expanded from one or several draft models, merged, and verified in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aded.core.errors import AdedError
from aded.core.inspection import Explanation
from aded.core.tree import DraftTree
from aded.core.tree_shape import Shape
from aded.draft_models.tree_runner import Sampler, TreeRunner, beam_nodes
from aded.drafters.base import Context, Drafter, Outcome
from aded.drafters.draft_length_policy import Cost, LevelCost, ShapePolicy
from aded.drafters.tree_merge import merge
from aded.sampling.settings import SamplingSettings

DEPTH, RANKS = 8, 8
"""Deepest level and most children of a node where the shape is chosen by what pays."""
NO_GAIN = "by its acceptance so far, no draft of this model pays: plain step"


def check_branching(branching: Sequence[int]) -> None:
    """Refuse a level without children, or too many."""
    if len(branching) > 16 or any(not 1 <= children <= 64 for children in branching):
        raise AdedError(f"branching is {','.join(map(str, branching))}; give 1 to 16 numbers from 1 to 64, such as 4,2,2,1")


class SpecInferDrafter(Drafter):
    """Drafts the likely continuations by smaller models of the same tokenizer.

    Args:
        runners: the draft models, one or more.
        target, level: what a pass of the target and a level of all drafts cost, see ``aded.drafters.draft_length_policy``.
        coupled: draw with the target's random numbers and judge by one draw a node (see ``SpeculativeDrafter``); else rejection
            by multi-step speculative sampling.
        replacement: children are drawn independently, as published; else each from what the ones before it left.
        branching: children of every node of each level, such as (4, 2, 2, 1); () takes what pays: when sampling, a shape by
            acceptance so far; greedy, as many levels as that shape has, and the nodes that the models are surest of.

    Raises:
        AdedError: a level without children, or too many.
    """

    def __init__(
        self,
        runners: Sequence[TreeRunner],
        target: Cost,
        level: LevelCost,
        coupled: bool = False,
        replacement: bool = False,
        branching: Sequence[int] = (),
    ) -> None:
        check_branching(branching)
        self._runners, self._target, self._level = list(runners), target, level
        self.coupled, self.replacement, self.branching = coupled, replacement, tuple(branching)
        self._settings = SamplingSettings()
        self._policy = self._new_policy()

    def follow(self, settings: SamplingSettings) -> None:
        self._settings = settings
        self._policy = self._new_policy()  # costs are measured now, not when a prompt is read

    def start(self, prompt: Sequence[int]) -> None:
        self._policy, self.notice = self._new_policy(), None
        for runner in self._runners:
            runner.start(prompt)

    def prepare(self, context: Context, budget: int) -> None:
        models, shape = self._plan(context, budget)
        if len(shape.parents) > 1:
            nodes = beam_nodes(int(shape.depths.max())) if self._by_certainty else len(shape.parents)
            for model in models:
                self._runners[model].prepare(context.tokens, nodes, self._by_certainty)

    def propose(self, context: Context, budget: int) -> DraftTree:
        models, shape = self._plan(context, budget)
        if len(shape.parents) == 1:
            return DraftTree.root_only(context.root)
        if self._by_certainty:
            nodes, depth = _share(budget, models), int(shape.depths.max())
            return merge([self._runners[model].expand_surest(context.tokens, nodes, depth) for model in models])
        samplers = [Sampler(self._settings, self.coupled, self.replacement, model) for model in models]
        return merge([self._runners[sampler.model].expand(context.tokens, shape, sampler) for sampler in samplers])

    def observe(self, outcome: Outcome) -> None:
        self._policy.observe(outcome.tree, outcome.path, len(outcome.emitted))
        self.notice = self._reasons()

    def close(self) -> None:
        for runner in self._runners:
            runner.close()

    def explain(self, context: Context, budget: int) -> Explanation:
        models, shape = self._plan(context, budget)
        if budget == 1 or len(shape.parents) > 1:
            return Explanation()
        return Explanation(note=NO_GAIN if models else self._reasons())

    def settings(self) -> dict[str, object]:
        return {
            "draft_models": [runner.draft.label for runner in self._runners],
            "verification": "coupled" if self.coupled else "rejection",
            "replacement": self.replacement,
            "branching": list(self.branching) or "what pays",
        }

    def _new_policy(self) -> ShapePolicy:
        return ShapePolicy(DEPTH, RANKS, self._target, self._level(self._settings.greedy))

    @property
    def _by_certainty(self) -> bool:
        return self._settings.greedy and not self.branching

    def _reasons(self) -> str | None:
        """Why models draft no more, those that do not."""
        return "; ".join(filter(None, [runner.notice for runner in self._runners])) or None

    def _plan(self, context: Context, budget: int) -> tuple[list[int], Shape]:
        """The models that can draft behind the text, and the shape of each one's tree; together they are within the budget."""
        levels = [runner.levels(context.tokens) for runner in self._runners]
        models = [model for model, depth in enumerate(levels) if depth]
        nodes, depth = _share(budget, models), min((depth for depth in levels if depth), default=0)
        if nodes == 1:
            return models, shape_of((), 1)
        if self.branching:
            return models, shape_of(self.branching[:depth], nodes)
        return models, self._policy.shape(len(context.tokens), nodes, depth)


def _share(budget: int, models: Sequence[int]) -> int:
    """Nodes of each model's tree, the root included."""
    return 1 + (budget - 1) // len(models) if models else 1


def shape_of(branching: Sequence[int], budget: int) -> Shape:
    """The tree in which every node of a level has as many children, cut to ``budget`` nodes, level by level."""
    ranks, parents, depths, level = [0], [-1], [0], [0]
    for depth, children in enumerate(branching, 1):
        places = [(node, rank) for node in level for rank in range(children)][: budget - len(parents)]
        level = list(range(len(parents), len(parents) + len(places)))
        parents += [node for node, _ in places]
        ranks += [rank for _, rank in places]
        depths += [depth] * len(places)
    ranks_of, parents_of, depths_of = (np.array(column, dtype=np.int32) for column in (ranks, parents, depths))
    return Shape(ranks_of, parents_of, depths_of, np.ones(len(parents)))

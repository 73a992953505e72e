"""SpecInfer (arXiv 2305.09781): token trees expanded from one or several draft models, merged, and verified in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aded.drafters.base import Context, Drafter, Explanation, Outcome
from aded.errors import AdedError
from aded.expansion import Sampler, TreeRunner, beam_nodes
from aded.lattice import Shape
from aded.merging import merge
from aded.shaping import Cost, LevelCost, ShapePolicy
from aded.tree import DraftTree
from aded.verify import SamplingSettings

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
        target, level: what a pass of the target and a level of all drafts cost, see ``aded.shaping``.
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
        self._sampler = Sampler(SamplingSettings(), coupled, replacement)
        self._policy = self._new_policy()

    def follow(self, settings: SamplingSettings) -> None:
        self._sampler = Sampler(settings, self.coupled, self.replacement)

    def start(self, prompt: Sequence[int]) -> None:
        self._policy = self._new_policy()
        for runner in self._runners:
            runner.start(prompt)

    def prepare(self, context: Context, budget: int) -> None:
        shape = self._shape(context, budget)
        if len(shape.parents) > 1:
            nodes = beam_nodes(int(shape.depths.max())) if self._by_certainty else len(shape.parents)
            for runner in self._runners:
                runner.prepare(context.tokens, nodes, self._by_certainty)

    def propose(self, context: Context, budget: int) -> DraftTree:
        shape = self._shape(context, budget)
        if len(shape.parents) == 1:
            return DraftTree.root_only(context.root)
        if self._by_certainty:
            nodes, depth = self._nodes(budget), int(shape.depths.max())
            return merge([runner.expand_surest(context.tokens, nodes, depth) for runner in self._runners])
        return merge([runner.expand(context.tokens, shape, self._sampler) for runner in self._runners])

    def observe(self, outcome: Outcome) -> None:
        self._policy.observe(outcome.tree, outcome.path, len(outcome.emitted))

    def close(self) -> None:
        for runner in self._runners:
            runner.close()

    def explain(self, context: Context, budget: int) -> Explanation:
        return Explanation(note=NO_GAIN if budget > 1 and len(self._shape(context, budget).parents) == 1 else None)

    def settings(self) -> dict[str, object]:
        return {
            "draft_models": [runner.draft.label for runner in self._runners],
            "verification": "coupled" if self.coupled else "rejection",
            "replacement": self.replacement,
            "branching": list(self.branching) or "what pays",
        }

    def _new_policy(self) -> ShapePolicy:
        return ShapePolicy(DEPTH, RANKS, self._target, self._level(self._sampler.settings.greedy))

    @property
    def _by_certainty(self) -> bool:
        return self._sampler.settings.greedy and not self.branching

    def _nodes(self, budget: int) -> int:
        """Of each model's tree, the root included."""
        return 1 + (budget - 1) // len(self._runners)

    def _shape(self, context: Context, budget: int) -> Shape:
        """The shape of each model's tree; together they are within the budget."""
        nodes = self._nodes(budget)
        room = min(runner.draft.context_limit for runner in self._runners) - len(context.tokens) - DEPTH
        if nodes == 1 or room < 0:
            return shape_of((), 1)
        return shape_of(self.branching, nodes) if self.branching else self._policy.shape(len(context.tokens), nodes)


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

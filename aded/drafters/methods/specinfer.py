"""SpecInfer (arXiv 2305.09781): token trees from one or several draft models, merged and verified in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.core.errors import AdedError, shown
from aded.core.inspection import Explanation
from aded.core.limits import is_whole
from aded.core.tree import DraftTree
from aded.core.tree_shape import Shape
from aded.draft_models.tree_runner import Sampler, TreeRunner, beam_nodes
from aded.drafters.base import Context, Drafter, Inspectable, Outcome
from aded.drafters.budget.draft_length_policy import Cost, LevelCost, ShapePolicy
from aded.drafters.tree_merge import merge
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    import torch

    from aded.engine.target_view import TargetView

MAX_DEPTH, MAX_CHILDREN = 8, 8
"""Maximum depth of the tree and maximum number of children of a node when the shape is chosen automatically."""
NO_GAIN = "at its acceptance rate so far, drafting is slower than plain decoding: plain step"


def check_branching(branching: Sequence[int]) -> None:
    """Check the number of children at each level.

    Raises:
        AdedError: a level without children, too many children, or too many levels.
    """
    known = isinstance(branching, Sequence) and len(branching) <= 16
    if not known or not all(is_whole(children) and 1 <= children <= 64 for children in branching):
        raise AdedError(f"branching is {shown(branching)}; give 1 to 16 numbers from 1 to 64, such as 4,2,2,1")


class SpecInferDrafter(Drafter, Inspectable):
    """Drafts a token tree with one or several smaller models that use the same tokenizer.

    Args:
        runners: the draft models, one or more.
        target, level: cost of a forward pass of the target, and of one level of all draft trees, see
            ``aded.drafters.budget.draft_length_policy``.
        coupled: sample with the target's random numbers and verify with one draw per node (see ``SpeculativeDrafter``);
            otherwise multi-step speculative sampling, a form of rejection sampling.
        replacement: sample children independently (with replacement), as in the paper; otherwise without replacement.
        branching: number of children per node at each level, such as (4, 2, 2, 1). () is automatic: when sampling, the
            throughput-optimal shape by the acceptance rates so far; greedy, the nodes of highest cumulative draft probability,
            to the depth of that shape.

    Raises:
        AdedError: a level without children, too many children, or too many levels.
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
        self._runners, self._target_cost, self._level_cost = list(runners), target, level
        self.coupled, self.replacement, self.branching = coupled, replacement, tuple(branching)
        self._settings = SamplingSettings()
        self._policy = self._new_policy()

    def bind(self, target: TargetView) -> None:
        self._settings = target.settings
        self._policy = self._new_policy()  # measures the costs now, not while a prompt is read

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._policy, self.notice = self._new_policy(), None
        for runner in self._runners:
            runner.start(prompt)

    def prepare(self, context: Context, budget: int) -> None:
        models, shape = self._plan(context, budget)
        if len(shape.parents) > 1:
            nodes = beam_nodes(int(shape.depths.max())) if self._beam_search else len(shape.parents)
            for model in models:
                self._runners[model].prepare(context.tokens, nodes, self._beam_search)

    def propose(self, context: Context, budget: int) -> DraftTree:
        models, shape = self._plan(context, budget)
        if len(shape.parents) == 1:
            return DraftTree.root_only(context.root)
        if self._beam_search:
            nodes, depth = _nodes_per_model(budget, models), int(shape.depths.max())
            return merge([self._runners[model].expand_most_probable(context.tokens, nodes, depth) for model in models])
        samplers = [Sampler(self._settings, self.coupled, self.replacement, model) for model in models]
        return merge([self._runners[sampler.model].expand(context.tokens, shape, sampler) for sampler in samplers])

    def observe(self, outcome: Outcome) -> None:
        self._policy.observe(outcome.tree, outcome.path, len(outcome.emitted))
        self.notice = self._notices()

    def close(self) -> None:
        for runner in self._runners:
            runner.close()

    def explain(self, context: Context, budget: int) -> Explanation:
        models, shape = self._plan(context, budget)
        if budget == 1 or len(shape.parents) > 1:
            return Explanation()
        return Explanation(note=NO_GAIN if models else self._notices())

    def settings(self) -> dict[str, object]:
        return {
            "draft_models": [runner.draft.label for runner in self._runners],
            "verification": "coupled" if self.coupled else "rejection",
            "replacement": self.replacement,
            "branching": list(self.branching) or "automatic",
        }

    def _new_policy(self) -> ShapePolicy:
        return ShapePolicy(MAX_DEPTH, MAX_CHILDREN, self._target_cost, self._level_cost(self._settings.greedy))

    @property
    def _beam_search(self) -> bool:
        return self._settings.greedy and not self.branching

    def _notices(self) -> str | None:
        """Why some models have stopped drafting; None if all still draft."""
        return "; ".join(filter(None, [runner.notice for runner in self._runners])) or None

    def _plan(self, context: Context, budget: int) -> tuple[list[int], Shape]:
        """The models that can draft after the text, and the shape of each model's tree; together they fit into the budget."""
        levels = [runner.levels(context.tokens) for runner in self._runners]
        models = [model for model, depth in enumerate(levels) if depth]
        nodes, depth = _nodes_per_model(budget, models), min((depth for depth in levels if depth), default=0)
        if nodes == 1:
            return models, shape_of((), 1)
        if self.branching:
            return models, shape_of(self.branching[:depth], nodes)
        return models, self._policy.shape(len(context.tokens), nodes, depth)


def _nodes_per_model(budget: int, models: Sequence[int]) -> int:
    """Number of nodes of each model's tree, the root included."""
    return 1 + (budget - 1) // len(models) if models else 1


def shape_of(branching: Sequence[int], budget: int) -> Shape:
    """The tree with ``branching[d]`` children per node at depth d, truncated to ``budget`` nodes in level order."""
    ranks, parents, depths, level = [0], [-1], [0], [0]
    for depth, children in enumerate(branching, 1):
        added = [(node, rank) for node in level for rank in range(children)][: budget - len(parents)]
        level = list(range(len(parents), len(parents) + len(added)))
        parents += [node for node, _ in added]
        ranks += [rank for _, rank in added]
        depths += [depth] * len(added)
    rank_array, parent_array, depth_array = (np.array(column, dtype=np.int32) for column in (ranks, parents, depths))
    return Shape(rank_array, parent_array, depth_array, np.ones(len(parents)))

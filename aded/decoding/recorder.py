"""Makes the record of a step: texts, the target's view of every node, the matrix before and after. Outside all timing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from aded.core.inspection import Answer, Explanation, MatrixRow, MatrixSize
from aded.core.trace import (
    Agreement,
    Budget,
    Choice,
    Cost,
    Origin,
    RowChange,
    Seconds,
    SimulationRecord,
    Size,
    Step,
    TreeRecord,
    finite,
    rounded,
)
from aded.core.tree import DraftTree
from aded.drafters.base import Drafter, Outcome
from aded.engine.cost_model import StepCost
from aded.engine.target_model import TargetModel
from aded.engine.tokenizer import TokenTexts
from aded.ngram.representative import agreement
from aded.sampling.logits_pipeline import Rule
from aded.sampling.tree_walk import Verification, verdicts

TOP_SHOWN = 6
"""Most probable tokens of the target shown at each node of the accepted path."""


@dataclass(frozen=True)
class Before:
    """What must be read before the drafter learns."""

    explanation: Explanation
    rows: list[MatrixRow]
    answers: list[Answer]


class Recorder:
    """One decode's recorder."""

    def __init__(self, model: TargetModel, drafter: Drafter, rule: Rule) -> None:
        self.drafter = drafter
        self.rule = rule
        self.texts = TokenTexts(model.tokenizer)

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as one text."""
        return "".join(self.texts.all(ids))

    def before(self, outcome: Outcome, budget: int) -> Before:
        """How the draft came about, the matrix rows that are about to change, and what stands in for the model said."""
        context = outcome.context
        return Before(self.drafter.explain(context, budget), self.drafter.rows(outcome), self.drafter.represent(context))

    def step(
        self,
        index: int,
        outcome: Outcome,
        verdict: Verification,
        pieces: list[str],
        budget: Budget,
        seconds: Seconds,
        logits: torch.Tensor,
        before: Before | None,
    ) -> Step:
        """The record of a step; without ``before`` the costly parts stay empty."""
        tree, kept = outcome.tree, len(outcome.emitted)
        n, full = len(tree), before is not None
        probability: list[float | None] = [None] * n
        rank: list[int | None] = [None] * n
        choices: list[Choice] = []
        if full:
            self._judge(outcome, verdict, logits, probability, rank, choices)
        verdict_of, reason_of = verdicts(tree, verdict.path, kept)
        record = TreeRecord(
            tokens=tree.tokens.tolist(),
            parents=tree.parents.tolist(),
            texts=self.texts.all(tree.tokens) if full else [""] * n,
            columns={name: finite(column) for name, column in tree.columns.items()} if full else {},
            probability=probability,
            rank=rank,
            verdict=verdict_of,  # type: ignore[arg-type]
            reason=reason_of,  # type: ignore[arg-type]
        )
        drafted = len(verdict.path) - 1
        origins: list[Origin] = ["draft" if i < drafted else "target" for i in range(kept)]
        return Step(
            index=index,
            position=len(outcome.context.tokens) - 1,
            tree=record,
            path=[node for i, node in enumerate(verdict.path) if i <= kept],
            choices=choices,
            emitted=outcome.emitted.tolist(),
            texts=pieces,
            origins=origins,
            budget=budget,
            seconds=seconds,
            rows=self._row_changes(before.rows, self.drafter.rows(outcome)) if before else [],
            simulations=_simulations(before.explanation, tree) if before else [],
            agreement=_agreement(before.answers, logits[0]) if before and before.answers else [],
            size=_size(self.drafter.size()) if before else None,
            note=before.explanation.note if before else None,
        )

    def _judge(
        self,
        outcome: Outcome,
        verdict: Verification,
        logits: torch.Tensor,
        probability: list[float | None],
        rank: list[int | None],
        choices: list[Choice],
    ) -> None:
        """Fill in the target's probability and rank of every node, and its choice at each node of the path.

        The softmax is over the whole vocabulary, after all sampling settings (at temperature 0: after the penalties).
        """
        tree, chosen = outcome.tree, verdict.chosen(outcome.tree)
        prefix = outcome.context.tokens.tolist()
        children: dict[int, list[int]] = {}
        for node in range(1, len(tree)):
            children.setdefault(int(tree.parents[node]), []).append(node)
        walked = {node: i for i, node in enumerate(verdict.path[: len(outcome.emitted)])}
        for parent in sorted(children.keys() | walked.keys()):
            ids = prefix + tree.tokens[tree.path_to(parent)[1:]].tolist()
            row = self.rule.probabilities(logits[parent], ids).cpu()
            for node in children.get(parent, []):
                p = float(row[tree.tokens[node]])
                if math.isfinite(p):
                    probability[node], rank[node] = rounded(p), 1 + int((row > p).sum())
            if parent in walked:
                drafted = tree.child(parent, chosen[walked[parent]]) is not None
                choices.append(self._choice(parent, chosen[walked[parent]], verdict.draws[walked[parent]], drafted, row))

    def _choice(self, node: int, token: int, draw: float | None, drafted: bool, row: torch.Tensor) -> Choice:
        top = row.topk(min(TOP_SHOWN, len(row)))
        return Choice(
            node=node,
            token=token,
            text=self.texts(token),
            probability=rounded(float(row[token])),
            rank=1 + int((row > row[token]).sum()),
            drafted=drafted,
            top_tokens=top.indices.tolist(),
            top_texts=self.texts.all(top.indices.tolist()),
            top_probabilities=[rounded(p) for p in top.values.tolist()],
            draw=draw,
        )

    def _row_changes(self, before: Sequence[MatrixRow], after: Sequence[MatrixRow]) -> list[RowChange]:
        old = {row.key: _as_dict(row) for row in before}
        changes = []
        for row in after:
            was, now, taught = old.get(row.key, {}), _as_dict(row), dict(zip(row.tokens, row.learned))
            tokens = sorted(was.keys() | now.keys(), key=lambda t: (-now.get(t, 0.0), -was.get(t, 0.0), t))
            changes.append(
                RowChange(
                    key=list(row.key),
                    key_texts=self.texts.all(row.key),
                    tokens=tokens,
                    texts=self.texts.all(tokens),
                    before=[rounded(was.get(t, 0.0)) for t in tokens],
                    after=[rounded(now.get(t, 0.0)) for t in tokens],
                    learned=[p or 0.0 for p in finite(taught.get(t, 0.0) for t in tokens)],
                )
            )
        return changes


def recorded_cost(cost: StepCost | None) -> Cost | None:
    """What a step costs, for the record."""
    if cost is None:
        return None
    return Cost(list(cost.sizes), list(cost.contexts), [[rounded(s) for s in row] for row in cost.seconds], cost.padded)


def _agreement(answers: Sequence[Answer], logits: torch.Tensor) -> list[Agreement]:
    """How near the answers are to the target's own distribution after the root, before any sampling setting."""
    target = logits.float().softmax(-1).cpu().numpy()
    found = [(answer, *agreement(answer.tokens, answer.probabilities, target)) for answer in answers]
    return [
        Agreement(a.who, a.unseen, rounded(distance), *map(rounded, shared))
        for a, distance, shared in found
        if np.isfinite([distance, *shared]).all()
    ]


def _size(size: MatrixSize | None) -> Size | None:
    return Size(size.base_rows, size.base_bytes, size.overlay_rows, size.overlay_bytes) if size else None


def _simulations(explanation: Explanation, tree: DraftTree) -> list[SimulationRecord]:
    """The search's simulations, their nodes renamed to those of the part of its draft that was verified."""
    origin = range(len(tree)) if tree.origin is None else tree.origin.tolist()
    place = {old: new for new, old in enumerate(origin)}
    return [
        SimulationRecord([place.get(node, -1) for node in s.selected], place.get(s.expanded, -1), rounded(s.reward))
        for s in explanation.simulations
        if math.isfinite(s.reward)
    ]


def _as_dict(row: MatrixRow) -> dict[int, float]:
    return {int(t): float(p) for t, p in zip(row.tokens, row.probabilities) if np.isfinite(p)}

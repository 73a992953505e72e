"""Records a step for the trace: token texts, the target's probability of every node, the matrix rows before and after.

Recording is not timed. What the model's device computes for the record of several steps is computed together (``complete``): on
a GPU its many small operations would take longer than the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from aded.core.errors import AdedError, as_text, first_line
from aded.core.inspection import Explanation, MatrixRow, MatrixSize, Prediction
from aded.core.trace import (
    Agreement,
    AttendedRecord,
    BlockRecord,
    BlockTest,
    Budget,
    Choice,
    Cost,
    LatticeRecord,
    LensPosition,
    LensRecord,
    LevelRecord,
    LogitsRecord,
    Origin,
    PoolRecord,
    RejectionRecord,
    RejectionTrial,
    RowChange,
    Seconds,
    SimulationRecord,
    Size,
    Step,
    TreeRecord,
    TypicalRecord,
    TypicalTrial,
    finite,
    rounded,
)
from aded.core.tree import DraftTree
from aded.decoding.logit_lens import LayerScores, LogitLens
from aded.decoding.target_scores import ChoiceScores, Scoring, TargetScores, score, scoring
from aded.drafters.base import Context, Drafter, Inspectable, Outcome
from aded.engine.cost_model import StepCost
from aded.engine.loading.tokenizer import TokenTexts
from aded.engine.outputs import DrafterNeeds, TreeOutput
from aded.engine.target_model import TargetModel
from aded.ngram.representative import TargetDistribution, agreement
from aded.sampling.logits_pipeline import Rule
from aded.verification import block_verifier, rejection_sampler, typical_acceptance
from aded.verification.tree_walk import Verification, verdicts

A = TypeVar("A")
T = TypeVar("T")
Row = Mapping[int, float]
"""Probability by successor."""
TOP_COMPARED = 8
"""How many of the most probable tokens of each distribution are recorded at each node of rejection sampling."""
LOGITS_DIGITS = 5
LENS_DIGITS = 3


@dataclass(frozen=True)
class NodeRecord:
    """The target's probability and rank of each of ``n`` nodes, and its choice at each node of the accepted path."""

    probability: list[float | None]
    rank: list[int | None]
    choices: list[Choice] = field(default_factory=list)
    block: BlockRecord | None = None

    @classmethod
    def empty(cls, n: int) -> NodeRecord:
        return cls([None] * n, [None] * n)


class Chosen(NamedTuple):
    """A token that the target chose at a node of the accepted path.

    Attributes:
        draw: its uniform random number; None if greedy.
        drafted: whether a child of the node has this token.
    """

    node: int
    token: int
    draw: float | None
    drafted: bool


@dataclass(frozen=True)
class Snapshot:
    """What is recorded before the drafter learns from the step, because it may then overwrite its draft distributions.

    Attributes:
        nodes: the scores of a draft whose tests of tokens are recorded; None for one that ``Recorder.complete`` scores.
        scoring, chosen: what it scores, and the target's choices.
        lens: hidden states and logits at the nodes of the choices, for the logit lens; None without one.
        root: the target's logits at the root, ``[vocab]``.
        predictions: of the LLM representatives at the root.
    """

    nodes: NodeRecord | None
    scoring: Scoring
    chosen: list[Chosen]
    note: str | None
    simulations: list[SimulationRecord]
    lattice: list[LatticeRecord]
    pool: PoolRecord | None
    levels: list[LevelRecord]
    attended: list[AttendedRecord]
    lens: tuple[torch.Tensor, torch.Tensor] | None
    rows: dict[tuple[int, ...], Row]
    root: torch.Tensor
    predictions: list[Prediction]


@dataclass(frozen=True)
class RecordedStep:
    """A step whose scores may still be missing; see ``Recorder.complete``.

    Attributes:
        snapshot: None if not every field is recorded, so that nothing is missing.
        predictions: of the LLM representatives at the root, after the drafter has learned.
    """

    step: Step
    snapshot: Snapshot | None = None
    predictions: list[Prediction] = field(default_factory=list)

    @property
    def predicts(self) -> bool:
        """Whether there are predictions of LLM representatives."""
        return bool(self.predictions or (self.snapshot and self.snapshot.predictions))


class Recorder:
    """Records the steps of one decode.

    Attributes:
        needs: what the target must return after each step: what the drafter needs, and the hidden layers of the logit lens.
    """

    def __init__(self, model: TargetModel, drafter: Drafter, rule: Rule, full: bool) -> None:
        """``full``: whether every field of the steps is recorded."""
        self._inspectable = drafter if isinstance(drafter, Inspectable) else Inspectable()
        self._lens = model.shared_by_decodes("logit lens", lambda: LogitLens.of(model)) if full else None
        self._read_by_drafter = len(drafter.needs.hidden_layers)
        self.needs: DrafterNeeds = drafter.needs
        if self._lens is not None:
            self.needs = replace(self.needs, hidden_layers=(*self.needs.hidden_layers, *self._lens.hidden_layers))
        self.rule = rule
        self.texts: TokenTexts = model.shared_by_decodes("token texts", lambda: TokenTexts(model.tokenizer))

    def text(self, ids: Sequence[int]) -> str:
        """The text of token ids."""
        return "".join(self.texts.all(ids))

    def split(self, output: TreeOutput) -> tuple[TreeOutput, torch.Tensor | None]:
        """The target's output for ``needs`` as the drafter gets it, and the hidden states of the logit lens, None without one."""
        if self._lens is None or output.features is None:
            return output, None
        count = len(self.needs.hidden_layers)
        width = output.features.shape[1] // count * self._read_by_drafter
        features = output.features[:, :width] if width else None
        return replace(output, features=features), output.features[:, width:]

    def snapshot(
        self,
        outcome: Outcome,
        verification: Verification,
        logits: torch.Tensor,
        states: torch.Tensor | None,
        budget: int,
    ) -> Snapshot:
        """The target's scores, how the draft was made, the matrix rows that will change, and the predictions of the matrix.

        Args:
            logits: the target's logits at each node of the tree, ``[nodes, vocabulary]``.
            states: hidden states of the logit lens at each node, ``[nodes, layers * hidden]``; None without one.
            budget: of the draft; with 1 the drafter was not asked, and what it could explain is an earlier draft.

        Raises:
            AdedError: the drafter returned something that cannot be recorded.
        """
        scoring, chosen = self._scoring(outcome, verification, logits)
        nodes = self._tested_nodes(outcome, verification, logits, scoring, chosen) if self._tests(outcome.tree) else None
        explanation = self._inspectable.explain(outcome.context.copy(), budget) if budget > 1 else Explanation()
        note = self._read("explain", explanation, lambda made: None if made.note is None else as_text(made.note))
        simulations = self._read("explain", explanation, lambda made: _simulations(made, outcome.tree))
        lattice = self._read("explain", explanation, self._lattice)
        pool = self._read("explain", explanation, self._pool)
        levels = self._read("explain", explanation, self._levels)
        attended = self._read("explain", explanation, partial(self._attended, outcome.context))
        return Snapshot(
            nodes,
            scoring,
            chosen,
            note,
            simulations,
            lattice,
            pool,
            levels,
            attended,
            self._lens_rows(verification.path[: len(outcome.emitted)], logits, states),
            self._rows(outcome),
            logits[0].clone(),
            self._predictions(outcome),
        )

    def step(
        self,
        index: int,
        outcome: Outcome,
        verification: Verification,
        pieces: list[str],
        budget: Budget,
        seconds: Seconds,
        snapshot: Snapshot | None,
    ) -> RecordedStep:
        """The record of a step; without ``snapshot`` the fields that are slow to compute stay empty.

        Args:
            index: number of the step in the decode.
            pieces: text of each emitted token.
            snapshot: taken before the drafter learned.
        """
        tree, kept = outcome.tree, len(outcome.emitted)
        n, full = len(tree), snapshot is not None
        nodes = (snapshot.nodes if snapshot else None) or NodeRecord.empty(n)
        node_verdicts, reasons = verdicts(tree, verification.path, kept)
        if nodes.block is not None:  # every prefix was tested
            node_verdicts = ["rejected" if verdict == "unreached" else verdict for verdict in node_verdicts]
        record = TreeRecord(
            tokens=tree.tokens.tolist(),
            parents=tree.parents.tolist(),
            texts=self.texts.all(tree.tokens) if full else [""] * n,
            columns={name: finite(column) for name, column in tree.columns.items()} if full else {},
            probability=nodes.probability,
            rank=nodes.rank,
            verdict=node_verdicts,  # type: ignore[arg-type]
            reason=reasons,  # type: ignore[arg-type]
        )
        accepted = len(verification.path) - 1
        origins: list[Origin] = ["draft" if i < accepted else "target" for i in range(kept)]
        step = Step(
            index=index,
            position=len(outcome.context.tokens) - 1,
            tree=record,
            path=[node for i, node in enumerate(verification.path) if i <= kept],
            choices=nodes.choices,
            emitted=outcome.emitted.tolist(),
            texts=pieces,
            origins=origins,
            budget=budget,
            seconds=seconds,
            rows=self._row_changes(snapshot.rows, outcome) if snapshot else [],
            simulations=snapshot.simulations if snapshot else [],
            size=self._read("matrix_size", self._inspectable.matrix_size(), _size) if snapshot else None,
            note=snapshot.note if snapshot else None,
            block=nodes.block,
            lattice=snapshot.lattice if snapshot else [],
            pool=snapshot.pool if snapshot else None,
            levels=snapshot.levels if snapshot else [],
            attended=snapshot.attended if snapshot else [],
        )
        return RecordedStep(step, snapshot, self._predictions(outcome)) if snapshot else RecordedStep(step)

    def complete(self, steps: Sequence[RecordedStep]) -> list[Step]:
        """The steps with all scores: of the target at the nodes, of the logit lens, and of the LLM representatives' agreement.

        Raises:
            AdedError: a drafter returned predictions that cannot be recorded.
        """
        unscored = [one.snapshot for one in steps if one.snapshot and one.snapshot.nodes is None]
        scores = iter(score(self.rule, [snapshot.scoring for snapshot in unscored]))
        lenses = iter(self._read_lens([one.snapshot for one in steps if one.snapshot and one.snapshot.lens]))
        targets = iter(_root_distributions([one.snapshot.root for one in steps if one.snapshot and one.predicts]))
        return [
            one.step if one.snapshot is None else self._completed(one, one.snapshot, scores, lenses, targets) for one in steps
        ]

    def _completed(
        self,
        one: RecordedStep,
        snapshot: Snapshot,
        scores: Iterator[TargetScores],
        lenses: Iterator[LensRecord | None],
        targets: Iterator[TargetDistribution],
    ) -> Step:
        """The step with the next ones of the scores that it lacks."""
        step, target = one.step, next(targets) if one.predicts else None
        if snapshot.nodes is None:
            nodes = self._node_record(next(scores), snapshot.chosen)
            tree = replace(step.tree, probability=nodes.probability, rank=nodes.rank)
            step = replace(step, tree=tree, choices=nodes.choices)
        return replace(
            step,
            lens=next(lenses) if snapshot.lens else None,
            agreement=self._agreement(snapshot.predictions, target),
            agreement_after=self._agreement(one.predictions, target),
        )

    def _read(self, call: str, answer: A, read: Callable[[A], T]) -> T:
        """What ``read`` makes of the drafter's answer to a call of ``Inspectable``.

        Raises:
            AdedError: ``read`` fails; the message names the drafter and the call.
        """
        try:
            return read(answer)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise AdedError(
                f"{type(self._inspectable).__name__}.{call} returned what cannot be recorded ({first_line(error)}); see "
                "aded.core.inspection for what it must return"
            ) from error

    def _rows(self, outcome: Outcome) -> dict[tuple[int, ...], Row]:
        """The current matrix rows that the step changes, by bigram."""
        rows = self._inspectable.matrix_rows(outcome.copy())
        return self._read("matrix_rows", rows, lambda made: {row.key: _as_dict(row) for row in made})

    def _predictions(self, outcome: Outcome) -> list[Prediction]:
        """What the LLM representatives predict now after the root, as copies."""
        made = self._inspectable.predictions(outcome.context.copy())
        return self._read("predictions", made, lambda all_made: [_copied(prediction) for prediction in all_made])

    def _agreement(self, predictions: Sequence[Prediction], target: TargetDistribution | None) -> list[Agreement]:
        """Agreement of the LLM representatives with the target at the root, before sampling settings."""
        if target is None:
            return []
        return self._read("predictions", predictions, lambda made: _agreement(made, target))

    def _tests(self, tree: DraftTree) -> bool:
        """Whether drafted tokens are tested with random numbers or a threshold, which is recorded."""
        return self._rejects(tree) or self.rule.typical is not None

    def _rejects(self, tree: DraftTree) -> bool:
        return bool(tree.drafted) and tree.sampled_from is not None and self.rule.uses_rejection_sampling

    def _scoring(self, outcome: Outcome, verification: Verification, logits: torch.Tensor) -> tuple[Scoring, list[Chosen]]:
        """What is scored, and the choices; see ``Snapshot``."""
        tree, path, tokens = outcome.tree, verification.path[: len(outcome.emitted)], outcome.emitted.tolist()
        children = _children(tree) if self._rejects(tree) else {}
        tried = [tree.tokens[children.get(node, [])].tolist() for node in path]
        drafted = [tree.child(node, token) is not None for node, token in zip(path, tokens)]
        chosen = [Chosen(*choice) for choice in zip(path, tokens, verification.draws, drafted)]
        return scoring(self.rule, logits, tree, outcome.context.tokens, path, tokens, tried), chosen

    def _node_record(self, scores: TargetScores, chosen: Sequence[Chosen]) -> NodeRecord:
        record = NodeRecord.empty(1 + len(scores.probability))
        for node, (p, rank) in enumerate(zip(scores.probability, scores.rank), 1):
            if math.isfinite(p):
                record.probability[node], record.rank[node] = rounded(p), rank
        record.choices.extend(self._choice(choice, found) for choice, found in zip(chosen, scores.choices))
        return record

    def _tested_nodes(
        self,
        outcome: Outcome,
        verification: Verification,
        logits: torch.Tensor,
        scoring: Scoring,
        chosen: Sequence[Chosen],
    ) -> NodeRecord:
        """The scores at every node, with the tests of drafted tokens."""
        tree, rejects, children = outcome.tree, self._rejects(outcome.tree), _children(outcome.tree)
        as_block = tree.sampled_from is not None and tree.sampled_from.block
        (scores,) = score(self.rule, [scoring])
        record = self._node_record(scores, chosen)
        for i, (choice, found) in enumerate(zip(record.choices, scores.choices)):
            if rejects and not as_block:
                tests = self._rejection(outcome, logits, verification.path[: i + 1], choice.token, found.logits.tokens)
                record.choices[i] = replace(choice, rejection=tests)
            if self.rule.typical is not None:
                typical = self._typical(tree, scores.distribution(choice.node), children.get(choice.node, []))
                record.choices[i] = replace(record.choices[i], typical=typical)
        if rejects and as_block:
            record = replace(record, block=self._block(outcome, logits, verification.next_token))
        return record

    def _choice(self, chosen: Chosen, found: ChoiceScores) -> Choice:
        logits = found.logits
        return Choice(
            node=chosen.node,
            token=chosen.token,
            text=self.texts(chosen.token),
            probability=rounded(found.probability),
            rank=found.rank,
            drafted=chosen.drafted,
            top_tokens=found.top_tokens,
            top_texts=self.texts.all(found.top_tokens),
            top_probabilities=[rounded(p) for p in found.top_probabilities],
            draw=chosen.draw,
            logits=LogitsRecord(
                tokens=logits.tokens,
                texts=self.texts.all(logits.tokens),
                values=[rounded(value, LOGITS_DIGITS) for value in logits.values],
                ranked=logits.ranked,
                others=[rounded(value, LOGITS_DIGITS) for value in logits.others],
            ),
        )

    def _rejection(
        self, outcome: Outcome, logits: torch.Tensor, path: list[int], chosen: int, with_logits: list[int]
    ) -> RejectionRecord:
        """How rejection sampling chose the token ``chosen`` at the last node of ``path``.

        with_logits: tokens of the ``LogitsRecord`` of this node.
        """
        tree = outcome.tree
        tried, residual = rejection_sampler.trials_at(tree, logits, outcome.context.tokens, self.rule, path)
        tests = [(child, u, trial.p[0].cpu(), trial.q[0].cpu(), bool(trial.accepted)) for child, u, trial in tried]
        drawn = None if tests and tests[-1][-1] else residual.cpu()
        rows = [row for _, _, p, q, _ in (*tests[:1], *tests[-1:]) for row in (p, q)] + ([] if drawn is None else [drawn])
        top = {token for row in rows for token in row.topk(min(TOP_COMPARED, len(row))).indices.tolist()}
        tokens = sorted(
            top | {chosen} | {int(tree.tokens[child]) for child, *_ in tests}, key=lambda token: (-rows[0][token], token)
        )
        return RejectionRecord(
            trials=[
                self._rejection_trial(child, int(tree.tokens[child]), u, p, q, ok, tokens, with_logits)
                for child, u, p, q, ok in tests
            ],
            tokens=tokens,
            texts=self.texts.all(tokens),
            residual=[] if drawn is None else [rounded(p) for p in drawn[tokens].tolist()],
            residual_probability=None if drawn is None else float(drawn[chosen]),
        )

    def _rejection_trial(
        self,
        node: int,
        token: int,
        uniform: float,
        p: torch.Tensor,
        q: torch.Tensor,
        accepted: bool,
        shown: list[int],
        with_logits: list[int],
    ) -> RejectionTrial:
        return RejectionTrial(
            node=node,
            token=token,
            p=float(p[token]),
            q=float(q[token]),
            uniform=uniform,
            ratio=min(1.0, float(p[token] / q[token])),
            accepted=accepted,
            rejection=float((p - q).clamp_min(0).sum()),
            top_p=[rounded(value) for value in p[shown].tolist()],
            top_q=[rounded(value) for value in q[shown].tolist()],
            logits_q=[rounded(value, LOGITS_DIGITS) for value in q[with_logits].tolist()],
        )

    def _block(self, outcome: Outcome, logits: torch.Tensor, chosen: int) -> BlockRecord:
        """How block verification tested the prefixes of a chain and drew the token ``chosen`` after the accepted one."""
        tree = outcome.tree
        p, q = block_verifier.distributions(tree, logits, outcome.context.tokens, self.rule)
        inputs = block_verifier.inputs_of(tree, len(outcome.context.tokens), self.rule.settings.seed)
        tests = block_verifier.tests_of(p, q, inputs)
        drafted, n = tree.tokens[1:].tolist(), int(tests.accepted)
        weights, last, residual = tests.weights.tolist(), p[n].cpu(), tests.residual.cpu()
        draft = q[n].cpu() if n < len(drafted) else None
        rows = [row for row in (last, draft, residual) if row is not None]
        top = {token for row in rows for token in row.topk(min(TOP_COMPARED, len(row))).indices.tolist()}
        tokens = sorted(top | {chosen, *drafted[n : n + 1]}, key=lambda token: (-last[token], token))
        sums = [*tests.left[1:-1].sum(-1).tolist(), None]
        tested = zip(drafted, p, q, weights[1:], sums, tests.passes.tolist(), inputs.uniforms.tolist())
        return BlockRecord(
            tests=[
                BlockTest(node, float(p_row[x]), float(q_row[x]), weight, total, passes, u, u <= passes)
                for node, (x, p_row, q_row, weight, total, passes, u) in enumerate(tested, 1)
            ],
            weight=weights[n],
            left=float(tests.left[n].sum()),
            tokens=tokens,
            texts=self.texts.all(tokens),
            p=[rounded(value) for value in last[tokens].tolist()],
            q=[] if draft is None else [rounded(value) for value in draft[tokens].tolist()],
            residual=[rounded(value) for value in residual[tokens].tolist()],
            residual_probability=float(residual[chosen]),
        )

    def _typical(self, tree: DraftTree, distribution: torch.Tensor, children: list[int]) -> TypicalRecord:
        """How typical acceptance tested ``children``; ``distribution``: the target's at their parent, float64 ``[vocab]``."""
        assert self.rule.typical is not None
        test = typical_acceptance.check_children(distribution, tree.tokens[children], self.rule.typical)
        trials = zip(children, test.probabilities.tolist(), test.typical.tolist())
        return TypicalRecord(test.entropy, test.threshold, [TypicalTrial(*trial) for trial in trials])

    def _lattice(self, explanation: Explanation) -> list[LatticeRecord]:
        return [
            LatticeRecord(
                tokens=[int(token) for token in column.tokens],
                texts=self.texts.all([int(token) for token in column.tokens]),
                heads=[rounded(float(p)) for p in column.heads],
                rescored=[rounded(float(p)) for p in column.rescored],
            )
            for column in explanation.lattice
            if np.isfinite([*column.heads, *column.rescored]).all()
        ]

    def _pool(self, explanation: Explanation) -> PoolRecord | None:
        if (pool := explanation.pool) is None:
            return None
        phrases = [[int(token) for token in phrase] for phrase in pool.phrases]
        return PoolRecord(
            size=int(pool.size),
            token=int(pool.first),
            text=self.texts(int(pool.first)),
            phrases=phrases,
            texts=[self.texts.all(phrase) for phrase in phrases],
            drafted=int(pool.drafted),
        )

    def _levels(self, explanation: Explanation) -> list[LevelRecord]:
        return [
            LevelRecord(
                candidates=int(level.candidates),
                tokens=(tokens := [int(token) for token in level.tokens]),
                texts=self.texts.all(tokens),
                parent_texts=self.texts.all([int(token) for token in level.parents]),
                cumulative=[rounded(float(p)) for p in level.cumulative],
                kept=[bool(kept) for kept in level.kept],
            )
            for level in explanation.levels
            if np.isfinite(level.cumulative).all()
        ]

    def _attended(self, context: Context, explanation: Explanation) -> list[AttendedRecord]:
        return [
            AttendedRecord(
                positions=[int(slot) for slot in token.slots],
                tokens=(tokens := context.tokens[list(token.slots)].tolist()),
                texts=self.texts.all(tokens),
                weights=[rounded(float(weight)) for weight in token.weights],
            )
            for token in explanation.attended
            if np.isfinite(token.weights).all()
        ]

    def _lens_rows(
        self, path: Sequence[int], logits: torch.Tensor, states: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Copies of hidden states and logits at the nodes of ``path``; None without a logit lens."""
        if self._lens is None or states is None:
            return None
        nodes = torch.tensor(list(path), device=logits.device)
        return states[nodes], logits[nodes]

    def _read_lens(self, snapshots: Sequence[Snapshot]) -> list[LensRecord | None]:
        """The logit lens of several steps; None for one with a number that is not finite."""
        rows = [snapshot.lens for snapshot in snapshots if snapshot.lens]
        if self._lens is None or not rows:
            return []
        tokens = [choice.token for snapshot in snapshots for choice in snapshot.chosen]
        states, logits = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*rows))
        read = iter(self._lens.read(states, logits, tokens))
        return [self._lens_record(list(islice(read, len(snapshot.chosen)))) for snapshot in snapshots]

    def _lens_record(self, scores: Sequence[LayerScores | None]) -> LensRecord | None:
        assert self._lens is not None
        positions = [
            LensPosition(
                tokens=at.tokens,
                texts=self.texts.all(at.tokens),
                probabilities=[rounded(p, LENS_DIGITS) for p in at.probabilities],
                chosen=[rounded(p, LENS_DIGITS) for p in at.chosen],
                ranks=at.ranks,
            )
            for at in scores
            if at is not None
        ]
        return LensRecord(list(self._lens.layers), list(self._lens.eagle), positions) if len(positions) == len(scores) else None

    def _row_changes(self, before: Mapping[tuple[int, ...], Row], outcome: Outcome) -> list[RowChange]:
        """The rows that the step changed, now that the drafter has learned."""
        rows = self._inspectable.matrix_rows(outcome.copy())
        return self._read("matrix_rows", rows, lambda after: [self._row_change(before.get(row.key, {}), row) for row in after])

    def _row_change(self, old: Row, row: MatrixRow) -> RowChange:
        new, learned = _as_dict(row), dict(zip(row.tokens, row.learned))
        tokens = sorted(old.keys() | new.keys(), key=lambda t: (-new.get(t, 0.0), -old.get(t, 0.0), t))
        return RowChange(
            key=[int(token) for token in row.key],
            key_texts=self.texts.all(row.key),
            tokens=tokens,
            texts=self.texts.all(tokens),
            before=[rounded(old.get(t, 0.0)) for t in tokens],
            after=[rounded(new.get(t, 0.0)) for t in tokens],
            learned=[p or 0.0 for p in finite(learned.get(t, 0.0) for t in tokens)],
        )


def recorded_cost(cost: StepCost | None) -> Cost | None:
    """The measured costs of a step, in the trace's form."""
    if cost is None:
        return None
    return Cost(list(cost.sizes), list(cost.contexts), [[rounded(s) for s in row] for row in cost.seconds], cost.padded)


def _children(tree: DraftTree) -> dict[int, list[int]]:
    """The children of each node that has any."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents[1:].tolist(), 1):
        children.setdefault(parent, []).append(node)
    return children


def _root_distributions(logits: Sequence[torch.Tensor]) -> list[TargetDistribution]:
    """The target's distributions for logits ``[vocab]`` at several roots."""
    if not logits:
        return []
    return [TargetDistribution(row) for row in torch.stack(list(logits)).float().softmax(-1).cpu().numpy()]


def _copied(prediction: Prediction) -> Prediction:
    return replace(prediction, tokens=np.array(prediction.tokens), probabilities=np.array(prediction.probabilities))


def _agreement(predictions: Sequence[Prediction], target: TargetDistribution) -> list[Agreement]:
    measured = [(made, *agreement(made.tokens, made.probabilities, target)) for made in predictions]
    return [
        Agreement(made.who, made.unseen, rounded(distance), *map(rounded, shared))
        for made, distance, shared in measured
        if np.isfinite([distance, *shared]).all()
    ]


def _size(size: MatrixSize | None) -> Size | None:
    return Size(size.base_rows, size.base_bytes, size.overlay_rows, size.overlay_bytes) if size else None


def _simulations(explanation: Explanation, tree: DraftTree) -> list[SimulationRecord]:
    """The simulations of the tree search, with the node numbers of the verified tree; -1 for nodes that were trimmed."""
    origin = range(len(tree)) if tree.origin is None else tree.origin.tolist()
    new_index = {old: new for new, old in enumerate(origin)}
    return [
        SimulationRecord([new_index.get(node, -1) for node in s.selected], new_index.get(s.expanded, -1), rounded(s.reward))
        for s in explanation.simulations
        if math.isfinite(s.reward)
    ]


def _as_dict(row: MatrixRow) -> dict[int, float]:
    return {int(t): float(p) for t, p in zip(row.tokens, row.probabilities) if np.isfinite(p)}

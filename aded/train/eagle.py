"""Training of a draft head of one layer on a frozen target by unrolling its drafting steps (arXiv 2503.01840, section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from aded.draft_models import feature_heads
from aded.draft_models.feature_heads import DraftHead, EagleHead, Features, Geometry, GlideHead, MtpHead
from aded.draft_models.medusa_heads import RANKS
from aded.train.dataset import IGNORE_INDEX, Batch, Text
from aded.train.feature_cache import TargetStates
from aded.train.objective import acceptance_length, backward_in_chunks, precision, ranks_of

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


class EagleObjective:
    """The weighted sum over drafting steps of the cross-entropy to the target's distribution on the draft vocabulary.

    Step k (from 0) reads what the head drafted at step k - 1: its output in place of the features. A row of the computation is a
    position of the text whose drafting steps follow each other; it attends to the text before it, as read at step 0, and to its
    earlier steps. The tokens are the text's, so the acceptance length of a drafted chain can be computed in the same pass.

    Args:
        target: the target model, frozen.
        text: the training text, from which the draft vocabulary is chosen.
        vocabulary: size of the draft vocabulary: the most frequent tokens of the text.
        features: see ``Geometry.like``.
        steps: drafting steps.
        decay: step k has weight decay^k; 0.8 in the paper.
        shape: rows and length of the text for which the target's hidden states are cached; (0, 0) for no cache.
    """

    FILE = "eagle.safetensors"
    HEAD: type[EagleHead | MtpHead | GlideHead] = EagleHead

    def __init__(
        self,
        target: TargetModel,
        text: Text,
        vocabulary: int = 6144,
        features: Features = "three",
        steps: int = 5,
        decay: float = 0.8,
        shape: tuple[int, ...] = (0, 0),
    ) -> None:
        self.target, self.steps, self.decay = target, steps, decay
        model = target.model.requires_grad_(False)
        tokens = frequent_tokens(text, vocabulary, target.vocab_size, target.eos_ids)
        self.trained = self.HEAD(Geometry.like(target, features, len(tokens)), tokens)
        self._embed, projection = model.get_input_embeddings(), model.get_output_embeddings()
        self.trained.vocabulary_weight.data.copy_(projection.weight[tokens.to(target.device)].float() * _scale(projection.weight))
        self.trained.to(target.device)
        self._teacher = projection.weight[self.trained.tokens], _rows(getattr(projection, "bias", None), self.trained.tokens)
        self._draft_id = torch.full((target.vocab_size,), IGNORE_INDEX, device=target.device)
        self._draft_id[self.trained.tokens] = torch.arange(len(tokens), device=target.device)
        self._states = self._target_states(shape)
        self.ahead = steps + 1  # the target itself predicts the first token
        self.uniform = self.loss({"loss": [math.log(len(tokens))] * steps})

    def backward(self, batch: Batch) -> torch.Tensor:
        """Backpropagate ``sum_k decay^k CE_k``, each CE_k a mean over the positions that count; returns the loss.

        A position counts at a step if the text's token is in the draft vocabulary and in the loss.
        """
        with precision(self.target):
            unrolled = self._unroll(batch)
            counts = (unrolled.labels != IGNORE_INDEX).sum(1, keepdim=True).clamp_min(1)
            weights = self.decay ** torch.arange(self.steps, device=counts.device)[:, None] / counts
            weights = torch.where(unrolled.labels != IGNORE_INDEX, weights, 0.0).flatten()
            teacher_states, labels = unrolled.teacher_states.flatten(0, 1), unrolled.labels.flatten()

            def loss_of(chunk: torch.Tensor, rows: slice) -> torch.Tensor:
                losses = self._losses(self.trained.logits(chunk).float(), teacher_states[rows], labels[rows])
                return (losses * weights[rows]).sum()

            return backward_in_chunks(unrolled.outputs.flatten(0, 1), loss_of)

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Metrics by drafting step on held-out text.

        Returns:
            ``loss`` ``[steps]``: cross-entropy to the target's distribution; ``accuracy`` ``[steps, ranks]``: how often the
            text's token has each rank; ``acceptance_length``: see ``objective.acceptance_length``.
        """
        loss, learned, count = torch.zeros(self.steps), torch.zeros(self.steps), torch.zeros(self.steps)
        hits, matches = torch.zeros(self.steps, RANKS), []
        for batch in batches:
            with precision(self.target):
                unrolled = self._unroll(batch.to(self.target.device))
                correct = torch.zeros_like(unrolled.labels, dtype=torch.bool)
                for step, labels in enumerate(unrolled.labels):
                    logits = self.trained.logits(unrolled.outputs[step]).float()
                    losses = self._losses(logits, unrolled.teacher_states[step], labels)
                    valid = labels != IGNORE_INDEX
                    ranks = torch.where(valid, ranks_of(logits, labels.clamp_min(0)), RANKS).clamp_max(RANKS)
                    loss[step] += losses[valid].sum().cpu()
                    hits[step] += torch.bincount(ranks, minlength=RANKS + 1)[:RANKS].cpu()
                    learned[step] += valid.sum().cpu()
                    count[step] += unrolled.in_text[step].sum().cpu()
                    correct[step] = ranks == 0
            matches.append(correct[:, unrolled.in_text[-1]])
        return {
            "loss": (loss / learned.clamp_min(1)).tolist(),
            "accuracy": (hits / count.clamp_min(1)[:, None]).tolist(),
            "acceptance_length": acceptance_length(matches),
        }

    def loss(self, figures: dict[str, Any]) -> float:
        """``sum_k decay^k CE_k``."""
        return sum(self.decay**k * loss for k, loss in enumerate(figures["loss"]))

    def save(self, folder: Path, figures: dict[str, Any], **more: Any) -> Path:
        """Write the head in 8 bits, with its accuracy, from which static trees are built; returns the path."""
        path = folder / self.FILE
        feature_heads.write(path, self.target, self.trained, figures["accuracy"], figures=figures, **more)
        return path

    def _losses(self, logits: torch.Tensor, teacher_states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of each position, ``[n]``, from logits ``[n, vocabulary]``; the others as in ``Unrolled``."""
        with torch.no_grad():
            teacher = functional.linear(teacher_states, *self._teacher).float().softmax(-1)
        return functional.cross_entropy(logits, teacher, reduction="none")

    def _target_states(self, shape: tuple[int, ...]) -> TargetStates:
        """What the head reads of the target and, last, the target's last hidden state."""
        return TargetStates(self.target, shape, (*self.trained.geometry.hidden_layers, -1))

    def _attend_to_target(self, columns: torch.Tensor, states: torch.Tensor, step: int, queries: torch.Tensor) -> torch.Tensor:
        """For GliDe: attention to the target's KV cache.

        Args:
            columns: see ``_Grid``.
            states: what the head reads of the target, ``[rows, length, width]``.
            step: the drafting step.
            queries: ``[rows, positions, heads, head_dim]``.
        """
        raise NotImplementedError

    def _unroll(self, batch: Batch) -> Unrolled:
        """Run all drafting steps at a batch's positions."""
        head, grid = self.trained, _Grid.of(batch)
        states, width = self._states.whole(batch), head.geometry.hidden
        embeddings = self._embed(batch.ids)
        read = states[:, :-1, :-width]
        residual, inputs = head.enter(head.fuse(read), embeddings[:, 1:])
        keys, values = head.keys_values(inputs)
        places = torch.arange(keys.shape[1], device=keys.device)
        attention = _ChainAttention(head, grid.columns, head.rotate(keys, head.angles(places)), values)
        outputs, x, at = [], grid.rows_of(residual), grid.rows_of(inputs)
        for step in range(self.steps):
            if step:
                x, at = head.enter(x, grid.rows_of(embeddings, step + 1))
            x = head.finish(x, attention.step(at, step), partial(self._attend_to_target, grid.columns, read, step))
            outputs.append(grid.flat(x))
        text_labels = batch.labels(self.ahead)[1:]
        in_text = text_labels != IGNORE_INDEX
        labels = torch.where(in_text, self._draft_id[text_labels.clamp_min(0)], IGNORE_INDEX)
        ahead = batch.positions + torch.arange(1, self.ahead, device=batch.positions.device)[:, None]
        teacher_states = states[..., -width:].flatten(0, 1)[ahead.clamp_max(batch.ids.numel() - 1)]
        return Unrolled(torch.stack(outputs), teacher_states, labels, in_text)


class MtpObjective(EagleObjective):
    """The same for an MTP head: the cross-entropy of the text's tokens, as in DeepSeek-V3 (arXiv 2412.19437, section 2.2).

    Several steps with falling weights are FastMTP's (arXiv 2509.18362).
    """

    FILE = "mtp.safetensors"
    HEAD = MtpHead

    def _losses(self, logits: torch.Tensor, teacher_states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits, labels, reduction="none", ignore_index=IGNORE_INDEX)


class GlideObjective(EagleObjective):
    """The same for a head of GliDe (arXiv 2402.02082, section 3.2), which attends to the target's KV cache.

    All steps at a position see the target's keys and values of the verified tokens only: of those before the root. The paper
    masks blocks of a row to the same effect.
    """

    FILE = "glide.safetensors"
    HEAD = GlideHead

    def _target_states(self, shape: tuple[int, ...]) -> TargetStates:
        g = self.trained.geometry
        return TargetStates(self.target, shape, kv_width=2 * g.kv_heads * g.head_dim)

    def _attend_to_target(self, columns: torch.Tensor, states: torch.Tensor, step: int, queries: torch.Tensor) -> torch.Tensor:
        g = self.trained.geometry
        keys, values = states.unflatten(-1, (2, g.kv_heads, g.head_dim)).unbind(2)
        return _ChainAttention(self.trained, columns, keys, values).attend(queries, columns + step + 1)


class Unrolled(NamedTuple):
    """All drafting steps at ``m`` positions.

    Attributes:
        outputs: the head's output, ``[steps, m, hidden]``.
        teacher_states: the target's last hidden states at the token that each step reads, ``[steps, m, hidden]``.
        labels: the text's next token as an id of the draft vocabulary, int64 ``[steps, m]``; ``IGNORE_INDEX`` outside it.
        in_text: whether there is a next token in the loss, bool ``[steps, m]``.
    """

    outputs: torch.Tensor
    teacher_states: torch.Tensor
    labels: torch.Tensor
    in_text: torch.Tensor


class _Grid(NamedTuple):
    """A batch's positions by row of the text, padded to the same number in every row.

    Attributes:
        columns: position in the row, int64 ``[rows, positions]``; 0 for padding.
        row, slot: where each position is in ``columns``, int64 ``[m]`` each.
    """

    columns: torch.Tensor
    row: torch.Tensor
    slot: torch.Tensor

    @classmethod
    def of(cls, batch: Batch) -> _Grid:
        rows, length = batch.ids.shape
        row, column = batch.positions // length, batch.positions % length
        counts = torch.bincount(row, minlength=rows)
        slot = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
        columns = torch.zeros(rows, max(1, int(counts.max())), dtype=torch.int64, device=row.device)
        columns[row, slot] = column
        return cls(columns, row, slot)

    def rows_of(self, values: torch.Tensor, offset: int = 0) -> torch.Tensor:
        """Values ``[rows, length, width]`` at ``offset`` tokens after the positions, ``[rows, positions, width]``."""
        index = (self.columns + offset).clamp_max(values.shape[1] - 1)
        return values.gather(1, index[..., None].expand(-1, -1, values.shape[2]))

    def flat(self, values: torch.Tensor) -> torch.Tensor:
        """Values ``[rows, positions, width]`` of the positions without padding, ``[m, width]``."""
        return values[self.row, self.slot]


class _ChainAttention:
    """The attention of a chain of drafting steps at every position.

    Step 0 attends to the text up to its position. Step k attends to the same keys and values, and to those of its chain: of
    steps 1 to k at the same position of the grid.

    Args:
        head: the head.
        columns: see ``_Grid``, ``[rows, positions]``.
        keys, values: at all positions of the text, ``[rows, length, kv_heads, head_dim]`` each, keys with rotary embedding.
    """

    def __init__(self, head: DraftHead, columns: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        self._head, self._columns = head, columns
        places = torch.arange(keys.shape[1], device=keys.device)
        self._keys = keys.permute(0, 2, 3, 1)  # [rows, kv_heads, head_dim, length]
        self._values = values.transpose(1, 2)  # [rows, kv_heads, length, head_dim]
        self._hidden = (places > columns[..., None])[:, None, None]  # [rows, 1, 1, positions, length]
        self._chain: list[tuple[torch.Tensor, torch.Tensor]] = []  # of each later step, [rows, kv_heads, 1, positions, head_dim]

    def step(self, inputs: torch.Tensor, step: int) -> torch.Tensor:
        """The attention of a step, ``[rows, positions, heads * head_dim]``; inputs ``[rows, positions, 2 * hidden]``."""
        head, positions = self._head, self._columns + step
        if step:
            keys, values = head.keys_values(inputs)
            self._chain.append((_by_head(head.rotate(keys, head.angles(positions))), _by_head(values)))
        return self.attend(head.queries(inputs), positions)

    def attend(self, queries: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Attend to the text and the chain so far.

        Args:
            queries: without rotary embedding, ``[rows, positions, heads, head_dim]``.
            positions: for their rotary embedding, int64 ``[rows, positions]``.

        Returns:
            ``[rows, positions, heads * head_dim]``.
        """
        head, g = self._head, self._head.geometry
        queries = head.rotate(queries, head.angles(positions)).unflatten(2, (g.kv_heads, -1)).permute(0, 2, 3, 1, 4)
        # Query heads of one key-value head together: [rows, kv_heads, group * positions, head_dim]
        grouped = queries.flatten(2, 3)
        text = (grouped @ self._keys).unflatten(2, queries.shape[2:4]).float().masked_fill(self._hidden, -torch.inf)
        chain = [(queries * keys).sum(-1, keepdim=True).float() for keys, _ in self._chain]
        weights = (torch.cat([text, *chain], dim=-1) * g.head_dim**-0.5).softmax(-1).to(queries.dtype)
        length = text.shape[-1]
        result = (weights[..., :length].flatten(2, 3) @ self._values).unflatten(2, queries.shape[2:4])
        for index, (_, values) in enumerate(self._chain):
            result = result + weights[..., length + index, None] * values
        return result.permute(0, 3, 1, 2, 4).flatten(2)


def _by_head(vectors: torch.Tensor) -> torch.Tensor:
    """``[rows, positions, kv_heads, head_dim]`` as ``[rows, kv_heads, 1, positions, head_dim]``."""
    return vectors.transpose(1, 2)[:, :, None]


def frequent_tokens(text: Text, count: int, vocab_size: int, always: Iterable[int] = ()) -> torch.Tensor:
    """The ids of the most frequent tokens in the loss, int64 ``[count]`` or fewer, ascending.

    Args:
        text: the training text.
        count: maximum number of tokens.
        vocab_size: of the target.
        always: ids that are included whether they occur or not, such as the end of text.
    """
    occurrences = np.bincount(text.ids[text.loss_mask], minlength=vocab_size)[:vocab_size]
    occurrences[sorted(always)] = occurrences.max() + 1
    order = np.argsort(-occurrences, kind="stable")[:count]
    return torch.from_numpy(np.sort(order[occurrences[order] > 0]))


def _scale(weight: torch.Tensor) -> float:
    """The factor that gives the rows of a vocabulary projection a mean length of 1."""
    return 1.0 / max(float(weight.float().norm(dim=1).mean()), 1e-6)


def _rows(bias: torch.Tensor | None, tokens: torch.Tensor) -> torch.Tensor | None:
    return None if bias is None else bias[tokens]

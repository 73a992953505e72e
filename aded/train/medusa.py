"""Medusa-1: training of heads that predict later tokens, on a frozen target (arXiv 2401.10774, section 2.2.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from aded.draft_models import checkpoints
from aded.draft_models.medusa_heads import RANKS, MedusaHeads
from aded.train.dataset import IGNORE_INDEX, Batch
from aded.train.feature_cache import TargetStates
from aded.train.objective import acceptance_length, backward_in_chunks, precision, ranks_of

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


class HeadObjective:
    """The weighted sum of the heads' cross-entropies.

    Args:
        target: the target model, frozen; the heads share its vocabulary projection.
        heads: number of heads; from the hidden state that predicts the next token, head k (from 1) predicts the k-th token after
            that one.
        blocks: residual blocks per head.
        decay: head k has weight decay^(k-1); 0.8 in the paper, 1 in its code.
        states: cached hidden states of the target; None for no cache.
    """

    FILE = "heads.safetensors"

    def __init__(
        self, target: TargetModel, heads: int = 4, blocks: int = 2, decay: float = 1.0, states: TargetStates | None = None
    ) -> None:
        self.target, self.decay, self._states = target, decay, states or TargetStates(target)
        self.trained = MedusaHeads(heads, blocks, target.config.hidden_size).to(target.device)
        self.ahead = heads + 1  # the target itself predicts the first token
        self.uniform = self.loss({"loss": [math.log(target.vocab_size)] * heads})
        self._project = target.model.requires_grad_(False).get_output_embeddings()

    def backward(self, batch: Batch) -> torch.Tensor:
        """Backpropagate ``sum_k decay^(k-1) CE_k``, each CE_k a mean over positions with a label; returns the loss."""
        with precision(self.target):
            states, labels = self._states_and_labels(batch)
            counts = (labels != IGNORE_INDEX).sum(1, keepdim=True).clamp_min(1)
            head_weights = self.decay ** torch.arange(len(labels), device=labels.device)[:, None] / counts
            weights, flat_labels = head_weights.expand_as(labels).flatten(), labels.flatten()

            def loss_of(chunk: torch.Tensor, rows: slice) -> torch.Tensor:
                logits = self._project(chunk).float()
                losses = functional.cross_entropy(logits, flat_labels[rows], reduction="none", ignore_index=IGNORE_INDEX)
                return (losses * weights[rows]).sum()

            return backward_in_chunks(states.flatten(0, 1), loss_of)

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Metrics on held-out text.

        Returns:
            ``loss`` ``[heads]``: mean of each head; ``accuracy`` ``[heads, ranks]``: how often the label has each rank;
            ``acceptance_length``: see ``objective.acceptance_length``.
        """
        heads = len(self.trained.weight)
        loss, hits, count, matches = torch.zeros(heads), torch.zeros(heads, RANKS), torch.zeros(heads), []
        for batch in batches:
            with precision(self.target):
                states, labels = self._states_and_labels(batch.to(self.target.device))
                correct = torch.zeros_like(labels, dtype=torch.bool)
                for head in range(heads):
                    valid = labels[head] != IGNORE_INDEX
                    logits, wanted = self._project(states[head][valid]).float(), labels[head][valid]
                    loss[head] += functional.cross_entropy(logits, wanted, reduction="sum").cpu()
                    ranks = ranks_of(logits, wanted)
                    hits[head] += torch.bincount(ranks.clamp_max(RANKS), minlength=RANKS + 1)[:RANKS].cpu()
                    count[head] += len(wanted)
                    correct[head, valid] = ranks == 0
            matches.append(correct[:, labels[-1] != IGNORE_INDEX])
        count = count.clamp_min(1)
        return {
            "loss": (loss / count).tolist(),
            "accuracy": (hits / count[:, None]).tolist(),
            "acceptance_length": acceptance_length(matches),
        }

    def loss(self, figures: dict[str, Any]) -> float:
        """``sum_k decay^(k-1) CE_k``."""
        return sum(self.decay**k * loss for k, loss in enumerate(figures["loss"]))

    def save(self, folder: Path, figures: dict[str, Any], **more: Any) -> Path:
        """Write the heads in bfloat16, with their accuracy, from which static trees are built; returns the path."""
        tensors = {name: tensor.to(torch.bfloat16) for name, tensor in self.trained.state_dict().items()}
        tensors["accuracy"] = torch.tensor(figures["accuracy"])
        checkpoints.write(folder / self.FILE, "medusa", self.target, tensors, figures=figures, **more)
        return folder / self.FILE

    def _states_and_labels(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """The heads' hidden states ``[heads, m, hidden]`` and their labels, int64 ``[heads, m]``, at a batch's positions."""
        hidden = self._states.of(batch)
        labels = batch.labels(self.ahead)[1:]
        return self.trained(hidden), labels

"""Medusa-1: heads learn the tokens that follow, on a frozen target (arXiv 2401.10774, section 2.2.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from aded.draft_models import checkpoints
from aded.draft_models.medusa_heads import RANKS, MedusaHeads
from aded.train.data import NO_LABEL, Batch
from aded.train.objective import backward_in_pieces, precision, ranks_of
from aded.train.states import TargetStates

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


class HeadObjective:
    """The heads' cross-entropies, added up.

    Args:
        target: frozen; its vocabulary projection is shared.
        heads: how many; head k (from 1) is shown the state that wrote a token and asked for the k-th token after that one.
        blocks: residual blocks a head.
        decay: head k counts decay^(k-1); the paper has 0.8, its code 1.
        states: of the target; None to keep none.
    """

    FILE = "heads.safetensors"

    def __init__(
        self, target: TargetModel, heads: int = 4, blocks: int = 2, decay: float = 1.0, states: TargetStates | None = None
    ) -> None:
        self.target, self.decay, self._states = target, decay, states or TargetStates(target)
        self.trained = MedusaHeads(heads, blocks, target.config.hidden_size).to(target.device)
        self.ahead = heads + 1  # the state's own next token is the target's to tell
        self.uniform = self.loss({"loss": [math.log(target.vocab_size)] * heads})
        self._project = target.model.requires_grad_(False).get_output_embeddings()

    def backward(self, batch: Batch) -> torch.Tensor:
        """The gradients of ``sum_k decay^(k-1) CE_k``, each CE_k a mean over a batch's positions that have such a token."""
        with precision(self.target):
            states, labels = self._guesses(batch)
            known = (labels != NO_LABEL).sum(1, keepdim=True).clamp_min(1)
            weight = self.decay ** torch.arange(len(labels), device=labels.device)[:, None] / known
            weights, wanted = weight.expand_as(labels).flatten(), labels.flatten()

            def loss_of(piece: torch.Tensor, rows: slice) -> torch.Tensor:
                logits = self._project(piece).float()
                losses = functional.cross_entropy(logits, wanted[rows], reduction="none", ignore_index=NO_LABEL)
                return (losses * weights[rows]).sum()

            return backward_in_pieces(states.flatten(0, 1), loss_of)

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """``loss`` of each head, and ``accuracy`` ``[heads, ranks]``: how often the guess of a rank was right."""
        heads = len(self.trained.weight)
        loss, hits, seen = torch.zeros(heads), torch.zeros(heads, RANKS), torch.zeros(heads)
        for batch in batches:
            with precision(self.target):
                states, labels = self._guesses(batch.to(self.target.device))
                for head in range(heads):
                    known = labels[head] != NO_LABEL
                    logits, wanted = self._project(states[head][known]).float(), labels[head][known]
                    loss[head] += functional.cross_entropy(logits, wanted, reduction="sum").cpu()
                    hits[head] += torch.bincount(ranks_of(logits, wanted).clamp_max(RANKS), minlength=RANKS + 1)[:RANKS].cpu()
                    seen[head] += len(wanted)
        seen = seen.clamp_min(1)
        return {"loss": (loss / seen).tolist(), "accuracy": (hits / seen[:, None]).tolist()}

    def loss(self, figures: dict[str, Any]) -> float:
        """``sum_k decay^(k-1) CE_k``."""
        return sum(self.decay**k * loss for k, loss in enumerate(figures["loss"]))

    def save(self, folder: Path, figures: dict[str, Any], **more: Any) -> Path:
        """Write the heads in bfloat16, with their accuracy, which static trees are made from."""
        tensors = {name: tensor.to(torch.bfloat16) for name, tensor in self.trained.state_dict().items()}
        tensors["accuracy"] = torch.tensor(figures["accuracy"])
        checkpoints.write(folder / self.FILE, "medusa", self.target, tensors, figures=figures, **more)
        return folder / self.FILE

    def _guesses(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """At a batch's positions: the heads' states ``[heads, m, hidden]`` and the tokens wanted of them ``[heads, m]``."""
        hidden = self._states.of(batch)
        labels = batch.labels(self.ahead)[1:]
        return self.trained(hidden), labels

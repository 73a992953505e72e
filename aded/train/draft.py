"""Distillation of a small draft model: it learns the target's distribution after every token (arXiv 2310.08461 and others)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from aded.draft_models import checkpoints
from aded.draft_models.draft_model import ends, own_parameters, small_model
from aded.draft_models.medusa_heads import RANKS
from aded.train.data import Batch
from aded.train.objective import backward_in_pieces, last_hidden, precision, ranks_of
from aded.train.states import TargetStates

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


class DraftObjective:
    """Kullback-Leibler divergence of the draft model from the target, and a share of cross-entropy on the text itself.

    Args:
        target: frozen; its embeddings and vocabulary projection are shared.
        layers: of the draft model, which starts as copies of the target's, evenly from the first to the last.
        text: weight of the cross-entropy.
        states: of the target; None to keep none.
    """

    FILE = "draft.safetensors"

    def __init__(self, target: TargetModel, layers: int = 2, text: float = 0.1, states: TargetStates | None = None) -> None:
        self.target, self.layers, self.text, self._teacher = target, layers, text, states or TargetStates(target)
        target.model.requires_grad_(False)
        self._small = small_model(target.model, ends(int(target.config.num_hidden_layers), layers))
        self._own = own_parameters(self._small, target.model)
        for parameter in self._own.values():
            parameter.data = parameter.data.float()
            parameter.requires_grad_(True)
        self.trained = nn.ParameterDict({name.replace(".", "/"): p for name, p in self._own.items()})
        self.ahead = 1
        self.uniform = (1 + text) * math.log(target.vocab_size)
        self._project = target.model.get_output_embeddings()

    def backward(self, batch: Batch) -> torch.Tensor:
        """The gradients of ``mean KL(target || draft) + text * mean CE(next token)`` over a batch's positions."""
        with precision(self.target):
            wanted, states, labels = self._states(batch)

            def loss_of(piece: torch.Tensor, rows: slice) -> torch.Tensor:
                logits = self._project(piece).float().log_softmax(-1)
                with torch.no_grad():
                    teacher = self._project(wanted[rows]).float().log_softmax(-1)
                divergence = functional.kl_div(logits, teacher, reduction="sum", log_target=True)
                return (divergence + self.text * functional.nll_loss(logits, labels[rows], reduction="sum")) / max(len(labels), 1)

            return backward_in_pieces(states, loss_of)

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Held-out figures: ``loss`` (cross-entropy of the text), ``divergence``, ``accuracy`` ``[ranks]``: how often the draft
        model has the target's most probable token at each rank, and ``overlap``: the sum of the lesser of both probabilities,
        which is the share of sampled tokens that speculative sampling accepts.
        """
        sums, hits, seen = torch.zeros(3), torch.zeros(RANKS), 0
        for batch in batches:
            with precision(self.target):
                wanted, states, labels = self._states(batch.to(self.target.device))
                teacher, logits = self._project(wanted).float().log_softmax(-1), self._project(states).float().log_softmax(-1)
            sums += torch.stack(
                [
                    functional.nll_loss(logits, labels, reduction="sum"),
                    functional.kl_div(logits, teacher, reduction="sum", log_target=True),
                    torch.minimum(logits, teacher).exp().sum(),
                ]
            ).cpu()
            ranks = ranks_of(logits, teacher.argmax(-1)).clamp_max(RANKS)
            hits += torch.bincount(ranks, minlength=RANKS + 1)[:RANKS].cpu()
            seen += len(labels)
        loss, divergence, overlap = (sums / max(seen, 1)).tolist()
        return {"loss": loss, "divergence": divergence, "overlap": overlap, "accuracy": (hits / max(seen, 1)).tolist()}

    def loss(self, figures: dict[str, Any]) -> float:
        """``KL(target || draft) + text * CE(next token)``."""
        return figures["divergence"] + self.text * figures["loss"]

    def save(self, folder: Path, figures: dict[str, Any], **more: Any) -> Path:
        """Write the draft model's own parameters in bfloat16."""
        tensors = {name: parameter.to(torch.bfloat16) for name, parameter in self._own.items()}
        checkpoints.write(folder / self.FILE, "draft", self.target, tensors, layers=self.layers, figures=figures, **more)
        return folder / self.FILE

    def _states(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """At a batch's positions: last hidden states of target and draft model ``[m, hidden]``, next tokens int64 ``[m]``."""
        states = last_hidden(self._small, batch.ids).flatten(0, 1)[batch.places]
        return self._teacher.of(batch), states, batch.labels(1)[0]

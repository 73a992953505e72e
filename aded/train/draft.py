"""Distillation of a small draft model from the target's next-token distributions (DistillSpec, arXiv 2310.08461)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from aded.draft_models import checkpoints
from aded.draft_models.draft_model import evenly_spaced_layers, pruned_model, unshared_parameters
from aded.draft_models.medusa_heads import RANKS
from aded.train.dataset import IGNORE_INDEX, Batch
from aded.train.feature_cache import TargetStates
from aded.train.objective import acceptance_length, backward_in_chunks, last_hidden, precision, ranks_of

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


CHAIN = 5
"""Length of the chains whose acceptance is simulated."""


class DraftObjective:
    """The loss ``KL(target || draft) + text * CE(next token)``.

    Args:
        target: the target model, frozen; the draft model shares its embeddings and vocabulary projection.
        layers: layers of the draft model, initialised from evenly spaced layers of the target.
        text: weight of the cross-entropy on the text.
        states: cached hidden states of the target; None for no cache.
    """

    FILE = "draft.safetensors"

    def __init__(self, target: TargetModel, layers: int = 2, text: float = 0.1, states: TargetStates | None = None) -> None:
        self.target, self.layers, self.text, self._target_states = target, layers, text, states or TargetStates(target)
        target.model.requires_grad_(False)
        self._small = pruned_model(target.model, evenly_spaced_layers(int(target.config.num_hidden_layers), layers))
        self._trained_parameters = unshared_parameters(self._small, target.model)
        for parameter in self._trained_parameters.values():
            parameter.data = parameter.data.float()
            parameter.requires_grad_(True)
        self.trained = nn.ParameterDict({name.replace(".", "/"): p for name, p in self._trained_parameters.items()})
        self.ahead = 1
        self.uniform = (1 + text) * math.log(target.vocab_size)
        self._project = target.model.get_output_embeddings()

    def backward(self, batch: Batch) -> torch.Tensor:
        """Backpropagate ``mean KL(target || draft) + text * mean CE(next token)`` over a batch's positions; returns the loss."""
        with precision(self.target):
            target_states, states, labels = self._states(batch)

            def loss_of(chunk: torch.Tensor, rows: slice) -> torch.Tensor:
                draft = self._project(chunk).float().log_softmax(-1)
                with torch.no_grad():
                    teacher = self._project(target_states[rows]).float().log_softmax(-1)
                divergence = functional.kl_div(draft, teacher, reduction="sum", log_target=True)
                return (divergence + self.text * functional.nll_loss(draft, labels[rows], reduction="sum")) / max(len(labels), 1)

            return backward_in_chunks(states, loss_of)

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Means over the positions of held-out text.

        Returns:
            ``loss``: cross-entropy of the text; ``divergence``: ``KL(target || draft)``; ``accuracy`` ``[ranks]``: how often
            the target's most probable token has each rank in the draft model's distribution; ``overlap``: ``sum min(p, q)``,
            the acceptance rate of speculative sampling at temperature 1; ``acceptance_length`` of chains of ``CHAIN`` tokens.
        """
        sums, hits, count, matches = torch.zeros(3), torch.zeros(RANKS), 0, []
        for batch in batches:
            with precision(self.target):
                target_states, states, labels = self._states(batch.to(self.target.device))
                teacher = self._project(target_states).float().log_softmax(-1)
                draft = self._project(states).float().log_softmax(-1)
            sums += torch.stack(
                [
                    functional.nll_loss(draft, labels, reduction="sum"),
                    functional.kl_div(draft, teacher, reduction="sum", log_target=True),
                    torch.minimum(draft, teacher).exp().sum(),
                ]
            ).cpu()
            ranks = ranks_of(draft, teacher.argmax(-1)).clamp_max(RANKS)
            hits += torch.bincount(ranks, minlength=RANKS + 1)[:RANKS].cpu()
            count += len(labels)
            matches.append(_chains(batch, (draft.argmax(-1) == labels).cpu()))
        loss, divergence, overlap = (sums / max(count, 1)).tolist()
        return {
            "loss": loss,
            "divergence": divergence,
            "overlap": overlap,
            "accuracy": (hits / max(count, 1)).tolist(),
            "acceptance_length": acceptance_length(matches),
        }

    def loss(self, figures: dict[str, Any]) -> float:
        """``KL(target || draft) + text * CE(next token)``."""
        return figures["divergence"] + self.text * figures["loss"]

    def save(self, folder: Path, figures: dict[str, Any], **more: Any) -> Path:
        """Write the parameters that the draft model does not share with the target, in bfloat16; returns the path."""
        tensors = {name: parameter.to(torch.bfloat16) for name, parameter in self._trained_parameters.items()}
        checkpoints.write(folder / self.FILE, "draft", self.target, tensors, layers=self.layers, figures=figures, **more)
        return folder / self.FILE

    def _states(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Last hidden states of target and draft model, ``[m, hidden]`` each, and next tokens, int64 ``[m]``, by position."""
        states = last_hidden(self._small, batch.ids).flatten(0, 1)[batch.positions]
        return self._target_states.of(batch), states, batch.labels(1)[0]


def _chains(batch: Batch, correct: torch.Tensor) -> torch.Tensor:
    """Whether the draft is correct at each position and the ``CHAIN - 1`` after it, bool ``[CHAIN, m]``.

    Args:
        batch: ``m`` positions; only those with ``CHAIN`` next tokens in the loss are returned.
        correct: whether it is correct at each position, bool ``[m]``.
    """
    flat = torch.zeros(batch.ids.numel() + CHAIN, dtype=torch.bool)
    flat[batch.positions.cpu()] = correct
    chained = (batch.labels(CHAIN)[-1] != IGNORE_INDEX).cpu()
    return torch.stack([flat[batch.positions.cpu()[chained] + offset] for offset in range(CHAIN)])

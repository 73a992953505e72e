"""Logit lens: what the model would predict if it ended after a layer (nostalgebraist 2020, "interpreting GPT: the logit lens").

The hidden state after the layer goes through the model's final norm and LM head. Both were trained for the last layer only, so
the prediction of an early layer can understate what its hidden state contains (Belrose et al. 2023, arXiv 2303.08112).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from aded.decoding.target_scores import MAX_SCORES
from aded.draft_models.feature_heads import three_layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aded.engine.target_model import TargetModel

MOST_LAYERS = 12
"""Layers that are read; of a model with more layers, evenly spaced ones."""
ROWS_AT_ONCE = 64
"""Hidden states that go through the LM head together on a CPU, which bounds the memory; on a GPU `MAX_SCORES` does."""
PROBE = (0, 1, 2)
"""Token ids of the forward pass that checks norm and head."""


class LayerScores(NamedTuple):
    """What each layer predicts at one node; every list has one entry per layer.

    Attributes:
        tokens: the most probable token; the chosen one if it is among equally probable ones.
        probabilities: its probability.
        chosen: the probability of the token that the target chose.
        ranks: the rank of that token, 1 = most probable.
    """

    tokens: list[int]
    probabilities: list[float]
    chosen: list[float]
    ranks: list[int]


class LogitLens:
    """The logit lens of a model.

    Attributes:
        layers: the layers that are read, ascending: 0 is the embedding, ``i`` the output of layer ``i``; the last is the model's.
        eagle: those of them that an EAGLE-3 head reads.
    """

    def __init__(self, norm: Any, head: Any, layers: int) -> None:
        self._norm, self._head = norm, head
        self.layers, self.eagle = selected_layers(layers), tuple(sorted(set(three_layers(layers))))

    @classmethod
    def of(cls, target: TargetModel) -> LogitLens | None:
        """The lens of a model; None if its logits are not its LM head's of its final norm, or if several devices share it."""
        if target.tensor_parallel or target.multi_device:
            return None
        try:
            norm, head = _norm_and_head(target)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):  # another kind of model
            return None
        return None if norm is None else cls(norm, head, int(target.config.num_hidden_layers))

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """The layers whose hidden states `read` needs; the logits already are the prediction of the last one."""
        return self.layers[:-1]

    @torch.inference_mode()
    def read(self, states: torch.Tensor, logits: torch.Tensor, chosen: Sequence[int]) -> list[LayerScores | None]:
        """What each layer predicts at ``n`` nodes, before penalties and sampling settings.

        Args:
            states: hidden states of ``hidden_layers`` side by side, ``[n, layers * hidden]``.
            logits: the target's, ``[n, vocab]``.
            chosen: the token that the target chose at each of them.

        Returns:
            One entry per node, None where a number is not finite.
        """
        count, parts = len(self.layers), []
        wanted = torch.tensor(list(chosen), device=logits.device)
        size = max(1, (MAX_SCORES // logits.shape[1] if logits.is_cuda else ROWS_AT_ONCE) // count)
        for at, last, tokens in zip(states.split(size), logits.split(size), wanted.split(size)):
            inner = self._head(self._norm(at.unflatten(1, (count - 1, -1)).flatten(0, 1))[None])[0]
            rows = torch.cat([inner.to(last).unflatten(0, (len(tokens), -1)), last[:, None]], 1)  # [nodes, layers, vocab]
            parts.append(_scores(rows.flatten(0, 1), tokens.repeat_interleave(count)))
        table = torch.cat(parts).unflatten(0, (len(chosen), count)).cpu()
        finite = table.isfinite().flatten(1).all(1).tolist()
        return [LayerScores(*_columns(one)) if fits else None for one, fits in zip(table.tolist(), finite)]


def selected_layers(layers: int) -> tuple[int, ...]:
    """The layers that the lens of a model of ``layers`` layers reads: all, or evenly spaced ones, and always EAGLE-3's three.

    The evenly spaced layers nearest to EAGLE-3's are moved there, so their number stays the same.
    """
    eagle = {*three_layers(layers)}
    if layers <= MOST_LAYERS:
        return tuple(sorted({*range(1, layers + 1)} | eagle))
    even = [round(layers * (i + 1) / MOST_LAYERS) for i in range(MOST_LAYERS)]
    for layer in eagle:
        nearest = min(even[:-1], key=lambda other: abs(other - layer))
        even[even.index(nearest)] = layer
    return tuple(even)


def _scores(logits: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """The most probable token, its probability, that of the chosen token and its rank, float64 ``[n, 4]``.

    Args:
        logits: ``[n, vocab]``.
        chosen: token ids, int64 ``[n]``.
    """
    values = logits.float()
    best, tokens = values.max(-1)
    of_chosen, total = values.gather(1, chosen[:, None])[:, 0], values.logsumexp(-1)
    ranks = 1 + (values > of_chosen[:, None]).sum(-1)
    tokens = torch.where(ranks == 1, chosen, tokens)
    return torch.stack([part.double() for part in (tokens, (best - total).exp(), (of_chosen - total).exp(), ranks)], 1)


def _columns(rows: list[list[float]]) -> tuple[list[int], list[float], list[float], list[int]]:
    tokens, probabilities, chosen, ranks = zip(*rows)
    return [int(token) for token in tokens], list(probabilities), list(chosen), [int(rank) for rank in ranks]


@torch.inference_mode()
def _norm_and_head(target: TargetModel) -> tuple[Any, Any]:
    """The model's final norm and LM head, if they give the logits of a short forward pass; else None twice."""
    decoder, head = target.model.get_decoder(), target.model.get_output_embeddings()
    norm = [module for module in decoder.children() if type(module).__name__.endswith("Norm")][-1]
    seen: list[torch.Tensor] = []
    hook = norm.register_forward_hook(lambda _, inputs, output: seen.append(output))
    try:
        ids = torch.tensor([PROBE], device=target.device) % target.vocab_size
        output = target.forward(ids, None, None, None, hidden=True)
    finally:
        hook.remove()
    last = output.hidden_states[-1]
    fits = len(seen) == 1 and len(output.hidden_states) == int(target.config.num_hidden_layers) + 1
    fits = fits and torch.equal(seen[0], last) and torch.allclose(head(last), output.logits)
    return (norm, head) if fits else (None, None)

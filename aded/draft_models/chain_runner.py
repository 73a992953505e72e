"""Drafts chains with a draft model. One CUDA graph holds all forward passes, sampling and copies of a chain.

The host passes in the tokens committed since the last chain and reads back the drafted ones; in between there is no transfer.
As in ``aded.engine.step_graph``, the body is plain tensor code on buffers at fixed addresses; without CUDA it runs eagerly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.compilation.cuda_graph import InputBuffer, Replay, host_buffer
from aded.core.errors import AdedError
from aded.core.lru import recent
from aded.core.prefixes import common_prefix
from aded.draft_models.draft_limits import INITIAL_HEADROOM, levels_left, non_finite
from aded.engine.cost_model import SAMPLED, level_seconds
from aded.engine.step_graph import MAX_STEPS, context_bucket
from aded.sampling import sampler
from aded.sampling.rng import exponentials
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    from aded.engine.kv_cache import KVCache
    from aded.engine.target_model import TargetModel

CATCH_UP = (2, 8, 32, 128)
"""Sizes of a graph's input: the committed tokens that are not in the cache yet. These are the root, the last drafted token if all
were accepted, and the tokens of steps without a draft. More than the largest size are read by a separate forward pass."""
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
"""Supported chain lengths; each has its own graph."""


@dataclass(frozen=True)
class Chain:
    """A drafted chain.

    Attributes:
        tokens: int32 ``[length]``.
        probabilities: draft probability of each token, float64 ``[length]``.
        distributions: the distribution that each token was sampled from, float64 ``[length, vocab]`` on the device; None if
            greedy. Valid until the runner's next chain.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    distributions: torch.Tensor | None


class ChainRunner:
    """The draft model of one decode, with its KV cache; the cache owns the graphs.

    Args:
        draft: the model.
        vocab_size: vocabulary size of the target. Only smaller token ids are drafted: models with the same tokenizer may pad
            their vocabularies differently.

    Attributes:
        notice: why drafting has stopped in this decode, or None.

    Raises:
        AdedError: the model does not support tree attention.
    """

    def __init__(self, draft: TargetModel, vocab_size: int) -> None:
        if draft.mode != "tree":
            raise AdedError(f"{draft.label} cannot draft: it does not support tree attention; use another --draft-model")
        self.draft, self.vocab_size = draft, min(vocab_size, draft.vocab_size)
        self.session: Any = None
        self.notice: str | None = None
        self._cached = np.zeros(0, dtype=np.int32)  # tokens whose keys and values are in the cache
        self._warm_sizes: set[int] = set()  # bit lengths of the sizes of separate forward passes so far

    def start(self, prompt: Sequence[int]) -> None:
        """Prefill a prompt, if the model supports its length and its tokens."""
        self.close()
        self.notice = None
        if not self.levels(np.asarray(prompt)):
            return
        self.session = self.draft.session(len(prompt) + INITIAL_HEADROOM)
        self.session.prefill(prompt[:-1])
        self._cached = np.array(prompt[:-1], dtype=np.int32)

    def close(self) -> None:
        """Release the cache for the next decode."""
        if self.session is not None:
            self.session.close()
            self.session = None

    def levels(self, context: np.ndarray) -> int:
        """Maximum length of a chain after a text, int ``[n]``; if it is 0, ``notice`` gives the reason."""
        levels, reason = levels_left(self.draft, context)
        self.notice = self.notice or reason
        return 0 if self.notice else levels

    def prepare(self, context: np.ndarray, length: int, settings: SamplingSettings) -> None:
        """Capture the graph that ``chain`` will run with these arguments, and warm up its separate forward pass, if any."""
        cached = self._drop_rejected(context)
        pending = len(context) - cached
        separate = pending > CATCH_UP[-1]
        self._step(len(context), 1 if separate else pending, length, settings)
        if separate and pending.bit_length() not in self._warm_sizes:
            self._warm_sizes.add(pending.bit_length())
            self._catch_up(context)
            self.session.rewind(cached)

    def chain(self, context: np.ndarray, length: int, settings: SamplingSettings, keys: Sequence[int]) -> Chain:
        """Draft ``length`` tokens (one of ``LENGTHS``) after the committed ones.

        If the model's logits are not finite, the chain ends before them and drafting stops for this decode.

        Args:
            context: all committed tokens, int ``[n]``; the last one is the root.
            settings: sampling settings, the same as for the target.
            keys: random key of each token, signed 64 bits (see ``aded.sampling.rng``); not used if greedy.
        """
        pending = self._catch_up(context)
        step = self._step(len(context), len(pending), length, settings)
        tokens, probabilities = step.run(pending, self.session.length, keys, settings)
        self.session.cache.length = len(context)
        self._cached = np.concatenate([context, tokens[:-1]]).astype(np.int32)
        if (valid := int(np.isfinite(probabilities).cumprod().sum())) < length:
            self.notice = non_finite(self.draft)
            self.session.cache.wipe()
        distributions = None if step.distributions is None else step.distributions[:valid]
        return Chain(tokens[:valid], probabilities[:valid], distributions)

    def _drop_rejected(self, context: np.ndarray) -> int:
        """Drop rejected draft tokens from the cache; returns the number of committed tokens in it."""
        cached = common_prefix(self._cached, context[:-1])
        self._cached = self._cached[:cached]
        self.session.cache.length = cached
        return cached

    def _catch_up(self, context: np.ndarray) -> np.ndarray:
        """The committed tokens that are not in the cache, as the input of a chain's graph; prefills if there are too many."""
        cached = self._drop_rejected(context)
        if len(context) - cached > CATCH_UP[-1]:
            self.session.prefill(context[cached:-1])
            cached = len(context) - 1
        return context[cached:]

    def _step(self, committed: int, pending: int, length: int, settings: SamplingSettings) -> _ChainStep:
        width = next(width for width in CATCH_UP if width >= pending)
        cache, needed = self.session.cache, committed + width + length
        cache.reserve(needed - cache.length)
        sizes, kind = (width, length, context_bucket(needed, cache.capacity)), sampler.operations(settings)

        def capture(memory: Any) -> _ChainStep:
            return _ChainStep(self.draft, self.vocab_size, cache, *sizes, kind, memory)

        if self.draft.pool is None:
            return recent(cache.graphs, (*sizes, kind), lambda: capture(None), MAX_STEPS)
        return self.draft.pool.graph(cache, ("chain", self.vocab_size, *sizes, kind), capture)


class _ChainStep:
    """The forward passes of one chain in fixed shapes over ``max_keys`` keys; the first one reads up to ``width`` tokens.

    Attributes:
        distributions: float64 ``[length, vocab]`` of the last run, or None.
    """

    def __init__(
        self,
        draft: TargetModel,
        vocab_size: int,
        cache: KVCache,
        width: int,
        length: int,
        max_keys: int,
        kind: sampler.SamplingOperations,
        memory: Any,
    ) -> None:
        self.draft, self.vocab_size, device = draft, vocab_size, draft.device
        self.cache, self.width, self.length, self.max_keys, self.kind = cache, width, length, max_keys, kind
        int64 = torch.int64  # tokens; their number and that of the cached ones; keys of the draws
        self._inputs = InputBuffer(device, ((width,), int64), ((2,), int64), ((length,), int64), sampler.PARAMETERS)
        self._host_tokens, self._host_counts, self._host_keys, self._host_sampling = self._inputs.host
        self._output = torch.zeros(2, length, dtype=torch.float64, device=device)
        self._output_host = host_buffer(self._output)
        shape = (length, self.vocab_size)
        self.distributions = None if kind.greedy else torch.zeros(shape, dtype=torch.float64, device=device)
        self._key_positions = torch.arange(max_keys, device=device)
        self._offsets = torch.arange(width, device=device)
        self._causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
        self._host_counts[:] = 1, cache.length  # capturing writes after the cached tokens
        self._host_sampling[:] = 1.0
        self._run = Replay(self._body, device, memory)

    def run(
        self, pending: np.ndarray, committed: int, keys: Sequence[int], settings: SamplingSettings
    ) -> tuple[np.ndarray, np.ndarray]:
        """Drafted tokens and their probabilities, ``[length]`` each; ``pending``: tokens after the ``committed`` cached ones."""
        self._host_sampling[:] = sampler.parameters(settings)
        self._host_tokens[: len(pending)] = pending
        self._host_tokens[len(pending) :] = pending[-1]  # padding; the embedding of an arbitrary token may not be finite
        self._host_counts[:] = len(pending), committed
        if len(keys):
            self._host_keys[:] = keys
        self._run()
        tokens, probabilities = self._output_host.numpy().copy()
        return tokens.astype(np.int32), probabilities

    def _body(self) -> None:
        self._inputs.send()
        tokens, (count, committed), keys, parameters = self._inputs.device
        logits = self._forward(tokens, self._offsets, self._causal, committed)
        logits = logits.gather(0, (count - 1).expand(1, logits.shape[1]))
        for i in range(self.length):
            token = self._choose(logits, parameters, keys[i : i + 1], i)
            if i + 1 < self.length:
                logits = self._forward(token, self._offsets[:1], self._causal[:1, :1], committed + count + i)
        self._output_host.copy_(self._output, non_blocking=True)

    def _forward(
        self, tokens: torch.Tensor, offsets: torch.Tensor, causal: torch.Tensor, committed: torch.Tensor
    ) -> torch.Tensor:
        """Logits ``[n, vocab]`` of ``n`` tokens after the committed ones."""
        masks, slots = self.draft.masks.fixed(causal, offsets, committed, self._key_positions), committed + offsets
        positions = slots.clamp_max(self.draft.context_limit - 1)  # padding may exceed the limit
        with self.cache.fixed_shape(slots, self.max_keys):
            output = self.draft.forward_fixed(tokens[None], positions[None], masks, self.cache, False)
        return output.logits[0, :, : self.vocab_size]

    def _choose(self, logits: torch.Tensor, parameters: torch.Tensor, key: torch.Tensor, index: int) -> torch.Tensor:
        """Sample a token from logits ``[1, vocab]``, int64 ``[1]``; stores it, its probability and its distribution.

        ``parameters``: see `sampler.parameters`; ``key``: random number key, int64 ``[1]``; ``index``: of the token in the chain.
        """
        if self.kind.greedy:
            token, probability = (column[:, 0] for column in sampler.top(logits, 1))
        else:
            q = sampler.distribution(logits, self.kind, parameters)
            token = (exponentials(key, q.shape[1]) / q).argmin(-1)
            probability = q.gather(1, token[:, None])[:, 0]
            self.distributions[index].copy_(q[0])  # type: ignore[index]
        self._output[0, index : index + 1].copy_(token)
        self._output[1, index : index + 1].copy_(probability)
        return token


def level_cost(draft: TargetModel, greedy: bool) -> float:
    """Seconds per token of a chain (see ``aded.engine.cost_model.level_seconds``)."""
    settings, runner = SamplingSettings() if greedy else SAMPLED, ChainRunner(draft, draft.vocab_size)

    def draft_chain(context: np.ndarray, length: int) -> None:
        if runner.session is None:
            runner.start(context.tolist())
        runner.chain(context, length, settings, [] if greedy else [0] * length)

    try:
        return level_seconds(draft, "chain" if greedy else "drawn-chain", draft_chain)
    finally:
        runner.close()

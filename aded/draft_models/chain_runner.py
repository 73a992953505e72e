"""Chains drafted by a model in one go: every pass, every choice and every copy inside one CUDA graph.

The host hands over the tokens that were committed since the last chain and reads the drafted ones back; between them
nothing leaves the device. As with ``aded.engine.step_graph``, the body is plain tensor code on buffers that stay where they are:
elsewhere than on CUDA it runs as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.core.cuda_graph import Replay, host_buffer
from aded.core.errors import AdedError
from aded.core.lru import recent
from aded.draft_models.draft_limits import levels_left, non_finite
from aded.engine.cost_model import SAMPLED, level_seconds
from aded.engine.step_graph import MOST_STEPS, context_bucket
from aded.sampling import sampler
from aded.sampling.rng import exponentials
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

CATCH_UP = (2, 8, 32, 128)
"""Committed tokens that a chain's graph takes in: the root, and before it the last drafted token if all were accepted; or as many
as steps without a draft have written since. More are read by a pass of their own."""
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
"""Lengths of chains: each is a graph of its own."""


@dataclass(frozen=True)
class Chain:
    """Drafted tokens.

    Attributes:
        tokens: int32 ``[length]``.
        probabilities: of each, by the distribution that it was taken from, float64 ``[length]``.
        distributions: what each was drawn from, float64 ``[length, vocab]`` on the device; None if greedy. Valid until the
            runner's next chain.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    distributions: torch.Tensor | None


class ChainRunner:
    """One decode's draft model: its cache, and the graphs on it.

    Args:
        draft: the model.
        vocab_size: token ids that it may draft are below it (one tokenizer, but models pad their vocabularies differently).

    Attributes:
        notice: why it stopped drafting in this decode, or None while it does.
    """

    def __init__(self, draft: TargetModel, vocab_size: int) -> None:
        self.draft, self.vocab_size = draft, min(vocab_size, draft.vocab_size)
        self.session: Any = None
        self.notice: str | None = None
        self._held = np.zeros(0, dtype=np.int32)  # tokens whose keys and values the cache holds
        self._steps: dict[tuple[Any, ...], _ChainStep] = {}
        self._read_before: set[int] = set()  # sizes of passes of their own, by their number of bits
        self._capacity = 0  # of the cache that they write to
        self.memory: Any = None  # shared by the graphs

    def start(self, prompt: Sequence[int]) -> None:
        """Read a prompt, if the model can."""
        self.notice = None
        if not self.levels(np.asarray(prompt)):
            return
        if self.session is None:
            self.session = self.draft.session(len(prompt) + 1024)
        self.session.rewind(0)
        self.session.prefill(prompt[:-1])
        self._held = np.array(prompt[:-1], dtype=np.int32)

    def levels(self, context: np.ndarray) -> int:
        """Longest chain that the model can draft behind a text, int ``[n]``; where there is none, ``notice`` says why."""
        levels, reason = levels_left(self.draft, context)
        self.notice = self.notice or reason
        return 0 if self.notice else levels

    def prepare(self, context: np.ndarray, length: int, settings: SamplingSettings) -> None:
        """Capture what ``chain`` with these arguments is going to run, and read what it is going to read if so much never was."""
        known = self._keep_common(context)
        waiting = len(context) - known
        alone = waiting > CATCH_UP[-1]
        self._step(len(context), 1 if alone else waiting, length, settings)
        if alone and waiting.bit_length() not in self._read_before:
            self._read_before.add(waiting.bit_length())
            self._catch_up(context)
            self.session.rewind(known)

    def chain(self, context: np.ndarray, length: int, settings: SamplingSettings, keys: Sequence[int]) -> Chain:
        """Draft ``length`` tokens (one of ``LENGTHS``) after the committed ones, the root last.

        They are fewer, and the decode's last ones, where the model computes numbers that are not finite.

        Args:
            context: all committed tokens, int ``[n]``.
            settings: how tokens are taken from the model's distribution, as the target does it.
            keys: of each token's draw, signed 64 bits (see ``aded.sampling.rng``); not read if greedy.
        """
        waiting = self._catch_up(context)
        step = self._step(len(context), len(waiting), length, settings)
        tokens, probabilities = step.run(waiting, self.session.length, keys)
        self.session.cache.length = len(context)
        self._held = np.concatenate([context, tokens[:-1]]).astype(np.int32)
        if (sound := int(np.isfinite(probabilities).cumprod().sum())) < length:
            self.notice = non_finite(self.draft)
            self.session.cache.wipe()
        distributions = None if step.distributions is None else step.distributions[:sound]
        return Chain(tokens[:sound], probabilities[:sound], distributions)

    def _keep_common(self, context: np.ndarray) -> int:
        """Drop what was drafted in vain; how many committed tokens the cache holds."""
        known = _common(self._held, context[:-1])
        self._held = self._held[:known]
        self.session.cache.length = known
        return known

    def _catch_up(self, context: np.ndarray) -> np.ndarray:
        """The committed tokens that a chain's graph takes in; the cache holds all before them."""
        known = self._keep_common(context)
        if len(context) - known > CATCH_UP[-1]:
            self.session.prefill(context[known:-1])
            known = len(context) - 1
        return context[known:]

    def _step(self, committed: int, waiting: int, length: int, settings: SamplingSettings) -> _ChainStep:
        room = next(room for room in CATCH_UP if room >= waiting)
        cache, needed = self.session.cache, committed + room + length
        cache.reserve(needed - cache.length)
        if cache.capacity != self._capacity:
            self._steps.clear()  # they write to memory that is no longer the cache's
            self._capacity = cache.capacity
        seen = context_bucket(needed, cache.capacity)
        rule = ("greedy",) if settings.greedy else (settings.temperature, settings.top_k, settings.top_p, settings.min_p)
        key = (room, length, seen, *rule)
        if not self._steps and self.draft.device.type == "cuda":
            self.memory = torch.cuda.graph_pool_handle()
        return recent(self._steps, key, lambda: _ChainStep(self, cache, room, length, seen, settings), MOST_STEPS)


def _common(first: np.ndarray, second: np.ndarray) -> int:
    """How many tokens two texts begin with in common."""
    n = min(len(first), len(second))
    different = first[:n] != second[:n]
    return int(different.argmax()) if different.any() else n


class _ChainStep:
    """The passes of one chain in fixed shapes over at most ``seen`` keys, the first of at most ``room`` committed tokens.

    Attributes:
        distributions: float64 ``[length, vocab]`` of the last run, or None.
    """

    def __init__(self, runner: ChainRunner, cache: Any, room: int, length: int, seen: int, settings: SamplingSettings) -> None:
        self.draft, self.vocab_size, device = runner.draft, runner.vocab_size, runner.draft.device
        self.cache, self.room, self.length, self.seen, self.settings = cache, room, length, seen, settings
        words = room + 2 + length  # tokens; how many, over how many committed ones; keys
        self._given = torch.zeros(words, dtype=torch.int64, device=device)
        self._given_host = host_buffer(self._given)
        self._found = torch.zeros(2, length, dtype=torch.float64, device=device)
        self._read = host_buffer(self._found)
        shape = (length, self.vocab_size)
        self.distributions = None if settings.greedy else torch.zeros(shape, dtype=torch.float64, device=device)
        self._all = torch.arange(seen, device=device)
        self._first = torch.arange(room, device=device)
        self._causal = torch.ones(room, room, dtype=torch.bool, device=device).tril()
        self._given_host[room], self._given_host[room + 1] = 1, cache.length  # capturing writes to scratch slots
        self._run = Replay(self._body, device, runner.memory)
        if device.type == "cuda":
            self._run()  # a graph's first launch takes longer than all others

    def run(self, waiting: np.ndarray, committed: int, keys: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Drafted tokens and their probabilities; waiting: tokens behind the ``committed`` ones that the cache holds."""
        given = self._given_host.numpy()
        given[: len(waiting)] = waiting
        given[len(waiting) : self.room] = waiting[-1]  # padding: another token's embedding may not be finite
        given[self.room : self.room + 2] = len(waiting), committed
        if len(keys):
            given[self.room + 2 :] = keys
        self._run()
        tokens, probabilities = self._read.numpy().copy()
        return tokens.astype(np.int32), probabilities

    def _body(self) -> None:
        self._given.copy_(self._given_host, non_blocking=True)
        room = self.room
        count, committed, keys = self._given[room], self._given[room + 1], self._given[room + 2 :]
        logits = self._pass(self._given[:room], self._first, self._causal, committed)
        logits = logits.gather(0, (count - 1).expand(1, logits.shape[1]))
        for place in range(self.length):
            token = self._choose(logits, keys[place : place + 1], place)
            if place + 1 < self.length:
                logits = self._pass(token, self._first[:1], self._causal[:1, :1], committed + count + place)
        self._read.copy_(self._found, non_blocking=True)

    def _pass(self, tokens: torch.Tensor, offsets: torch.Tensor, causal: torch.Tensor, committed: torch.Tensor) -> torch.Tensor:
        """Logits ``[n, vocab]`` of ``n`` tokens behind the committed ones."""
        masks, slots = self.draft.masks.fixed(causal, offsets, committed, self._all), committed + offsets
        positions = slots.clamp_max(self.draft.context_limit - 1)  # padding may lie beyond
        with self.cache.fixed_pass(slots, self.seen):
            output = self.draft.run_fixed(tokens[None], positions[None], masks, self.cache, False)
        return output.logits[0, :, : self.vocab_size]

    def _choose(self, logits: torch.Tensor, key: torch.Tensor, place: int) -> torch.Tensor:
        """The token taken from logits ``[1, vocab]``, int64 ``[1]``; keeps it, its probability and its distribution."""
        if self.settings.greedy:
            token, probability = (found[:, 0] for found in sampler.top(logits, 1))
        else:
            q = sampler.distribution(logits, self.settings)
            token = (exponentials(key, q.shape[1]) / q).argmin(-1)
            probability = q.gather(1, token[:, None])[:, 0]
            self.distributions[place].copy_(q[0])  # type: ignore[index]
        self._found[0, place : place + 1].copy_(token)
        self._found[1, place : place + 1].copy_(probability)
        return token


def level_cost(pool: ChainPool, greedy: bool) -> float:
    """Seconds that one more token of a chain takes (see ``aded.draft_models.draft_limits``)."""
    settings = SamplingSettings() if greedy else SAMPLED
    runner = pool.take()
    text: list[int] = []

    def make(context: np.ndarray, length: int) -> None:
        if not text:
            text.extend(context.tolist())
            runner.start(text)
        runner.chain(context, length, settings, [] if greedy else [0] * length)

    try:
        return level_seconds(pool.draft, "chain" if greedy else "drawn-chain", make)
    finally:
        pool.give_back(runner)


class ChainPool:
    """Runners of one draft model, handed from one decode to the next with their graphs; vocab_size: of the target."""

    def __init__(self, draft: TargetModel, vocab_size: int) -> None:
        if draft.mode != "tree":
            raise AdedError(f"{draft.label} cannot draft: its passes need a shape of their own; use another --draft-model")
        self.draft, self._vocab_size = draft, vocab_size
        self._free: list[ChainRunner] = []

    def take(self) -> ChainRunner:
        return self._free.pop() if self._free else ChainRunner(self.draft, self._vocab_size)

    def give_back(self, runner: ChainRunner) -> None:
        self._free.append(runner)

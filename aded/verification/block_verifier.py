"""Lossless verification of a sampled chain as a block (Sun et al., arXiv 2403.10444): tests of prefixes instead of tokens.

Let x_1, ..., x_n be the drafted tokens, p_i and q_i the target's and the draft distribution after the first i of them. The weight
of a prefix is w_0 = 1, w_i = min(1, w_(i-1) p_(i-1)(x_i) / q_(i-1)(x_i)), and what the target has left after it is
max(w_i p_i - q_i, 0), with the sum S_i. Every prefix is tested: it passes with probability S_i / (S_i + 1 - w_i), the whole chain
with w_n. The longest prefix that passes is accepted. After the whole chain the bonus token is drawn from p_n, after a shorter
prefix the correction token from what is left, normalized. The output follows the target's distribution. On average at least as
many tokens are accepted as with a test of each token (`aded.verification.rejection_sampler`), because the tokens after an
improbable one can compensate for it.

All tests of a step read its whole draft: the longest prefix that passes depends on tokens and random numbers beyond it. The next
step must not read these numbers again, because they have let longer prefixes fail and are no longer uniform. So the numbers of
drafted tokens and of tests depend on the seed, the position at which the draft begins, and the number of the token in it; in
rejection sampling the position of the token is enough. The token after the accepted prefix is the only one drawn at its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from aded.core.compilation.cuda_graph import InputBuffer, Replay, host_buffer, node_bucket
from aded.core.lru import recent
from aded.core.tree import DraftTree
from aded.sampling import sampler
from aded.sampling.logits_pipeline import Rule, finite_choice
from aded.sampling.rng import exponentials, key_of, signed, uniform
from aded.sampling.settings import SamplingSettings
from aded.verification.rejection_sampler import ACCEPT_STREAM, MAX_GRAPHS, Graphs, draft_key, target_distribution
from aded.verification.tree_walk import Verification


class BlockTests(NamedTuple):
    """The tests of all prefixes of a chain of ``n`` drafted tokens, and the draw after each of them.

    Attributes:
        accepted: number of tokens of the longest prefix that passed, int64 ``[]``.
        token: the correction or bonus token, int64 ``[]``.
        weights: ``w_0`` to ``w_n``, float64 ``[n + 1]``.
        passes: probability that the prefix ending with each token passes, float64 ``[n]``.
        left: what the target has left after each prefix, not normalized; after the whole chain all of p. Float64
            ``[n + 1, vocab]``.
        residual: the distribution that the correction or bonus token is drawn from, float64 ``[vocab]``.
    """

    accepted: torch.Tensor
    token: torch.Tensor
    weights: torch.Tensor
    passes: torch.Tensor
    left: torch.Tensor
    residual: torch.Tensor


class ChainInputs(NamedTuple):
    """What ``test_prefixes`` takes from the host: tokens, random numbers of the tests, keys of the draws, number of tokens."""

    tokens: np.ndarray
    uniforms: np.ndarray
    keys: np.ndarray
    drafted: np.ndarray


def verify(
    tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule, graphs: Graphs | None = None
) -> Verification:
    """Verify a chain with draft distributions. Arguments and result as in `aded.verification.verify.verify`."""
    inputs, settings = inputs_of(tree, len(prefix), rule.settings.seed), rule.settings
    if graphs is not None and not rule.needs_prefix:
        q = draft_distributions(tree)
        accepted, token = graph_for(graphs, logits, q, len(tree), settings).run(logits, q, inputs, settings)
    else:
        tests = tests_of(*distributions(tree, logits, prefix, rule), inputs)
        accepted, token = int(tests.accepted), finite_choice(int(tests.token), tests.residual)
    draws: list[float | None] = inputs.uniforms[:accepted].tolist()
    return Verification(list(range(accepted + 1)), token, [*draws, uniform(int(inputs.keys[accepted]), token)])


def prepare(tree: DraftTree, vocab_size: int, dtype: torch.dtype, rule: Rule, graphs: Graphs) -> None:
    """Capture the graph that ``verify`` will use for a chain, for logits ``[n, vocab_size]`` of ``dtype``."""
    assert tree.sampled_from is not None
    q = tree.sampled_from.distributions
    graph_for(graphs, q.new_empty(0, vocab_size, dtype=dtype), q, len(tree), rule.settings)


def inputs_of(tree: DraftTree, position: int, seed: int) -> ChainInputs:
    """The inputs of a chain whose first token is at ``position``."""
    n = len(tree) - 1
    return ChainInputs(
        tree.tokens[1:].astype(np.int64),
        np.array([uniform(key_of(seed ^ ACCEPT_STREAM, position), i) for i in range(n)]),
        np.array([signed(key_of(seed, position + i)) for i in range(n + 1)]),
        np.array(n),
    )


def draft_keys(seed: int, position: int, count: int) -> list[int]:
    """Random number keys of the tokens of a chain whose first one is at ``position`` (see ``aded.sampling.rng``)."""
    return [draft_key(seed, position, trial=i) for i in range(count)]


@torch.inference_mode()
def tests_of(p: torch.Tensor, q: torch.Tensor, inputs: ChainInputs) -> BlockTests:
    """The tests by which ``verify`` accepts a prefix; ``p``, ``q``: from ``distributions``, ``inputs``: from ``inputs_of``."""
    return test_prefixes(p, q, *(torch.from_numpy(array).to(p.device) for array in inputs))


@torch.inference_mode()
def distributions(
    tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule
) -> tuple[torch.Tensor, torch.Tensor]:
    """The target's distribution after the root and each drafted token, and those that the tokens were drawn from.

    Float64 ``[n + 1, vocab]`` and ``[n, vocab]``; arguments as in ``verify``.
    """
    ids, chain = [int(token) for token in prefix], tree.tokens[1:].tolist()
    assert tree.sampled_from is not None
    assert tree.sampled_from.block, "the drafter asks for block verification"
    p = torch.stack([target_distribution(rule, logits[i], ids + chain[:i]) for i in range(len(chain) + 1)])
    q = draft_distributions(tree)
    return p, torch.nn.functional.pad(q, (0, p.shape[1] - q.shape[1])).to(p.device)


def draft_distributions(tree: DraftTree) -> torch.Tensor:
    """The distribution that each drafted token was drawn from, float64 ``[n, vocab]``."""
    assert tree.sampled_from is not None
    q, rows = tree.sampled_from.distributions, tree.sampled_from.rows[1:]
    return q if np.array_equal(rows, np.arange(len(q))) else q[rows.tolist()]


def test_prefixes(
    p: torch.Tensor, q: torch.Tensor, tokens: torch.Tensor, uniforms: torch.Tensor, keys: torch.Tensor, count: torch.Tensor
) -> BlockTests:
    """Test every prefix of a chain, without synchronization with the host.

    Args:
        p: the target's distribution after the root and each drafted token, float64 ``[n + 1, vocab]``.
        q: the distribution that each token was drawn from, float64 ``[n, vocab]``.
        tokens: the drafted tokens, int64 ``[n]``; those from ``count`` on are padding.
        uniforms: uniform random number of each test, float64 ``[n]``.
        keys: random number key of the draw after each prefix, int64 ``[n + 1]`` (see `aded.sampling.rng`).
        count: number of drafted tokens, int64 ``[]``.
    """
    n, index = len(tokens), torch.arange(len(p), device=p.device)
    ratios = (p[:-1].gather(1, tokens[:, None]) / q.gather(1, tokens[:, None]))[:, 0]
    weights = [ratios.new_ones(())]
    for i in range(n):
        weights.append((weights[-1] * ratios[i]).clamp_max(1.0))
    weight = torch.stack(weights)
    left = (weight[:, None] * p - torch.nn.functional.pad(q, (0, 0, 0, 1))).clamp_min(0)
    left = torch.where((index < count)[:, None], left, p)
    total = left.sum(-1)
    passes = torch.where(index < count, _ratio(total, total + 1 - weight), weight)[1:]
    passed = (uniforms <= passes) & (index[1:] <= count)
    accepted = torch.where(passed, index[1:], 0).max() if n else index.new_zeros(())
    rest = left.index_select(0, accepted[None])[0]
    residual = torch.where(total.gather(0, accepted[None]) > 0, rest / rest.sum(), p.index_select(0, accepted[None])[0])
    token = (exponentials(keys.gather(0, accepted[None]), p.shape[1])[0] / residual).argmin()
    return BlockTests(accepted, token, weight, passes, left, residual)


def _ratio(left: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Where p and q are equal and the weight is 1, nothing is left and the next prefix passes, whatever this test says."""
    return torch.where(total > 0, left / total, 1.0)


class BlockGraph:
    """``test_prefixes`` on the logits of a chain as a CUDA graph of fixed size; on the CPU as a plain call.

    Args:
        logits, q: examples of the device, dtypes and vocabulary sizes.
        nodes: maximum number of nodes, the root included.
        kind: sampling operations of the target; their parameters are inputs.
    """

    def __init__(self, logits: torch.Tensor, q: torch.Tensor, nodes: int, kind: sampler.SamplingOperations) -> None:
        self._kind, device, vocab = kind, logits.device, logits.shape[1]
        self._logits = torch.zeros(nodes, vocab, dtype=logits.dtype, device=device)
        self._q = torch.full((nodes - 1, vocab), 1.0, dtype=q.dtype, device=device)  # of padding; beyond the draft vocabulary 0
        self._q[:, q.shape[1] :] = 0
        int64, float64 = torch.int64, torch.float64
        fields = ((nodes - 1,), int64), ((nodes - 1,), float64), ((nodes,), int64), ((), int64), sampler.PARAMETERS
        self._inputs = InputBuffer(device, *fields)
        *chain, self._host_parameters = self._inputs.host
        self._host_parameters[:] = 1.0
        self._host = ChainInputs(*chain)
        self._results = torch.zeros(2, dtype=torch.int64, device=device)
        self._host_results = host_buffer(self._results)
        self._replay = Replay(self._body, device)

    def run(self, logits: torch.Tensor, q: torch.Tensor, inputs: ChainInputs, settings: SamplingSettings) -> tuple[int, int]:
        """The number of accepted tokens, and the token after them."""
        n = int(inputs.drafted)
        self._host_parameters[:] = sampler.parameters(settings)
        self._logits[: n + 1].copy_(logits)
        self._q[:n, : q.shape[1]].copy_(q)
        self._host.tokens[:n], self._host.uniforms[:n], self._host.keys[: n + 1] = inputs.tokens, inputs.uniforms, inputs.keys
        self._host.drafted[...] = n
        self._replay()
        accepted, token = self._host_results.tolist()
        return accepted, token

    def _body(self) -> None:
        self._inputs.send()
        *chain, values = self._inputs.device
        p = sampler.distribution(self._logits, self._kind, values)
        tests = test_prefixes(p, self._q, *chain)
        self._results.copy_(torch.stack([tests.accepted, tests.token]))
        self._host_results.copy_(self._results, non_blocking=True)


def graph_for(graphs: Graphs, logits: torch.Tensor, q: torch.Tensor, nodes: int, settings: SamplingSettings) -> BlockGraph:
    """The cached graph for this size. Seeds and sampling parameters are inputs, so runs with other values share it."""
    size, kind = node_bucket(nodes), sampler.operations(settings)
    key = ("block", logits.dtype, *logits.shape[1:], *q.shape[1:], size, kind)
    return recent(graphs, key, lambda: BlockGraph(logits, q, size, kind), MAX_GRAPHS)

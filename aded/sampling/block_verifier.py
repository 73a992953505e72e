"""Lossless verification of a sampled chain as a block (Sun et al., arXiv 2403.10444): tests of prefixes instead of tokens.

Let x_1, ..., x_n be the drafted tokens, p_i and q_i the target's and the draft distribution after the first i of them. The weight
of a prefix is w_0 = 1, w_i = min(1, w_(i-1) p_(i-1)(x_i) / q_(i-1)(x_i)), and what the target has left after it is
max(w_i p_i - q_i, 0), with the sum S_i. Every prefix is tested: it passes with probability S_i / (S_i + 1 - w_i), the whole chain
with w_n. The longest prefix that passes is accepted. After the whole chain the bonus token is drawn from p_n, after a shorter
prefix the correction token from what is left, normalized. The output follows the target's distribution. On average at least as
many tokens are accepted as with a test of each token (`aded.sampling.rejection_sampler`), as an improbable token may be made up
for by those after it.

Random numbers are those of rejection sampling: they depend on the seed and the position alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.sampling.logits_pipeline import Rule, finite_choice, sample
from aded.sampling.rejection_sampler import ACCEPT_STREAM, target_distribution
from aded.sampling.rng import key_of, uniform
from aded.sampling.tree_walk import Verification


class BlockTests(NamedTuple):
    """The tests of all prefixes of a chain of ``n`` drafted tokens.

    Attributes:
        p: the target's distribution after the root and each drafted token, float64 ``[n + 1, vocab]``.
        q: the distribution that each token was drawn from, float64 ``[n, vocab]``.
        weights: ``w_0`` to ``w_n``.
        passes: probability that the prefix ending with each token passes, ``[n]``.
        uniforms: random number of each test, which passes if it is at most that probability, ``[n]``.
        accepted: number of tokens of the longest prefix that passed.
    """

    p: torch.Tensor
    q: torch.Tensor
    weights: list[float]
    passes: list[float]
    uniforms: list[float]
    accepted: int

    def left(self) -> torch.Tensor:
        """What the target has left after the accepted prefix, not normalized; after the whole chain all of p; ``[vocab]``."""
        p = self.p[self.accepted]
        if self.accepted == len(self.q):
            return p
        return (self.weights[self.accepted] * p - self.q[self.accepted]).clamp_min(0)

    def residual(self) -> torch.Tensor:
        """The distribution of the correction or bonus token, float64 ``[vocab]``."""
        left = self.left()
        total = left.sum()
        return left / total if float(total) > 0 else self.p[self.accepted]  # nothing is left only by rounding


def verify(tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule) -> Verification:
    """Verify a chain with draft distributions. Arguments and result as in `aded.sampling.verify.verify`."""
    tests, position = test_prefixes(tree, logits, prefix, rule), len(prefix)
    key = key_of(rule.settings.seed, position + tests.accepted)
    residual = tests.residual()
    token = sample(residual, key)
    draws: list[float | None] = [*tests.uniforms[: tests.accepted], uniform(key, token)]
    return Verification(list(range(tests.accepted + 1)), finite_choice(token, residual), draws)


@torch.inference_mode()
def test_prefixes(tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule) -> BlockTests:
    """Test every prefix of a chain; arguments as in ``verify``."""
    drawn, ids, n = tree.sampled_from, [int(token) for token in prefix], len(tree) - 1
    assert drawn is not None
    assert drawn.block, "the drafter asks for block verification"
    chain = tree.tokens[1:].tolist()
    p = torch.stack([target_distribution(rule, logits[i], ids + chain[:i]) for i in range(n + 1)])
    q = drawn.distributions[drawn.rows[1:].tolist()]
    q = torch.nn.functional.pad(q, (0, p.shape[1] - q.shape[1])).to(p.device)
    tokens = torch.tensor(chain, dtype=torch.int64, device=p.device)[:, None]
    ratios = (p[:-1].gather(1, tokens) / q.gather(1, tokens))[:, 0]
    weights = [ratios.new_ones(())]
    for ratio in ratios:
        weights.append((weights[-1] * ratio).clamp_max(1.0))
    all_weights = torch.stack(weights)
    left = (all_weights[1:-1, None] * p[1:-1] - q[1:]).clamp_min(0).sum(-1)  # after every prefix but the whole chain
    numbers = torch.cat([all_weights, left]).tolist()
    values, sums = numbers[: n + 1], numbers[n + 1 :]
    passes = [_ratio(total, total + 1 - weight) for total, weight in zip(sums, values[1:-1])] + values[-1:] * (n > 0)
    uniforms = [uniform(key_of(rule.settings.seed ^ ACCEPT_STREAM, len(ids) + i), 0) for i in range(n)]
    accepted = max((i + 1 for i in range(n) if uniforms[i] <= passes[i]), default=0)
    return BlockTests(p, q, values, passes, uniforms, accepted)


def _ratio(left: float, total: float) -> float:
    """Where p and q are equal and the weight is 1, nothing is left and the next prefix passes, whatever this test says."""
    return left / total if total > 0 else 1.0

"""Exact verdicts on drafts that were sampled themselves: rejection with the residual distribution.

A chain is judged as in speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318), a tree as in
multi-step speculative sampling (SpecInfer, arXiv 2305.09781): at a node whose children were drawn from q, the target's p decides
on one child after the other. A child x is accepted with probability min(1, p(x) / q(x)); if it is not, p becomes what q
left of it, max(p - q, 0) made a distribution again, and where children were drawn without replacement, q loses x. When
all are rejected, the token is drawn from the p that is left. Whatever q is, the token is then distributed as the first p.

Random numbers depend on the seed and the position, as those of ``aded.sampling.rng`` do, and are none of those that the draft was
drawn by: runs repeat, but are not those of plain decoding with the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from aded.core.cuda_graph import Replay, host_buffer, node_bucket
from aded.core.lru import recent
from aded.core.tree import DraftTree
from aded.sampling import sampler
from aded.sampling.logits_pipeline import Rule
from aded.sampling.rng import exponentials, key_of, signed, uniform
from aded.sampling.settings import SamplingSettings
from aded.sampling.tree_walk import Verification

ACCEPTING, DRAFTING = 0x6163636570740000, 0x6472616674000000
"""What sets the random numbers of accepting and of drafting apart from each other and from the target's own."""
MOST_GRAPHS = 16
"""Kept of one model; the one used longest ago goes first."""
Graphs = dict[tuple[Any, ...], Any]
"""Where graphs are kept: ``verdicts`` of ``aded.engine.step_graph.StepPool``."""


def draft_key(seed: int, position: int, model: int = 0, parent: int = 0, trial: int = 0) -> int:
    """The key of what a draft draws for a position (see ``aded.sampling.rng``): one for each draw that is to be independent.

    Args:
        model: which of the draft models draws, from 0.
        parent: the node whose children are drawn, by its number in that model's tree, below 2**16.
        trial: which of the children, where each is drawn on its own (with replacement), below 2**16.
    """
    return key_of(key_of(seed ^ DRAFTING, position), (model << 32) + (parent << 16) + trial)


def prepare(tree: DraftTree, vocab_size: int, dtype: torch.dtype, rule: Rule, graphs: Graphs) -> None:
    """Capture what ``verify`` is going to run for a sampled draft, on logits ``[n, vocab_size]`` of ``dtype``."""
    assert tree.drawn is not None
    q, width = tree.drawn.distributions, int(np.bincount(tree.parents[1:], minlength=1).max())
    logits = q.new_empty(0, vocab_size, dtype=dtype)
    graph_for(graphs, logits, q, len(tree), width, rule.settings, tree.drawn.replacement)


def verify(
    tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule, graphs: Graphs | None = None
) -> Verification:
    """Walk a sampled draft.

    Args and returns as ``aded.sampling.verify.verify``; ``tree.drawn`` says what the nodes were drawn from.
    """
    judge = _Judge(tree, logits, [int(i) for i in prefix], rule, graphs)
    path: list[int] = [0]
    draws: list[float | None] = []
    while True:
        child, token, draw = judge(path)
        draws.append(draw)
        if child is None:
            return Verification(path, token, draws)
        path.append(child)


class Case(NamedTuple):
    """What `judge` is asked about ``n`` nodes of at most ``width`` children, beside distributions; see there."""

    tokens: np.ndarray
    rows: np.ndarray
    chances: np.ndarray
    keys: np.ndarray


class _Judge:
    """Decides at a node; where there are graphs at all nodes at once, because there one answer costs as much time as many."""

    def __init__(self, tree: DraftTree, logits: torch.Tensor, prefix: list[int], rule: Rule, graphs: Graphs | None) -> None:
        self.tree, self.logits, self.prefix, self.rule = tree, logits, prefix, rule
        self._children: list[list[int]] = [[] for _ in range(len(tree))]
        for node in range(1, len(tree)):
            self._children[int(tree.parents[node])].append(node)
        self._decided: list[tuple[int | None, int, float]] | None = None
        if graphs is not None and not rule.needs_prefix:
            self._decided = self._decide_all(graphs)

    def __call__(self, path: list[int]) -> tuple[int | None, int, float]:
        """The accepted child of the path's last node, or None; the token there; its random number."""
        node = path[-1]
        if self._decided is not None:
            return self._decided[node]
        p = self.rule.probabilities(self.logits[node], self.prefix + self.tree.tokens[path[1:]].tolist())
        return self._decide(node, p)

    @torch.inference_mode()
    def _decide(self, node: int, p: torch.Tensor) -> tuple[int | None, int, float]:
        """What is decided at a node; p: the target's distribution there, float64 ``[vocab]``."""
        drawn, case = self.tree.drawn, self._case([node])
        assert drawn is not None
        q = torch.nn.functional.pad(drawn.distributions, (0, len(p) - drawn.distributions.shape[1])).to(p.device)
        tokens, rows, chances, keys = (torch.from_numpy(array).to(p.device) for array in case)
        accepted, chosen = torch.stack(judge(p[None], q, tokens, rows, chances, keys, drawn.replacement)).cpu().numpy()
        return self._told(node, 0, case, int(accepted[0]), int(chosen[0]))

    @torch.inference_mode()
    def _decide_all(self, graphs: Graphs) -> list[tuple[int | None, int, float]]:
        """What is decided at every node, by a captured graph."""
        drawn, settings, case = self.tree.drawn, self.rule.settings, self._case(list(range(len(self.tree))))
        assert drawn is not None
        nodes, width = case.tokens.shape
        graph = graph_for(graphs, self.logits, drawn.distributions, nodes, width, settings, drawn.replacement)
        found = graph.run(self.logits, drawn.distributions, case).T.tolist()
        return [self._told(node, node, case, rank, token) for node, (rank, token) in enumerate(found)]

    def _case(self, nodes: list[int]) -> Case:
        """What is to be judged at ``nodes``."""
        drawn, seed, width = self.tree.drawn, self.rule.settings.seed, max(len(self._children[node]) for node in nodes)
        assert drawn is not None
        tokens, rows = np.full((2, len(nodes), width), -1)
        chances, keys = np.ones((len(nodes), width)), np.empty(len(nodes), dtype=np.int64)
        for place, node in enumerate(nodes):
            position = len(self.prefix) + int(self.tree.depths[node])
            children, key = self._children[node], key_of(seed ^ ACCEPTING, position)
            tokens[place, : len(children)], rows[place, : len(children)] = self.tree.tokens[children], drawn.rows[children]
            chances[place, : len(children)] = [uniform(key, rank) for rank in range(len(children))]
            keys[place] = signed(key_of(seed, position))
        return Case(tokens, rows, chances, keys)

    def _told(self, node: int, place: int, case: Case, rank: int, token: int) -> tuple[int | None, int, float]:
        """A verdict at a node: the accepted child or None, the token, its random number."""
        if rank < len(self._children[node]):
            return self._children[node][rank], int(case.tokens[place, rank]), float(case.chances[place, rank])
        return None, token, uniform(int(case.keys[place]), token)


def judge(
    p: torch.Tensor,
    q: torch.Tensor,
    tokens: torch.Tensor,
    rows: torch.Tensor,
    chances: torch.Tensor,
    keys: torch.Tensor,
    replacement: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multi-step speculative sampling at many nodes at once, in tensor code that reads nothing back.

    Args:
        p: the target's distribution at each node, float64 ``[n, vocab]``.
        q: what the children were drawn from, float64 ``[m, vocab]``.
        tokens: each node's children in the order in which they were drawn, int64 ``[n, width]``, -1 behind the last.
        rows: which of ``q`` each was drawn from, int64 ``[n, width]``, -1 behind the last; no two nodes share one.
        chances: uniform random numbers, float64 ``[n, width]``.
        keys: of the token drawn where no child is accepted, int64 ``[n]`` (see ``aded.sampling.rng``).
        replacement: whether siblings were drawn independently.

    Returns:
        The rank of the accepted child, ``width`` where there is none, int64 ``[n]``; and the token drawn from what is left.
    """
    width = tokens.shape[1]
    q = torch.cat([q, q.new_full((1, q.shape[1]), 1.0 / q.shape[1])])  # the last row is for children that are not there
    accepted = torch.full((len(p),), width, dtype=torch.int64, device=p.device)
    for rank in range(width):
        token, row = tokens[:, rank, None].clamp_min(0), rows[:, rank] % len(q)
        proposal = q[row]
        asked = (tokens[:, rank] >= 0) & (accepted == width)
        enough = (chances[:, rank, None] * proposal.gather(1, token) <= p.gather(1, token))[:, 0]
        accepted = accepted.masked_fill(asked & enough, rank)
        rejected = (asked & ~enough)[:, None]
        p = torch.where(rejected, _normalized((p - proposal).clamp_min(0), p), p)
        if not replacement:
            q = q.index_copy(0, row, torch.where(rejected, _normalized(proposal.scatter(1, token, 0.0), proposal), proposal))
    return accepted, (exponentials(keys, p.shape[1]) / p).argmin(-1)


def _normalized(weights: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """Weights ``[n, vocab]`` as distributions; a row of nothing, which rounding alone can leave, becomes ``otherwise``'s."""
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total, otherwise)


class JudgeGraph:
    """`judge` on a tree's logits as one CUDA graph, for cases of at most one size; elsewhere it runs as it is.

    Args:
        logits, q: of whose kind they are: device, dtype, vocabulary.
        nodes, width, rows: most nodes, children of each, and rows of q.
        settings: as the target samples; replacement: as of `judge`.
    """

    def __init__(
        self,
        logits: torch.Tensor,
        q: torch.Tensor,
        nodes: int,
        width: int,
        rows: int,
        settings: SamplingSettings,
        replacement: bool,
    ) -> None:
        self.nodes, self.width, self.settings, self.replacement = nodes, width, settings, replacement
        device = logits.device
        self._logits = torch.zeros(nodes, logits.shape[1], dtype=logits.dtype, device=device)
        self._q = torch.zeros(rows, logits.shape[1], dtype=q.dtype, device=device)  # 0 where the draft has no token
        self._given = torch.zeros(3 * nodes * width + nodes, dtype=torch.int64, device=device)
        self._found = torch.zeros(2, nodes, dtype=torch.int64, device=device)
        self._given_host, self._read = host_buffer(self._given), host_buffer(self._found)
        self._host = Case(*self._parts(self._given_host.numpy()))
        self._run = Replay(self._body, device)

    def run(self, logits: torch.Tensor, q: torch.Tensor, case: Case) -> np.ndarray:
        """As `judge`: rank of the accepted child and token drawn instead, int64 ``[2, n]``."""
        n, width = case.tokens.shape
        self._logits[:n].copy_(logits)
        self._q[: len(q), : q.shape[1]].copy_(q)
        self._host.tokens[:] = self._host.rows[:] = -1
        self._host.tokens[:n, :width], self._host.rows[:n, :width] = case.tokens, case.rows
        self._host.chances.view(np.float64)[:n, :width] = case.chances
        self._host.keys[:n] = case.keys
        self._run()
        return self._read.numpy()[:, :n].copy()

    def _parts(self, given: Any) -> tuple[Any, Any, Any, Any]:
        """Tokens, rows, chances (the bits of float64 numbers) ``[nodes, width]``, and keys ``[nodes]``, in one buffer."""
        size, shape = self.nodes * self.width, (self.nodes, self.width)
        first, second, third = (given[i * size : (i + 1) * size].reshape(shape) for i in range(3))
        return first, second, third, given[3 * size :]

    def _body(self) -> None:
        self._given.copy_(self._given_host, non_blocking=True)
        tokens, rows, chances, keys = self._parts(self._given)
        p = sampler.distribution(self._logits, self.settings)
        found = judge(p, self._q, tokens, rows, chances.view(torch.float64), keys, self.replacement)
        self._found[0].copy_(found[0])
        self._found[1].copy_(found[1])
        self._read.copy_(self._found, non_blocking=True)


def graph_for(
    graphs: Graphs, logits: torch.Tensor, q: torch.Tensor, nodes: int, width: int, settings: SamplingSettings, replacement: bool
) -> JudgeGraph:
    """The graph for so many nodes with at most ``width`` children each; decodes share it, since seeds come with the case."""
    sizes = node_bucket(nodes), max(1, width), node_bucket(len(q))
    kind = (logits.dtype, *logits.shape[1:], *q.shape[1:], *sizes, replace(settings, seed=0), replacement)
    return recent(graphs, kind, lambda: JudgeGraph(logits, q, *sizes, settings, replacement), MOST_GRAPHS)

"""Lossless verification of sampled drafts: rejection sampling with the residual distribution.

Chains follow speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318), trees follow multi-step
speculative sampling (SpecInfer, arXiv 2305.09781). Let p be the target distribution at a node and q the draft distribution of its
children. The children are tried in order. Child x is accepted with probability min(1, p(x) / q(x)). If it is rejected, p is
replaced by the residual distribution, max(p - q, 0) normalized; if the children were drawn without replacement, x is also removed
from q. If all children are rejected, the correction token is drawn from the last residual distribution. For any q, the
resulting token is distributed as the original p.

Random numbers depend on the seed and the position, as in ``aded.sampling.rng``, and are independent of those of the draft. A run
is reproducible, but does not emit the same tokens as plain decoding with the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from aded.core.compilation.cuda_graph import InputBuffer, Replay, host_buffer, node_bucket
from aded.core.lru import recent
from aded.core.tree import DraftTree
from aded.sampling import sampler
from aded.sampling.logits_pipeline import Rule, finite_choice
from aded.sampling.rng import exponentials, key_of, signed, uniform
from aded.sampling.settings import SamplingSettings
from aded.verification.tree_walk import Verification

ACCEPT_STREAM, DRAFT_STREAM = 0x6163636570740000, 0x6472616674000000
"""XORed into the seed, so that acceptance, drafting and the target's draws use independent random numbers."""
MAX_GRAPHS = 16
"""Graphs kept per model; the least recently used one is removed first."""
Graphs = dict[tuple[Any, ...], Any]
"""Cache of graphs: ``verdicts`` of ``aded.engine.step_graph.StepPool``."""


def draft_key(seed: int, position: int, model: int = 0, parent: int = 0, trial: int = 0) -> int:
    """Random number key of a draft draw (see ``aded.sampling.rng``); draws with different keys are independent.

    Args:
        seed: sampling seed.
        position: absolute position of the drawn token.
        model: index of the draft model.
        parent: node whose children are drawn, its index in that model's tree, below 2**16.
        trial: index of the child if children are drawn with replacement, or of the token in a block, below 2**16.
    """
    return key_of(key_of(seed ^ DRAFT_STREAM, position), (model << 32) + (parent << 16) + trial)


def prepare(tree: DraftTree, vocab_size: int, dtype: torch.dtype, rule: Rule, graphs: Graphs) -> None:
    """Capture the graph that ``verify`` will use for a sampled draft, for logits ``[n, vocab_size]`` of ``dtype``."""
    assert tree.sampled_from is not None
    (q, _), width = _used_distributions(tree), int(np.bincount(tree.parents[1:], minlength=1).max())
    logits = q.new_empty(0, vocab_size, dtype=dtype)
    graph_for(graphs, logits, q, len(tree), width, rule.settings, tree.sampled_from.replacement)


def verify(
    tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule, graphs: Graphs | None = None
) -> Verification:
    """Verify a sampled draft by rejection sampling.

    Arguments and result as in ``aded.verification.verify.verify``; ``tree.sampled_from`` holds the draft distributions.
    """
    verify_node = _NodeVerifier(tree, logits, [int(i) for i in prefix], rule, graphs)
    path: list[int] = [0]
    draws: list[float | None] = []
    while True:
        child, token, draw = verify_node(path)
        draws.append(draw)
        if child is None:
            return Verification(path, token, draws)
        path.append(child)


def _used_distributions(tree: DraftTree) -> tuple[torch.Tensor, np.ndarray]:
    """The draft distributions, float64 ``[m, vocab]`` with ``m`` at most the number of nodes, and each node's row of them."""
    drawn = tree.sampled_from
    assert drawn is not None
    if len(drawn.distributions) <= len(tree):
        return drawn.distributions, drawn.rows
    used, rows = np.unique(drawn.rows[1:], return_inverse=True)
    return drawn.distributions[used.tolist()], np.concatenate([drawn.rows[:1], rows])


class Trial(NamedTuple):
    """The test of one child at each of ``n`` nodes.

    Attributes:
        p: the target's distribution, after rejections the residual distribution, float64 ``[n, vocab]``.
        q: the draft distribution, without replacement without the rejected siblings, float64 ``[n, vocab]``.
        accepted: whether the child was tried and accepted, bool ``[n]``.
        residual: the distribution after the test: ``p``, or the next residual distribution if the child was rejected.
    """

    p: torch.Tensor
    q: torch.Tensor
    accepted: torch.Tensor
    residual: torch.Tensor


class Tried(NamedTuple):
    """A child that was tried at a node, its uniform random number, and its test, with ``n = 1``."""

    child: int
    uniform: float
    trial: Trial


class NodeInputs(NamedTuple):
    """Inputs of ``accept_children`` other than distributions, for ``n`` nodes of at most ``width`` children each; see there."""

    tokens: np.ndarray
    rows: np.ndarray
    uniforms: np.ndarray
    keys: np.ndarray


def trials_at(
    tree: DraftTree, logits: torch.Tensor, prefix: Sequence[int] | np.ndarray, rule: Rule, path: list[int]
) -> tuple[list[Tried], torch.Tensor]:
    """The tests by which ``verify`` accepted or rejected the children of a node.

    Arguments as in ``verify``; ``path``: accepted nodes from the root to the node.

    Returns:
        The children tried, in order, up to the accepted one; and the distribution after these tests, float64 ``[vocab]``, from
        which the correction or bonus token is drawn if no child was accepted.
    """
    verifier = _NodeVerifier(tree, logits, [int(i) for i in prefix], rule, None)
    return verifier.trials(path)


class _NodeVerifier:
    """Rejection sampling at a node. With graphs, all nodes are computed at once, which takes no longer than one node."""

    def __init__(self, tree: DraftTree, logits: torch.Tensor, prefix: list[int], rule: Rule, graphs: Graphs | None) -> None:
        self.tree, self.logits, self.prefix, self.rule = tree, logits, prefix, rule
        self._children: list[list[int]] = [[] for _ in range(len(tree))]
        for node in range(1, len(tree)):
            self._children[int(tree.parents[node])].append(node)
        self._q, self._rows = _used_distributions(tree)
        self._results: list[tuple[int | None, int, float]] | None = None
        if graphs is not None and not rule.needs_prefix:
            self._results = self._verify_all(graphs)

    def __call__(self, path: list[int]) -> tuple[int | None, int, float]:
        """The accepted child of the last node of the path or None, the emitted token, and its uniform random number."""
        if self._results is not None:
            return self._results[path[-1]]
        return self._verify_node(path)

    @torch.inference_mode()
    def trials(self, path: list[int]) -> tuple[list[Tried], torch.Tensor]:
        """Result of ``trials_at``."""
        (p, q, tokens, rows, uniforms, _), inputs = self._tensors(path)
        tried, residual = [], p
        for child, u, trial in zip(
            self._children[path[-1]], inputs.uniforms[0].tolist(), trials(p, q, tokens, rows, uniforms, self._replacement)
        ):
            tried.append(Tried(child, u, trial))
            residual = trial.residual
            if bool(trial.accepted):
                break
        return tried, residual[0]

    @torch.inference_mode()
    def _verify_node(self, path: list[int]) -> tuple[int | None, int, float]:
        """Rejection sampling at the last node of the path."""
        (p, q, tokens, rows, uniforms, keys), inputs = self._tensors(path)
        results = accept_children(p, q, tokens, rows, uniforms, keys, self._replacement)
        accepted, chosen = torch.stack(results).cpu().numpy()
        return self._result(path[-1], 0, inputs, int(accepted[0]), finite_choice(int(chosen[0]), p[0]))

    def _tensors(self, path: list[int]) -> tuple[tuple[torch.Tensor, ...], NodeInputs]:
        """Arguments of ``accept_children`` for the last node of the path, with only its rows of q, and those on the host."""
        inputs = self._inputs(path[-1:])
        p = target_distribution(self.rule, self.logits[path[-1]], self.prefix + self.tree.tokens[path[1:]].tolist())
        used, rows = np.unique(inputs.rows, return_inverse=True)
        inputs = inputs._replace(rows=rows.reshape(inputs.rows.shape))
        q = torch.nn.functional.pad(self._q[used.tolist()], (0, len(p) - self._q.shape[1])).to(p.device)
        return (p[None], q, *(torch.from_numpy(array).to(p.device) for array in inputs)), inputs

    @property
    def _replacement(self) -> bool:
        assert self.tree.sampled_from is not None
        return self.tree.sampled_from.replacement

    @torch.inference_mode()
    def _verify_all(self, graphs: Graphs) -> list[tuple[int | None, int, float]]:
        """Rejection sampling at every node, by a captured graph."""
        settings, inputs = self.rule.settings, self._inputs(list(range(len(self.tree))))
        nodes, width = inputs.tokens.shape
        graph = graph_for(graphs, self.logits, self._q, nodes, width, settings, self._replacement)
        results = graph.run(self.logits, self._q, inputs, settings).T.tolist()
        return [self._result(node, node, inputs, rank, token) for node, (rank, token) in enumerate(results)]

    def _inputs(self, nodes: list[int]) -> NodeInputs:
        """Inputs of ``accept_children`` for ``nodes``."""
        seed, width = self.rule.settings.seed, max(len(self._children[node]) for node in nodes)
        tokens, rows = np.full((2, len(nodes), width), -1)
        uniforms, keys = np.ones((len(nodes), width)), np.empty(len(nodes), dtype=np.int64)
        for index, node in enumerate(nodes):
            position = len(self.prefix) + int(self.tree.depths[node])
            children, key = self._children[node], key_of(seed ^ ACCEPT_STREAM, position)
            tokens[index, : len(children)], rows[index, : len(children)] = self.tree.tokens[children], self._rows[children]
            uniforms[index, : len(children)] = [uniform(key, rank) for rank in range(len(children))]
            keys[index] = signed(key_of(seed, position))
        return NodeInputs(tokens, rows, uniforms, keys)

    def _result(self, node: int, index: int, inputs: NodeInputs, rank: int, token: int) -> tuple[int | None, int, float]:
        """The accepted child or None, the emitted token, and its uniform random number; ``index``: of the node in ``inputs``."""
        if rank < len(self._children[node]):
            return self._children[node][rank], int(inputs.tokens[index, rank]), float(inputs.uniforms[index, rank])
        return None, token, uniform(int(inputs.keys[index]), token)


def target_distribution(rule: Rule, row: torch.Tensor, prefix: list[int]) -> torch.Tensor:
    """The target's distribution at a node, float64 ``[vocab]``, by the same function as in a graph if it needs no prefix.

    Args:
        row: logits of the node, ``[vocab]``.
        prefix: all token ids up to and including the node.
    """
    if rule.needs_prefix:
        return rule.probabilities(row, prefix)
    values = sampler.parameters(rule.settings).to(row.device)
    return sampler.distribution(row[None], sampler.operations(rule.settings), values)[0]


def accept_children(
    p: torch.Tensor,
    q: torch.Tensor,
    tokens: torch.Tensor,
    rows: torch.Tensor,
    uniforms: torch.Tensor,
    keys: torch.Tensor,
    replacement: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multi-step speculative sampling at many nodes at once, without synchronization with the host.

    Args:
        p: the target's distribution at each node, float64 ``[n, vocab]``.
        q: draft distributions, float64 ``[m, vocab]``.
        tokens: children of each node in drawing order, int64 ``[n, width]``, padded with -1.
        rows: row of ``q`` that each child was drawn from, int64 ``[n, width]``, padded with -1; nodes share no row.
        uniforms: uniform random numbers of the acceptance tests, float64 ``[n, width]``.
        keys: random number keys of the correction or bonus tokens, int64 ``[n]`` (see ``aded.sampling.rng``).
        replacement: whether siblings were drawn with replacement.

    Returns:
        Index of the accepted child, ``width`` if none, int64 ``[n]``; token drawn from the residual distribution, int64 ``[n]``.
    """
    width, residual = tokens.shape[1], p
    accepted = torch.full((len(p),), width, dtype=torch.int64, device=p.device)
    for rank, trial in enumerate(trials(p, q, tokens, rows, uniforms, replacement)):
        accepted, residual = accepted.masked_fill(trial.accepted, rank), trial.residual
    return accepted, (exponentials(keys, p.shape[1]) / residual).argmin(-1)


def trials(
    p: torch.Tensor, q: torch.Tensor, tokens: torch.Tensor, rows: torch.Tensor, uniforms: torch.Tensor, replacement: bool
) -> Iterator[Trial]:
    """The tests of ``accept_children``, one per index of a child; arguments as there."""
    q = torch.cat([q, q.new_full((1, q.shape[1]), 1.0 / q.shape[1])])  # the last row is for padding
    undecided = torch.ones(len(p), dtype=torch.bool, device=p.device)
    for rank in range(tokens.shape[1]):
        token, row = tokens[:, rank, None].clamp_min(0), rows[:, rank] % len(q)
        proposal = q[row]
        tried = undecided & (tokens[:, rank] >= 0)
        accept = (uniforms[:, rank, None] * proposal.gather(1, token) <= p.gather(1, token))[:, 0]
        undecided = undecided & ~(tried & accept)
        rejected = (tried & ~accept)[:, None]
        residual = torch.where(rejected, _normalized((p - proposal).clamp_min(0), p), p)
        yield Trial(p, proposal, tried & accept, residual)
        p = residual
        if not replacement:
            q = q.index_copy(0, row, torch.where(rejected, _normalized(proposal.scatter(1, token, 0.0), proposal), proposal))


def _normalized(weights: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """Normalize rows ``[n, vocab]``. A row of zeros, possible only by rounding, is replaced by the row of ``otherwise``."""
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total, otherwise)


class RejectionGraph:
    """``accept_children`` on the logits of a tree as a CUDA graph of fixed size; on the CPU as a plain call.

    Args:
        logits: example of the device, dtype and vocabulary size.
        q: example of the dtype of draft distributions.
        nodes: maximum number of nodes.
        width: maximum number of children per node.
        rows: maximum number of draft distributions.
        kind: sampling operations of the target; their parameters are inputs.
        replacement: see ``accept_children``.
    """

    def __init__(
        self,
        logits: torch.Tensor,
        q: torch.Tensor,
        nodes: int,
        width: int,
        rows: int,
        kind: sampler.SamplingOperations,
        replacement: bool,
    ) -> None:
        self.kind, self.replacement, device, shape = kind, replacement, logits.device, (nodes, width)
        self._logits = torch.zeros(nodes, logits.shape[1], dtype=logits.dtype, device=device)
        self._q = torch.zeros(rows, logits.shape[1], dtype=q.dtype, device=device)  # 0 for tokens outside the draft vocabulary
        int64, float64 = torch.int64, torch.float64
        fields = (shape, int64), (shape, int64), (shape, float64), ((nodes,), int64), sampler.PARAMETERS
        self._inputs = InputBuffer(device, *fields)
        *node_inputs, self._host_parameters = self._inputs.host
        self._host_parameters[:] = 1.0
        self._host = NodeInputs(*node_inputs)
        self._results = torch.zeros(2, nodes, dtype=torch.int64, device=device)
        self._host_results = host_buffer(self._results)
        self._replay = Replay(self._body, device)

    def run(self, logits: torch.Tensor, q: torch.Tensor, inputs: NodeInputs, settings: SamplingSettings) -> np.ndarray:
        """The two results of ``accept_children``, int64 ``[2, n]``."""
        self._host_parameters[:] = sampler.parameters(settings)
        n, width = inputs.tokens.shape
        self._logits[:n].copy_(logits)
        self._q[: len(q), : q.shape[1]].copy_(q)
        self._host.tokens[:] = self._host.rows[:] = -1
        self._host.tokens[:n, :width], self._host.rows[:n, :width] = inputs.tokens, inputs.rows
        self._host.uniforms[:n, :width] = inputs.uniforms
        self._host.keys[:n] = inputs.keys
        self._replay()
        return self._host_results.numpy()[:, :n].copy()

    def _body(self) -> None:
        self._inputs.send()
        tokens, rows, uniforms, keys, values = self._inputs.device
        p = sampler.distribution(self._logits, self.kind, values)
        results = accept_children(p, self._q, tokens, rows, uniforms, keys, self.replacement)
        self._results.copy_(torch.stack(results))
        self._host_results.copy_(self._results, non_blocking=True)


def graph_for(
    graphs: Graphs, logits: torch.Tensor, q: torch.Tensor, nodes: int, width: int, settings: SamplingSettings, replacement: bool
) -> RejectionGraph:
    """The cached graph for this size. Seeds and sampling parameters are inputs, so runs with other values share it."""
    sizes, kind = (node_bucket(nodes), max(1, width), node_bucket(len(q))), sampler.operations(settings)
    key = (logits.dtype, *logits.shape[1:], *q.shape[1:], *sizes, kind, replacement)
    return recent(graphs, key, lambda: RejectionGraph(logits, q, *sizes, kind, replacement), MAX_GRAPHS)

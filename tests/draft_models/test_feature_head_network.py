"""Heads of EAGLE and MTP: cached passes equal a recomputation, siblings do not see each other, training unrolls these steps."""

import numpy as np
import pytest
import torch
from fakes import VOCAB, tiny_target
from feature_head_fakes import random_head

from aded.draft_models import feature_tree
from aded.draft_models.feature_head_network import NEW, HeadNetwork
from aded.train.dataset import Batch, Text
from aded.train.eagle import EagleObjective, MtpObjective


def recomputed(head, embedding, states, tokens, ancestors, positions):
    """Outputs and logits of all positions at once, from the definition: no cache, one position's attention at a time.

    Args:
        states: fused features, or for a drafted position the output at its parent, ``[n, hidden]``.
        ancestors: indices that each position attends to.
    """
    g = head.geometry
    residual, inputs = head.enter(states, embedding(tokens))
    q = head.rotate(head.queries(inputs), head.angles(positions))
    k, v = head.keys_values(inputs)
    k = head.rotate(k, head.angles(positions))
    rows = []
    for row, seen in enumerate(ancestors):
        parts = []
        for h in range(g.heads):
            kv = h // (g.heads // g.kv_heads)
            weights = (k[seen, kv] @ q[row, h] * g.head_dim**-0.5).softmax(0)
            parts.append(weights @ v[seen, kv])
        rows.append(torch.cat(parts))
    states = head.finish(residual, torch.stack(rows))
    return states, head.logits(states)


def text(target, head, count):
    """Random tokens, and the target's features at each."""
    ids = torch.randint(3, VOCAB, (count,), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        states = target.model(input_ids=ids[None], output_hidden_states=True).hidden_states
    return ids, torch.cat([states[layer][0] for layer in head.geometry.hidden_layers], dim=-1)


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(params=["eagle", "mtp"])
def network(request, target):
    return HeadNetwork(random_head(target, request.param), target.model.get_input_embeddings())


@torch.inference_mode()
@pytest.mark.parametrize("parts", [(20,), (7, 1, 3, 9), (1,) * 20])
def test_states_read_in_parts_equal_a_full_recomputation(parts, target, network):
    ids, features = text(target, network.head, 21)
    found, start = [], 0
    for part in parts:
        children = network.read(features[start : start + part], ids[start + 1 : start + part + 1].tolist())
        found.append(network.logits.clone())
        last = network.outputs[0].clone()
        assert children.tokens.tolist() == [network.head.tokens[network.logits[-1].topk(10).indices].tolist()]
        assert np.allclose(children.probabilities, network.logits[-1].softmax(-1).topk(10).values, atol=1e-5)
        start += part
        network.draft(ids[:1].numpy(), np.array([-1]))  # the next read drops it
    head = network.head
    causal = [list(range(row + 1)) for row in range(20)]
    states, logits = recomputed(head, network.embedding, head.fuse(features[:20]), ids[1:], causal, torch.arange(20))
    assert torch.allclose(last, states[-1], atol=1e-4)
    assert torch.allclose(torch.cat(found), logits, atol=1e-4)


@torch.inference_mode()
def test_a_long_prompt_is_read_in_chunks(target, network):
    ids, features = text(target, network.head, 200)
    ids, features = ids.repeat(2), features.repeat(2, 1)
    count = len(ids) - 1
    assert count > NEW
    network.read(features[:-1], ids[1:].tolist())
    causal = [list(range(row + 1)) for row in range(count)]
    head = network.head
    states, _ = recomputed(head, network.embedding, head.fuse(features[:-1]), ids[1:], causal, torch.arange(count))
    assert torch.allclose(network.outputs[0], states[-1], atol=1e-4)
    assert network.length == count


@torch.inference_mode()
def test_drafted_nodes_see_the_text_and_their_ancestors_only(target, network):
    """Each node's output equals that of its path alone; the output with visible siblings would differ."""
    ids, features = text(target, network.head, 10)
    network.read(features[:9], ids[1:].tolist())
    fused = network.head.fuse(features[:9])
    parents, tokens = np.array([-1, -1, 0, 0, 1, 4]), np.array([5, 9, 11, 12, 40, 41])
    found = []
    for level in (slice(0, 2), slice(2, 5), slice(5, 6)):
        network.draft(tokens[level], parents[level])
        found.append(network.logits.clone())
    inputs = network.outputs[parents + 1]
    states = torch.cat([fused, inputs])
    ancestors = [list(range(row + 1)) for row in range(9)]
    depths = []
    for node, parent in enumerate(parents.tolist()):
        above = ancestors[8] if parent < 0 else ancestors[9 + parent]
        depths.append(0 if parent < 0 else depths[parent] + 1)
        ancestors.append([*above, 9 + node])
    positions = torch.cat([torch.arange(9), 9 + torch.tensor(depths)])
    arguments = (network.head, network.embedding, states, torch.cat([ids[1:], torch.from_numpy(tokens)]))
    expected = recomputed(*arguments, ancestors, positions)[1][9:]
    assert torch.allclose(torch.cat(found), expected, atol=1e-4)
    everything = [*ancestors[:9], *(list(range(9 + row + 1)) for row in range(6))]
    assert not torch.allclose(expected, recomputed(*arguments, everything, positions)[1][9:], atol=1e-2)


@torch.inference_mode()
def test_the_beam_search_finds_the_best_paths(target, network):
    """Compared with a search over all paths of two levels, each drafted alone."""
    ids, features = text(target, network.head, 8)
    children, head = network.read(features[:7], ids[1:].tolist()), network.head
    first = network.logits[-1].softmax(-1).clone()
    tree = feature_tree.beam_search(network, children, int(ids[-1]), VOCAB, 2).best(12)
    paths = {}
    for one in first.topk(8).indices.tolist():
        paths[int(head.tokens[one]),] = float(first[one])
        network._parents = []
        network.draft(head.tokens[[one]].numpy(), np.array([-1]))
        second = network.logits[0].softmax(-1)
        for two in second.topk(8).indices.tolist():
            paths[int(head.tokens[one]), int(head.tokens[two])] = float(first[one] * second[two])
    best = sorted(paths, key=paths.__getitem__, reverse=True)[:11]
    assert {tuple(tree.tokens[tree.path_to(node)[1:]].tolist()) for node in range(1, 12)} == set(best)
    cumulative = [np.prod([tree.columns["prior"][n] for n in tree.path_to(node)[1:]]) for node in range(1, 12)]
    assert cumulative == pytest.approx([paths[tuple(tree.tokens[tree.path_to(n)[1:]].tolist())] for n in range(1, 12)], rel=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(("kind", "features"), [("eagle", "three"), ("eagle", "last"), ("mtp", "last")])
def test_training_unrolls_the_steps_that_are_drafted(kind, features, target):
    """At every position, the outputs of the unrolled steps equal those of reading the text and drafting along it."""
    rng = np.random.default_rng(0)
    rows = Text(rng.integers(3, VOCAB, (3, 14)), rng.random((3, 14)) < 0.7)
    trained = {"eagle": EagleObjective, "mtp": MtpObjective}[kind]
    objective, head = trained(target, Text.plain(np.arange(VOCAB)), 60, features, steps=4), random_head(target, kind, features)
    objective.trained.load_state_dict(head.state_dict())
    batch = Batch.of(rows)
    unrolled = objective._unroll(batch)
    network = HeadNetwork(head, target.model.get_input_embeddings())
    states = target.model(input_ids=batch.ids, output_hidden_states=True).hidden_states
    read = torch.cat([states[layer] for layer in head.geometry.hidden_layers], dim=-1)
    checked = 0
    for index, position in enumerate(batch.positions.tolist()):
        row, column = divmod(position, 14)
        network.start()
        network.read(read[row, : column + 1], batch.ids[row, 1 : column + 2].tolist())
        for step in range(4):
            if unrolled.in_text[step, index]:
                assert torch.allclose(unrolled.outputs[step, index], network.outputs[step], atol=1e-4)
                assert torch.equal(unrolled.teacher_states[step, index], states[-1][row, column + 1 + step])
                checked += 1
            if column + 2 + step >= 14:
                break
            network.draft(batch.ids[row, column + 2 + step].reshape(1).numpy(), np.array([step - 1]))
    assert checked > 30

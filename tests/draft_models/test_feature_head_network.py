"""Heads of EAGLE, MTP and GliDe: forward passes equal a recomputation, siblings do not attend to each other,
training unrolls these steps."""

import numpy as np
import pytest
import torch
from fakes import VOCAB, tiny_target
from feature_head_fakes import OBJECTIVES, last_layer, random_head

from aded.draft_models import feature_tree
from aded.draft_models.feature_head_network import NEW, HeadNetwork
from aded.engine.target_view import LayerKeysValues
from aded.train.dataset import Batch, Text


def recomputed(head, embedding, states, tokens, ancestors, positions, target=None, verified=()):
    """Outputs and logits of all positions at once, from the definition: no cache, one position's attention at a time.

    Args:
        states: fused features, or for a drafted position the output at its parent, ``[n, hidden]``.
        ancestors: indices that each position attends to.
        target, verified: for GliDe, the target's keys and values and how many of them each position attends to.
    """
    g = head.geometry
    residual, inputs = head.enter(states, embedding(tokens))
    q = head.rotate(head.queries(inputs), head.angles(positions))
    k, v = head.keys_values(inputs)
    k = head.rotate(k, head.angles(positions))

    def attended(q, k, v, ancestors):
        rows = []
        for row, seen in enumerate(ancestors):
            parts = []
            for h in range(g.heads):
                kv = h // (g.heads // g.kv_heads)
                weights = (k[seen, kv] @ q[row, h] * g.head_dim**-0.5).softmax(0)
                parts.append(weights @ v[seen, kv])
            rows.append(torch.cat(parts))
        return torch.stack(rows)

    def attend_to_target(q):
        q, (k, v) = head.rotate(q, head.angles(positions + 1)), target
        return attended(q, k.transpose(0, 1), v.transpose(0, 1), [list(range(count)) for count in verified])

    states = head.finish(residual, attended(q, k, v, ancestors), attend_to_target)
    return states, head.logits(states)


def text(target, head, count):
    """Random tokens, and the target's features at each."""
    ids = torch.randint(3, VOCAB, (count,), generator=torch.Generator().manual_seed(0))
    return ids, features_of(target, head, ids[None])[0]


@torch.inference_mode()
def features_of(target, head, ids):
    states = target.model(input_ids=ids, output_hidden_states=True).hidden_states
    return torch.cat([states[0][..., :0], *(states[layer] for layer in head.geometry.hidden_layers)], dim=-1)


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(params=["eagle", "mtp", "glide"])
def network(request, target):
    return HeadNetwork(random_head(target, request.param), target.model.get_input_embeddings())


@torch.inference_mode()
@pytest.mark.parametrize("parts", [(20,), (7, 1, 3, 9), (1,) * 20])
def test_states_read_in_parts_equal_a_full_recomputation(parts, target, network):
    ids, features = text(target, network.head, 21)
    found, start, verified, kv = [], 0, [], last_layer(target, ids)
    network.start(kv)
    for part in parts:
        verified += [start + part] * part
        children = network.read(features[start : start + part], ids[start + 1 : start + part + 1].tolist())
        found.append(network.logits.clone())
        last = network.outputs[0].clone()
        assert children.tokens.tolist() == [network.head.tokens[network.logits[-1].topk(10).indices].tolist()]
        assert np.allclose(children.probabilities, network.logits[-1].softmax(-1).topk(10).values, atol=1e-5)
        start += part
        network.draft(ids[:1].numpy(), np.array([-1]))  # the next read drops it
    head = network.head
    causal = [list(range(row + 1)) for row in range(20)]
    fused, positions = head.fuse(features[:20]), torch.arange(20)
    states, logits = recomputed(head, network.embedding, fused, ids[1:], causal, positions, kv, verified)
    assert torch.allclose(last, states[-1], atol=1e-4)
    assert torch.allclose(torch.cat(found), logits, atol=1e-4)


@torch.inference_mode()
def test_a_long_prompt_is_read_in_chunks(target, network):
    ids, features = text(target, network.head, 200)
    ids, features = ids.repeat(2), features.repeat(2, 1)
    count, kv = len(ids) - 1, last_layer(target, ids)
    assert count > NEW
    network.start(kv)
    network.read(features[:-1], ids[1:].tolist())
    causal = [list(range(row + 1)) for row in range(count)]
    head = network.head
    fused, verified = head.fuse(features[:-1]), [count] * count
    states, _ = recomputed(head, network.embedding, fused, ids[1:], causal, torch.arange(count), kv, verified)
    assert torch.allclose(network.outputs[0], states[-1], atol=1e-4)
    assert network.length == count


@torch.inference_mode()
def test_drafted_nodes_see_the_text_and_their_ancestors_only(target, network):
    """Each node's output equals that of its path alone; the output with visible siblings would differ."""
    ids, features = text(target, network.head, 10)
    kv = last_layer(target, ids)
    network.start(kv)
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
    target_slots = kv, [9] * 15
    expected = recomputed(*arguments, ancestors, positions, *target_slots)[1][9:]
    assert torch.allclose(torch.cat(found), expected, atol=1e-4)
    everything = [*ancestors[:9], *(list(range(9 + row + 1)) for row in range(6))]
    assert not torch.allclose(expected, recomputed(*arguments, everything, positions, *target_slots)[1][9:], atol=1e-2)


@torch.inference_mode()
def test_the_beam_search_finds_the_best_paths(target, network):
    """Compared with a search over all paths of two levels, each drafted alone."""
    ids, features = text(target, network.head, 8)
    network.start(last_layer(target, ids))
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
@pytest.mark.parametrize(("kind", "features"), [("eagle", "three"), ("eagle", "last"), ("mtp", "last"), ("glide", "none")])
def test_training_unrolls_the_steps_that_are_drafted(kind, features, target):
    """At every position, the outputs of the unrolled steps equal those of reading the text and drafting along it."""
    rng = np.random.default_rng(0)
    rows = Text(rng.integers(3, VOCAB, (3, 14)), rng.random((3, 14)) < 0.7)
    objective = OBJECTIVES[kind](target, Text.plain(np.arange(VOCAB)), 60, features, steps=4)
    head = random_head(target, kind, features)
    objective.trained.load_state_dict(head.state_dict())
    batch = Batch.of(rows)
    unrolled = objective._unroll(batch)
    network = HeadNetwork(head, target.model.get_input_embeddings())
    states = target.model(input_ids=batch.ids, output_hidden_states=True).hidden_states
    read = features_of(target, head, batch.ids)
    checked = 0
    for index, position in enumerate(batch.positions.tolist()):
        row, column = divmod(position, 14)
        network.start(last_layer(target, batch.ids[row]))
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


@torch.inference_mode()
def test_attention_to_the_target_is_read_without_changing_the_draft(target):
    """The weights are those with which the tokens were drafted, and the same tokens are drafted again."""
    network = HeadNetwork(random_head(target, "glide"), target.model.get_input_embeddings())
    ids, features = text(target, network.head, 12)
    kv = last_layer(target, ids)
    network.start(kv)
    first = network.read(features[:-1], ids[1:].tolist())
    chain = [int(first.tokens[0, 0])]
    second = network.draft(np.array(chain), np.array([-1]))
    chain.append(int(second.tokens[0, 0]))
    keys = network.keys.clone()
    weights = network.attention_to_target(int(ids[-1]), chain)
    assert weights.shape == (2, 11)
    assert weights.sum(1) == pytest.approx([1, 1])
    assert torch.equal(network.keys, keys)
    far = LayerKeysValues(kv.keys.clone(), kv.values)
    far.keys[:, int(weights[1].argmin())] = 0
    network.start(far)
    network.read(features[:-1], ids[1:].tolist())
    assert not np.allclose(network.attention_to_target(int(ids[-1]), chain), weights, atol=1e-6)

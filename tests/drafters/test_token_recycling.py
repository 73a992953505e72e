"""Token recycling: the static tree compared with brute force, the matrix with manual results, output with plain decoding."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import VOCAB, alone, tiny_target

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.token_recycling import ACCEPTED, RANKS, TEMPLATE, TokenRecyclingDrafter, corpus_successors, template
from aded.ngram.trigram import TrigramMatrix


def context_of(*tokens: int) -> Context:
    return Context(np.array(tokens, dtype=np.int32), len(tokens))


def observe(drafter: TokenRecyclingDrafter, tree: DraftTree, answers: list[list[int]], path: list[int]) -> None:
    top = np.array(answers, dtype=np.int32)
    drafter.observe(Outcome(tree, np.array(path), context_of(int(tree.tokens[0])), np.array([1]), top, top * 0.1))


def test_every_prefix_of_the_static_tree_is_the_best_of_its_size() -> None:
    parents, ranks = template()
    worth = np.ones(TEMPLATE)
    for node in range(1, TEMPLATE):
        worth[node] = worth[parents[node]] * ACCEPTED[ranks[node]]
    assert (np.diff(worth[1:]) <= 1e-12).all()
    level, everything = [1.0], []
    for _ in range(12):  # all products of ranks, by depth
        level = [w * share for w in level for share in ACCEPTED if w * share >= worth[-1]]
        everything += level
    assert np.allclose(np.sort(everything)[::-1][: TEMPLATE - 1], worth[1:])
    assert len({(p, r) for p, r in zip(parents.tolist(), ranks.tolist())}) == TEMPLATE


def test_the_target_s_top_k_of_every_node_is_kept_and_drafted() -> None:
    drafter = TokenRecyclingDrafter(VOCAB)
    drafter.start([5])
    assert drafter.propose(context_of(5), 64).drafted == 0
    assert drafter.explain(context_of(5), 64).note is not None
    rows = {5: range(10, 18), 10: range(20, 28), 11: range(30, 38)}
    observe(drafter, DraftTree(np.array([5, 10, 11]), np.array([-1, 0, 0])), [list(row) for row in rows.values()], [0])
    tree = drafter.propose(context_of(5), 64)
    paths = {tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(1, len(tree))}
    known = {(5, a) for a in rows[5]} | {(5, 10, b) for b in rows[10]} | {(5, 11, b) for b in rows[11]}
    assert paths == known
    assert drafter.explain(context_of(5), 64).note is None
    prior = {tuple(tree.tokens[tree.path_to(n)].tolist()): tree.columns["prior"][n] for n in range(1, len(tree))}
    assert prior[5, 11, 32] == ACCEPTED[2]
    assert drafter.propose(context_of(5), 4).tokens.tolist() == [5, 10, 20, 11][:4]


def test_the_target_s_top_k_of_the_accepted_path_has_priority() -> None:
    drafter = TokenRecyclingDrafter(VOCAB)
    tree = DraftTree(np.array([5, 7, 7]), np.array([-1, 0, 1]))
    observe(drafter, tree, [[1] * RANKS, [2] * RANKS, [3] * RANKS], [0, 1])
    assert drafter.propose(context_of(7), 2).tokens.tolist() == [7, 2]
    observe(drafter, tree, [[1] * RANKS, [2] * RANKS, [3] * RANKS], [0])
    assert drafter.propose(context_of(7), 2).tokens.tolist() == [7, 3]


@pytest.mark.parametrize("keep", [False, True])
def test_a_new_decode_starts_empty_unless_keep_is_set(keep: bool) -> None:
    drafter = TokenRecyclingDrafter(VOCAB, keep=keep)
    drafter.start([5])
    observe(drafter, DraftTree.root_only(5), [[1, 2, 3, 4, 6, 7, 8, 9]], [0])
    drafter.start([5])
    assert (drafter.propose(context_of(5), 64).drafted > 0) == keep
    assert TokenRecyclingDrafter(VOCAB).propose(context_of(5), 64).drafted == 0, "another session knows nothing of it"


def test_every_decode_starts_with_the_counts_of_the_corpus() -> None:
    ids = np.array([1, 2, 1, 2, 1, 3, 2, 5, 0])
    matrix = TrigramMatrix.build(ids, separator=0, vocab_size=VOCAB, fingerprint="f")
    table = corpus_successors(matrix)
    assert table[1].tolist() == [2, 3] + [-1] * 6
    assert table[2].tolist() == [1, 5] + [-1] * 6
    assert (table[0] == -1).all() and (table[6] == -1).all()
    drafter = TokenRecyclingDrafter(VOCAB, table)
    observe(drafter, DraftTree.root_only(1), [[9] * RANKS], [0])
    drafter.start([1])
    assert drafter.propose(context_of(1), 2).tokens.tolist() == [1, 2]


def test_successors_in_the_prompt_are_drafted_before_others_the_latest_first() -> None:
    drafter = TokenRecyclingDrafter(VOCAB, np.tile(np.arange(20, 20 + RANKS, dtype=np.int32), (VOCAB, 1)))
    drafter.start([5, 6, 5, 7, 5, 22, 5, 6])
    tree = drafter.propose(context_of(5), 256)
    assert tree.tokens[tree.parents == 0].tolist() == [6, 22, 7, 20, 21, 23, 24, 25]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8, "top_p": 0.95, "seed": 5}], ids=["greedy", "sampled"])
def test_the_text_equals_plain_decoding_and_drafts_are_accepted(settings: dict) -> None:
    from aded.sampling.logits_pipeline import Rule

    target, prompt = tiny_target(), [5, 17, 40, 8]
    truth = alone(target, prompt, 60, Rule(GenerationSettings(**settings).sampling))
    record = Decoder(target, "token-recycling", GenerationSettings(max_new_tokens=60, budget=64, **settings)).run(prompt)
    assert record.token_ids == truth
    if not settings:
        assert len(record.steps) < len(truth)


def test_keep_is_true_or_false() -> None:
    with pytest.raises(AdedError, match="true or false"):
        TokenRecyclingDrafter(VOCAB, keep="yes")  # type: ignore[arg-type]

"""`AdedDrafter` in the decoding loop."""

from __future__ import annotations

import json
import tracemalloc
from time import perf_counter

import numpy as np
import pytest
from conftest import ROOT

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.data.records import read_records
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.aded import MAX_ROWS, NO_SUCCESSOR, AdedDrafter
from aded.evaluation.replay import Report, replay
from aded.ngram.session_counts import OBSERVED_TOP_K
from aded.ngram.trigram import TrigramMatrix

VOCAB = 60
PRESETS = [AdedOptions.tuned(), AdedOptions.paper()]
EVERY = [*PRESETS, *(AdedOptions(search=name) for name in ("best-first", "greedy", "full"))]
RECORDS = ROOT.parent / "shared" / "data" / "recorded_greedy.jsonl"
MATRIX = ROOT / "assets" / "smollm2-135m-instruct.trigram.safetensors"


def text(seed: int, length: int) -> np.ndarray:
    return np.minimum(np.random.default_rng(seed).geometric(0.1, length) - 1, VOCAB - 1).astype(np.int32)


@pytest.fixture(scope="module")
def matrix() -> TrigramMatrix:
    return TrigramMatrix.build(text(0, 5000), separator=0, vocab_size=VOCAB, fingerprint="abc")


def context_of(tokens: list[int] | np.ndarray) -> Context:
    return Context(np.array(tokens, dtype=np.int32), len(tokens))


def outcome_of(drafter: AdedDrafter, context: Context, emitted: list[int]) -> Outcome:
    return Outcome(drafter.propose(context, 8), np.array([0], dtype=np.int32), context, np.array(emitted, dtype=np.int32))


@pytest.mark.parametrize("options", EVERY, ids=str)
@pytest.mark.parametrize("budget", [1, 2, 3, 16, 64, 256])
@pytest.mark.parametrize("length", [1, 2, 40])
def test_drafts_start_at_the_root_and_keep_the_budget(
    matrix: TrigramMatrix, options: AdedOptions, budget: int, length: int
) -> None:
    drafter, tokens = AdedDrafter(matrix, VOCAB, options), text(1, length)
    drafter.start(tokens.tolist())
    tree = drafter.propose(context_of(tokens), budget)
    assert tree.tokens[0] == tokens[-1]
    assert 1 <= len(tree) <= budget
    assert ((tree.tokens >= 0) & (tree.tokens < VOCAB)).all()
    drafter.observe(Outcome(tree, np.array([0]), context_of(tokens), text(2, 3)))
    drafter.explain(context_of(tokens), budget)


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_equal_drafters_make_equal_drafts_and_a_seed_reproduces_them(matrix: TrigramMatrix, options: AdedOptions) -> None:
    drafters = [AdedDrafter(matrix, VOCAB, options, seed=5) for _ in range(2)]
    tokens = text(3, 200)
    trees = []
    for drafter in drafters:
        drafter.start(text(9, 50).tolist())  # an earlier decode has no effect
        drafter.start(tokens[:100].tolist())
        drafter.observe(outcome_of(drafter, context_of(tokens[:100]), tokens[100:104].tolist()))
        trees.append(drafter.propose(context_of(tokens[:104]), 64))
    assert trees[0].tokens.tolist() == trees[1].tokens.tolist()
    for name, column in trees[0].columns.items():
        np.testing.assert_array_equal(column, trees[1].columns[name])


@pytest.mark.parametrize("options", PRESETS, ids=str)
def test_without_a_base_the_session_s_own_text_is_drafted(options: AdedOptions) -> None:
    drafter = AdedDrafter(None, VOCAB, options)
    drafter.start([5, 6, 7, 8, 9, 5, 6])
    tree = drafter.propose(context_of([5, 6, 7, 8, 9, 5, 6]), 64)
    assert {7, 8, 9} <= set(tree.tokens[1:].tolist())


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_without_successors_nothing_is_drafted_and_the_reason_is_given(options: AdedOptions) -> None:
    drafter, context = AdedDrafter(None, VOCAB, options), context_of([4, 5])
    drafter.start([4, 5])
    assert len(drafter.propose(context, 64)) == 1
    explanation = drafter.explain(context, 64)
    assert explanation.note == NO_SUCCESSOR
    assert not explanation.simulations


@pytest.mark.parametrize("options", PRESETS, ids=str)
def test_each_new_trigram_is_counted_once(matrix: TrigramMatrix, options: AdedOptions) -> None:
    """Drafting step by step gives the same session counts as observing the whole text at once."""
    tokens = text(4, 120)
    stepwise, once = (AdedDrafter(matrix, VOCAB, options) for _ in range(2))
    stepwise.start(tokens[:16].tolist())
    for at in range(16, 120, 4):
        stepwise.observe(outcome_of(stepwise, context_of(tokens[:at]), tokens[at : at + 4].tolist()))
    once.start(tokens[:16].tolist())
    once.observe(outcome_of(once, context_of(tokens[:16]), tokens[16:].tolist()))
    for end in range(3, 120):
        trees = [d.propose(context_of(tokens[:end]), 32) for d in (stepwise, once)]
        np.testing.assert_array_equal(trees[0].columns["prior"], trees[1].columns["prior"])
        np.testing.assert_array_equal(trees[0].tokens, trees[1].tokens)


def test_the_published_update_adds_four_hundredths_per_occurrence(matrix: TrigramMatrix) -> None:
    drafter, context = AdedDrafter(matrix, VOCAB, AdedOptions.paper()), context_of([1, 2])
    drafter.start([1, 2])
    outcome = outcome_of(drafter, context, [50])
    before = {t: p for row in drafter.matrix_rows(outcome) for t, p in zip(row.tokens, row.probabilities)}
    drafter.observe(outcome)
    (after,) = drafter.matrix_rows(outcome)
    assert after.key == (1, 2)
    assert dict(zip(after.tokens, after.probabilities))[50] == pytest.approx(before.get(50, 0.0) + 0.04, abs=1e-6)


def test_rows_show_the_changes_of_observe(matrix: TrigramMatrix) -> None:
    drafter, context = AdedDrafter(matrix, VOCAB), context_of([1, 2, 3])
    drafter.start([1, 2, 3])
    outcome = outcome_of(drafter, context, [44, 55])
    before = drafter.matrix_rows(outcome)
    assert drafter.matrix_rows(outcome) == before
    drafter.observe(outcome)
    after = drafter.matrix_rows(outcome)
    assert [row.key for row in after] == [row.key for row in before] == [(2, 3), (3, 44)]
    for row, token in zip(after, (44, 55)):
        assert token in row.tokens
        assert list(row.probabilities) == sorted(row.probabilities, reverse=True)
    assert before[0] != after[0]


def observed(
    context: Context, tree: DraftTree, path: list[int], emitted: list[int], answers: dict[int, dict[int, float]]
) -> Outcome:
    """An outcome with the target's top-k at some nodes: token to probability, most probable first."""
    tokens, probabilities = np.zeros((len(tree), OBSERVED_TOP_K), np.int32), np.zeros((len(tree), OBSERVED_TOP_K), np.float32)
    for node, answer in answers.items():
        tokens[node, : len(answer)], probabilities[node, : len(answer)] = list(answer), list(answer.values())
    return Outcome(tree, np.array(path, np.int32), context, np.array(emitted, np.int32), tokens, probabilities)


def test_the_target_s_top_k_at_a_rejected_node_is_drafted_when_its_bigram_occurs_again() -> None:
    drafter, context = AdedDrafter(None, VOCAB), context_of([1, 2, 3])
    drafter.start(context.tokens.tolist())
    tree = DraftTree(np.array([3, 10, 11]), np.array([-1, 0, 1]))  # 10 and 11 are rejected: the correction token is 20
    outcome = observed(context, tree, [0], [20], {0: {20: 0.9}, 1: {12: 0.5}, 2: {41: 0.8, 42: 0.1}})
    assert not {41, 42} & {t for row in drafter.matrix_rows(outcome) for t in row.tokens}
    drafter.observe(outcome)
    rows = {row.key: row for row in drafter.matrix_rows(outcome)}
    assert rows[10, 11].tokens == (41, 42)
    later = context_of([1, 2, 3, 20, 30, 10, 11])
    drafter.observe(Outcome(DraftTree.root_only(20), np.array([0]), context_of([1, 2, 3, 20]), np.array([30, 10, 11])))
    tree = drafter.propose(later, 3)
    assert tree.tokens.tolist() == [11, 41, 42]
    assert tree.parents.tolist() == [-1, 0, 0]


def test_rows_of_accepted_nodes_come_first_and_their_number_is_limited(matrix: TrigramMatrix) -> None:
    drafter, context = AdedDrafter(matrix, VOCAB), context_of(text(1, 40))
    drafter.start(context.tokens.tolist())
    tree = drafter.propose(context, 64)
    child = int(np.flatnonzero(tree.parents == 0)[-1])
    accepted = [int(tree.tokens[child]), 7]
    rows = drafter.matrix_rows(observed(context, tree, [0, child], accepted, {0: {1: 0.5}}))
    root, before = int(context.tokens[-1]), int(context.tokens[-2])
    assert [row.key for row in rows[:2]] == [(before, root), (root, accepted[0])]
    assert len(tree) > len(rows) == MAX_ROWS
    assert len({row.key for row in rows}) == len(rows)


def test_the_target_s_top_k_is_requested_only_during_decoding_and_only_if_it_is_learned(matrix: TrigramMatrix) -> None:
    for options, asked in ((AdedOptions.tuned(), OBSERVED_TOP_K), (AdedOptions(feedback=False), 0), (AdedOptions.paper(), 0)):
        drafter = AdedDrafter(matrix, VOCAB, options)
        drafter.start([1, 2, 3])
        assert drafter.needs.top_k == asked


@pytest.mark.parametrize("options", [AdedOptions.paper(), AdedOptions(feedback=False)], ids=str)
def test_a_top_k_of_the_target_that_is_not_learned_changes_nothing(matrix: TrigramMatrix, options: AdedOptions) -> None:
    trees = []
    for answers in ({}, {0: {50: 0.9, 51: 0.1}}):
        drafter, context = AdedDrafter(matrix, VOCAB, options), context_of(text(1, 40))
        drafter.start(context.tokens.tolist())
        drafter.observe(observed(context, drafter.propose(context, 16), [0], [4], answers))
        trees.append(drafter.propose(context_of([*context.tokens, 4]), 32))
    assert trees[0].tokens.tolist() == trees[1].tokens.tolist()


def test_a_top_k_of_the_target_outside_the_vocabulary_is_refused(matrix: TrigramMatrix) -> None:
    drafter, context = AdedDrafter(matrix, VOCAB), context_of([1, 2, 3])
    drafter.start([1, 2, 3])
    with pytest.raises(AdedError, match="tokenize"):
        drafter.observe(observed(context, DraftTree.root_only(3), [0], [4], {0: {VOCAB: 0.5}}))


def test_sessions_never_share_tokens(matrix: TrigramMatrix) -> None:
    """Two interleaved decodes make the same drafts as each alone."""
    alone = [AdedDrafter(matrix, VOCAB) for _ in range(2)]
    beside = [AdedDrafter(matrix, VOCAB) for _ in range(2)]
    texts = [text(seed, 120) for seed in (21, 22)]

    def step(drafter: AdedDrafter, tokens: np.ndarray, at: int) -> list[int]:
        context = context_of(tokens[:at])
        tree = drafter.propose(context, 16)
        answers = {node: {(at + node) % VOCAB: 0.9} for node in range(len(tree))}
        drafter.observe(observed(context, tree, [0], tokens[at : at + 4].tolist(), answers))
        return tree.tokens.tolist()

    expected = []
    for drafter, tokens in zip(alone, texts):
        drafter.start(tokens[:20].tolist())
        expected.append([step(drafter, tokens, at) for at in range(20, 120, 4)])
    for drafter, tokens in zip(beside, texts):
        drafter.start(tokens[:20].tolist())
    found = [[step(drafter, tokens, at) for drafter, tokens in zip(beside, texts)] for at in range(20, 120, 4)]
    assert [list(trees) for trees in zip(*found)] == expected
    beside[0].start(texts[1][:20].tolist())  # and a new decode starts without the counts of the last one
    assert [step(beside[0], texts[1], at) for at in range(20, 120, 4)] == expected[1]


def soak(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and traced bytes of each step of a long decode."""
    rng, drafter = np.random.default_rng(0), AdedDrafter(None, 5000)
    text = rng.integers(0, 5000, 64).astype(np.int32)
    drafter.start(text.tolist())
    seconds, sizes = np.zeros(steps), np.zeros(steps, np.int64)
    tracemalloc.start()
    for step in range(steps):
        context = Context(text, len(text))
        before = perf_counter()
        tree = drafter.propose(context, 32)
        emitted = rng.integers(0, 5000, 2).astype(np.int32)
        tokens = rng.integers(0, 5000, (len(tree), OBSERVED_TOP_K)).astype(np.int32)
        probabilities = np.tile(np.array([0.5, 0.3, 0.1, 0.05, 0.02, 0.01, 0.01, 0.01], np.float32), (len(tree), 1))
        drafter.observe(Outcome(tree, np.array([0]), context, emitted, tokens, probabilities))
        seconds[step] = perf_counter() - before
        sizes[step] = tracemalloc.get_traced_memory()[0]
        text = np.concatenate([text, emitted])[-64:]
    tracemalloc.stop()
    return seconds, sizes


def grows(sizes: np.ndarray) -> bool:
    """Whether the last fifth needs more memory than the second one."""
    fifth = len(sizes) // 5
    return sizes[-fifth:].max() > sizes[fifth : 2 * fifth].max() + 100_000


def test_a_long_decode_needs_no_more_memory_at_its_end() -> None:
    assert not grows(soak(5000)[1])


@pytest.mark.long
@pytest.mark.timing
def test_a_hundred_thousand_steps_cost_no_more_at_their_end() -> None:
    seconds, sizes = soak(100_000)
    fifth = len(seconds) // 5
    assert np.median(seconds[-fifth:]) < 2 * np.median(seconds[fifth : 2 * fifth])
    assert not grows(sizes)


@pytest.mark.parametrize("options", PRESETS, ids=str)
def test_the_explanation_contains_the_search(matrix: TrigramMatrix, options: AdedOptions) -> None:
    drafter, tokens = AdedDrafter(matrix, VOCAB, options), text(6, 60)
    drafter.start(tokens.tolist())
    tree = drafter.propose(context_of(tokens), 32)
    record = drafter.explain(context_of(tokens), 32).simulations
    again = drafter.propose(context_of(tokens), 32)
    np.testing.assert_array_equal(tree.columns["visits"], again.columns["visits"])
    assert len(record) == tree.columns["visits"][0]
    assert all(s.selected[0] == 0 and s.expanded == s.selected[-1] for s in record)
    assert all(-1 <= node < len(tree) for s in record for node in s.selected)
    through = np.bincount([n for s in record for n in s.selected if n >= 0], minlength=len(tree))
    assert (through <= tree.columns["visits"]).all()


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_settings_are_json(matrix: TrigramMatrix, options: AdedOptions) -> None:
    drafter = AdedDrafter(matrix, VOCAB, options, seed=7)
    settings = json.loads(json.dumps(drafter.settings()))
    assert settings["preset"] == options.preset
    assert settings["seed"] == 7


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": "best"}, {"search": "beam"}, {"c1": -1}, {"c2": 0}, {"depth": 0}, {"depth": 2.5}, {"simulations": -1},
        {"successors": 0}, {"successors": True}, {"c1": float("nan")}, {"c2": "8"}, {"c1": float("inf")}, {"feedback": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_setting_is_refused_in_one_line(wrong: dict) -> None:
    with pytest.raises(AdedError, match=next(iter(wrong))) as caught:
        AdedOptions(**wrong)
    assert "\n" not in str(caught.value)


def test_foreign_vocabularies_and_ids_are_refused(matrix: TrigramMatrix) -> None:
    with pytest.raises(AdedError, match="build one for this model"):
        AdedDrafter(matrix, VOCAB + 1)
    drafter = AdedDrafter(matrix, VOCAB)
    for ids in ([VOCAB], [-1], [1, 2**40]):
        with pytest.raises(AdedError, match="tokenize"):
            drafter.start(ids)


def test_full_session_counts_continue_to_draft(matrix: TrigramMatrix) -> None:
    drafter, tokens = AdedDrafter(matrix, VOCAB), text(8, 30_000)
    drafter.start(tokens.tolist())
    assert len(drafter.propose(context_of(tokens), 64)) == 64


@pytest.fixture(scope="module")
def replayed() -> Report:
    if not RECORDS.exists():
        pytest.skip("the recorded outputs are not here")
    return replay(AdedDrafter(TrigramMatrix.load(MATRIX), 49152), read_records(RECORDS), 64)


def test_tuned_drafts_give_three_tokens_per_step_on_recorded_text(replayed: Report) -> None:
    assert replayed.all.tokens_per_step >= 3.8
    assert replayed.excluding(without=["summarization"]).tokens_per_step >= 3.7


def test_tree_search_keeps_up_with_best_first(replayed: Report) -> None:
    best_first = replay(
        AdedDrafter(TrigramMatrix.load(MATRIX), 49152, AdedOptions(search="best-first")), read_records(RECORDS), 64
    )
    assert replayed.all.tokens_per_step >= 0.97 * best_first.all.tokens_per_step


def test_bundled_matrix_is_small_and_for_the_default_model() -> None:
    assert MATRIX.stat().st_size < 10_000_000
    assert TrigramMatrix.load(MATRIX).summary()["vocab_size"] == 49152

"""Lookahead: attention pattern compared with the paper's rule, window and pool with manual results, text with plain decoding."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import alone, tiny_target

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.base import Context, Outcome
from aded.drafters.budget.tree_budget import AutomaticBudget
from aded.drafters.methods.lookahead import LookaheadDrafter
from aded.engine.cost_model import StepCost


class Text:
    """A decode in which the target chooses the next unused number: no token occurs twice."""

    def __init__(self, drafter: LookaheadDrafter, prompt: list[int], budget: int = 256) -> None:
        self.drafter, self.tokens, self.budget, self.prompt = drafter, list(prompt), budget, len(prompt)
        self.answers = iter(range(1000, 100_000))
        drafter.start(prompt)

    @property
    def context(self) -> Context:
        return Context(np.array(self.tokens, dtype=np.int32), self.prompt)

    def step(self, cut: int | None = None) -> tuple[DraftTree, np.ndarray]:
        """One step in which nothing is accepted: the verified draft, and the target's choice at each node."""
        tree = self.drafter.propose(self.context, self.budget)
        verified = tree if cut is None else tree.select(range(cut))
        answers = np.array([[next(self.answers)] for _ in range(len(verified))], dtype=np.int32)
        emitted = answers[0]
        self.drafter.observe(Outcome(verified, np.array([0]), self.context, emitted, answers, np.ones_like(answers)))
        self.tokens.append(int(emitted[0]))
        return tree, answers


def published_mask(levels: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The paper's pattern for a window whose level 0 has ``levels[0]`` columns, the root's among them: mask and positions.

    Level 0 is causal. Level l of column i attends to level 0 up to column i, and to column i of levels 1 to l.
    """
    cells = [(level, column) for level, columns in enumerate(levels) for column in range(columns)]
    mask = np.array([[(m == 0 and j <= i) or (j == i and m <= level) for m, j in cells] for level, i in cells])
    return mask, np.array([level + column for level, column in cells])


@pytest.mark.parametrize(("ngram", "window"), [(2, 4), (3, 5), (4, 5), (5, 7), (4, 1)])
def test_the_window_s_tree_is_the_published_mask(ngram: int, window: int) -> None:
    text = Text(LookaheadDrafter(ngram, window, 3, pool_from_prompt=False), list(range(50)))
    for step in range(ngram + 3):
        tree, _ = text.step()
        levels = min(step + 1, ngram - 1)
        columns = window + ngram - 1 - levels
        mask, positions = published_mask([columns] * levels)
        nodes = window_nodes(tree, text, columns, levels)
        assert len(set(nodes)) == len(nodes), "tokens differ, so no branches were merged"
        assert (tree.ancestors[np.ix_(nodes, nodes)] == mask).all()
        assert (tree.depths[nodes] == positions).all()
        assert tree.required == len(nodes) - 1


def window_nodes(tree: DraftTree, text: Text, columns: int, levels: int) -> list[int]:
    """Nodes of the window in the paper's order: level by level, column by column (the root is column 0 of level 0)."""
    deepest = [node for node in tree.leaves if node <= tree.required] if tree.required else [0]
    chains = sorted((tree.path_to(node) for node in deepest), key=len)
    if levels == 1:
        return chains[0]
    assert len(chains) == columns
    main = [chain[column] for column, chain in enumerate(chains)]
    return main + [chain[column + level] for level in range(1, levels) for column, chain in enumerate(chains)]


def test_candidates_attend_only_to_the_root_and_their_own_prefix() -> None:
    drafter = LookaheadDrafter(4, 3, 2)
    text = Text(drafter, [7, 1, 2, 3, 7, 4, 5, 6, 8, 9, 7])
    drafter._lookahead.levels = [[0, 90, 91, 92, 93]]  # no token of the candidates
    tree = drafter.propose(text.context, 64)
    guesses = [node for node in tree.leaves if node > tree.required]
    assert [tree.tokens[tree.path_to(node)].tolist() for node in guesses] == [[7, 4, 5, 6], [7, 1, 2, 3]], "latest first"
    assert not tree.ancestors[tree.required + 1 :, 1 : tree.required + 1].any()


def test_choices_move_the_window_and_complete_n_grams() -> None:
    drafter = LookaheadDrafter(3, 3, 4, pool_from_prompt=False)
    text = Text(drafter, list(range(40)))
    first, answers = text.step()  # level 0 alone: the root and three columns
    assert first.is_chain and len(first) == 4
    second, later = text.step()
    made = answers[1:, 0].tolist()  # the choices after columns 1 to 3
    root, main = int(second.tokens[0]), first.tokens[2:].tolist()
    paths = [[root, made[0]], [root, main[0], made[1]], [root, *main, made[2]]]
    assert sorted(second.tokens[second.path_to(n)].tolist() for n in second.leaves) == sorted(paths)
    ends = [next(n for n in second.leaves if second.tokens[n] == token) for token in made]
    new = [int(later[end, 0]) for end in ends]
    assert set(drafter._lookahead.pool) == {  # (level 0, level 1) of each column, and the choice there
        (root, made[0], new[0]), (main[0], made[1], new[1]), (main[1], made[2], new[2])
    }  # fmt: skip
    third = drafter.propose(text.context, 64)
    root = text.tokens[-1]
    paths = [[root, new[0]], [root, made[1], new[1]], [root, *made[1:], new[2]]]
    assert sorted(third.tokens[third.path_to(n)].tolist() for n in third.leaves) == sorted(paths)


def test_the_pool_keeps_the_latest_n_grams_of_a_token() -> None:
    drafter = LookaheadDrafter(2, 1, 2)
    drafter.start([5, 1, 5, 2, 5, 1, 5, 3, 0])
    assert drafter._lookahead.pool.beginning_with(5) == [(3,), (1,)]


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 9, 16, 40, 64, 256])
@pytest.mark.parametrize(("ngram", "window", "guesses"), [(4, 10, 10), (5, 7, 7), (2, 20, 4), (8, 3, 12)])
def test_drafts_respect_every_budget_and_continue(budget: int, ngram: int, window: int, guesses: int) -> None:
    text = Text(LookaheadDrafter(ngram, window, guesses), np.random.default_rng(0).integers(0, 6, 60).tolist(), budget)
    for _ in range(12):
        tree, _ = text.step()
        assert len(tree) <= budget
    if budget >= 16 and ngram < 8:
        assert len(text.drafter._lookahead.levels) == ngram - 1, "the window got full"


def test_a_cut_draft_moves_the_rest_of_the_window() -> None:
    text = Text(LookaheadDrafter(3, 5, 4, pool_from_prompt=False), list(range(40)))
    text.step()
    before = [list(level) for level in text.drafter._lookahead.levels]
    text.step(cut=1)
    assert text.drafter._lookahead.levels[1:] == before[1:], "nothing was verified: the window stays"
    tree = text.drafter.propose(text.context, 64)
    text.step(cut=len(tree) - 1)
    assert len(text.drafter._lookahead.levels[1]) == 4, "one column was lost"


def test_an_automatic_budget_keeps_the_window_without_a_gain() -> None:
    steep = StepCost((1, 64), (256,), ((1.0, 190.0),), padded=False)
    text = Text(LookaheadDrafter(4, 5, 5), [1, 2, 3, 4, 1, 5, 6, 7, 1])
    policy = AutomaticBudget(steep)
    for _ in range(6):
        tree = text.drafter.propose(text.context, 64)
        kept = policy.trim(tree, 100)
        assert kept.required == tree.required > 0
        assert len(kept) == tree.required + 1, "guesses go, the window stays"
        policy.observe(kept, [0], 1, 1.0)
        text.step()
    assert policy.cap == policy.largest, "a method that needs its forward passes is not paused"


PROMPT = [5, 17, 40, 8, 63, 21, 5, 17, 40, 9, 70, 6]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8, "top_p": 0.95, "seed": 5}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("fixed", [False, True])
def test_the_text_equals_plain_decoding(settings: dict, fixed: bool) -> None:
    from aded.sampling.logits_pipeline import Rule

    target = tiny_target()
    if fixed:
        target.use_fixed_shapes()
    truth = alone(target, PROMPT, 60, Rule(GenerationSettings(**settings).sampling))
    for options in ({}, {"ngram": 3, "window": 15, "guesses": 15}):
        decoder = Decoder(target, "lookahead", GenerationSettings(max_new_tokens=60, budget=64, **settings), options)
        assert decoder.run(PROMPT).token_ids == truth


def test_a_repeating_text_is_drafted() -> None:
    """A target that always continues 0, 1, 2, ... 9, 0, ...: the window detects it without other sources."""
    drafter = LookaheadDrafter(4, 6, 6, pool_from_prompt=False)
    tokens, steps = list(range(10)), 0
    drafter.start(tokens)
    while len(tokens) < 100:
        context = Context(np.array(tokens, dtype=np.int32), 10)
        tree = drafter.propose(context, 64)
        answers = (tree.tokens[:, None] + 1) % 10
        path = [0]
        while (child := tree.child(path[-1], int(answers[path[-1], 0]))) is not None:
            path.append(child)
        emitted = answers[path, 0]
        drafter.observe(Outcome(tree, np.array(path), context, emitted, answers, np.ones_like(answers)))
        tokens += emitted.tolist()
        steps += 1
    assert steps < 40


@pytest.mark.parametrize("wrong", [{"ngram": 1}, {"window": 0}, {"guesses": 65}, {"window": 2.5}])
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(AdedError, match="give a whole number"):
        LookaheadDrafter(**wrong)

"""Positions of nodes: ``ui.browser.layout``."""

from __future__ import annotations

import random
from dataclasses import replace

from ui_fakes import make_step, make_trace

from aded.core.trace import Step
from ui.browser.layout import layout


def a_step(accepted: int = 3, size: int = 26) -> Step:
    texts = [f"t{i}" for i in range(accepted + 1)]
    return make_step(0, texts, list(range(100, 101 + accepted)), accepted, random.Random(1), size)


def position(step: Step) -> dict[int, tuple[int, int]]:
    found = layout(step)
    return {n: (x, y) for n, x, y in zip(found.nodes, found.x, found.y)}


def test_the_accepted_path_is_on_the_first_row():
    step = a_step(accepted=4)
    where = position(step)
    assert [where[n] for n in step.path] == [(i, 0) for i in range(5)]


def test_the_bonus_or_correction_token_follows_the_path():
    step = a_step(accepted=2)
    assert layout(step).target == [3, 0]


def test_a_step_that_ends_with_a_draft_token_has_no_bonus_or_correction_token():
    step = a_step(accepted=2)
    cut = replace(step, emitted=step.emitted[:2], texts=step.texts[:2], origins=["draft", "draft"])
    assert layout(cut).target is None


def test_every_node_is_right_of_its_parent_and_not_above_it():
    step = a_step(size=120)
    where = position(step)
    for node, parent in enumerate(step.tree.parents):
        if parent >= 0:
            assert where[node][0] == where[parent][0] + 1
            assert where[node][1] >= where[parent][1]


def test_no_two_nodes_have_the_same_position():
    step = a_step(size=200)
    found = layout(step)
    positions = [*position(step).values(), tuple(found.target or ())]
    assert len(set(positions)) == len(positions)


def test_the_layout_is_deterministic():
    assert layout(a_step(size=80)) == layout(a_step(size=80))


def test_more_nodes_than_the_limit_are_counted_and_the_path_is_kept():
    step = a_step(accepted=4, size=400)
    found = layout(step, limit=300)
    assert len(found.nodes) <= 300
    assert found.hidden == 400 - len(found.nodes)
    assert set(step.path) <= set(found.nodes)
    shown = set(found.nodes)
    assert all(step.tree.parents[n] in shown for n in found.nodes if n)


def test_a_step_without_a_draft_is_the_root_and_the_targets_token():
    found = layout(make_trace("plain").steps[0])
    assert (found.nodes, found.target, found.columns, found.rows) == ([0], [1, 0], 2, 1)


def test_a_draft_without_visits_is_ordered_by_prior():
    step = a_step(accepted=0, size=12)
    columns = {"prior": step.tree.columns["prior"]}
    bare = replace(step, tree=replace(step.tree, columns=columns))
    where = position(bare)
    children = [n for n, parent in enumerate(bare.tree.parents) if parent == 0]
    by_row = sorted(children, key=lambda n: where[n][1])
    assert by_row == sorted(children, key=lambda n: (-(columns["prior"][n] or 0), n))


def test_folded_nodes_are_counted_at_their_nearest_drawn_ancestor():
    step = a_step(accepted=4, size=400)
    found = layout(step, limit=100)
    assert sum(found.folded) == found.hidden == 400 - len(found.nodes)
    folded = dict(zip(found.nodes, found.folded))
    for node, parent in enumerate(step.tree.parents):
        if node not in folded and parent in folded:
            assert folded[parent] > 0
    assert layout(a_step(size=50)).folded == [0] * 50

"""Replaying recorded text: the counts, compared with manual ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.data.records import Record, read_records
from aded.drafters.base import Context, Drafter, Outcome
from aded.evaluation.replay import accepted_path, replay, replay_one


class Scripted(Drafter):
    """Drafts the given tokens at the given lengths of the text, and records what it observes."""

    def __init__(self, drafts: dict[int, list[int]]) -> None:
        self.drafts, self.emitted, self.starts = drafts, [], []

    def start(self, prompt) -> None:
        self.starts.append(list(prompt))

    def propose(self, context: Context, budget: int) -> DraftTree:
        return DraftTree.chain(context.root, self.drafts.get(len(context.tokens), [])[: budget - 1])

    def observe(self, outcome: Outcome) -> None:
        assert outcome.emitted.tolist()
        self.emitted.append(outcome.emitted.tolist())


def record(output: list[int], category: str = "") -> Record:
    return Record(np.array([1, 2], dtype=np.int32), np.array(output, dtype=np.int32), category)


def test_a_step_writes_the_accepted_tokens_and_a_bonus_or_correction_token() -> None:
    drafter = Scripted({2: [10, 11, 99], 5: [], 6: [98]})
    tally = replay_one(drafter, record([10, 11, 12, 13, 14]), 64)
    assert drafter.emitted == [[10, 11, 12], [13], [14]]
    assert (tally.tokens, tally.steps, tally.accepted, tally.drafted) == (5, 3, 2, 4)
    assert tally.tokens_per_step == pytest.approx(5 / 3)
    assert len(tally.draft_seconds) == len(tally.update_seconds) == 3


def test_the_last_step_is_cut_at_the_end_of_the_record() -> None:
    drafter = Scripted({2: [10, 11, 12, 13]})
    tally = replay_one(drafter, record([10, 11]), 64)
    assert drafter.emitted == [[10, 11]]
    assert (tally.tokens, tally.steps, tally.accepted) == (2, 1, 2)


def test_without_drafts_a_step_writes_one_token() -> None:
    report = replay(Scripted({}), [record([5, 6, 7]), record([8])], 64)
    assert report.all.tokens_per_step == 1.0
    assert report.all.drafted_per_step == 0.0


def test_every_text_starts_without_learned_counts_and_counts_in_its_category() -> None:
    drafter = Scripted({2: [10]})
    report = replay(drafter, [record([10, 11], "a"), record([12], "b"), record([10, 11, 12], "a")], 64)
    assert drafter.starts == [[1, 2]] * 3
    assert {name: (t.tokens, t.steps) for name, t in report.categories.items()} == {"a": (5, 3), "b": (1, 1)}
    assert (report.all.tokens, report.all.steps) == (6, 4)
    assert report.excluding(without=["a"]).tokens == 1
    assert report.all.host_ms >= 0


def test_the_walk_follows_a_branching_draft() -> None:
    tree = DraftTree(np.array([1, 5, 6, 7, 8]), np.array([-1, 0, 0, 2, 3]))
    assert accepted_path(tree, np.array([6, 7, 9])).tolist() == [0, 2, 3]
    assert accepted_path(tree, np.array([4])).tolist() == [0]


def test_recorded_texts_are_read_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({"question_id": 1, "category": "x", "prompt_ids": [1], "output_ids": [2, 3]}) + "\n")
    (one,) = read_records(path)
    assert (one.prompt.tolist(), one.output.tolist(), one.category) == ([1], [2, 3], "x")


@pytest.mark.parametrize("ids", ["[1.7]", '["4"]', "[true]", "[null]", "[-1]", "[1e9]", "[NaN]", "[[1]]", "1", "[2147483648]"])
@pytest.mark.parametrize("name", ["prompt_ids", "output_ids"])
def test_what_are_no_token_ids_is_refused(tmp_path: Path, name: str, ids: str) -> None:
    lists = {"prompt_ids": "[1]", "output_ids": "[1]", name: ids}
    (tmp_path / "r").write_text(f"{{{', '.join(f'{json.dumps(key)}: {value}' for key, value in lists.items())}}}")
    with pytest.raises(AdedError, match="line 1 is not a recorded output"):
        read_records(tmp_path / "r")


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[]", "{}", '{"prompt_ids": [], "output_ids": []}', '{"prompt_ids": ["a"], "output_ids": []}'),
        '{"prompt_ids": [1], "output_ids": [1], "category": "\\ud800"}',
    ],
)
def test_an_invalid_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "r").write_text(line)
    reason = "it is not a JSON object" if line == "[]" else ""
    with pytest.raises(AdedError, match=f"line 1 is not a recorded output .*{reason}"):
        read_records(tmp_path / "r")
    with pytest.raises(AdedError, match="cannot read"):
        read_records(tmp_path / "none")

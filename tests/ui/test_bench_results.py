"""The benchmark results that the page lists are those of ``bench/results``."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest

from aded.evaluation.bench import results
from ui import bench_results, link

PACKED = json.loads(bench_results.RESULTS.read_text("utf-8"))


def test_the_packed_results_are_the_committed_ones():
    fresh = bench_results.pack(bench_results.SOURCE, bench_results.known_dates())
    assert fresh == PACKED, "pack them again: python -m ui.bench_results"
    assert bench_results.dumps(fresh) == bench_results.RESULTS.read_text("utf-8")


def test_every_measured_row_and_all_its_figures_are_packed():
    names = [one["name"] for one in PACKED["sets"]]
    for path in bench_results.SOURCE.glob("*/results.json"):
        body = results.without_folders(json.loads(path.read_text("utf-8")))
        rows = body.get("rows") or [{}]
        assert (path.parent.name in names) == (body.get("format") == results.FORMAT and "category" in rows[0])
        for one in (one for one in PACKED["sets"] if one["name"] == path.parent.name):
            assert len(one["rows"]) == len(rows)
            for row, packed in zip(rows, one["rows"]):
                assert dict(zip(PACKED["fields"], packed)) == {name: row.get(name) for name in PACKED["fields"]}
    for one in PACKED["sets"]:
        assert date.fromisoformat(one["date"]).isoformat() == one["date"]
        assert re.fullmatch(r"python -m aded bench .+", one["command"])
    assert not re.search(r'[ =:,"(]/\w+/', json.dumps(PACKED)), "a path instead of a file name"


def test_results_without_rows_of_methods_are_left_out_and_unknown_dates_are_none(tmp_path: Path):
    for name in ("cpu-live-greedy", "ablation-live", "load"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_bytes((bench_results.SOURCE / name / "results.json").read_bytes())
    (found,) = bench_results.pack(tmp_path, {})["sets"]
    assert (found["name"], found["date"], len(found["rows"])) == ("cpu-live-greedy", None, 18)


@pytest.mark.parametrize("name", link.TOOL)
def test_the_server_leaves_what_a_link_says_of_a_tool_to_the_browser(name: str):
    assert link.decode({name: "x"}, {}, {}, fields={}).refused == []

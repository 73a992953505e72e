"""On a Ray cluster of this machine: the same results as without it, and what happens when workers and nodes are lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, TESTS
from fakes import VOCAB, save_tokenizer, tiny_model
from ray_tasks import Make, die, die_once, refuse
from waiting import HANG, until

from aded.cli import main
from aded.core.errors import AdedError, InterruptedJobError
from aded.tasks.ray_cluster import ATTEMPTS, RayCluster

ray = pytest.importorskip("ray", reason="needs Ray (make ray)")
pytestmark = [pytest.mark.ray, pytest.mark.slow]
PATHS = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, TESTS, TESTS / "tasks")))}
TEMPLATE = "w5 w17 w40 {{ messages[0]['content'] }} w7 w9 w11"


@pytest.fixture(scope="module")
def cluster():
    """One node with two cores, to which the commands of this process connect."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": PATHS})
    yield RayCluster()
    ray.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model that writes conversations."""
    folder = tmp_path_factory.mktemp("model")
    tiny_model("llama").save_pretrained(folder)
    save_tokenizer(folder, TEMPLATE)
    return folder


def run(*arguments: object) -> int:
    return main.main([str(a) for a in arguments])


def built(folder: Path, *arguments: object) -> list[dict[str, bytes]]:
    """What a build writes without Ray and with it."""
    found = []
    for engine in ("local", "ray"):
        out = folder / engine
        out.mkdir(parents=True)
        kept = ("--keep-text", out / "text.npy") if "--self-written" in arguments else ()
        assert run("matrix", "build", *arguments, "--engine", engine, *kept, "--out", out / "m") == 0
        found.append({path.name: path.read_bytes() for path in out.iterdir()})
    return found


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from aded.data import build_matrix

    monkeypatch.setattr(build_matrix, "SMALLEST_PIECE", 100)
    monkeypatch.setattr(build_matrix, "BYTES_PER_TOKEN", 1 << 20)


def test_a_matrix_has_the_same_bytes(tmp_path: Path, cluster, model: Path, small_pieces) -> None:
    ids = np.minimum(np.random.default_rng(0).geometric(0.1, 3000) - 1, VOCAB - 1)
    np.save(tmp_path / "ids.npy", ids)
    lines = [json.dumps({"text": " ".join(f"w{(i * j) % 50}" for j in range(40))}) for i in range(40)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    sources = {
        "tokens": ("--tokens", tmp_path / "ids.npy", "--max-memory", 100),
        "bounds": ("--tokens", tmp_path / "ids.npy", "--max-memory", 100, "--rows", 200, "--bytes", 4000, "--successors", 3),
        "text": ("--text", tmp_path / "a.jsonl", "--max-memory", 100),
    }
    for name, source in sources.items():
        local, distributed = built(tmp_path / name, *source, "--model", model)
        assert local == distributed
        assert list(local) == ["m"]


def test_self_written_text_is_the_same(tmp_path: Path, cluster, model: Path) -> None:
    local, distributed = built(tmp_path, "--self-written", 1200, "--batch", 8, "--seed", 5, "--model", model)
    assert local == distributed
    assert sorted(local) == ["m", "text.npy"]


def test_a_build_that_was_interrupted_without_ray_continues_with_it(
    tmp_path: Path, cluster, model: Path, small_pieces, monkeypatch
) -> None:
    from test_building import interrupted_at

    np.save(tmp_path / "ids.npy", np.random.default_rng(0).integers(0, VOCAB, 1000))
    command = (
        "matrix",
        "build",
        "--tokens",
        tmp_path / "ids.npy",
        "--max-memory",
        100,
        "--model",
        model,
        "--out",
        tmp_path / "m",
    )
    assert run(*command) == 0
    expected = (tmp_path / "m").read_bytes()
    (tmp_path / "m").unlink()
    with monkeypatch.context() as patch:
        interrupted_at(patch, 5, late=True)
        assert run(*command) == 130
    with monkeypatch.context() as patch:
        names = interrupted_at(patch, 10**6, late=True)
        assert run(*command, "--engine", "ray") == 0
    assert len(names) == 5
    assert (tmp_path / "m").read_bytes() == expected


TIMES = ("_ms", "tokens_per_second", "speedup", "verdict", "memory_mb")


def test_a_benchmark_has_the_same_rows_apart_from_times_and_resumes(tmp_path: Path, cluster, model: Path, capsys) -> None:
    lines = [{"question_id": i, "category": "xy"[i % 2], "turns": [f"w3 w{4 + i} w8"]} for i in range(3)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = ["bench", "--questions", tmp_path / "q.jsonl", "--methods", "prompt-lookup,suffix:warm=false:keep=true", "--json"]
    command += ["--model", model, "--budget", 8, "--max-new-tokens", 8, "--repeat", 2, "--peers", "hf-generate", "--no-html"]
    rows = []
    for engine in ("local", "ray"):
        assert run(*command, "--engine", engine, "--out", tmp_path / engine) == 0
        body = json.loads(capsys.readouterr().out)
        rows.append([{name: row[name] for name in row if not any(time in name for time in TIMES)} for row in body["rows"]])
    assert rows[0] == rows[1]
    assert len(rows[0]) == 12
    cells = sorted((tmp_path / "ray" / "cells").iterdir())
    assert len(cells) == 3
    before = {path: path.read_bytes() for path in cells}
    cells[0].unlink()
    assert run(*command, "--engine", "ray", "--out", tmp_path / "ray") == 0
    assert {path for path in before if path.read_bytes() == before[path]} >= {*cells[1:]}
    assert cells[0].exists()
    assert run(*command, "--engine", "ray", "--seed", 3, "--out", tmp_path / "ray") == 2
    assert "choose another --out" in capsys.readouterr().err


def test_killed_workers_are_retried(tmp_path: Path, cluster) -> None:
    jobs = [(str(tmp_path / str(i)), i) for i in range(5)]
    assert list(cluster.map(die_once, jobs)) == [0, 1, 2, 3, 4]
    with cluster.pool(Make(die_once)) as pool:
        again = [(str(tmp_path / f"again {i}"), i) for i in range(3)]
        assert list(pool.map(again)) == [0, 1, 2]


def test_workers_that_are_killed_again_and_again_end_the_job_in_one_line(cluster) -> None:
    with pytest.raises(InterruptedJobError, match=f"killed {ATTEMPTS} times.*resumes where it stopped"):
        list(cluster.map(die, [1]))
    with pytest.raises(InterruptedJobError, match=f"killed {ATTEMPTS} times"), cluster.pool(Make(die)) as pool:
        list(pool.map([1]))


def test_errors_of_tasks_are_those_of_the_task_and_pools_name_the_node(tmp_path: Path, cluster) -> None:
    with pytest.raises(AdedError, match="^job 2 is wrong"):
        list(cluster.map(refuse, range(4)))
    with pytest.raises(AdedError, match=r"^node [\d.]+: job 2 is wrong"), cluster.pool(Make(refuse)) as pool:
        list(pool.map(range(4)))
    missing = [str(tmp_path / f"model-{i}.safetensors") for i in range(5)]
    with (
        pytest.raises(AdedError, match=r"node [\d.]+ lacks .*model-0\.safetensors.* and 2 more; copy them there"),
        cluster.pool(Make(refuse), missing) as pool,
    ):
        list(pool.map([1]))


def test_ctrl_c_stops_a_command_and_its_cluster_and_the_next_one_continues(tmp_path: Path, model: Path) -> None:
    """The terminal sends the signal to all processes of the command."""
    out = tmp_path / "m"
    command = [sys.executable, "-m", "aded", "matrix", "build", "--self-written", "20000", "--batch", "4", "--device", "cpu"]
    command += ["--model", str(model), "--engine", "ray", "--out", str(out)]
    started = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: list(tmp_path.glob("m.part/batch-*.npz")) or started.poll() is not None)
    os.killpg(started.pid, signal.SIGINT)
    _, error = started.communicate(timeout=HANG)
    assert started.returncode == 130, error
    assert error.splitlines()[-1] == "stopped"
    assert "Traceback" not in error
    batches = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("m.part/batch-*.npz")}
    assert batches


def test_a_lost_node_costs_its_tasks_only(tmp_path: Path) -> None:
    program = f"""
import os, sys
sys.path[:0] = {[str(ROOT), str(TESTS), str(TESTS / "tasks")]!r}
import ray
from ray.cluster_utils import Cluster
from ray_tasks import Make, parts_of, slow, total
from aded.tasks.ray_cluster import RayCluster
nodes = Cluster(initialize_head=True, head_node_args={{"num_cpus": 1, "include_dashboard": False}})
ray.init(address=nodes.address, log_to_driver=False, runtime_env={{"env_vars": {PATHS!r}}})
other = nodes.add_node(num_cpus=1)  # after the connection, which is then to the head node
cluster = RayCluster()
assert cluster.workers == 2
with cluster.pool(Make(slow)) as pool:
    assert pool.size == 2
    results = pool.map(range(10))
    found = [next(results) for _ in range(3)]
    nodes.remove_node(other, allow_graceful=False)
    assert found + list(results) == list(range(10))
assert list(cluster.map(slow, range(4))) == list(range(4))
other = nodes.add_node(num_cpus=1)
lose = lambda share: nodes.remove_node(other, allow_graceful=False) if share == 0.5 else None
notes, totals = RayCluster().shuffle(parts_of, [1, 2, 3, 4], total, 4, lose)  # its node is lost when all jobs are divided
assert (notes, totals) == ([1, 2, 3, 4], [10 * part * 100_000 for part in range(4)])
print("finished")
ray.shutdown()
nodes.shutdown()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=HANG * 2)
    assert "finished" in done.stdout.splitlines(), done.stderr  # Ray prints the log of a removed node too

"""Benchmark on a Ray cluster: each method or peer in a worker with a whole GPU, beside plain decoding in the same worker."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aded.cli.bench_live import LiveBenchmark, usable
from aded.core.errors import AdedError
from aded.core.paths import model_folder
from aded.core.trace import write_atomically
from aded.data.corpus import load_tokenizer
from aded.data.readers import local_spec, model_files
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.engine.loading.weights import label_of, quiet
from aded.evaluation.bench import results
from aded.evaluation.bench.aggregate import PLAIN
from aded.evaluation.bench.systems import method_of
from aded.tasks.ray_cluster import connected

Systems = tuple[list[str], list[str]]
"""(methods, peers)."""
CELLS = "cells"
"""Folder of the cells' results in the results folder."""


def run(options: argparse.Namespace, methods: list[str], peers: list[str], progress: Any) -> dict[str, Any]:
    """Measure and return the results, with the rows that ``bench_live.run`` returns; times depend on the workers.

    With ``--out``, the results of each cell are stored when it is finished, and a repeated command measures only missing ones.

    Raises:
        AdedError: see ``bench_live.run``; there is no cluster, or a node lacks files of the model.
    """
    benchmark = LiveBenchmark.of(options)
    make = CellWorker(
        benchmark, {name: getattr(options, name) for name in ("device", "dtype", "attention")}, local_spec(options.model)
    )
    folder = Path(options.out) / CELLS if options.out else None
    with connected(options.address) as cluster, cluster.pool(make, _files(options.model, methods)) as pool:
        progress("loading the model on the cluster", None)
        methods = next(pool.map([Check(methods, peers, options.methods is None)], progress))
        names = [PLAIN, *(name for name in methods if name != PLAIN), *peers]
        jobs: dict[str, Systems] = {name: ([], [name]) if name in peers else ([name], []) for name in names[1:]}
        jobs = jobs or {PLAIN: ([PLAIN], [])}
        found = {name: _stored(folder, name, benchmark) for name in jobs}
        missing = [name for name in jobs if found[name] is None]
        for name, measured in zip(missing, pool.map([jobs[name] for name in missing], progress)):
            cell = {**measured, "command": results.command()}
            _store(folder, name, cell)
            found[name] = cell
            done = sum(one is not None for one in found.values())
            progress(f"measured {done} of {len(jobs)} cells: {name}", done / len(jobs))
    return _together([one for one in found.values() if one is not None], benchmark.description(names))


@dataclass(frozen=True)
class Check:
    """A job: the methods to measure, after a check that they and the peers can run; ``choose``: only those that can."""

    methods: list[str]
    peers: list[str]
    choose: bool


@dataclass(frozen=True)
class CellWorker:
    """Makes the function that a worker runs; ``spec`` names the model on every node."""

    benchmark: LiveBenchmark
    device: dict[str, str]
    spec: str

    def __call__(self) -> Callable[[Check | Systems], Any]:
        from aded.cli.model_options import load_model

        options = argparse.Namespace(model=self.spec, device_map=None, tp=False, **self.device)
        target = load_model(options, quiet)

        def run(job: Check | Systems) -> Any:
            if isinstance(job, Check):
                methods = usable(job.methods, target) if job.choose else job.methods
                self.benchmark.systems(target, methods, job.peers)
                return methods
            return self.benchmark.run(target, *job, None, quiet)

        return run


def _files(model: str, methods: Sequence[str]) -> list[str]:
    """Files of this machine that the benchmark reads: of the model, of its artifacts, and those that options of methods name."""
    fingerprint = tokenizer_fingerprint(load_tokenizer(model)[0])
    made = [str(path) for path in model_folder(label_of(model), fingerprint).rglob("*.safetensors")]
    named = [value for spec in methods for value in method_of(spec)[1].values()]
    return [*model_files(model), *made, *(value for value in named if isinstance(value, str) and os.path.isfile(value))]


def _path(folder: Path, name: str) -> Path:
    return folder / f"{re.sub('[^A-Za-z0-9.=-]', '-', name)[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.json"


def _stored(folder: Path | None, name: str, benchmark: LiveBenchmark) -> dict[str, Any] | None:
    """The stored results of a cell; None if there are none.

    Raises:
        AdedError: they are of other settings or another commit.
    """
    if folder is None or not _path(folder, name).exists():
        return None
    path, wanted = _path(folder, name), json.loads(json.dumps(benchmark.description(list(dict.fromkeys([PLAIN, name])))))
    found = results.read(path)
    if (found.get("settings"), found.get("commit")) != (wanted, results.commit()):
        raise AdedError(f"{path} was measured with other settings or another commit; choose another --out")
    return found


def _store(folder: Path | None, name: str, cell: dict[str, Any]) -> None:
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AdedError(f"cannot write {folder}: {error.strerror}; choose another --out") from None
    write_atomically(_path(folder, name), (results.dumps(cell, indent=1) + "\n").encode())


def _together(cells: list[dict[str, Any]], description: dict[str, Any]) -> dict[str, Any]:
    """One results object of all cells; plain decoding's row is that of the first."""
    rows = {(row["category"], row["method"]): row for cell in reversed(cells) for row in cell["rows"]}
    categories = dict.fromkeys(row["category"] for row in cells[0]["rows"])
    ordered = [rows[key] for category in categories for name in description["methods"] if (key := (category, name)) in rows]
    devices = " and ".join(dict.fromkeys(cell["device"] for cell in cells))
    return {**cells[0], "device": devices, "command": results.command(), "settings": description, "rows": ordered}

"""Measure how fast tasks on a Ray cluster of this machine count n-grams, and the constants of the plan in docs/ray.md.

    .venv-ray/bin/python -m bench.ray_counting tokens.npy --separator ID --out bench/results/ray-counting --embed docs/ray.md

Results depend on what else runs on the machine, so its load is recorded before and after.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import ray

from aded.core.trace import write_atomically
from aded.data import ngram_counting, sharded_counting
from aded.data.corpus import read_tokens
from aded.data.ngram_counting import INT32_MAX, pack
from aded.data.sharded_counting import SHARDS_PER_WORKER, PartCounter, Shard, ShardCounter
from aded.engine.loading.weights import quiet
from aded.evaluation.bench import results
from aded.evaluation.bench.questions import digest
from aded.evaluation.bench.tables import embed_text
from aded.ngram.trigram import MAX_SUCCESSORS
from aded.tasks.ray_cluster import RayCluster

WORKERS = (1, 2)
ROUNDS = 2
PIECE = 1 << 18
"""Tokens of a piece."""
MEMORY, SMALL_MEMORY = 512, 1
"""Megabytes of a task's database; the least that is possible where the memory besides the database is measured."""
PLANNED = {"tokens": 10**12, "workers": 256, "shards": 256 * SHARDS_PER_WORKER}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="a .npy file of token ids")
    parser.add_argument("--separator", type=int, default=0)
    parser.add_argument("--vocab-size", type=int, default=49152)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--embed", type=Path, help="a Markdown file with the markers <!-- bench:ray-counting --> and <!-- /bench -->"
    )
    options = parser.parse_args()
    known = {"separator": options.separator, "vocab_size": options.vocab_size}
    ids, load = read_tokens(options.corpus), [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as name:
        constants, paths = measure_constants(ids, Path(name), known)
        rates = {str(workers): measure_cluster(paths, workers, known) for workers in WORKERS}
    load.append(os.getloadavg()[0])
    growth = {str(len(part)): ngrams(part, known) for part in (ids[: len(ids) // n] for n in (16, 8, 4, 2, 1))}
    body = results.background()
    body["versions"] |= {"ray": ray.__version__, "duckdb": duckdb.__version__}
    body |= {
        "command": f"python -m bench.ray_counting {Path(options.corpus).name} --separator {options.separator}",
        "corpus": {"file": Path(options.corpus).name, "digest": digest(options.corpus), "tokens": len(ids)},
        "cores": os.cpu_count(),
        "load_before_and_after": [round(value, 2) for value in load],
        "rounds": ROUNDS,
        "tokens_per_second": rates,
        "constants": constants,
        "distinct_ngrams": growth,
        "plan": plan(constants, growth),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "results.json", (results.dumps(results._rounded(body), indent=1) + "\n").encode())
    write_atomically(options.out / "table.md", table(body).encode())
    if options.embed:
        embed_text(options.embed, "ray-counting", table(body))


def measure_constants(ids: np.ndarray, folder: Path, known: dict[str, int]) -> tuple[dict[str, float], list[Path]]:
    """What each stage costs in one process, by its processor time, and the paths of the pieces."""
    paths = [folder / f"{number}.npz" for number in range(-(-len(ids) // PIECE))]
    pieces = np.array_split(ids.astype(np.uint16), len(paths))

    def store() -> None:
        for path, piece in zip(paths, pieces):
            path.write_bytes(pack(piece, known["vocab_size"]))

    def read() -> None:
        for path in paths:
            ngram_counting.unpack(path)

    store()
    split = ShardCounter(ngram_counting.unpack, **known, parts=2, memory=MEMORY)
    join = PartCounter(known["vocab_size"], MAX_SUCCESSORS, INT32_MAX, MEMORY)
    shards = list(sharded_counting.shards_of(paths, 4))
    tables = [table for shard in shards for table in split(shard)[1]]
    entries = sum(len(codes) for codes, _ in tables)
    more: dict[str, Any] = {"fingerprint": "", "max_successors": MAX_SUCCESSORS, "spill": folder / "spill", "memory": MEMORY}
    whole, one = ShardCounter(ngram_counting.unpack, **known, parts=2, memory=SMALL_MEMORY), shards[0]
    part = PartCounter(known["vocab_size"], MAX_SUCCESSORS, INT32_MAX, SMALL_MEMORY)
    counted, joined = sum(len(codes) for codes, _ in whole(one)[1]), len(tables[0][0])
    shard_peak, join_peak = in_new_process(shard_growth, whole, one), in_new_process(join_growth, part, tables[0])
    return {
        "store_tokens_per_second": len(ids) / median_seconds(store),
        "read_tokens_per_second": len(ids) / median_seconds(read),
        "shard_tokens_per_second": len(ids) / median_seconds(lambda: [split(shard) for shard in shards]),
        "join_ngrams_per_second": entries / median_seconds(lambda: [join(iter([one])) for one in tables]),
        "built_in_tokens_per_second": len(ids) / median_seconds(lambda: ngram_counting.count(paths, **known, **more)),
        "bytes_per_ngram_moved": sum(codes.nbytes + counts.nbytes for codes, counts in tables) / entries,
        "memory_bytes_per_ngram_of_a_shard": shard_peak / counted,
        "memory_bytes_per_ngram_of_a_part": join_peak / joined,
    }, paths


def in_new_process(function: Callable[..., int], *arguments: Any) -> int:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def shard_growth(split: ShardCounter, shard: Shard) -> int:
    """Growth of this process's peak memory in bytes while it counts a shard, after one piece of it."""
    split(Shard(shard.paths[:1], []))
    before = peak()
    split(shard)
    return peak() - before


def join_growth(join: PartCounter, table: Any) -> int:
    """Growth of this process's peak memory in bytes while it adds up a table, after a few of its rows."""
    join(iter([(table[0][:1000], table[1][:1000])]))
    before = peak()
    join(iter([table]))
    return peak() - before


def peak() -> int:
    """Peak resident memory of this process; ``getrusage`` would include that of the parent process before the start."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure_cluster(paths: list[Path], workers: int, known: dict[str, int]) -> dict[str, float]:
    """Tokens per second of counting the pieces on a cluster with this many workers."""
    ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        given: dict[str, Any] = {
            **known,
            "fingerprint": "",
            "max_successors": MAX_SUCCESSORS,
            "memory": MEMORY,
            "progress": quiet,
        }
        counted = [0]

        def count() -> None:
            matrix = sharded_counting.count(paths, RayCluster(), **given, rows=None, size=None)
            counted[0] = matrix.corpus_tokens

        count()  # starts the workers
        times = sorted(counted[0] / wall_seconds(count) for _ in range(ROUNDS))
    finally:
        ray.shutdown()
    return {"median": statistics.median(times), "minimum": times[0], "maximum": times[-1]}


def ngrams(ids: np.ndarray, known: dict[str, int]) -> int:
    """Number of distinct bigrams and tri-grams of a text."""
    split = ShardCounter(lambda path: ids, **known, parts=1, memory=MEMORY)
    return len(split(Shard([Path()], []))[1][0][0])


def plan(constants: dict[str, float], growth: dict[str, int]) -> dict[str, float]:
    """The cost of `PLANNED` from the measured constants; distinct n-grams by Heaps' law, fitted to ``growth``."""
    exponent, factor = np.polyfit(np.log([int(tokens) for tokens in growth]), np.log(list(growth.values())), 1)
    tokens, workers, shards = PLANNED["tokens"], PLANNED["workers"], PLANNED["shards"]

    def distinct(count: float) -> float:
        return float(np.exp(factor) * count**exponent)

    moved = shards * distinct(tokens / shards)
    return {
        **PLANNED,
        "heaps_exponent": float(exponent),
        "ngrams_of_a_shard": distinct(tokens / shards),
        "ngrams_of_the_text": distinct(tokens),
        "terabytes_of_tokens": 2 * tokens / 1e12,
        "terabytes_moved_to_reducers": moved * constants["bytes_per_ngram_moved"] / 1e12,
        "objects": shards * (workers + 1),
        "gigabytes_of_a_shard_task": distinct(tokens / shards) * constants["memory_bytes_per_ngram_of_a_shard"] / 1e9,
        "gigabytes_of_a_reducer": distinct(tokens) / workers * constants["memory_bytes_per_ngram_of_a_part"] / 1e9,
        "hours_of_storing_on_one_machine": tokens / constants["store_tokens_per_second"] / 3600,
        "hours_of_reading_on_one_machine": tokens / constants["read_tokens_per_second"] / 3600,
        "hours_of_counting_shards": tokens / constants["shard_tokens_per_second"] / workers / 3600,
        "hours_of_adding_up": moved / constants["join_ngrams_per_second"] / workers / 3600,
    }


def median_seconds(work: Callable[[], Any]) -> float:
    """Processor time of this process, which other processes of the machine change little."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def wall_seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def table(body: dict[str, Any]) -> str:
    """The results as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in body["versions"].items())
    corpus, load = body["corpus"], body["load_before_and_after"]
    lines = [
        f"{corpus['tokens']:,} tokens; {body['device']}, {body['cores']} cores; {versions}; "
        f"commit {body['commit']}. Load of the machine before and after: {load[0]} and {load[1]}.",
        "",
        "| workers on Ray | million tokens per second of wall-clock time (median) | range |",
        "|---|---|---|",
    ]
    for workers, rate in body["tokens_per_second"].items():
        low, high = rate["minimum"] / 1e6, rate["maximum"] / 1e6
        lines.append(f"| {workers} | {rate['median'] / 1e6:.3f} | {low:.3f} to {high:.3f} |")
    lines += ["", "| constant, of one process (per second of processor time) | value |", "|---|---|"]
    lines += [f"| {name.replace('_', ' ')} | {value:,.1f} |" for name, value in body["constants"].items()]
    lines += ["", "| tokens | distinct bigrams and tri-grams |", "|---|---|"]
    lines += [f"| {int(tokens):,} | {count:,} |" for tokens, count in body["distinct_ngrams"].items()]
    lines += ["", "| plan | value |", "|---|---|"]
    lines += [f"| {name.replace('_', ' ')} | {value:,.4g} |" for name, value in body["plan"].items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

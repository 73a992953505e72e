"""The benchmark results that the page lists: the rows of ``bench/results`` packed into ``assets/results.json``.

``python -m ui.bench_results`` packs them again after a benchmark; a test compares the file with ``bench/results``.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from aded.core.trace import write_atomically
from aded.evaluation.bench import results
from ui.browser.files import RESULTS

SOURCE = Path(__file__).resolve().parents[1] / "bench" / "results"
"""Result sets, one folder each; it is not part of an installed package."""
FIELDS = (
    "method",
    "label",
    "category",
    "questions",
    "tokens_per_step",
    "tokens_per_step_interval",
    "speedup",
    "speedup_interval",
    "tokens_per_second",
    "draft_ms",
    "verify_ms",
    "host_ms",
)
"""Of a row, in this order; None if the results are of an older version without it."""
OF_SET = ("kind", "model", "dtype", "device", "versions", "commit", "command")
RELIABLE = "reliable_times"
"""Of a set, false if other work ran on the machine, so that its times mean nothing; left out otherwise."""
SETTINGS = ("questions", "max_new_tokens", "budget", "temperature", "top_p", "repeat")


def pack(folder: Path, dates: Mapping[str, str]) -> dict[str, Any]:
    """The result sets of `aded bench` whose rows are methods and categories of questions, in the order of their names.

    Args:
        folder: has one folder per result set, with its ``results.json``.
        dates: when the results were committed, by digest, as ``YYYY-MM-DD``; others are None.

    Returns:
        ``fields``, and ``sets`` with their rows as lists of these fields; all numbers are those of the results,
        and paths of files in methods and labels are reduced to file names.
    """
    sets = []
    for path in sorted(folder.glob("*/results.json")):
        body = results.without_folders(json.loads(path.read_text("utf-8")))
        if body.get("format") != results.FORMAT or "category" not in (body["rows"] or [{}])[0]:
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        settings = {name: body["settings"][name] for name in SETTINGS if name in body["settings"]}
        rows = [[row.get(name) for name in FIELDS] for row in body["rows"]]
        about = {name: body[name] for name in OF_SET}
        head = {"name": path.parent.name, "digest": digest, "date": dates.get(digest)}
        if not body.get(RELIABLE, True):
            about[RELIABLE] = False
        sets.append({**head, **about, "settings": settings, "rows": rows})
    return {"fields": list(FIELDS), "sets": sets}


def known_dates() -> dict[str, str]:
    """The dates in the packed file, by digest."""
    sets = json.loads(RESULTS.read_text("utf-8"))["sets"] if RESULTS.is_file() else []
    return {one["digest"]: one["date"] for one in sets}


def dumps(packed: Mapping[str, Any]) -> str:
    """JSON with one row per line, so that changes can be read."""
    sets = []
    for one in packed["sets"]:
        head = _dense({name: value for name, value in one.items() if name != "rows"})
        rows = ",\n".join(map(_dense, one["rows"]))
        sets.append(f'{head[:-1]},"rows":[\n{rows}\n]}}')
    joined = ",\n".join(sets)
    return f'{{"fields":{_dense(packed["fields"])},"sets":[\n{joined}\n]}}\n'


def _dense(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    """Pack the results; unchanged ones keep their date, others get that of their last commit, or today's."""
    if not SOURCE.is_dir():
        sys.exit(f"{SOURCE} is missing; run this in a checkout of the repository")
    dates = known_dates()
    for path in SOURCE.glob("*/results.json"):
        dates.setdefault(hashlib.sha256(path.read_bytes()).hexdigest()[:16], _committed(path))
    write_atomically(RESULTS, dumps(packed := pack(SOURCE, dates)).encode())
    print(f"{RESULTS.name}: {sum(len(one['rows']) for one in packed['sets'])} rows of {len(packed['sets'])} result sets")


def _committed(path: Path) -> str:
    command = ["git", "log", "-1", "--format=%cs", "--", str(path)]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or date.today().isoformat()


if __name__ == "__main__":
    main()

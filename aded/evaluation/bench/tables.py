"""Results as Markdown, for a folder of results and for the block of a README that shows them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError
from aded.core.trace import write_atomically
from aded.evaluation.bench import results as results_of
from aded.evaluation.bench.figures import ALL

Results = Mapping[str, Any]
Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]


def markdown(results: Results) -> str:
    """Headline, tables and what to know when reading them."""
    if results["kind"] == "shape":
        return _shape(results)
    if results["kind"] == "fidelity":
        return "\n\n".join([_headline(results), _fidelity_note(results), table(FIDELITY, results["rows"])]) + "\n"
    if results["kind"] == "ablation":
        return "\n\n".join([_headline(results), _ablation_note(results), table(ABLATION, results["rows"])]) + "\n"
    total = [row for row in results["rows"] if row["category"] == ALL]
    columns = LIVE if results["kind"] == "live" else RECORDED
    parts = [_headline(results), table(columns, total), *_notes(results, total)]
    categories = list(dict.fromkeys(row["category"] for row in results["rows"] if row["category"] != ALL))
    if len(categories) > 1:
        parts.append(_by_category(results["rows"], categories, results["kind"] == "live"))
    return "\n\n".join(parts) + "\n"


def of_file(path: str | os.PathLike[str]) -> str:
    """The tables of a ``results.json``.

    Raises:
        AdedError: it is missing or damaged.
    """
    body = results_of.read(path)
    try:
        return markdown(body)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AdedError(f"{path} is damaged; measure again") from None


def table(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = ["| " + " | ".join(name for name, _ in columns) + " |"]
    lines.append("| --- |" + " ---: |" * (len(columns) - 1))
    lines += ["| " + " | ".join(_cell(show(row)) for _, show in columns) + " |" for row in rows]
    return "\n".join(lines)


def embed(readme: str | os.PathLike[str], name: str, results: str | os.PathLike[str]) -> None:
    """Write the tables of a results file between ``<!-- bench:NAME -->`` and ``<!-- /bench -->``.

    Raises:
        AdedError: a file is missing, or the markers are not there once and in this order.
    """
    path, begin, end = Path(readme), f"<!-- bench:{name} -->", "<!-- /bench -->"
    text = of_file(results)
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AdedError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not text'}; give a Markdown file") from None
    before, found, rest = old.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed or begin in rest:
        raise AdedError(f"{path} has no block {begin} ... {end}; write both markers, each on a line of its own, once")
    write_atomically(path, f"{before}{begin}\n{text}{end}{after}".encode())


def number(value: float | None, digits: int = 2) -> str:
    """A figure, a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def speedup(row: Row) -> str:
    """Times plain decoding's throughput, its spread over repeats, and a word where it is not faster."""
    if row["speedup"] is None:
        return "–"
    text = f"{row['speedup']:.2f}×"
    if row["speedup_spread"]:
        low, high = row["speedup_spread"]
        text += f" ({low:.2f}–{high:.2f})"
    return text if row["verdict"] in (None, "faster than plain") else f"{text}, {row['verdict']}"


def identical(row: Row) -> str:
    """Outputs equal to plain decoding's, and whether the others are ties."""
    if row["compared"] is None:
        return "–"
    text = f"{row['identical']} of {row['compared']}"
    different = row["compared"] - row["identical"]
    if not different:
        return text
    first = row["first_difference"]
    where = f"question {first['question']}, token {first['position']}"
    if first["gap"] is None:  # sampled, or of another length: there is no tie to judge
        return f"{text}; first apart at {where}"
    return f"{text}; {row['ties']} of the other {different} are ties" + ("" if first["tie"] else f", not so {where}")


def _ms(name: str) -> Column:
    return name.replace("_", " "), lambda row: number(row[name])


LIVE: tuple[Column, ...] = (
    ("method", lambda row: row["label"]),
    ("tokens a second", lambda row: number(row["tokens_per_second"], 1)),
    ("speedup", speedup),
    ("tokens a step", lambda row: number(row["tokens_per_step"])),
    ("accepted a step", lambda row: number(row["accepted_per_step"])),
    _ms("draft_ms"),
    _ms("verify_ms"),
    _ms("update_ms"),
    _ms("host_ms"),
    _ms("prefill_ms"),
    ("nodes", lambda row: number(row["tree_nodes"], 1)),
    ("memory MB", lambda row: number(row["memory_mb"], 0)),
    ("same as plain", identical),
    ("lossless", lambda row: "yes" if row["lossless"] else "no"),
)
RECORDED: tuple[Column, ...] = (
    ("method", lambda row: row["label"]),
    ("tokens a step", lambda row: number(row["tokens_per_step"])),
    ("accepted a step", lambda row: number(row["accepted_per_step"])),
    ("nodes", lambda row: number(row["tree_nodes"], 1)),
    _ms("draft_ms"),
    _ms("update_ms"),
    _ms("host_ms"),
)
SHAPE: tuple[Column, ...] = (
    ("nodes", lambda row: str(row["nodes"])),
    ("step ms", lambda row: number(row["step_ms"], 3)),
    ("quartiles", lambda row: "–".join(number(v, 3) for v in row["quartiles_ms"])),
    ("over one node", lambda row: f"{row['over_one_node']:.2f}×"),
    ("over the floor (measured bandwidth)", lambda row: _times(row["over_measured_floor"])),
    ("over the floor (data sheet)", lambda row: _times(row["over_datasheet_floor"])),
)


FIDELITY: tuple[Column, ...] = (
    ("representative", lambda row: row["representative"]),
    ("where", lambda row: row["where"]),
    ("positions", lambda row: str(row["positions"])),
    ("unseen pairs", lambda row: f"{row['unseen']:.1%}"),
    ("total variation", lambda row: number(row["total_variation"], 3)),
    ("top 1", lambda row: number(row["top_1"], 3)),
    ("top 4", lambda row: number(row["top_4"], 3)),
    ("top 12", lambda row: number(row["top_12"], 3)),
)


ABLATION: tuple[Column, ...] = (
    ("setting", lambda row: row["setting"]),
    ("value", lambda row: f"**{row['value']}**" if row["tuned"] else str(row["value"])),
    ("tokens a step", lambda row: number(row["tokens_per_step"], 3)),
    ("drafted a step", lambda row: number(row["drafted_per_step"], 1)),
    ("draft ms", lambda row: number(row["draft_ms"], 3)),
    ("update ms", lambda row: number(row["update_ms"], 3)),
    ("change", lambda row: "" if row["tuned"] or row["change"] is None else f"{row['change']:+.1%}"),
)


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _headline(results: Results) -> str:
    settings, versions = results["settings"], results["versions"]
    compiled = "compiled, " if settings.get("compiled") else ""
    model = f"{results['model']}, {results['dtype']}, {compiled}" if results["model"] else ""
    made = ", ".join(f"{name} {version}" for name, version in versions.items())
    code = f", commit {results['commit']}" if results["commit"] else ""
    said = [f"{model}{results['device']}; {made}{code}.", f"`{results['command']}`"]
    if results["kind"] == "live":
        rule = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']}, top-p {settings['top_p']}"
        repeats = settings["repeat"]
        times = "one run each" if repeats == 1 else f"medians of {repeats} repeats, in brackets the lowest and highest"
        said.append(
            f"{settings['questions']} questions, at most {settings['max_new_tokens']} new tokens, {rule}, "
            f"budget {settings['budget']}; {times}. Milliseconds are medians a step; prefill is in none of the other columns."
        )
    elif results["kind"] == "recorded":
        said.append(
            f"{settings['questions']} recorded greedy outputs replayed with no model in the loop, at most "
            f"{settings['budget']} nodes a draft; milliseconds are medians a step."
        )
    return "\n\n".join(said)


def _notes(results: Results, total: Sequence[Row]) -> list[str]:
    share = next((row["distinct_4grams"] for row in total if row["distinct_4grams"] is not None), None)
    notes = []
    if share is not None:
        whose = "plain decoding's outputs" if results["kind"] == "live" else "the recorded outputs"
        notes.append(
            f"Share of distinct 4-grams in {whose}: {share:.2f}. Text that repeats itself flatters every method that copies; "
            "larger models repeat themselves less."
        )
    if results.get("notice"):
        notes.append(f"Note: {results['notice']}.")
    return notes


def _by_category(rows: Sequence[Row], categories: Sequence[str], live: bool) -> str:
    def show(category: str) -> Callable[[Row], str]:
        def text(row: Row) -> str:
            own = next((r for r in rows if r["category"] == category and r["method"] == row["method"]), None)
            if own is None:
                return "–"
            steps = number(own["tokens_per_step"])
            return f"{_times(own['speedup'])}, {steps}" if live else steps

        return text

    columns: list[Column] = [("method", lambda row: row["label"]), *((name, show(name)) for name in categories)]
    title = "By category: speedup, tokens a step" if live else "By category: tokens a step"
    return f"{title}\n\n{table(columns, [row for row in rows if row['category'] == ALL])}"


def _shape(results: Results) -> str:
    gigabytes = results["weights"]["bytes_read_a_step"] / 1e9
    rates, floors = results["bandwidth"], results["floor_ms"]
    floor = f"{gigabytes:.2f} GB of weights are read a step: at the {rates['copy_measured'] / 1e12:.2f} TB/s that a large copy "
    floor += f"reaches here (read and written bytes together) in {floors['measured']:.3f} ms"
    if rates["datasheet"]:
        floor += f", at the data sheet's {rates['datasheet'] / 1e12:.2f} TB/s in {floors['datasheet']:.3f} ms"
    steps = "one CUDA graph a step" if results["settings"]["captured"] else "one operation at a time"
    how = f"Context {results['settings']['context']} tokens, {steps}. Note: {results['note']}."
    return "\n\n".join([_headline(results), how, floor + ".", table(SHAPE, results["rows"])]) + "\n"


def _fidelity_note(results: Results) -> str:
    kept = "one session, which keeps what every text taught" if results["settings"]["keep"] else "a session of its own for each"
    return (
        f"{results['settings']['texts']} texts of the model, {kept}. Total variation: half the sum of differences of two "
        "distributions, 0 where they are the same. Top k: the share of the model's k most probable tokens that are among the "
        "representative's first k."
    )


def _ablation_note(results: Results) -> str:
    settings = results["settings"]
    sampled = f", temperature {settings['temperature']}, top-p {settings['top_p']}" if settings.get("temperature") else ", greedy"
    how = f"put to the model{sampled}" if results["model"] else "replayed with no model in the loop"
    return (
        f"ADED on {settings['texts']} texts, {how}: one setting is changed at a time, everything else stays as tuned (in bold). "
        "Change: of tokens a step, against the tuned value."
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

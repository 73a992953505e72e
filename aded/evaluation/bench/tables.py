"""Results as Markdown tables, for a results folder and for marked blocks in documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError
from aded.core.trace import write_atomically
from aded.evaluation.bench import results as results_of
from aded.evaluation.bench.aggregate import ALL

Results = Mapping[str, Any]
Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]


def markdown(results: Results) -> str:
    """Results as Markdown: headline, tables and notes."""
    if results["kind"] == "shape":
        return _shape(results)
    if results["kind"] == "attention":
        return _attention(results)
    if results["kind"] == "fidelity":
        return "\n\n".join([_headline(results), _fidelity_note(results), table(FIDELITY, results["rows"])]) + "\n"
    if results["kind"] == "ablation":
        return "\n\n".join([_headline(results), _ablation_note(results), table(ABLATION, results["rows"])]) + "\n"
    if results["kind"] == "vllm":
        return "\n\n".join([_headline(results), _vllm_note(results), table(VLLM, results["rows"])]) + "\n"
    total = [row for row in results["rows"] if row["category"] == ALL]
    columns = LIVE if results["kind"] == "live" else RECORDED
    blocks = [_headline(results), table(columns, total), *_notes(results, total)]
    if positions := _by_position(total):
        blocks.append(positions)
    categories = list(dict.fromkeys(row["category"] for row in results["rows"] if row["category"] != ALL))
    if len(categories) > 1:
        blocks.append(_by_category(results["rows"], categories, results["kind"] == "live"))
    return "\n\n".join(blocks) + "\n"


def of_file(path: str | os.PathLike[str]) -> str:
    """The tables of a ``results.json``.

    Raises:
        AdedError: the file is missing or damaged.
    """
    body = results_of.read(path)
    try:
        return markdown(body)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AdedError(f"{path} is damaged; run the benchmark again") from None


def table(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(name for name, _ in columns) + " |"]
    lines.append("| --- |" + " ---: |" * (len(columns) - 1))
    lines += ["| " + " | ".join(_cell(show(row)) for _, show in columns) + " |" for row in rows]
    return "\n".join(lines)


def embed(document: str | os.PathLike[str], name: str, results: str | os.PathLike[str]) -> None:
    """Write the tables of a results file between ``<!-- bench:NAME -->`` and ``<!-- /bench -->``.

    Raises:
        AdedError: a file is missing, or the markers do not occur exactly once and in this order.
    """
    embed_text(document, name, of_file(results))


def embed_text(document: str | os.PathLike[str], name: str, text: str) -> None:
    """Write a text between the markers of `embed`, which says what is raised."""
    path, begin, end = Path(document), f"<!-- bench:{name} -->", "<!-- /bench -->"
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AdedError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not text'}; give a Markdown file") from None
    before, found, rest = old.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed or begin in rest:
        raise AdedError(f"{path} has no block {begin} ... {end}; write each marker once, on a separate line")
    write_atomically(path, f"{before}{begin}\n{text}{end}{after}".encode())


def number(value: float | None, digits: int = 2) -> str:
    """A formatted number; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def speedup(row: Row) -> str:
    """Speed-up over plain decoding, its range over repeats, and a remark if it is not faster."""
    if row["speedup"] is None:
        return "–"
    text = f"{row['speedup']:.2f}×"
    if row["speedup_spread"]:
        low, high = row["speedup_spread"]
        text += f" ({low:.2f}–{high:.2f})"
    text += interval(row, "speedup")
    return text if row["verdict"] in (None, "faster than plain") else f"{text}, {row['verdict']}"


def interval(row: Row, name: str) -> str:
    """The 95 % bootstrap interval of a figure in brackets; empty if there is none, as in results of older versions."""
    limits = row.get(f"{name}_interval")
    return "" if limits is None else f" [{limits[0]:.2f}, {limits[1]:.2f}]"


def identical(row: Row) -> str:
    """Number of outputs equal to plain decoding's, and how many of the others first differ at a tie."""
    if row["compared"] is None:
        return "–"
    text = f"{row['identical']} of {row['compared']}"
    different = row["compared"] - row["identical"]
    if not different:
        return text
    first = row["first_difference"]
    where = f"question {first['question']}, token {first['position']}"
    if first["gap"] is None:  # sampled, or only the lengths differ: no gap was computed
        return f"{text}; first difference at {where}"
    return f"{text}; {row['ties']} of the other {different} are ties" + ("" if first["tie"] else f"; not a tie: {where}")


def _ms(name: str) -> Column:
    return name.replace("_", " "), lambda row: number(row[name])


LIVE: tuple[Column, ...] = (
    ("method", lambda row: row["label"]),
    ("tokens per second", lambda row: number(row["tokens_per_second"], 1)),
    ("speed-up", speedup),
    ("tokens per step", lambda row: number(row["tokens_per_step"]) + interval(row, "tokens_per_step")),
    ("accepted draft tokens per step", lambda row: number(row["accepted_per_step"])),
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
    ("tokens per step", lambda row: number(row["tokens_per_step"])),
    ("accepted draft tokens per step", lambda row: number(row["accepted_per_step"])),
    ("nodes", lambda row: number(row["tree_nodes"], 1)),
    _ms("draft_ms"),
    _ms("update_ms"),
    _ms("host_ms"),
)
SHAPE: tuple[Column, ...] = (
    ("nodes", lambda row: str(row["nodes"])),
    ("step ms", lambda row: number(row["step_ms"], 3)),
    ("quartiles", lambda row: "–".join(number(v, 3) for v in row["quartiles_ms"])),
    ("relative to one node", lambda row: f"{row['over_one_node']:.2f}×"),
    ("relative to the floor (measured bandwidth)", lambda row: _times(row["over_measured_floor"])),
    ("relative to the floor (data sheet)", lambda row: _times(row["over_datasheet_floor"])),
)


REPRESENTATIVES = {"base": "base counts", "overlay": "session counts", "session": "base and session counts"}
"""Names of the LLM representatives of `aded.ngram.representative` in tables and charts."""
FIDELITY: tuple[Column, ...] = (
    ("LLM representative", lambda row: _representative(row["representative"])),
    ("where", lambda row: row["where"]),
    ("positions", lambda row: str(row["positions"])),
    ("unseen bigrams", lambda row: f"{row['unseen']:.1%}"),
    ("total variation", lambda row: number(row["total_variation"], 3)),
    ("top 1", lambda row: number(row["top_1"], 3)),
    ("top 4", lambda row: number(row["top_4"], 3)),
    ("top 12", lambda row: number(row["top_12"], 3)),
)


VLLM: tuple[Column, ...] = (
    ("method", lambda row: row["label"]),
    ("K", lambda row: str(row["draft_length"] or "–")),
    ("batch", lambda row: str(row["batch"])),
    ("tokens per step", lambda row: number(row["tokens_per_step"])),
    ("accepted draft tokens per step", lambda row: number(row["accepted_per_step"])),
    ("draft tokens per step", lambda row: number(row["drafted_per_step"])),
    ("tokens per second", lambda row: number(row["tokens_per_second"], 1)),
    ("speed-up", lambda row: _times(row["speedup"])),
    ("same as plain", lambda row: f"{row['identical']} of {row['questions']}" if row["draft_length"] else "–"),
)


ABLATION: tuple[Column, ...] = (
    ("setting", lambda row: row["setting"]),
    ("value", lambda row: f"**{row['value']}**" if row["tuned"] else str(row["value"])),
    ("tokens per step", lambda row: number(row["tokens_per_step"], 3)),
    ("draft tokens per step", lambda row: number(row["drafted_per_step"], 1)),
    ("draft ms", lambda row: number(row["draft_ms"], 3)),
    ("update ms", lambda row: number(row["update_ms"], 3)),
    ("change", lambda row: "" if row["tuned"] or row["change"] is None else f"{row['change']:+.1%}"),
)


def _representative(who: str) -> str:
    return REPRESENTATIVES.get(who, who)


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _headline(results: Results) -> str:
    settings, versions = results["settings"], results["versions"]
    compiled = "compiled, " if settings.get("compiled") else ""
    model = f"{results['model']}, {results['dtype']}, {compiled}" if results["model"] else ""
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    code = f", commit {results['commit']}" if results["commit"] else ""
    lines = [f"{model}{results['device']}; {software}{code}.", f"`{results['command']}`"]
    if results["kind"] == "live":
        rule = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']}, top-p {settings['top_p']}"
        repeats = settings["repeat"]
        times = "one run each" if repeats == 1 else f"medians of {repeats} repeats, with minimum and maximum in parentheses"
        lines.append(
            f"{settings['questions']} questions, at most {settings['max_new_tokens']} new tokens, {rule}, "
            f"budget {settings['budget']}; {times}. Milliseconds are medians per step; only prefill ms includes prefill."
            + (" In brackets: 95 % bootstrap intervals over questions." if _has_intervals(results) else "")
        )
    elif results["kind"] == "recorded":
        lines.append(
            f"{settings['questions']} recorded greedy outputs replayed with no model, at most "
            f"{settings['budget']} nodes per draft tree; milliseconds are medians per step."
        )
    return "\n\n".join(lines)


def _has_intervals(results: Results) -> bool:
    return any(row.get("tokens_per_step_interval") for row in results["rows"])


def _notes(results: Results, total: Sequence[Row]) -> list[str]:
    share = next((row["distinct_4grams"] for row in total if row["distinct_4grams"] is not None), None)
    notes = []
    if share is not None:
        source = "plain decoding's outputs" if results["kind"] == "live" else "the recorded outputs"
        notes.append(
            f"Fraction of distinct 4-grams in {source}: {share:.2f}. Repetitive text favours methods that copy; "
            "larger models repeat themselves less."
        )
    if results.get("notice"):
        notes.append(f"Note: {results['notice']}.")
    return notes


def _by_category(rows: Sequence[Row], categories: Sequence[str], live: bool) -> str:
    def show(category: str) -> Callable[[Row], str]:
        def text(row: Row) -> str:
            found = next((r for r in rows if r["category"] == category and r["method"] == row["method"]), None)
            if found is None:
                return "–"
            steps = number(found["tokens_per_step"])
            return f"{_times(found['speedup'])}, {steps}" if live else steps

        return text

    columns: list[Column] = [("method", lambda row: row["label"]), *((name, show(name)) for name in categories)]
    title = "By category: speed-up, tokens per step" if live else "By category: tokens per step"
    return f"{title}\n\n{table(columns, [row for row in rows if row['category'] == ALL])}"


def _by_position(rows: Sequence[Row]) -> str:
    """Acceptance rates by draft position; empty for results without them."""
    known = [row for row in rows if any(rate is not None for rate in row.get("acceptance_by_position") or [])]
    if not known:
        return ""

    def show(position: int) -> Callable[[Row], str]:
        return lambda row: number(row["acceptance_by_position"][position])

    count = len(known[0]["acceptance_by_position"])
    columns: list[Column] = [("method", lambda row: row["label"]), *((str(i + 1), show(i)) for i in range(count))]
    title = "By draft position: acceptance rate, of the steps in which verification reached a token drafted there"
    return f"{title}\n\n{table(columns, known)}"


def _shape(results: Results) -> str:
    gigabytes = results["weights"]["bytes_read_a_step"] / 1e9
    rates, floors = results["bandwidth"], results["floor_ms"]
    floor = f"A step reads {gigabytes:.2f} GB of weights. The floor is {floors['measured']:.3f} ms at "
    floor += f"{rates['copy_measured'] / 1e12:.2f} TB/s, the measured bandwidth of a large copy (bytes read and written together)"
    if rates["datasheet"]:
        floor += f", and {floors['datasheet']:.3f} ms at the data sheet's {rates['datasheet'] / 1e12:.2f} TB/s"
    steps = "one CUDA graph per step" if results["settings"]["captured"] else "without CUDA graphs"
    how = f"Context {results['settings']['context']} tokens, {steps}. Note: {results['note']}."
    return "\n\n".join([_headline(results), how, floor + ".", table(SHAPE, results["rows"])]) + "\n"


def _attention(results: Results) -> str:
    kinds = results["settings"]["attention"]
    cells: dict[tuple[int, int], dict[str, float]] = {}
    for row in results["rows"]:
        cells.setdefault((row["context"], row["nodes"]), {})[row["attention"]] = row["step_ms"]
    rows = [{"context": context, "nodes": nodes, **times} for (context, nodes), times in cells.items()]
    columns: list[Column] = [("tokens seen", lambda row: str(row["context"])), ("nodes", lambda row: str(row["nodes"]))]
    columns += [(f"{kind}, ms", partial(_lowest_bold, kind, kinds)) for kind in kinds]
    largest = max(row["difference"] for row in results["rows"])
    how = (
        f"Time of a decoding step, medians; the fastest in bold. The logits differ from those of {kinds[0]} by at most "
        f"{largest:.2g} standard deviations. Note: {results['note']}."
    )
    return "\n\n".join([_headline(results), how, table(columns, rows)]) + "\n"


def _lowest_bold(kind: str, kinds: Sequence[str], row: Row) -> str:
    text = f"{row[kind]:.3f}"
    return f"**{text}**" if row[kind] == min(row[other] for other in kinds) else text


def _fidelity_note(results: Results) -> str:
    sessions = "one session for all" if results["settings"]["keep"] else "a new session for each"
    return (
        f"{results['settings']['texts']} texts of the model, {sessions}. Total variation: half the sum of the absolute "
        "differences of two distributions, 0 if they are equal. Top k: the fraction of the model's k most probable "
        "tokens that are among the LLM representative's k most probable."
    )


def _ablation_note(results: Results) -> str:
    settings = results["settings"]
    sampled = f", temperature {settings['temperature']}, top-p {settings['top_p']}" if settings.get("temperature") else ", greedy"
    how = f"verified by the model{sampled}" if results["model"] else "replayed with no model"
    return (
        f"ADED on {settings['texts']} texts, {how}: one setting is changed at a time, all others keep their tuned values (in "
        "bold). Change: of tokens per step, relative to the tuned value."
    )


def _vllm_note(results: Results) -> str:
    settings = results["settings"]
    return (
        f"{settings['questions']} questions, at most {settings['max_new_tokens']} new tokens, greedy; vLLM verifies chains of at "
        "most K draft tokens for as many requests at a time as the batch has. Tokens per step: of one request, over all its "
        "steps, with and without a draft, including the bonus or correction token. Time includes prefill."
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

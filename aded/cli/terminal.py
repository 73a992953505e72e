"""Terminal output: streamed text with accepted draft tokens coloured, progress, summaries, and printed traces."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from tqdm import tqdm

from aded.core.trace import Step, Trace

DRAFT, TARGET, FAINT, BOLD, OFF = "\033[34;4m", "\033[32m", "\033[2m", "\033[1m", "\033[0m"
MAX_SHOWN = 256
"""Maximum nodes of a tree, and tokens of a step, that are printed; the rest is only counted."""
MAX_INDENT = 16
"""Maximum depth that is shown by indentation; deeper nodes print their depth."""
MAX_TOKEN_LENGTH = 80
"""Maximum characters of a token's text."""
PHASES = {"draft": "draft", "verify": "verify", "commit": "KV-cache compaction", "update": "update"}
"""Names of the phases of a step, by their names in records."""
VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\x1b": "␛"})


def use_color(choice: str) -> bool:
    """Whether to print in colour: ``always``, ``never``, or ``auto`` (in a terminal, unless NO_COLOR is set)."""
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"


def visible(text: str) -> str:
    """A token's text with whitespace and control characters made visible."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text.translate(VISIBLE))


def harmless(text: str) -> str:
    """Text with control characters escaped, except line breaks and tabs, so that a terminal does not interpret them."""
    return "".join(c if c in "\n\t" or (c >= " " and c != "\x7f" and not "\x80" <= c <= "\x9f") else visible(c) for c in text)


def one_line(text: str) -> str:
    """Text of a trace's header or note as one line, with control characters escaped."""
    return harmless(text).replace("\n", " ")


class Progress:
    """A status line on the standard error, with a progress bar if the fraction done is known."""

    def __enter__(self) -> Progress:
        self._bar = tqdm(total=1.0, leave=False, disable=None, dynamic_ncols=True, bar_format="{desc}")
        self._last = ""
        return self

    def __call__(self, message: str, fraction: float | None = None) -> None:
        if not self._bar.disable:  # disabled if the standard error is not a terminal
            self._bar.n = fraction or 0.0
            self._bar.bar_format = "{desc}" if fraction is None else "{desc} |{bar}| {percentage:3.0f}%"
            self._bar.set_description_str(message)
        elif (subject := message.split(":")[0]) != self._last:
            print(message, file=sys.stderr, flush=True)
            self._last = subject

    def __exit__(self, *_: object) -> None:
        self._bar.close()


class TokenStream:
    """Prints steps as they come: accepted draft tokens blue and underlined, bonus and correction tokens plain."""

    def __init__(self, out: TextIO, color: bool, silent: bool = False) -> None:
        self.out, self.color, self.silent = out, color, silent

    def write(self, step: Step) -> None:
        if self.silent:
            return
        for text, origin in zip(step.texts, step.origins):
            text = harmless(text)
            self.out.write(f"{DRAFT}{text}{OFF}" if self.color and origin == "draft" and text else text)
        self.out.flush()

    def end(self) -> None:
        if not self.silent:
            self.out.write("\n\n")


def summary_table(trace: Trace) -> str:
    """A summary of a run, one line per figure."""
    n = max(len(trace.steps), 1)
    seconds = [step.seconds for step in trace.steps]
    ms = {PHASES[phase]: 1000 * sum(getattr(s, phase) for s in seconds) / n for phase in PHASES}
    rows = [
        ("method", f"{trace.header.label} on {trace.header.model}, {trace.header.device}, {trace.header.dtype}"),
        ("tokens", f"{len(trace.token_ids)} in {len(trace.steps)} steps, ended by {trace.finish_reason}"),
        ("tokens per second", f"{trace.tokens_per_second:.1f} (prefill, not included: {trace.prefill_seconds:.2f} s)"),
        ("tokens per step", f"{trace.tokens_per_step:.2f}, of which accepted draft tokens: {trace.accepted_per_step:.2f}"),
        ("ms per step", ", ".join(f"{phase} {value:.2f}" for phase, value in ms.items())),
    ]
    if trace.steps:
        rows.append(("draft budget", f"{trace.steps[-1].budget.nodes} nodes, {trace.steps[-1].budget.why}"))
    if footprint := trace.footprint:
        rows.append(
            (
                "on the GPU",
                f"{footprint.bytes / 1e6:.0f} MB; {footprint.captured_steps} steps captured in {footprint.capture_seconds:.1f} s",
            )
        )
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {one_line(value)}" for name, value in rows)


def replay(trace: Trace, only: int | None, pause: bool, color: bool) -> None:
    """Print a trace step by step.

    Args:
        trace: the trace.
        only: number of the only step to print, counted from 1, with its whole tree; None: all steps.
        pause: wait for Enter after each step.
        color: print escape sequences for colour.
    """
    head = trace.header
    print(_paint(one_line(f"{head.label} on {head.model}, {head.device}, {head.dtype}, seed {head.seed}"), BOLD, color))
    for step in trace.steps if only is None else [trace.steps[only - 1]]:
        print(_step_line(step, color))
        for line in tree_lines(step, color, whole=only is not None):
            print(f"    {line}")
        if pause and sys.stdin.isatty():
            with suppress(EOFError):  # Ctrl-D continues too
                input()
    if only is None:
        print(f"\n{summary_table(trace)}")


def _step_line(step: Step, color: bool) -> str:
    drafted = len(step.tree.tokens) - 1
    emitted = [(text, DRAFT if origin == "draft" else TARGET) for text, origin in zip(step.texts, step.origins) if text]
    texts = [_paint(_cut(visible(text)), style, color) for text, style in emitted[:MAX_SHOWN]]
    texts += [f"… and {len(emitted) - MAX_SHOWN} more"] if len(emitted) > MAX_SHOWN else []
    note = f" ({one_line(step.note)})" if step.note else ""
    figures = f"drafted {drafted}, accepted {step.accepted}, {1000 * step.seconds.total:.1f} ms"
    return f"step {step.index + 1}: {figures}{note}: {' '.join(texts)}"


def tree_lines(step: Step, color: bool, whole: bool) -> list[str]:
    """The draft tree, one line per node, indented by depth.

    At most ``MAX_SHOWN`` nodes, then a line with the number of the others: a trace file may hold a tree of any size.

    Args:
        step: the step.
        color: print escape sequences for colour.
        whole: all nodes; otherwise only accepted and rejected ones.
    """
    tree = step.tree
    depth = [0] * len(tree.tokens)
    children: list[list[int]] = [[] for _ in tree.tokens]
    for node, parent in enumerate(tree.parents[1:], 1):
        depth[node] = depth[parent] + 1
        children[parent].append(node)
    lines: list[str] = []
    stack = list(reversed(children[0]))
    while stack and len(lines) < MAX_SHOWN:
        node = stack.pop()
        if whole or tree.verdict[node] != "unreached":
            lines.append(_indent(depth[node]) + _node_line(step, node, color))
        stack.extend(reversed(children[node]))
    shown = len(tree.tokens) - 1 if whole else sum(verdict != "unreached" for verdict in tree.verdict[1:])
    return [*lines, f"… and {shown - len(lines)} more nodes"] if shown > len(lines) else lines


def _indent(depth: int) -> str:
    return "  " * (depth - 1) if depth <= MAX_INDENT else f"{'  ' * MAX_INDENT}(depth {depth}) "


def _node_line(step: Step, node: int, color: bool) -> str:
    tree = step.tree
    mark, style = {"accepted": ("✓", DRAFT), "rejected": ("✗", ""), "unreached": ("·", FAINT), "root": ("", "")}[
        tree.verdict[node]
    ]
    figures = []
    prior = "P {:.2f}" if "score" in tree.columns else "q {:.2f}"  # the prior P of PUCT, or a draft probability q
    for name, form in (("visits", "N {:.0f}"), ("prior", prior), ("value", "Q {:.2f}"), ("score", "score {:.2f}")):
        if name in tree.columns and (value := tree.columns[name][node]) is not None:
            figures.append(form.format(value))
    if tree.probability[node] is not None:
        figures.append(f"target {tree.probability[node]:.2f}, rank {tree.rank[node]}")
    text = _cut(visible(tree.texts[node])) or str(tree.tokens[node])
    return f"{mark} {_paint(text, style, color)}  {_paint(', '.join(figures), FAINT, color)}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TOKEN_LENGTH else f"{text[: MAX_TOKEN_LENGTH - 1]}…"


def _paint(text: str, style: str, color: bool) -> str:
    return f"{style}{text}{OFF}" if color and style else text

"""``python -m aded train``: from nothing, or from the last checkpoint, to a file and its card."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

import aded
from aded.core.errors import AdedError
from aded.core.paths import FOUND, artifact_folder
from aded.core.trace import write_atomically
from aded.core.validation import check_folder, check_outputs, check_readable
from aded.engine.weights import Progress
from aded.train.data import SELF
from aded.train.loop import CHECKPOINT, Schedule

HEADS = {"rate": 1e-3, "title": "Medusa heads"}
DRAFT = {"rate": 1e-3, "title": "Draft model"}
SELF_WRITTEN = 4_000_000
"""Tokens that the model writes itself where no corpus is given; an epoch of them is shorter than a run, which is harmless."""


def add_options(actions: Any) -> None:
    """The two kinds of training and their options."""
    medusa = actions.add_parser("medusa", help="heads that guess the next tokens from the target's hidden state")
    medusa.add_argument("--heads", type=int, default=4, metavar="N", help="tokens they look ahead (default: 4)")
    medusa.add_argument("--blocks", type=int, default=2, metavar="N", help="residual blocks a head (default: 2)")
    medusa.add_argument("--decay", type=float, default=1.0, metavar="X", help="head k counts X^(k-1) (default: 1)")
    _add_common(medusa, HEADS["rate"])
    draft = actions.add_parser("draft", help="a small model that shares the target's embeddings, distilled from it")
    draft.add_argument("--layers", type=int, default=2, metavar="N", help="of the draft model (default: 2)")
    draft.add_argument("--text-weight", type=float, default=0.1, metavar="X", help="of the loss on the text (default: 0.1)")
    _add_common(draft, DRAFT["rate"])


def _add_common(parser: argparse.ArgumentParser, rate: object) -> None:
    from aded.cli.model_options import add_model_options

    add_model_options(parser)
    parser.add_argument(
        "--corpus", nargs="+", default=["self"], metavar="self|FILE", help="text files, .npy files of token ids, or self"
    )
    parser.add_argument("--held-out", metavar="FILE.jsonl", help="recorded outputs to measure on too")
    parser.add_argument("--out", metavar="DIR", help=f"folder of the file, its card, and the checkpoint (default: {FOUND})")
    parser.add_argument("--tokens", type=int, default=20_000_000, metavar="N", help="train on so many (default: 20,000,000)")
    parser.add_argument("--self-written", type=int, default=SELF_WRITTEN, metavar="N", help="tokens of --corpus self")
    parser.add_argument("--minutes", type=float, metavar="M", help="train no longer than this")
    parser.add_argument("--length", type=int, default=512, metavar="N", help="tokens a row (default: 512)")
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="rows a step (default: 16)")
    parser.add_argument(
        "--share",
        type=float,
        default=0.25,
        metavar="X",
        help="of the positions of a step, at random, to learn from (default: 0.25)",
    )
    parser.add_argument("--learning-rate", type=float, default=rate, metavar="X", help=f"at its highest (default: {rate})")
    parser.add_argument("--save-every", type=int, default=100, metavar="N", help="steps between checkpoints (default: 100)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Train, measure, write."""
    from aded.cli import terminal
    from aded.cli.model_options import load_model

    _check(options)
    with terminal.Progress() as progress:
        target = load_model(options, progress)
        folder = Path(options.out or artifact_folder(options.kind, target.label, target.fingerprint))
        path = train(target, options, folder, progress)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; its card is {path.with_suffix('.md')}")


def train(target: Any, options: argparse.Namespace, folder: Path, progress: Progress) -> Path:
    """What `run` does, on a loaded model; returns the path of the file.

    Raises:
        AdedError: an option out of range, a corpus that cannot be read or that nothing can be learned from, a checkpoint of
            another run, or a loss that diverged or is no lower on held-out text than before.
    """
    from aded.evaluation.bench import results
    from aded.train import data, loop

    _check(options)
    _check_fit(target, options)
    ahead = options.heads + 1 if options.kind == "medusa" else 1
    recorded = data.recorded(options.held_out, target, ahead) if options.held_out else None
    text = data.read(options.corpus, target, options.self_written, options.seed, progress)
    rows = data.pack(text, options.length, options.seed, options.share)
    data.check_learnable(rows, ahead, {*getattr(target.tokenizer, "all_special_ids", ()), *target.eos_ids})
    torch.manual_seed(options.seed)
    objective = _objective(target, options, rows.training.ids.shape)
    before = objective.loss(objective.evaluate(rows.unseen()))
    with _made(folder):
        finished = loop.train(objective, rows, _schedule(options), folder, _identity(target, options, rows), progress)
        progress("measuring on held-out text", None)
        figures = objective.evaluate(rows.unseen())
        loop.refuse_worse(before, objective.loss(figures), folder)
    if recorded is not None:
        figures["recorded"] = objective.evaluate(recorded)
    command = results.command()
    path = objective.save(folder, figures, training={"command": command, "steps": finished.step, "seed": options.seed})
    write_atomically(path.with_suffix(".md"), _card(target, options, rows, figures, finished, command).encode())
    loop.forget(folder)
    return path


def _objective(target: Any, options: argparse.Namespace, shape: tuple[int, ...]) -> Any:
    """What is trained, on text of this shape."""
    from aded.train.states import TargetStates

    states = TargetStates(target, shape)
    if options.kind == "medusa":
        from aded.train.medusa import HeadObjective

        return HeadObjective(target, options.heads, options.blocks, options.decay, states)
    from aded.train.draft import DraftObjective

    return DraftObjective(target, options.layers, options.text_weight, states)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, and remove it again where an error leaves it empty."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AdedError(f"cannot make the folder {folder}: {error.strerror}; give another --out") from None
    try:
        yield
    except AdedError:
        if new:
            with suppress(OSError):
                folder.rmdir()
        raise


def _schedule(options: argparse.Namespace) -> Schedule:
    return Schedule(
        max(1, options.tokens // (options.length * options.batch)),
        options.batch,
        options.learning_rate,
        options.save_every,
        60 * options.minutes if options.minutes else None,
    )


def _check_fit(target: Any, options: argparse.Namespace) -> None:
    """Refuse what this model cannot do, before any text is read or written."""
    if options.length > target.context_limit:
        raise AdedError(
            f"--length is {options.length}, longer than the context of {target.label}; give a smaller --length, at most "
            f"{target.context_limit}"
        )
    if options.kind == "draft" and options.layers > (most := int(target.config.get_text_config().num_hidden_layers)):
        raise AdedError(f"--layers is {options.layers}; give at most {most}, which the model itself has")
    if options.kind == "draft" and target.mode != "tree":
        raise AdedError(f"{target.label} can have no draft model of its own layers: its passes need a shape of their own")
    if options.kind == "medusa" and target.model.get_output_embeddings() is None:
        raise AdedError(f"{target.label} has no vocabulary projection that heads can share; use another model")


def _check(options: argparse.Namespace) -> None:
    """Refuse what no model can do, before one is loaded."""
    bounds: dict[str, tuple[float, float]] = {"length": (8, 65536), "batch": (1, 65536), "tokens": (1, 10**12)}
    bounds |= {"self_written": (1, 10**12), "seed": (0, 2**63 - 1)}
    bounds |= {"heads": (1, 64), "blocks": (1, 64), "decay": (0, 1)} if options.kind == "medusa" else {"layers": (1, 64)}
    bounds |= {"text_weight": (0, 100)} if options.kind == "draft" else {}
    bounds |= {"minutes": (1e-3, 10**6)} if options.minutes is not None else {}
    for name, (least, most) in bounds.items():
        if not least <= getattr(options, name) <= most:
            raise AdedError(f"--{name.replace('_', '-')} is {getattr(options, name)}; give a number from {least} to {most}")
    if not 0 < options.share <= 1:
        raise AdedError(f"--share is {options.share}; give a number above 0 and at most 1")
    if options.kind == "medusa" and options.length < options.heads + 2:
        raise AdedError(f"rows of {options.length} tokens are too short for {options.heads} heads; give a larger --length")
    if options.kind == "medusa" and options.heads > 1 and options.decay == 0:
        raise AdedError("--decay 0 trains the first head alone; give a larger one, or --heads 1")
    _schedule(options)
    inputs = [*(source for source in options.corpus if source != SELF), options.held_out]
    check_readable(inputs)
    check_folder(options.out)
    name = "heads" if options.kind == "medusa" else "draft"
    check_outputs(options.out, (f"{name}.safetensors", f"{name}.md", CHECKPOINT), inputs)


def _identity(target: Any, options: argparse.Namespace, rows: Any) -> str:
    """Tells runs apart whose checkpoints must not be mixed (hex)."""
    ignored = {"out", "command", "action", "save_every", "device", "held_out"}
    settings = {k: v for k, v in vars(options).items() if k not in ignored and isinstance(v, (int, float, str, type(None)))}
    digest = hashlib.sha256(json.dumps([target.fingerprint, target.config.to_json_string(), settings], sort_keys=True).encode())
    digest.update(rows.training.ids.tobytes() + rows.training.counts.tobytes())
    return digest.hexdigest()


def _card(target: Any, options: argparse.Namespace, rows: Any, figures: dict[str, Any], finished: Any, command: str) -> str:
    from aded.train.card import card

    facts = [
        ("tokenizer", target.fingerprint),
        ("corpus", f"{rows.training.ids.size:,} tokens from {', '.join(Path(source).name for source in options.corpus)}"),
        ("written by the model", f"{100 * rows.training.counts.mean():.0f} % of them, which alone count"),
        ("trained on", f"{finished.step * options.batch * options.length:,} tokens, at {options.share:.0%} of their positions"),
        ("seed", options.seed),
        ("device", f"{target.device_name}, {str(target.dtype).removeprefix('torch.')}"),
        ("versions", f"aded {aded.__version__}, torch {torch.__version__}"),
    ]
    title = HEADS["title"] if options.kind == "medusa" else DRAFT["title"]
    return card(str(title), target.label, command, facts, figures, finished)

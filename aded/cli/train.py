"""The command ``train``: train draft heads or a draft model, from the start or the last checkpoint."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aded
from aded.core.errors import AdedError
from aded.core.paths import DEFAULT_PLACE, artifact_folder
from aded.core.trace import write_atomically
from aded.core.validation import check_folder, check_outputs, check_readable, refuse_ignored

if TYPE_CHECKING:
    from aded.engine.loading.weights import Progress
    from aded.train.loop import Schedule

RATE = 1e-3
"""Default peak learning rate."""
SELF_WRITTEN = 4_000_000
"""Default number of tokens that the model writes for ``--corpus self``."""


@dataclass(frozen=True)
class Kind:
    """A kind of training.

    Attributes:
        title: what is trained, for the model card.
        predictor: what each row of its accuracy belongs to (see ``aded.train.model_card``); empty if there is only one row.
        file: name of its file without suffix.
        bounds: lowest and highest value of its numeric options.
        ahead: number of tokens predicted after a position.
        objective: makes its objective from the target, the options and the rows of the text.
    """

    title: str
    predictor: str
    file: str
    bounds: Mapping[str, tuple[float, float]]
    ahead: Callable[[argparse.Namespace], int]
    objective: Callable[[Any, argparse.Namespace, Any], Any]


def _medusa(target: Any, options: argparse.Namespace, rows: Any) -> Any:
    from aded.train.feature_cache import TargetStates
    from aded.train.medusa import HeadObjective

    states = TargetStates(target, rows.training.ids.shape)
    return HeadObjective(target, options.heads, options.blocks, options.decay, states)


def _eagle(target: Any, options: argparse.Namespace, rows: Any) -> Any:
    from aded.train.eagle import EagleObjective

    sizes = (options.vocabulary, options.features, options.unroll, options.decay)
    return EagleObjective(target, rows.training, *sizes, rows.training.ids.shape)


def _mtp(target: Any, options: argparse.Namespace, rows: Any) -> Any:
    from aded.train.eagle import MtpObjective

    shape = rows.training.ids.shape
    return MtpObjective(target, rows.training, options.vocabulary, "last", options.unroll, options.decay, shape)


def _glide(target: Any, options: argparse.Namespace, rows: Any) -> Any:
    from aded.train.eagle import GlideObjective

    shape = rows.training.ids.shape
    return GlideObjective(target, rows.training, options.vocabulary, "none", options.unroll, options.decay, shape)


def _draft(target: Any, options: argparse.Namespace, rows: Any) -> Any:
    from aded.train.draft import DraftObjective
    from aded.train.feature_cache import TargetStates

    states = TargetStates(target, rows.training.ids.shape)
    return DraftObjective(target, options.layers, options.text_weight, states)


def _unrolled(title: str, file: str, objective: Callable[[Any, argparse.Namespace, Any], Any]) -> Kind:
    """A kind that is trained on its drafting steps."""
    bounds = {"vocabulary": (2, 10**6), "unroll": (1, 16), "decay": (0, 1)}
    return Kind(title, "drafted token", file, bounds, lambda options: options.unroll + 1, objective)


KINDS = {
    "medusa": Kind(
        "Medusa heads",
        "head",
        "heads",
        {"heads": (1, 64), "blocks": (1, 64), "decay": (0, 1)},
        lambda options: options.heads + 1,
        _medusa,
    ),
    "eagle": _unrolled("EAGLE head", "eagle", _eagle),
    "mtp": _unrolled("MTP head", "mtp", _mtp),
    "glide": _unrolled("GliDe head", "glide", _glide),
    "draft": Kind("Draft model", "", "draft", {"layers": (1, 64), "text_weight": (0, 100)}, lambda options: 1, _draft),
}

UNROLLED = ("eagle", "mtp", "glide")
"""Kinds that are trained on their drafting steps."""


def add_options(actions: Any) -> None:
    """Add the kinds of training and their options."""
    medusa = actions.add_parser("medusa", help="heads that predict later tokens from the target's hidden state")
    medusa.add_argument("--heads", type=int, default=4, metavar="N", help="number of heads, one per token ahead (default: 4)")
    medusa.add_argument("--blocks", type=int, default=2, metavar="N", help="residual blocks per head (default: 2)")
    medusa.add_argument("--decay", type=float, default=1.0, metavar="X", help="weight X^(k-1) for head k (default: 1)")
    _add_common(medusa)
    eagle = actions.add_parser("eagle", help="an EAGLE-3 head: one layer that drafts from the target's hidden states")
    eagle.add_argument(
        "--features",
        choices=("three", "last"),
        default="three",
        help="hidden states that it reads: of three layers (default), or the last one, as EAGLE-1",
    )
    _add_unrolling(eagle, 5, 0.8)
    mtp = actions.add_parser("mtp", help="a multi-token prediction head: one layer that continues the target's last hidden state")
    _add_unrolling(mtp, 3, 0.6)
    glide = actions.add_parser("glide", help="a GliDe head: one layer that attends to the KV cache of the target's last layer")
    _add_unrolling(glide, 5, 0.9)
    draft = actions.add_parser("draft", help="a small model that shares the target's embeddings, distilled from it")
    draft.add_argument("--layers", type=int, default=2, metavar="N", help="layers of the draft model (default: 2)")
    draft.add_argument(
        "--text-weight", type=float, default=0.1, metavar="X", help="weight of the cross-entropy on the text (default: 0.1)"
    )
    _add_common(draft)


def _add_unrolling(parser: argparse.ArgumentParser, steps: int, decay: float) -> None:
    """Options of a head that is trained on its drafting steps, and the common ones."""
    parser.add_argument(
        "--vocabulary", type=int, default=6144, metavar="N", help="tokens it can draft, the most frequent ones (default: 6144)"
    )
    parser.add_argument(
        "--unroll", type=int, default=steps, metavar="N", help=f"drafting steps per position in training (default: {steps})"
    )
    parser.add_argument("--decay", type=float, default=decay, metavar="X", help=f"weight X^(k-1) for step k (default: {decay})")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    from aded.cli.model_options import add_model_options

    add_model_options(parser)
    parser.add_argument(
        "--corpus",
        nargs="+",
        default=["self"],
        metavar="self|FILE",
        help="text files, .npy files of token ids, or self: the model's text",
    )
    parser.add_argument("--held-out", metavar="FILE.jsonl", help="recorded outputs for a further evaluation")
    parser.add_argument(
        "--out", metavar="DIR", help=f"folder for the weights, model card and checkpoint (default: {DEFAULT_PLACE})"
    )
    parser.add_argument("--tokens", type=int, default=20_000_000, metavar="N", help="tokens to train on (default: 20,000,000)")
    parser.add_argument(
        "--self-written", type=int, default=SELF_WRITTEN, metavar="N", help="tokens that the model writes for --corpus self"
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="time limit")
    parser.add_argument("--length", type=int, default=512, metavar="N", help="tokens per row (default: 512)")
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="rows per step (default: 16)")
    parser.add_argument(
        "--share",
        type=float,
        default=0.25,
        metavar="X",
        help="fraction of the positions to train on, sampled in each step (default: 0.25)",
    )
    parser.add_argument("--learning-rate", type=float, default=RATE, metavar="X", help=f"peak learning rate (default: {RATE})")
    parser.add_argument("--save-every", type=int, default=100, metavar="N", help="steps between checkpoints (default: 100)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Run the command.

    Raises:
        AdedError: see `train`.
    """
    from aded.cli import terminal
    from aded.cli.model_options import load_model

    _check(options)
    with terminal.Progress() as progress:
        target = load_model(options, progress, drafts=False)
        folder = Path(options.out or artifact_folder(options.kind, target.label, target.fingerprint))
        path = train(target, options, folder, progress)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; its model card is {path.with_suffix('.md')}")


def train(target: Any, options: argparse.Namespace, folder: Path, progress: Progress) -> Path:
    """Train on a loaded model, evaluate, and write the weights and the model card; returns the path of the weights.

    Raises:
        AdedError: an option is out of range, the corpus is unreadable or unsuitable, the checkpoint belongs to another run,
            the loss diverged, or the loss on held-out text rose.
    """
    import torch

    from aded.evaluation.bench import results
    from aded.train import dataset, loop

    _check(options)
    check_fit(target, options)
    ahead = KINDS[options.kind].ahead(options)
    recorded = dataset.recorded(options.held_out, target, ahead) if options.held_out else None
    text = dataset.read(options.corpus, target, options.self_written, options.seed, progress)
    rows = dataset.pack(text, options.length, options.seed, options.share)
    dataset.check_learnable(rows, ahead, {*getattr(target.tokenizer, "all_special_ids", ()), *target.eos_ids})
    torch.manual_seed(options.seed)
    objective = KINDS[options.kind].objective(target, options, rows)
    before = objective.loss(objective.evaluate(rows.evaluation_batches()))
    with _created(folder):
        finished = loop.train(objective, rows, _schedule(options), folder, _identity(target, options, rows), progress)
        progress("evaluating on held-out text", None)
        figures = objective.evaluate(rows.evaluation_batches())
        loop.check_improved(before, objective.loss(figures), folder)
    if recorded is not None:
        figures["recorded"] = objective.evaluate(recorded)
    command = results.command()
    path = objective.save(folder, figures, training={"command": command, "steps": finished.step, "seed": options.seed})
    write_atomically(path.with_suffix(".md"), _model_card(target, options, rows, figures, finished, command).encode())
    loop.remove_checkpoint(folder)
    return path


@contextmanager
def _created(folder: Path) -> Iterator[None]:
    """Create a folder; remove it if it is new and empty after an error or an interruption."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AdedError(f"cannot create the folder {folder}: {error.strerror}; give another --out") from None
    try:
        yield
    except BaseException:
        if new:
            with suppress(OSError):
                folder.rmdir()
        raise


def _schedule(options: argparse.Namespace) -> Schedule:
    from aded.train.loop import Schedule

    return Schedule(
        max(1, options.tokens // (options.length * options.batch)),
        options.batch,
        options.learning_rate,
        options.save_every,
        60 * options.minutes if options.minutes else None,
    )


def check_fit(target: Any, options: argparse.Namespace) -> None:
    """Raise ``AdedError`` if this cannot be trained for the model; before any text is read or generated."""
    if options.length > target.context_limit:
        raise AdedError(
            f"--length is {options.length}, longer than the context of {target.label}; give a smaller --length, at most "
            f"{target.context_limit}"
        )
    if options.kind == "draft" and options.layers > (limit := int(target.config.get_text_config().num_hidden_layers)):
        raise AdedError(f"--layers is {options.layers}; give at most {limit}, the number of layers of the model")
    if options.kind == "draft" and target.mode != "tree":
        raise AdedError(
            f"{target.label} cannot have a draft model of its layers: it does not support tree attention; use another model"
        )
    if target.model.get_output_embeddings() is None:
        raise AdedError(
            f"{target.label} has no vocabulary projection to share with a {options.kind} checkpoint; use another model"
        )


def _check(options: argparse.Namespace) -> None:
    """Check the options before a model is loaded."""
    from aded.train.dataset import SELF
    from aded.train.loop import CHECKPOINT

    bounds: dict[str, tuple[float, float]] = {"length": (8, 65536), "batch": (1, 65536), "tokens": (1, 10**12)}
    bounds |= {"self_written": (1, 10**12), "seed": (0, 2**63 - 1)}
    bounds |= KINDS[options.kind].bounds
    bounds |= {"minutes": (1e-3, 10**6)} if options.minutes is not None else {}
    for name, (low, high) in bounds.items():
        if not low <= getattr(options, name) <= high:
            raise AdedError(f"--{name.replace('_', '-')} is {getattr(options, name)}; give a number from {low} to {high}")
    if SELF not in options.corpus:
        refuse_ignored(options, ["self_written"], "goes with --corpus self")
    if not 0 < options.share <= 1:
        raise AdedError(f"--share is {options.share}; give a number above 0 and at most 1")
    if options.kind == "medusa" and options.length < options.heads + 2:
        raise AdedError(f"rows of {options.length} tokens are too short for {options.heads} heads; give a larger --length")
    if options.kind in UNROLLED and options.length < options.unroll + 2:
        raise AdedError(f"rows of {options.length} tokens are too short for --unroll {options.unroll}; give a larger --length")
    if options.kind in UNROLLED and options.unroll > 1 and options.decay == 0:
        raise AdedError("--decay 0 trains only the first step; give a larger value, or --unroll 1")
    if options.kind == "medusa" and options.heads > 1 and options.decay == 0:
        raise AdedError("--decay 0 trains only the first head; give a larger value, or --heads 1")
    _schedule(options)
    inputs = [*(source for source in options.corpus if source != SELF), options.held_out]
    check_readable(inputs)
    check_folder(options.out)
    name = KINDS[options.kind].file
    check_outputs(options.out, (f"{name}.safetensors", f"{name}.md", CHECKPOINT), inputs)


def _what_is_read(options: argparse.Namespace) -> str:
    if options.kind == "glide":
        return "the KV cache of the last layer"
    return "hidden states of three layers" if getattr(options, "features", None) == "three" else "the last hidden state"


def _identity(target: Any, options: argparse.Namespace, rows: Any) -> str:
    """A hash (hex) of everything that a checkpoint depends on."""
    ignored = {"out", "command", "action", "save_every", "device", "held_out"}
    settings = {k: v for k, v in vars(options).items() if k not in ignored and isinstance(v, (int, float, str, type(None)))}
    digest = hashlib.sha256(json.dumps([target.fingerprint, target.config.to_json_string(), settings], sort_keys=True).encode())
    digest.update(rows.training.ids.tobytes() + rows.training.loss_mask.tobytes())
    return digest.hexdigest()


def _model_card(target: Any, options: argparse.Namespace, rows: Any, figures: dict[str, Any], finished: Any, command: str) -> str:
    import torch

    from aded.train.model_card import model_card

    facts = [
        ("tokenizer", target.fingerprint),
        ("corpus", f"{rows.training.ids.size:,} tokens from {', '.join(Path(source).name for source in options.corpus)}"),
        ("written by the model", f"{100 * rows.training.loss_mask.mean():.0f} % of them; only these enter the loss"),
        (
            "trained on",
            f"{finished.step * options.batch * options.length:,} tokens, with the loss at {options.share:.0%} of their positions",
        ),
        ("seed", options.seed),
        ("device", f"{target.device_name}, {str(target.dtype).removeprefix('torch.')}"),
        ("versions", f"aded {aded.__version__}, torch {torch.__version__}"),
    ]
    if options.kind in UNROLLED:
        facts.insert(3, ("reads", _what_is_read(options)))
        facts.insert(4, ("draft vocabulary", f"at most {options.vocabulary:,} tokens"))
    kind = KINDS[options.kind]
    return model_card(kind.title, kind.predictor, target.label, command, facts, figures, finished)

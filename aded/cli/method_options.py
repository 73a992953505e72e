"""Command-line options of the methods. Which method has which option is read from the registry."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError
from aded.core.validation import check_readable, files_in, flag, model_files

if TYPE_CHECKING:
    from aded.drafters.registry import Method

EITHER: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": None}
FILE: dict[str, Any] = {"metavar": "FILE"}
FILE_OR_FOLDER: dict[str, Any] = {"metavar": "PATH"}
WHOLE: dict[str, Any] = {"type": int, "metavar": "N"}
NUMBER: dict[str, Any] = {"type": float, "metavar": "X"}

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "preset": ("tuned (default) or paper", {}),
    "search": ("mcts (default), best-first, greedy or full", {}),
    "simulations": ("simulations of the Monte Carlo tree search (default: 0, from the budget)", WHOLE),
    "c1": ("weight of exploration in PUCT", NUMBER),
    "c2": ("how slowly exploration grows with visits", NUMBER),
    "depth": ("maximum depth of the draft tree", WHOLE),
    "successors": ("maximum successors of a bigram that the search considers", WHOLE),
    "higher_orders": ("also use 4-grams and 5-grams counted from the datastore", EITHER),
    "feedback": ("also learn the target's top-k tokens", EITHER),
    "coupling": ("when sampling: draft the tokens that the target will draw", EITHER),
    "keep": ("keep what was learned from earlier prompts", EITHER),
    "matrix": ("a base matrix built with `matrix build`", FILE),
    "corpus": ("full (default: the base matrix) or none", {}),
    "max_ngram": ("longest n-gram to match", WHOLE),
    "most_recent": ("copy from the most recent match", EITHER),
    "draft_length": ("maximum drafted tokens per step (speculative: 0 is automatic, the default), or length of the chain", WHOLE),
    "ngram": ("n-gram size", WHOLE),
    "window": ("window size", WHOLE),
    "guesses": ("maximum n-grams verified per step", WHOLE),
    "phrases": ("maximum phrases that continue a token (default: 3)", WHOLE),
    "phrases_at": ("all (default: phrases continue all tokens of the chain) or last (only the last one, as published)", {}),
    "pool": ("cold (default: emptied for each prompt) or warm (kept)", {}),
    "pool_from_prompt": ("initialise the pool with the prompt's n-grams", EITHER),
    "datastore": ("a datastore built with `datastore build`", FILE),
    "max_suffix": ("longest suffix to match", WHOLE),
    "max_occurrences": ("maximum matches of a suffix to count", WHOLE),
    "backoff": ("fill the draft with matches of shorter suffixes", EITHER),
    "factor": ("maximum draft nodes per token of the matched suffix", NUMBER),
    "min_probability": ("minimum probability of a node", NUMBER),
    "warm": ("start from a corpus of model output", EITHER),
    "heads": ("heads trained with `train medusa`, or a folder of published Medusa heads", FILE_OR_FOLDER),
    "head": (
        "a head trained with `train eagle`, `train mtp` or `train glide`, or the folder of a published head of EAGLE",
        FILE_OR_FOLDER,
    ),
    "tree": ("medusa: adaptive (default) or static; eagle and mtp: dynamic (default) or static", {}),
    "cape": ("on (default: siblings of the drafted tokens, more where the head is less confident) or off", {}),
    "rescoring": (
        "global (default: by the matrix), local (by a draft model), none, or control (the best paths without rescoring)",
        {},
    ),
    "alpha": ("weight of the model that rescores (default: global 1, local 2)", NUMBER),
    "paths": ("paths through the heads' predictions that are verified (default: 16)", WHOLE),
    "epsilon": ("probability threshold (default: 0.09)", NUMBER),
    "delta": ("scale of the entropy-dependent threshold (default: 0.3)", NUMBER),
    "draft": ("a draft model trained with `train draft`", FILE),
    "draft_model": ("a draft model with the same tokenizer; may be repeated", {"action": "append", "metavar": "SPEC"}),
    "verification": (
        "rejection (default), block (speculative only) or coupled (same text as plain for a seed)",
        {},
    ),
    "branching": ("children per node at each depth (default: automatic)", {"metavar": "K,K,..."}),
    "replacement": ("sample children independently, with replacement", {"action": "store_true", "default": None}),
}
"""What an option does, and the arguments with which argparse reads it. Every option of the registry is here."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of all methods."""
    from aded.drafters.registry import METHODS

    group = parser.add_argument_group("method settings")
    for name, (meaning, arguments) in OPTIONS.items():
        methods = ", ".join(method.name for method in METHODS.values() if name in method.options)
        group.add_argument(flag(name), help=f"{methods}: {meaning}", **arguments)


def given(options: argparse.Namespace, method: Method) -> dict[str, Any]:
    """The options given for ``method``.

    Raises:
        AdedError: an option that the method does not have.
    """
    found = values(options)
    for name in found.keys() - set(method.options):
        raise AdedError(f"{flag(name)} is not a setting of {method.name}; leave it out or choose another --method")
    return found


def values(options: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, of any method."""
    return {name: value for name in OPTIONS if (value := getattr(options, name)) is not None}


def files(given: Mapping[str, Any]) -> list[str]:
    """The files that these options name, those in folders and draft models included.

    Raises:
        AdedError: an artifact is not named by a path, or cannot be read.
    """
    kinds = {name: arguments for name, (_, arguments) in OPTIONS.items() if name in given}
    paths = [given[name] for name, arguments in kinds.items() if arguments is FILE]
    either = [given[name] for name, arguments in kinds.items() if arguments is FILE_OR_FOLDER]
    for path in (*paths, *either):
        if not isinstance(path, str) or not path:
            raise AdedError(f"{path!r} is not the path of a file; give a path as text")
    for path in either:
        paths += files_in(path) if os.path.isdir(path) else [path]
    check_readable(paths)
    models = given.get("draft_model", ())
    return [*paths, *model_files(*([models] if isinstance(models, str) else models))]

"""The registry of methods: one row each. The command line, the benchmark and the page all read this table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.drafters.base import Drafter
from aded.errors import AdedError

if TYPE_CHECKING:
    from aded.model import TargetModel
    from aded.trigram import TrigramMatrix

ASSETS = Path(__file__).resolve().parent.parent / "assets"
Factory = Callable[["TargetModel", Mapping[str, Any], int], Drafter]
"""(target, the method's options, seed) to a drafter."""


@dataclass(frozen=True)
class Method:
    """A row of the registry.

    Attributes:
        name: as typed on the command line; ``label``: as shown.
        colour, colour_dark: of its lane on light and on dark ground.
        lossless: whether its output is the target's own (greedy: the same tokens; sampled: the same distribution).
        description: one sentence.
        options: names of its own settings.
    """

    name: str
    label: str
    colour: str
    colour_dark: str
    lossless: bool
    description: str
    factory: Factory
    options: tuple[str, ...] = ()

    def make(self, model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
        """A new drafter.

        Raises:
            AdedError: an option that this method does not have, or a bad value.
        """
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = f"it has {', '.join(self.options)}" if self.options else "it has none"
            raise AdedError(f"{self.name} has no option '{unknown[0]}'; {known}")
        return self.factory(model, options, seed)

    def of(self, drafter: Drafter) -> Method:
        """The row to show for a drafter that is not in the registry."""
        name = type(drafter).__name__
        return dataclasses.replace(self, name=name, label=name, description="a drafter of one's own", options=())

    def to_json(self) -> dict[str, Any]:
        """The row as ``python -m aded methods --json`` prints it."""
        keys = ("name", "label", "lossless", "description", "options", "colour", "colour_dark")
        return {key: list(v) if isinstance(v := getattr(self, key), tuple) else v for key in keys}


def find_method(name: str) -> Method:
    """The row of this name.

    Raises:
        AdedError: there is none; the message names those there are.
    """
    if name not in METHODS:
        raise AdedError(f"unknown method '{name}'; known are {', '.join(METHODS)}")
    return METHODS[name]


def matrix_for(model: TargetModel, path: str | None = None) -> TrigramMatrix | None:
    """The base matrix of a model: the file at ``path``, else the bundled one if it was made for this model's tokenizer.

    Raises:
        AdedError: ``path`` is missing, damaged or of another tokenizer.
    """
    if path is not None:
        return _load_matrix(str(path), model.fingerprint, model.vocab_size)
    for file in sorted(ASSETS.glob("*.trigram.safetensors")):
        try:
            return _load_matrix(str(file), model.fingerprint, model.vocab_size)
        except AdedError:
            continue
    return None


@lru_cache(maxsize=4)
def _load_matrix(path: str, fingerprint: str, vocab_size: int) -> TrigramMatrix:
    """One read-only copy for all decodes."""
    from aded.trigram import TrigramMatrix

    return TrigramMatrix.load(path, fingerprint=fingerprint, vocab_size=vocab_size)


def _plain(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.plain import PlainDrafter

    return PlainDrafter()


def _aded(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.aded import AdedDrafter, AdedOptions

    given = dict(options)
    matrix = matrix_for(model, given.pop("matrix", None))
    presets = {"tuned": AdedOptions.tuned, "paper": AdedOptions.paper}
    name = given.pop("preset", "tuned")
    if name not in presets:
        raise AdedError(f"unknown preset '{name}'; known are {', '.join(presets)}")
    return AdedDrafter(matrix, model.vocab_size, dataclasses.replace(presets[name](), **given), seed)


def _prompt_lookup(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.prompt_lookup import PromptLookupDrafter

    return PromptLookupDrafter(**options)


ADED_OPTIONS = ("matrix", "preset", "search", "c1", "c2", "depth", "simulations", "successors", "feedback")

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "plain",
            "Plain decoding",
            "#5a6572",
            "#a7b1bc",
            True,
            "The target alone: one token a forward pass.",
            _plain,
        ),
        Method(
            "aded",
            "ADED",
            "#7a3fb0",
            "#c39bea",
            True,
            "A tri-gram matrix stands in for the model, a tree search drafts, every verdict teaches (arXiv 2407.12021).",
            _aded,
            ADED_OPTIONS,
        ),
        Method(
            "prompt-lookup",
            "Prompt lookup",
            "#0b7f86",
            "#5fd0d6",
            True,
            "Copies what followed the last few tokens where they stood in the text before.",
            _prompt_lookup,
            ("max_ngram", "draft_length", "most_recent"),
        ),
    )
}

"""The registry of drafting methods, one row per method. The command line, the benchmark and the page read it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError, check_type, remedy_for_missing
from aded.core.limits import check_choice, check_flags
from aded.drafters.artifacts import base_counts_for, datastore_for, matrix_for
from aded.drafters.base import Drafter

if TYPE_CHECKING:
    from aded.draft_models.checkpoints import Kind
    from aded.drafters.aded_options import AdedOptions
    from aded.engine.target_model import TargetModel

Factory = Callable[["TargetModel", Mapping[str, Any], int], Drafter]
"""Makes a drafter from a target, the options of the method, and the seed of the decode."""
StateSettings = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Maps options to the settings on which learned state depends; a drafter loads only state that was learned with equal ones."""
Check = Callable[[Mapping[str, Any]], Any]
"""Raises ``AdedError`` if options are invalid for every target; its return value is ignored."""
Missing = Callable[["TargetModel"], "str | None"]
"""Why a method cannot run on a target: a sentence that ends with the command to make the missing artifact; None if it can."""


def _all_but_keep(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "keep"}


@dataclass(frozen=True)
class Method:
    """A row of the registry: a drafting method.

    Attributes:
        name: name on the command line; ``label``: name in the user interface.
        lossless: whether the output is the target's (greedy: the same tokens; sampling: the same distribution).
        description: one sentence about how the method drafts.
        factory: makes a drafter from valid options.
        options: names of the options.
        missing: reports a missing artifact; None if the method needs none. Of the target it reads ``fingerprint``,
            ``vocab_size``, ``spec`` and, if there is one, ``config``.
        sources: options that replace the default artifact; ``missing`` is not called if one of them is given.
        values: checks option values without a target.
        state_settings: what must be equal for a drafter to load what another one has learned; default: all options but ``keep``.
    """

    name: str
    label: str
    lossless: bool
    description: str
    factory: Factory
    options: tuple[str, ...] = ()
    missing: Missing | None = None
    sources: tuple[str, ...] = ()
    state_settings: StateSettings = _all_but_keep
    values: Check = dict

    def unavailable(self, model: TargetModel) -> str | None:
        """Why this method cannot run on this target (a missing or damaged artifact), and the remedy; None if it can."""
        try:
            return self.missing(model) if self.missing else None
        except AdedError as error:  # the artifact exists but is damaged
            return str(error)

    def make(self, model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
        """Make a drafter.

        Raises:
            AdedError: an option that this method does not have, an invalid value, or a missing or damaged artifact.
        """
        self.check(options)
        reason = None if set(self.sources) & set(options) else self.unavailable(model)
        if reason is not None:
            raise AdedError(reason)
        return self.factory(model, options, seed)

    def check(self, options: Mapping[str, Any]) -> None:
        """Check options without a target.

        Raises:
            AdedError: an option that this method does not have, or an invalid value.
        """
        check_type(options, Mapping, "the options are", "a dict of options by name")
        unknown = sorted(map(str, options.keys() - set(self.options)))
        if unknown:
            remedy = f"it has {', '.join(self.options)}" if self.options else "it has none"
            raise AdedError(f"{self.name} has no option '{unknown[0]}'; {remedy}")
        check_flags({name: value for name, value in options.items() if name in FLAGS})
        for name in FILES & options.keys():
            check_type(options[name], (str, os.PathLike, type(None)), f"{name} is", "the path of a file")
        self.values(options)

    def keeps(self, options: Mapping[str, Any]) -> bool:
        """Whether a drafter with these options keeps what it has learned for the next decode; it is then ``Persistent``."""
        return bool(options.get("keep")) or options.get("pool") == "warm"

    def of(self, drafter: Drafter) -> Method:
        """The row of a custom drafter, which is not in the registry: this row with another name and no options."""
        name = type(drafter).__name__
        return dataclasses.replace(self, name=name, label=name, description="a custom drafter", options=())

    def to_json(self, model: TargetModel) -> dict[str, Any]:
        """The row as ``python -m aded methods --json`` prints it; ``unavailable`` is the reason on this target, or None."""
        keys = ("name", "label", "lossless", "description", "options")
        row = {key: list(v) if isinstance(v := getattr(self, key), tuple) else v for key in keys}
        return {**row, "unavailable": self.unavailable(model)}


@dataclass(frozen=True)
class RunSpec:
    """A run of a race: a method with its options.

    Attributes:
        method: name in the registry.
        options: options by name; the others have their defaults.
        label: distinguishes the run from others of the same method; if empty, the label of the method is used.
    """

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""


def find_method(name: str) -> Method:
    """The method with this name.

    Raises:
        AdedError: the name is unknown; the message lists the known ones.
    """
    if name not in METHODS:
        raise AdedError(f"unknown method '{name}'; known are {', '.join(METHODS)}")
    return METHODS[name]


def _plain(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.plain import PlainDrafter

    return PlainDrafter()


def _aded(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.aded import AdedDrafter

    path, corpus, settings = _aded_settings(options)
    load = base_counts_for if settings.higher_orders else matrix_for
    return AdedDrafter(load(model, path) if corpus == "full" else None, model.vocab_size, settings, seed)


def _aded_settings(options: Mapping[str, Any]) -> tuple[str | None, str, AdedOptions]:
    """The path of the base matrix (None: the default one), the corpus (see ``CORPORA``), and the options of the drafter.

    Raises:
        AdedError: an option is invalid.
    """
    from aded.drafters.aded_options import AdedOptions

    given = dict(options)
    path, corpus = given.pop("matrix", None), given.pop("corpus", "full")
    check_choice("corpus", corpus, CORPORA)
    if path is not None and corpus == "none":
        raise AdedError("with --corpus none the matrix is not used; leave out --matrix, or --corpus none")
    presets = {"tuned": AdedOptions.tuned, "paper": AdedOptions.paper}
    preset = given.pop("preset", "tuned")
    check_choice("preset", preset, tuple(presets))
    return path, corpus, dataclasses.replace(presets[preset](), **given)


def _aded_state_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Update rule (``preset``) and base counts; for the published rule also the row size, which is the number of successors."""
    from aded.drafters.aded_options import AdedOptions

    defaults = {"preset": "tuned", "corpus": "full", "matrix": None}
    settings = {name: options.get(name, default) for name, default in defaults.items()}
    slots = {"successors": options.get("successors", AdedOptions.paper().successors)} if settings["preset"] == "paper" else {}
    return settings | slots


def _prompt_lookup(model: TargetModel | None, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.prompt_lookup import PromptLookupDrafter

    return PromptLookupDrafter(**options)


def _no_datastore(model: TargetModel) -> str | None:
    if datastore_for(model) is not None:
        return None
    return f"there is no datastore for this model's tokenizer; {remedy_for_missing(model.spec, 'datastore')}"


def _check_base_counts(model: TargetModel) -> None:
    """Raise ``AdedError`` if the base matrix or the datastore is damaged; a missing one is no error."""
    base_counts_for(model)


def _check_matrix(model: TargetModel) -> None:
    """Raise ``AdedError`` if the base matrix is damaged; a missing one is no error."""
    matrix_for(model)


def _check_datastore(model: TargetModel) -> None:
    """Raise ``AdedError`` if the datastore is damaged; a missing one is no error."""
    datastore_for(model)


def _lookahead(model: TargetModel | None, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.lookahead import LookaheadDrafter

    return LookaheadDrafter(**options, seed=seed)


def _rest(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.rest import RestDrafter

    given = dict(options)
    datastore = datastore_for(model, given.pop("datastore", None))
    assert datastore is not None, "Method.make refuses a method without its artifact"
    return RestDrafter(datastore, **given)


def _rest_values(options: Mapping[str, Any]) -> None:
    from aded.drafters.methods.rest import check_settings

    check_settings(**{name: value for name, value in options.items() if name != "datastore"})


def _suffix_values(options: Mapping[str, Any]) -> None:
    from aded.drafters.methods.suffix import check_settings

    check_settings(**_pop_path(options, "datastore")[1])


def _token_recycling(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.token_recycling import TokenRecyclingDrafter, corpus_successors

    path, given = _pop_path(options, "matrix")
    matrix = matrix_for(model, path) if given.pop("warm", True) else None
    return TokenRecyclingDrafter(model.vocab_size, corpus_successors(matrix) if matrix else None, **given)


def _suffix(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.suffix import SuffixDrafter

    path, given = _pop_path(options, "datastore")
    corpus = datastore_for(model, path) if given.pop("warm", True) else None
    return SuffixDrafter(model.vocab_size, corpus, **given)


def _pop_path(options: Mapping[str, Any], name: str) -> tuple[str | None, dict[str, Any]]:
    """The path in the option ``name`` (None if not given) and the other options.

    Raises:
        AdedError: a path is given although ``warm`` is off.
    """
    if name in options and not options.get("warm", True):
        raise AdedError(f"without warm start the {name} is not used; leave out --{name}, or turn warm on")
    given = dict(options)
    return given.pop(name, None), given


def _trained(name: str) -> Any:
    """The function ``name`` of ``aded.drafters.trained``; that module, which needs torch, is imported at the first call."""

    def call(*arguments: Any) -> Any:
        from aded.drafters import trained

        return getattr(trained, name)(*arguments)

    return call


def _missing(kind: Kind, check: Callable[[TargetModel], None] | None = None) -> Missing:
    """A function that reports a missing checkpoint of this kind.

    Args:
        check: raises ``AdedError`` if another artifact of the method is damaged.
    """

    def missing(model: TargetModel) -> str | None:
        from aded.draft_models import checkpoints

        if check is not None:
            check(model)
        return checkpoints.missing(kind, model)

    return missing


FLAGS = {"backoff", "coupling", "feedback", "keep", "higher_orders", "most_recent", "pool_from_prompt", "replacement", "warm"}
"""Options that are true or false."""
FILES = {"datastore", "draft", "head", "heads", "matrix"}
"""Options whose value is the path of an artifact, or None for the default one."""
CORPORA = ("full", "none")
"""Values of the option ``corpus``: ADED has the base matrix, or no base counts."""
ADED_SEARCH_OPTIONS = ("preset", "search", "c1", "c2", "depth", "simulations", "successors")
ADED_OPTIONS = ("matrix", "corpus", *ADED_SEARCH_OPTIONS, "higher_orders", "feedback", "coupling", "keep")

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "plain",
            "Plain decoding",
            True,
            "The target alone: one token per forward pass.",
            _plain,
        ),
        Method(
            "aded",
            "ADED",
            True,
            "A tree search over a tri-gram matrix drafts; the matrix learns from every verification (arXiv 2407.12021).",
            _aded,
            ADED_OPTIONS,
            values=_aded_settings,
            missing=_check_base_counts,
            sources=("matrix", "corpus"),
            state_settings=_aded_state_settings,
        ),
        Method(
            "prompt-lookup",
            "Prompt lookup",
            True,
            "Drafts what followed the last few tokens earlier in the text.",
            _prompt_lookup,
            ("max_ngram", "draft_length", "most_recent"),
            values=lambda options: _prompt_lookup(None, options, 0),
        ),
        Method(
            "lookahead",
            "Lookahead",
            True,
            "The target generates n-grams in parallel and verifies them in the same forward pass (arXiv 2402.02057).",
            _lookahead,
            ("ngram", "window", "guesses", "pool_from_prompt"),
            values=lambda options: _lookahead(None, options, 0),
        ),
        Method(
            "rest",
            "REST",
            True,
            "Drafts the most frequent continuations of the last tokens in a datastore (arXiv 2311.08252).",
            _rest,
            ("datastore", "max_suffix", "max_occurrences", "draft_length", "backoff", "coupling"),
            values=_rest_values,
            missing=_no_datastore,
            sources=("datastore",),
        ),
        Method(
            "token-recycling",
            "Token recycling",
            True,
            "Drafts the target's top-k tokens after the last occurrence of each token (arXiv 2408.08696).",
            _token_recycling,
            ("matrix", "warm", "keep", "coupling"),
            values=lambda options: _pop_path(options, "matrix"),
            missing=_check_matrix,
            sources=("matrix", "warm"),
        ),
        Method(
            "suffix",
            "Suffix decoding",
            True,
            "Drafts the most frequent continuations of the longest matching suffix (arXiv 2411.04975).",
            _suffix,
            ("datastore", "warm", "keep", "max_suffix", "draft_length", "factor", "min_probability", "coupling"),
            values=_suffix_values,
            missing=_check_datastore,
            sources=("datastore", "warm"),
        ),
        Method(
            "medusa",
            "Medusa",
            True,
            "Heads on the target's hidden state predict the next tokens; a sparse tree combines them (arXiv 2401.10774).",
            _trained("medusa"),
            ("heads", "tree"),
            values=_trained("check_medusa"),
            missing=_missing("medusa"),
            sources=("heads",),
        ),
        Method(
            "medusa-typical",
            "Medusa, typical acceptance",
            False,
            "Medusa with typical acceptance when sampling: lossy (arXiv 2401.10774).",
            _trained("medusa_typical"),
            ("heads", "tree", "epsilon", "delta"),
            values=_trained("check_medusa"),
            missing=_missing("medusa"),
            sources=("heads",),
        ),
        Method(
            "eagle",
            "EAGLE",
            True,
            "A one-layer head drafts a tree from the target's hidden states, deeper where it is confident (arXiv 2503.01840).",
            _trained("eagle"),
            ("head", "tree", "depth"),
            values=_trained("check_eagle"),
            missing=_missing("eagle"),
            sources=("head",),
        ),
        Method(
            "mtp",
            "MTP",
            True,
            "One more decoder layer predicts several tokens, each from its last output; trained afterwards (arXiv 2412.19437).",
            _trained("mtp"),
            ("head", "tree", "depth"),
            values=_trained("check_eagle"),
            missing=_missing("mtp"),
            sources=("head",),
        ),
        Method(
            "glide",
            "GliDe",
            True,
            "A layer that attends to the target's KV cache drafts a chain; CaPE adds siblings by confidence (arXiv 2402.02082).",
            _trained("glide"),
            ("head", "cape", "draft_length"),
            values=_trained("check_glide"),
            missing=_missing("glide"),
            sources=("head",),
        ),
        Method(
            "blockwise",
            "Blockwise decoding",
            True,
            "Medusa's heads predict a block; an n-gram or draft model rescores it (arXiv 1811.03115, 2404.09221).",
            _trained("blockwise"),
            ("heads", "rescoring", "alpha", "paths", "matrix", "draft", "draft_model"),
            values=_trained("check_blockwise"),
            missing=_missing("medusa", _check_matrix),
            sources=("heads",),
        ),
        Method(
            "speculative",
            "Speculative sampling",
            True,
            "A draft model samples a chain; rejection sampling keeps the target's distribution (arXiv 2211.17192, 2302.01318).",
            _trained("speculative"),
            ("draft", "draft_model", "verification", "draft_length"),
            values=_trained("check_speculative"),
            missing=_missing("draft"),
            sources=("draft", "draft_model"),
        ),
        Method(
            "specinfer",
            "SpecInfer",
            True,
            "Token trees from one or several draft models, verified in one forward pass (arXiv 2305.09781).",
            _trained("specinfer"),
            ("draft", "draft_model", "verification", "branching", "replacement"),
            values=_trained("check_specinfer"),
            missing=_missing("draft"),
            sources=("draft", "draft_model"),
        ),
        Method(
            "ouroboros",
            "Ouroboros",
            True,
            "A draft model with lookahead drafts a chain, and phrases of a pool continue it (arXiv 2402.13720).",
            _trained("ouroboros"),
            (
                "draft",
                "draft_model",
                "draft_length",
                "phrases",
                "phrases_at",
                "pool",
                "pool_from_prompt",
                "ngram",
                "window",
                "guesses",
            ),
            values=_trained("check_ouroboros"),
            missing=_missing("draft"),
            sources=("draft", "draft_model"),
        ),
        Method(
            "aded-medusa",
            "ADED with Medusa",
            True,
            "One tree from a mixture: Medusa's heads for the next tokens, ADED's matrix for those after them.",
            _trained("aded_medusa"),
            ("heads", "matrix", "depth", "successors", "higher_orders", "feedback", "coupling", "keep"),
            values=_trained("check_mixture"),
            missing=_missing("medusa", _check_base_counts),
            sources=("heads",),
        ),
        Method(
            "aded-eagle",
            "ADED with EAGLE",
            True,
            "One tree from a mixture: EAGLE's head for the next tokens, ADED's matrix for what the session repeats.",
            _trained("aded_eagle"),
            ("head", "matrix", "depth", "successors", "higher_orders", "feedback", "coupling", "keep"),
            values=_trained("check_mixture"),
            missing=_missing("eagle", _check_base_counts),
            sources=("head",),
        ),
    )
}

"""The registry of methods: one row each. The command line, the benchmark and the page all read this table."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aded.core.errors import ANY_MODEL, AdedError
from aded.drafters.artifacts import datastore_for, matrix_for
from aded.drafters.base import Drafter

if TYPE_CHECKING:
    from aded.drafters.aded import AdedOptions
    from aded.engine.target_model import TargetModel

Factory = Callable[["TargetModel", Mapping[str, Any], int], Drafter]
"""(target, the method's options, seed) to a drafter."""
Ground = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A method's options to those settings that what it learns rests on: with others, what it has learned cannot be used."""
Check = Callable[[Mapping[str, Any]], Any]
"""Refuses a method's options that no target could take, with ``AdedError``; what it returns is of no matter."""
Missing = Callable[["TargetModel"], "str | None"]
"""Why a method cannot run on a target: one sentence that ends with the command that would make what it lacks; None if it can."""


@dataclass(frozen=True)
class Method:
    """A row of the registry.

    Attributes:
        name: as typed on the command line; ``label``: as shown.
        lossless: whether its output is the target's own (greedy: the same tokens; sampled: the same distribution).
        description: one sentence.
        options: names of its own settings.
        missing: which part that was made for the target it lacks; asks no more of the target than its ``fingerprint``,
            ``vocab_size`` and ``spec``.
        sources: the options that name such a part, so that nothing is missing where one is given.
        values: refuses values of options that are out of range, before there is a target.
        ground: what decides whether a drafter can take in what another one of the method has learned; all options if not told.
    """

    name: str
    label: str
    lossless: bool
    description: str
    factory: Factory
    options: tuple[str, ...] = ()
    missing: Missing | None = None
    sources: tuple[str, ...] = ()
    ground: Ground = dict
    values: Check = dict

    def unavailable(self, model: TargetModel) -> str | None:
        """Why this method cannot run on this target as it stands, and the command that mends it; None if it can."""
        try:
            return self.missing(model) if self.missing else None
        except AdedError as error:  # the part is there and damaged
            return str(error)

    def make(self, model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
        """A new drafter.

        Raises:
            AdedError: an option that this method does not have, a bad value, or a part that is missing.
        """
        self.check(options)
        reason = None if set(self.sources) & set(options) else self.unavailable(model)
        if reason is not None:
            raise AdedError(reason)
        return self.factory(model, options, seed)

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse what can be told of options without a target.

        Raises:
            AdedError: an option that this method does not have, or a bad value.
        """
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = f"it has {', '.join(self.options)}" if self.options else "it has none"
            raise AdedError(f"{self.name} has no option '{unknown[0]}'; {known}")
        self.values(options)

    def of(self, drafter: Drafter) -> Method:
        """The row to show for a drafter that is not in the registry."""
        name = type(drafter).__name__
        return dataclasses.replace(self, name=name, label=name, description="a drafter of one's own", options=())

    def to_json(self, model: TargetModel) -> dict[str, Any]:
        """The row as ``python -m aded methods --json`` prints it, with what it lacks on this target."""
        keys = ("name", "label", "lossless", "description", "options")
        row = {key: list(v) if isinstance(v := getattr(self, key), tuple) else v for key in keys}
        return {**row, "unavailable": self.unavailable(model)}


def find_method(name: str) -> Method:
    """The row of this name.

    Raises:
        AdedError: there is none; the message names those there are.
    """
    if name not in METHODS:
        raise AdedError(f"unknown method '{name}'; known are {', '.join(METHODS)}")
    return METHODS[name]


def _plain(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.plain import PlainDrafter

    return PlainDrafter()


def _aded(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.aded import AdedDrafter

    path, corpus, settings = _aded_settings(options)
    matrix = matrix_for(model, path) if corpus == "full" else None
    return AdedDrafter(matrix, model.vocab_size, settings, seed)


def _aded_settings(options: Mapping[str, Any]) -> tuple[str | None, str, AdedOptions]:
    """The file of the base matrix, the corpus, and the drafter's own settings."""
    from aded.drafters.aded import AdedOptions

    given = dict(options)
    path, corpus = given.pop("matrix", None), given.pop("corpus", "full")
    if corpus not in CORPORA:
        raise AdedError(f"unknown corpus '{corpus}'; known are {', '.join(CORPORA)}")
    if path is not None and corpus == "none":
        raise AdedError("the matrix is not read where the corpus is none; leave out --matrix, or --corpus none")
    presets = {"tuned": AdedOptions.tuned, "paper": AdedOptions.paper}
    name = given.pop("preset", "tuned")
    if name not in presets:
        raise AdedError(f"unknown preset '{name}'; known are {', '.join(presets)}")
    return path, corpus, dataclasses.replace(presets[name](), **given)


def _aded_ground(options: Mapping[str, Any]) -> dict[str, Any]:
    """The rule that made the rows and the base under them; the published rule's rows hold as many successors as are drawn."""
    from aded.drafters.aded import AdedOptions

    ground = {"preset": options.get("preset", "tuned"), "corpus": options.get("corpus", "full"), "matrix": options.get("matrix")}
    slots = {"successors": options.get("successors", AdedOptions.paper().successors)} if ground["preset"] == "paper" else {}
    return ground | slots


def _prompt_lookup(model: TargetModel | None, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.prompt_lookup import PromptLookupDrafter

    return PromptLookupDrafter(**options)


def _no_datastore(model: TargetModel) -> str | None:
    if datastore_for(model) is not None:
        return None
    from aded.retrieval.suffix_array import COMMAND

    command = COMMAND.replace(ANY_MODEL, shlex.quote(model.spec))
    return f"rest has no datastore for this model's tokenizer; make one with `{command}`, or name one with --datastore"


def _no_whole_matrix(model: TargetModel) -> None:
    """Nothing is missing where there is no base matrix; a damaged one is said (``Method.unavailable``)."""
    matrix_for(model)


def _no_whole_datastore(model: TargetModel) -> None:
    """Nothing is missing where there is no datastore; a damaged one is said (``Method.unavailable``)."""
    datastore_for(model)


def _lookahead(model: TargetModel | None, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.lookahead import LookaheadDrafter

    return LookaheadDrafter(**options, seed=seed)


def _rest(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.rest import RestDrafter

    given = dict(options)
    datastore = datastore_for(model, given.pop("datastore", None))
    assert datastore is not None, "a method whose part is missing is not made"
    return RestDrafter(datastore, **given)


def _rest_values(options: Mapping[str, Any]) -> None:
    from aded.drafters.rest import check_settings

    check_settings(**{name: value for name, value in options.items() if name != "datastore"})


def _suffix_values(options: Mapping[str, Any]) -> None:
    from aded.drafters.suffix import check_settings

    check_settings(**_corpus(options, "datastore")[1])


def _token_recycling(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.token_recycling import TokenRecyclingDrafter, corpus_successors

    path, given = _corpus(options, "matrix")
    matrix = matrix_for(model, path) if given.pop("warm", True) else None
    return TokenRecyclingDrafter(model.vocab_size, corpus_successors(matrix) if matrix else None, **given)


def _suffix(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.suffix import SuffixDrafter

    path, given = _corpus(options, "datastore")
    corpus = datastore_for(model, path) if given.pop("warm", True) else None
    return SuffixDrafter(model.vocab_size, corpus, **given)


def _corpus(options: Mapping[str, Any], name: str) -> tuple[str | None, dict[str, Any]]:
    """The file that the option ``name`` gives, or None, and the other options; one that begins with no corpus takes no file."""
    if name in options and not options.get("warm", True):
        raise AdedError(f"the {name} is not read where warm is off; leave out --{name}, or let it be warm")
    given = dict(options)
    return given.pop(name, None), given


def _trained(name: str) -> Any:
    """A function of ``aded.drafters.trained``, imported at its first call."""

    def call(*arguments: Any) -> Any:
        from aded.drafters import trained

        return getattr(trained, name)(*arguments)

    return call


CORPORA = ("full", "none")
"""What ADED starts from: its base matrix, or nothing but the text."""
ADED_OPTIONS = ("matrix", "corpus", "preset", "search", "c1", "c2", "depth", "simulations", "successors", "feedback", "keep")

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "plain",
            "Plain decoding",
            True,
            "The target alone: one token a forward pass.",
            _plain,
        ),
        Method(
            "aded",
            "ADED",
            True,
            "A tri-gram matrix stands in for the model, a tree search drafts, every verdict teaches (arXiv 2407.12021).",
            _aded,
            ADED_OPTIONS,
            values=_aded_settings,
            missing=_no_whole_matrix,
            sources=("matrix", "corpus"),
            ground=_aded_ground,
        ),
        Method(
            "prompt-lookup",
            "Prompt lookup",
            True,
            "Copies what followed the last few tokens where they stood in the text before.",
            _prompt_lookup,
            ("max_ngram", "draft_length", "most_recent"),
            values=lambda options: _prompt_lookup(None, options, 0),
        ),
        Method(
            "lookahead",
            "Lookahead",
            True,
            "The target refines guesses ahead of the text in every pass and verifies the n-grams they make (arXiv 2402.02057).",
            _lookahead,
            ("ngram", "window", "guesses", "pool_from_prompt"),
            values=lambda options: _lookahead(None, options, 0),
        ),
        Method(
            "rest",
            "REST",
            True,
            "Copies what followed the last few tokens most often in a datastore of texts (arXiv 2311.08252).",
            _rest,
            ("datastore", "longest", "hits", "draft_length", "backoff"),
            values=_rest_values,
            missing=_no_datastore,
            sources=("datastore",),
        ),
        Method(
            "token-recycling",
            "Token recycling",
            True,
            "Drafts what the target held most probable after each token where it last stood (arXiv 2408.08696).",
            _token_recycling,
            ("matrix", "warm", "keep"),
            values=lambda options: _corpus(options, "matrix"),
            missing=_no_whole_matrix,
            sources=("matrix", "warm"),
        ),
        Method(
            "suffix",
            "Suffix decoding",
            True,
            "Copies what most often followed the longest ends of the text, in it and in earlier texts (arXiv 2411.04975).",
            _suffix,
            ("datastore", "warm", "keep", "longest", "draft_length", "factor", "least"),
            values=_suffix_values,
            missing=_no_whole_datastore,
            sources=("datastore", "warm"),
        ),
        Method(
            "medusa",
            "Medusa",
            True,
            "Heads on the target's hidden state guess the next tokens, a sparse tree combines them (arXiv 2401.10774).",
            _trained("medusa"),
            ("heads", "tree"),
            values=_trained("check_medusa"),
            missing=_trained("no_heads"),
            sources=("heads",),
        ),
        Method(
            "medusa-typical",
            "Medusa, typical acceptance",
            False,
            "Medusa that, when sampling, accepts what is typical of the target: lossy (arXiv 2401.10774).",
            _trained("medusa_typical"),
            ("heads", "tree", "epsilon", "delta"),
            values=_trained("check_medusa"),
            missing=_trained("no_heads"),
            sources=("heads",),
        ),
        Method(
            "speculative",
            "Speculative sampling",
            True,
            "A small draft model writes a chain, the target accepts or redraws (arXiv 2211.17192, 2302.01318).",
            _trained("speculative"),
            ("draft", "draft_model", "verification", "draft_length"),
            values=_trained("check_speculative"),
            missing=_trained("no_draft"),
            sources=("draft", "draft_model"),
        ),
        Method(
            "specinfer",
            "SpecInfer",
            True,
            "Token trees from one or several draft models, verified in one pass (arXiv 2305.09781).",
            _trained("specinfer"),
            ("draft", "draft_model", "verification", "branching", "replacement"),
            values=_trained("check_specinfer"),
            missing=_trained("no_draft"),
            sources=("draft", "draft_model"),
        ),
        Method(
            "aded-medusa",
            "ADED with Medusa",
            True,
            "One tree from two opinions: Medusa's heads on what comes next, ADED's matrix on what follows from that.",
            _trained("aded_medusa"),
            ("heads", "matrix", "depth", "successors", "feedback", "keep"),
            values=_trained("check_aded_medusa"),
            missing=_trained("no_heads_or_whole_matrix"),
            sources=("heads",),
        ),
    )
}

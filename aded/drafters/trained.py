"""Factories of the methods that need a trained checkpoint: they find and load it, or name the command that creates it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError, shown
from aded.core.limits import check_choice
from aded.core.validation import flag
from aded.draft_models import checkpoints, draft_model, feature_heads, foreign_heads
from aded.draft_models.medusa_heads import LATTICE_RANKS, HeadReader, reader_for
from aded.drafters.budget.draft_length_policy import Cost
from aded.sampling.settings import TypicalAcceptance

if TYPE_CHECKING:
    from aded.draft_models.feature_heads import LoadedHead
    from aded.drafters.base import Drafter
    from aded.drafters.methods.eagle import EagleDrafter
    from aded.drafters.methods.rescoring import Rescoring
    from aded.engine.target_model import TargetModel

TREE_VERIFICATIONS = ("rejection", "coupled")
"""Kinds of verification of a sampled tree; block verification is for chains."""
OUROBOROS_LOOKAHEAD = {"ngram": 5, "window": 7, "guesses": 7}
"""Default sizes of the draft model's lookahead."""
RESCORING_OPTIONS = {
    "global": ("alpha", "paths", "matrix"),
    "local": ("alpha", "draft", "draft_model"),
    "none": (),
    "control": ("paths",),
}
"""Kinds of rescoring of blockwise drafts, the default first, and the options that each uses."""


def medusa(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.medusa import MedusaDrafter

    reader, rest = _heads(model, options)
    return MedusaDrafter(reader, **rest)


def medusa_typical(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.medusa import MedusaDrafter

    reader, rest = _heads(model, options)
    thresholds = _thresholds(rest)
    return MedusaDrafter(reader, **rest, typical=thresholds)


def _thresholds(options: dict[str, Any]) -> TypicalAcceptance:
    """Remove the thresholds of typical acceptance from ``options`` and return them."""
    return TypicalAcceptance(**{name: options.pop(name) for name in ("epsilon", "delta") if name in options})


def aded_medusa(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.aded_options import AdedOptions
    from aded.drafters.artifacts import base_counts_for
    from aded.drafters.methods.aded_medusa import AdedMedusaDrafter

    reader, rest = _heads(model, options)
    matrix = base_counts_for(model, rest.pop("matrix", None))
    return AdedMedusaDrafter(matrix, model.vocab_size, reader, AdedOptions(**rest), seed)


def eagle(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    return _with_head(model, "eagle", options)


def mtp(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    return _with_head(model, "mtp", options)


def glide(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.glide import GlideDrafter

    head, rest = _head(model, "glide", options)
    return GlideDrafter(head, **rest)


def _with_head(model: TargetModel, kind: checkpoints.Kind, options: Mapping[str, Any]) -> EagleDrafter:
    from aded.drafters.methods.eagle import EagleDrafter

    head, rest = _head(model, kind, options)
    return EagleDrafter(head, **rest)


def _head(model: TargetModel, kind: checkpoints.Kind, options: Mapping[str, Any]) -> tuple[LoadedHead, dict[str, Any]]:
    """The head of this kind that the options select, and the other options."""
    rest = dict(options)
    return feature_heads.head_for(model, kind, rest.pop("head", None), foreign_heads.load_head), rest


def aded_eagle(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.aded_options import AdedOptions
    from aded.drafters.artifacts import base_counts_for
    from aded.drafters.methods.aded_eagle import AdedEagleDrafter

    rest = dict(options)
    eagle = _with_head(model, "eagle", {name: rest.pop(name) for name in ("head",) if name in rest})
    matrix = base_counts_for(model, rest.pop("matrix", None))
    return AdedEagleDrafter(matrix, model.vocab_size, eagle, AdedOptions(**rest), seed)


def blockwise(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.methods.blockwise import BlockwiseDrafter

    reader = reader_for(model, options.get("heads"), LATTICE_RANKS, foreign_heads.load_heads)
    kind, rest = _rescoring_options(options)
    return BlockwiseDrafter(reader, _rescoring(model, kind, rest))


def _rescoring(model: TargetModel, kind: str, options: dict[str, Any]) -> Rescoring:
    from aded.draft_models.tree_runner import TreeRunner
    from aded.drafters.artifacts import matrix_for
    from aded.drafters.methods.rescoring import BestPaths, LocalRescoring, NoRescoring

    if kind == "none":
        return NoRescoring()
    if kind == "local":
        (draft,), rest = _drafts(model, options)
        return LocalRescoring(TreeRunner(draft, model.vocab_size), **rest)
    if kind == "control":
        return BestPaths(model.vocab_size, alpha=0.0, **options)
    return BestPaths(model.vocab_size, matrix_for(model, options.pop("matrix", None)), **options)


def _rescoring_options(options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of rescoring, and its options.

    Raises:
        AdedError: an unknown kind, or an option that has no effect with it.
    """
    rest = {name: value for name, value in options.items() if name not in ("heads", "rescoring")}
    kind = options.get("rescoring", "global")
    check_choice("rescoring", kind, tuple(RESCORING_OPTIONS))
    if unused := sorted(rest.keys() - set(RESCORING_OPTIONS[kind])):
        raise AdedError(f"{flag(unused[0])} has no effect with --rescoring {kind}; leave it out")
    return kind, rest


def speculative(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.draft_models.chain_runner import ChainRunner, level_cost
    from aded.drafters.methods.speculative import SpeculativeDrafter

    _check_one_draft(options, "speculative")
    (draft,), rest = _drafts(model, options)
    runner = ChainRunner(draft, model.vocab_size)
    return SpeculativeDrafter(runner, _target_cost(model), cache(partial(level_cost, draft)), **rest)


def specinfer(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.draft_models.tree_runner import TreeRunner
    from aded.draft_models.tree_runner import level_cost as tree_level_cost
    from aded.drafters.methods.specinfer import SpecInferDrafter
    from aded.drafters.methods.speculative import check_verification

    drafts, rest = _drafts(model, options)
    verification = rest.pop("verification", "rejection")
    check_verification(verification, TREE_VERIFICATIONS)
    branching = _numbers(rest.pop("branching", ""))
    runners = [TreeRunner(draft, model.vocab_size) for draft in drafts]

    @cache
    def levels_cost(greedy: bool) -> float:
        return sum(tree_level_cost(draft, greedy) for draft in drafts)

    return SpecInferDrafter(runners, _target_cost(model), levels_cost, verification == "coupled", branching=branching, **rest)


def ouroboros(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.draft_models.lookahead_runner import LookaheadRunner
    from aded.drafters.methods.ouroboros import OuroborosDrafter
    from aded.ngram.lookahead import Lookahead

    _check_one_draft(options, "ouroboros")
    (draft,), rest = _drafts(model, options)
    sizes = {name: rest.pop(name, size) for name, size in OUROBOROS_LOOKAHEAD.items()}
    runner = LookaheadRunner(draft, model.vocab_size, Lookahead(**sizes, seed=seed))
    return OuroborosDrafter(runner, **rest)


def check_medusa(options: Mapping[str, Any]) -> None:
    """Check the options without a target.

    Raises:
        AdedError: an invalid value.
    """
    from aded.drafters.methods.medusa import check_tree

    check_tree(options.get("tree", "adaptive"))
    _thresholds(dict(options))


def check_mixture(options: Mapping[str, Any]) -> None:
    """As ``check_medusa``."""
    from aded.drafters.aded_options import AdedOptions

    AdedOptions(**{name: value for name, value in options.items() if name not in ("heads", "head", "matrix")})


def check_eagle(options: Mapping[str, Any]) -> None:
    """As ``check_medusa``."""
    from aded.drafters.methods.eagle import check_settings

    check_settings(**{name: value for name, value in options.items() if name != "head"})


def check_glide(options: Mapping[str, Any]) -> None:
    """As ``check_medusa``."""
    from aded.drafters.methods.glide import check_settings

    check_settings(**{name: value for name, value in options.items() if name != "head"})


def check_blockwise(options: Mapping[str, Any]) -> None:
    """As ``check_medusa``."""
    from aded.drafters.methods.rescoring import check_settings

    _, rest = _rescoring_options(options)
    _check_one_draft(options, "blockwise")
    check_settings(**{name: rest[name] for name in ("alpha", "paths") if name in rest})


def check_speculative(options: Mapping[str, Any]) -> None:
    """As ``check_medusa``."""
    from aded.drafters.methods.speculative import check_length, check_verification

    _check_one_draft(options, "speculative")
    check_verification(options.get("verification", "rejection"))
    check_length(options.get("draft_length", 0))


def check_ouroboros(options: Mapping[str, Any]) -> None:
    """As ``check_medusa``."""
    from aded.drafters.methods.ouroboros import check_settings

    _check_one_draft(options, "ouroboros")
    others = ("draft", "draft_model", "pool_from_prompt")
    check_settings(**{name: value for name, value in options.items() if name not in others})


def check_specinfer(options: Mapping[str, Any]) -> None:
    """As ``check_medusa``."""
    from aded.drafters.methods.specinfer import check_branching
    from aded.drafters.methods.speculative import check_verification

    _draft_models(options)
    check_verification(options.get("verification", "rejection"), TREE_VERIFICATIONS)
    check_branching(_numbers(options.get("branching", "")))


def _heads(model: TargetModel, options: Mapping[str, Any]) -> tuple[HeadReader, dict[str, Any]]:
    """The heads, and the options that do not select them."""
    rest = dict(options)
    return reader_for(model, rest.pop("heads", None), read=foreign_heads.load_heads), rest


def _check_one_draft(options: Mapping[str, Any], method: str) -> None:
    if len(_draft_models(options)) + (options.get("draft") is not None) > 1:
        raise AdedError(f"{method} takes one draft model; give one --draft or --draft-model, or use --method specinfer")


def _draft_models(options: Mapping[str, Any]) -> list[str]:
    """The option ``draft_model``: one name of a model, or several.

    Raises:
        AdedError: it is neither.
    """
    given = options.get("draft_model", [])
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise AdedError(f"draft model is {shown(given)}; give the name of a model, or a list of names")
    return list(names)


def _drafts(model: TargetModel, options: Mapping[str, Any]) -> tuple[list[TargetModel], dict[str, Any]]:
    """The draft models that the options select (default: the distilled one), and the options that do not select them."""
    if model.tensor_parallel:
        raise AdedError("draft models do not support tensor parallelism; leave out --tp, or use another method")
    rest, specs = dict(options), _draft_models(options)
    rest.pop("draft_model", None)
    file = rest.pop("draft", None)
    drafts = [draft_model.other_model(model, spec) for spec in specs]
    if file is not None or not drafts:
        drafts.append(draft_model.draft_for(model, file))
    return drafts, rest


def _target_cost(model: TargetModel) -> Cost:
    """Seconds of a forward pass of the target by number of nodes; measured at the first call."""
    cost = model.cost
    return cost.table


def _numbers(given: str | int | Sequence[int]) -> Sequence[int]:
    """Numbers from text with commas or plus signs between them, or from a list; anything else is returned as it is."""
    if not isinstance(given, (str, int)):
        return tuple(given) if isinstance(given, list) else given
    try:
        return tuple(int(number) for number in str(given).replace("+", ",").split(",") if number)
    except ValueError:
        raise AdedError(f"branching is {shown(given)}; give numbers with commas, such as 4,2,2,1, or 4+2+2+1") from None

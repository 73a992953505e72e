"""Factories of the methods that have trained parts: they find or load those, and say the command that makes what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from aded.core.errors import AdedError
from aded.draft_models import checkpoints, draft_model
from aded.draft_models.chain_runner import ChainPool, level_cost
from aded.draft_models.medusa_heads import HeadReader, reader_for
from aded.drafters.draft_length_policy import Cost
from aded.sampling.settings import TypicalAcceptance

if TYPE_CHECKING:
    from aded.drafters.base import Drafter
    from aded.engine.target_model import TargetModel

_POOLS: WeakKeyDictionary[Any, dict[int, ChainPool]] = WeakKeyDictionary()
"""By target and by draft model: a pool keeps its draft model alive, and neither knows the target."""


def medusa(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.medusa import MedusaDrafter

    reader, rest = _heads(model, options)
    return MedusaDrafter(reader, **rest)


def medusa_typical(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.medusa import MedusaDrafter

    reader, rest = _heads(model, options)
    thresholds = _thresholds(rest)
    return MedusaDrafter(reader, **rest, typical=thresholds)


def _thresholds(options: dict[str, Any]) -> TypicalAcceptance:
    """Those of typical acceptance, which are taken out of the options."""
    return TypicalAcceptance(**{name: options.pop(name) for name in ("epsilon", "delta") if name in options})


def aded_medusa(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.aded import AdedOptions
    from aded.drafters.aded_medusa import AdedMedusaDrafter
    from aded.drafters.artifacts import matrix_for

    reader, rest = _heads(model, options)
    matrix = matrix_for(model, rest.pop("matrix", None))
    return AdedMedusaDrafter(matrix, model.vocab_size, reader, AdedOptions(**rest), seed)


def speculative(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.drafters.speculative import SpeculativeDrafter

    _one_draft(options)
    drafts, rest = _drafts(model, options)
    pools, key = _POOLS.setdefault(model, {}), id(drafts[0])
    pool = pools.get(key) or pools.setdefault(key, ChainPool(drafts[0], model.vocab_size))
    return SpeculativeDrafter(pool, _passes(model), cache(partial(level_cost, pool)), **rest)


def specinfer(model: TargetModel, options: Mapping[str, Any], seed: int) -> Drafter:
    from aded.draft_models.tree_runner import TreeRunner
    from aded.draft_models.tree_runner import level_cost as tree_level
    from aded.drafters.specinfer import SpecInferDrafter
    from aded.drafters.speculative import check_verification

    drafts, rest = _drafts(model, options)
    verification = rest.pop("verification", "rejection")
    check_verification(verification)
    branching = _numbers(rest.pop("branching", ""))
    runners = [TreeRunner(draft, model.vocab_size) for draft in drafts]

    @cache
    def level(greedy: bool) -> float:
        return sum(tree_level(draft, greedy) for draft in drafts)

    return SpecInferDrafter(runners, _passes(model), level, verification == "coupled", branching=branching, **rest)


def check_medusa(options: Mapping[str, Any]) -> None:
    """Refuse options that no target could take; so do the three that follow."""
    from aded.drafters.medusa import check_tree

    check_tree(options.get("tree", "adaptive"))
    _thresholds(dict(options))


def check_aded_medusa(options: Mapping[str, Any]) -> None:
    from aded.drafters.aded import AdedOptions

    AdedOptions(**{name: value for name, value in options.items() if name not in ("heads", "matrix")})


def check_speculative(options: Mapping[str, Any]) -> None:
    from aded.drafters.speculative import check_length, check_verification

    _one_draft(options)
    check_verification(options.get("verification", "rejection"))
    check_length(options.get("draft_length", 0))


def check_specinfer(options: Mapping[str, Any]) -> None:
    from aded.drafters.specinfer import check_branching
    from aded.drafters.speculative import check_verification

    check_verification(options.get("verification", "rejection"))
    check_branching(_numbers(options.get("branching", "")))


def no_heads(model: TargetModel) -> str | None:
    """Why methods with heads cannot run on a target, or None."""
    return checkpoints.missing("medusa", model)


def no_heads_or_whole_matrix(model: TargetModel) -> str | None:
    """As ``no_heads``; ``AdedError`` where the base matrix is damaged."""
    from aded.drafters.artifacts import matrix_for

    matrix_for(model)
    return no_heads(model)


def no_draft(model: TargetModel) -> str | None:
    """Why methods with a draft model cannot run on a target, or None."""
    return checkpoints.missing("draft", model)


def _heads(model: TargetModel, options: Mapping[str, Any]) -> tuple[HeadReader, dict[str, Any]]:
    """The heads, and the options that are not about them."""
    rest = dict(options)
    return reader_for(model, rest.pop("heads", None)), rest


def _one_draft(options: Mapping[str, Any]) -> None:
    specs = options.get("draft_model", ())
    if (1 if isinstance(specs, str) else len(specs)) + (options.get("draft") is not None) > 1:
        raise AdedError("speculative takes one --draft-model; give one, or use --method specinfer")


def _drafts(model: TargetModel, options: Mapping[str, Any]) -> tuple[list[TargetModel], dict[str, Any]]:
    """The draft models that the options name, else the distilled one; and the options that are not about them."""
    if model.shared:
        raise AdedError("draft models do not run under tensor parallelism; leave --tp out, or use another method")
    rest = dict(options)
    specs, file = rest.pop("draft_model", ()), rest.pop("draft", None)
    drafts = [draft_model.other_model(model, spec) for spec in ((specs,) if isinstance(specs, str) else specs)]
    if file is not None or not drafts:
        drafts.append(draft_model.draft_for(model, file))
    return drafts, rest


def _passes(model: TargetModel) -> Cost:
    """Seconds of a model's passes; measured now if never before."""
    cost = model.cost
    return cost.table


def _numbers(given: str | int | Sequence[int]) -> tuple[int, ...]:
    """Numbers as a sequence or as text, with commas or, where commas part methods, plus signs between them."""
    if not isinstance(given, (str, int)):
        return tuple(given)
    try:
        return tuple(int(number) for number in str(given).replace("+", ",").split(",") if number)
    except ValueError:
        raise AdedError(f"branching is {given!r}; give numbers with commas, such as 4,2,2,1, or 4+2+2+1") from None

"""Draft models: a few layers of their own between the target's embeddings and its vocabulary projection, or any other model.

A draft model is a causal language model like the target, with a cache of its own; ``TargetModel`` runs it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from aded.core.errors import AdedError, first_line
from aded.draft_models import checkpoints
from aded.engine.layers import tree_attention
from aded.engine.layers.fused_linear import separate_projections
from aded.engine.layers.prepacked_linear import pack_linears, unpack_linears

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


def small_model(model: Any, layers: Sequence[int]) -> Any:
    """A model of the same class that has copies of these layers of ``model`` and shares its embeddings and its projection.

    Args:
        model: a Transformers causal language model.
        layers: indices into its layers, in the order in which the new model has them.

    Raises:
        AdedError: its layers cannot be told from its other parts.
    """
    old = _layers_of(model)
    if not all(0 <= layer < len(old) for layer in layers) or not layers:
        raise AdedError(f"layers are {list(layers)}; the model has 0 to {len(old) - 1}")
    new = nn.ModuleList(copy.deepcopy(old[layer]) for layer in layers)
    unpack_linears(new)  # packed and joined weights are the old layers'
    separate_projections(new)
    shared = [m for m in model.modules() if isinstance(m, nn.Embedding)] + [model.get_output_embeddings()]
    memo = {id(old): new} | {id(m): m for m in shared if m is not None}
    small = copy.deepcopy(model, memo)
    tree_attention.detach(small)
    config = small.config.get_text_config()
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[layer] for layer in layers]
    config.num_hidden_layers = len(layers)
    for place, layer in enumerate(new):
        for module in layer.modules():
            if hasattr(module, "layer_idx"):
                module.layer_idx = place  # type: ignore[assignment]
    return small


def _layers_of(model: Any) -> nn.ModuleList:
    count = model.config.get_text_config().num_hidden_layers
    found = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    if len(found) != 1:
        raise AdedError("the layers of this model cannot be told from its other parts; use --draft-model with another model")
    return found[0]


def own_parameters(small: Any, model: Any) -> dict[str, nn.Parameter]:
    """The parameters, by name, that a small model does not share with the model it was made from."""
    shared = {id(p) for p in model.parameters()}
    return {name: p for name, p in small.named_parameters() if id(p) not in shared}


def ends(layers: int, count: int) -> list[int]:
    """``count`` layers of a model of ``layers``, evenly from the first to the last: what a draft model starts from."""
    return [round(i * (layers - 1) / max(count - 1, 1)) for i in range(count)]


_DRAFTS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def draft_for(target: TargetModel, path: str | None = None) -> TargetModel:
    """The distilled draft model at ``path``, or the bundled one, for a target: loaded once for all its decodes.

    Raises:
        AdedError: there is none, or the file is damaged or of another model.
    """
    file = path or checkpoints.find("draft", target)
    if file is None:
        raise AdedError(checkpoints.missing("draft", target) or "the draft model is gone; give --draft FILE")
    kept = _DRAFTS.setdefault(target, {})
    if str(file) not in kept:
        kept[str(file)] = load(file, target)
    return kept[str(file)]


def other_model(target: TargetModel, spec: str) -> TargetModel:
    """Another model with the target's tokenizer as its draft model: loaded once.

    Raises:
        AdedError: there is no such model, or its token ids mean other tokens.
    """
    from aded.engine.target_model import TargetModel

    kept = _DRAFTS.setdefault(target, {})
    if spec not in kept:
        draft = TargetModel.load(spec, str(target.device), str(target.dtype).removeprefix("torch."))
        if draft.fingerprint != target.fingerprint:
            raise AdedError(f"{spec} has another tokenizer than {target.label}; give --draft-model a model with the same one")
        kept[spec] = draft
    return kept[spec]


def load(path: str | Path, target: TargetModel) -> TargetModel:
    """Read a distilled draft model.

    Raises:
        AdedError: as ``parts.read``, or its tensors are not those of its header's layers.
    """
    from aded.engine.target_model import TargetModel

    part = checkpoints.read(path, "draft", target)
    try:
        count = int(part.header["layers"])
        small = small_model(target.model, ends(len(_layers_of(target.model)), count))
        own = own_parameters(small, target.model)
        if own.keys() != part.tensors.keys():
            raise ValueError("its tensors are those of another model")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(part.tensors[name])
    except (KeyError, ValueError, RuntimeError) as error:
        remedy = checkpoints.command("draft", target.spec)
        raise AdedError(f"{path} does not fit this model ({first_line(error)}); make one with {remedy}") from None
    if target.packed:
        pack_linears(_layers_of(small))
    return TargetModel(small, target.tokenizer, f"draft of {target.spec}", f"draft of {target.label}")

"""Draft models: a few layers between the target's embeddings and its vocabulary projection, or any other model.

A draft model is a causal language model with a separate KV cache; ``TargetModel`` runs it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from aded.core.errors import AdedError, first_line
from aded.draft_models import checkpoints
from aded.engine.layers import fused_layers, tree_attention
from aded.engine.layers.fused_linear import separate_projections
from aded.engine.layers.prepacked_linear import prepack_linears, restore_linears

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel


def pruned_model(model: Any, layers: Sequence[int]) -> Any:
    """A model of the same class with copies of some layers of ``model``; it shares the embeddings and the vocabulary projection.

    Args:
        model: a Transformers causal language model.
        layers: indices of the layers to copy, in the order of the new model.

    Raises:
        AdedError: an index out of range, or the list of layers was not found in the model.
    """
    old = _layers_of(model)
    if not all(0 <= layer < len(old) for layer in layers) or not layers:
        raise AdedError(f"layers are {list(layers)}; the model has 0 to {len(old) - 1}")
    new = nn.ModuleList(copy.deepcopy(old[layer]) for layer in layers)
    restore_linears(new)  # prepacked weights and fused projections belong to the old layers
    fused_layers.detach(new)
    separate_projections(new)
    shared = [m for m in model.modules() if isinstance(m, nn.Embedding)] + [model.get_output_embeddings()]
    memo = {id(old): new} | {id(m): m for m in shared if m is not None}  # deepcopy takes these instead of copying
    small = copy.deepcopy(model, memo)
    tree_attention.detach(small)
    config = small.config.get_text_config()
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[layer] for layer in layers]
    config.num_hidden_layers = len(layers)
    for i, layer in enumerate(new):
        for module in layer.modules():
            if hasattr(module, "layer_idx"):
                module.layer_idx = i  # type: ignore[assignment]
    return small


def _layers_of(model: Any) -> nn.ModuleList:
    count = model.config.get_text_config().num_hidden_layers
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    if len(lists) != 1:
        raise AdedError("the list of layers was not found in this model; use --draft-model with another model")
    return lists[0]


def unshared_parameters(small: Any, model: Any) -> dict[str, nn.Parameter]:
    """The parameters, by name, that a small model does not share with the model that it was made from."""
    shared = {id(p) for p in model.parameters()}
    return {name: p for name, p in small.named_parameters() if id(p) not in shared}


def evenly_spaced_layers(layers: int, count: int) -> list[int]:
    """Indices of ``count`` layers, evenly spaced from the first to the last: the layers that a draft model starts from."""
    return [round(i * (layers - 1) / max(count - 1, 1)) for i in range(count)]


def draft_for(target: TargetModel, path: str | None = None) -> TargetModel:
    """The distilled draft model at ``path``, or else the default one for the target; loaded once per target.

    Raises:
        AdedError: there is none, or the file is damaged or for another model.
    """
    file = path or checkpoints.find("draft", target)
    if file is None:
        raise AdedError(checkpoints.missing("draft", target) or "the draft model was removed; give --draft FILE")
    if str(file) not in target.draft_models:
        target.draft_models[str(file)] = load(file, target)
    return target.draft_models[str(file)]


def other_model(target: TargetModel, spec: str) -> TargetModel:
    """Another model with the target's tokenizer as its draft model; loaded once per target.

    Raises:
        AdedError: the model cannot be loaded, or has another tokenizer.
    """
    from aded.engine.target_model import TargetModel

    if spec not in target.draft_models:
        draft = TargetModel.load(spec, str(target.device), str(target.dtype).removeprefix("torch."))
        if draft.fingerprint != target.fingerprint:
            raise AdedError(f"{spec} has another tokenizer than {target.label}; give --draft-model a model with the same one")
        target.draft_models[spec] = draft
    return target.draft_models[spec]


def load(path: str | Path, target: TargetModel) -> TargetModel:
    """Read a distilled draft model.

    Raises:
        AdedError: as ``checkpoints.read``, or the tensors do not fit the layers named in the header.
    """
    from aded.engine.target_model import TargetModel

    checkpoint = checkpoints.read(path, "draft", target)
    try:
        count = int(checkpoint.header["layers"])
        small = pruned_model(target.model, evenly_spaced_layers(len(_layers_of(target.model)), count))
        parameters = unshared_parameters(small, target.model)
        if parameters.keys() != checkpoint.tensors.keys():
            raise ValueError("the names of its tensors differ")
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(checkpoint.tensors[name])
    except (KeyError, ValueError, RuntimeError) as error:
        remedy = checkpoints.command("draft", target.spec)
        raise AdedError(f"{path} does not fit this model ({first_line(error)}); make one with {remedy}") from None
    if target.prepacked:
        prepack_linears(_layers_of(small))
    return TargetModel(small, target.tokenizer, f"draft of {target.spec}", f"draft of {target.label}")

"""What a drafter can see of the target model during one decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aded.core.errors import AdedError
from aded.core.limits import is_whole

if TYPE_CHECKING:
    import torch

    from aded.engine.session import TargetSession
    from aded.sampling.settings import SamplingSettings


class LayerKeysValues(NamedTuple):
    """The KV cache of one layer: views of the target's memory, for reading only.

    Attributes:
        keys, values: ``[kv_heads, capacity, head_dim]`` each, in the model's dtype; slots from ``TargetView.length`` on are
            undefined.
    """

    keys: torch.Tensor
    values: torch.Tensor


class TargetView:
    """Read-only view of the target in one decode.

    Attributes:
        settings: the target's sampling settings.
        layers, vocab_size: of the model.
        device, dtype: of its tensors.
    """

    def __init__(self, session: TargetSession, settings: SamplingSettings) -> None:
        target = session.target
        self._session, self._model = session, target.model
        self.settings = settings
        self.layers = int(target.config.num_hidden_layers)
        self.vocab_size, self.device, self.dtype = target.vocab_size, target.device, target.dtype

    @property
    def length(self) -> int:
        """Number of committed tokens whose keys and values are in the cache: all but the root; 0 after the decode."""
        return 0 if self._session.cache is None else self._session.length

    @property
    def embedding(self) -> Any:
        """The target's token embedding: int64 ``[n]`` to ``[n, hidden]``."""
        return self._model.get_input_embeddings()

    @property
    def vocabulary_projection(self) -> Any:
        """The target's output layer (LM head): ``[n, hidden]`` to logits ``[n, vocab]``."""
        return self._model.get_output_embeddings()

    def kv(self, layer: int) -> LayerKeysValues:
        """Keys (after the rotary embedding) and values of a layer; -1 is the last one.

        The tensors stay at the same addresses until the decode ends, so a drafter may use them in a captured graph. After that,
        their memory serves other decodes.

        Raises:
            AdedError: the model has no such layer or no cache that can be read, or the decode has ended.
        """
        if self._session.cache is None:
            raise AdedError("the decode of this view has ended; use the view that bind receives for the next one")
        if not is_whole(layer) or not -self.layers <= layer < self.layers:
            raise AdedError(
                f"the drafter reads the KV cache of layer {layer}; this model has 0 to {self.layers - 1}, -1 is the last"
            )
        keys, values = self._session.layer_kv(layer % self.layers)
        return LayerKeysValues(keys[0], values[0])

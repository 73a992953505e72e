"""What drafters with a trained head of one layer have in common: its network, which has read all committed tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from aded.draft_models.feature_head_network import HeadNetwork
from aded.draft_models.feature_heads import LoadedHead
from aded.draft_models.feature_network import Children
from aded.drafters.base import Drafter, Inspectable

if TYPE_CHECKING:
    from aded.engine.target_view import LayerKeysValues, TargetView

NOT_FINITE = "the head stops drafting: its logits are not finite; train it again, or use a wider --dtype"


class HeadDrafter(Drafter, Inspectable):
    """A drafter with a head.

    Args:
        loaded: the head; its networks are used again in later decodes.

    Attributes:
        head: the head.
        children: its predictions after the last committed token; None before it has read one.
    """

    def __init__(self, loaded: LoadedHead) -> None:
        self.head, self._free = loaded.head, loaded.networks
        self.children: Children | None = None
        self._network: HeadNetwork | None = None

    def bind(self, target: TargetView) -> None:
        self.close()
        try:
            self._network = self._free.pop()
        except IndexError:
            self._network = HeadNetwork(self.head, target.embedding)

    def close(self) -> None:
        if self._network is not None:
            self._free.append(self._network)
            self._network, self.children = None, None

    @property
    def network(self) -> HeadNetwork:
        """The network of the current decode."""
        assert self._network is not None, "bind comes first"
        return self._network

    def read_prompt(self, features: torch.Tensor, prompt: Sequence[int], target: LayerKeysValues | None = None) -> None:
        """Begin a decode: read all prompt tokens but the first; ``target``: see ``HeadNetwork.start``.

        Args:
            features: the target's at each prompt token but the last, ``[len(prompt) - 1, layers * hidden]``.
            prompt: token ids.
        """
        self.notice, self.children = None, None
        self.network.start(target)
        if len(prompt) > 1:
            self.read(features, prompt[1:])

    def read(self, features: torch.Tensor, tokens: Sequence[int]) -> None:
        """Read committed tokens: the features at each token, ``[n, layers * hidden]``, and the token after it, ``[n]``."""
        self.children = self.network.read(features, tokens)

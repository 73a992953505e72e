"""The random numbers of sampling: one for every seed, absolute position and token, the same on every device.

A token is drawn as the winner of an exponential race: token i, of probability p_i, arrives after E_i / p_i with E_i
exponential, and the first to arrive is a draw from p (the Gumbel-max rule in another form; Maddison, Tarlow, Minka 2014,
arXiv 1411.0030). Rounding can change the winner only where the two first arrive together. Inverting the distribution
function instead would put every one of some ten thousand tokens at the mercy of the rounding of all before it.
"""

from __future__ import annotations

import torch

GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def key_of(seed: int, position: int) -> int:
    """The key of a position: 64 bits, by SplitMix64 (Steele, Lea, Flood 2014) of the seed and the position."""
    return _splitmix64((_splitmix64(seed) + position) & _MASK)


def uniform(key: int, token: int) -> float:
    """The uniform random number in (0, 1) of a token at a position, 53 bits."""
    return ((_splitmix64((key + token * GOLDEN) & _MASK) >> 11) + 0.5) * 2.0**-53


def signed(value: int) -> int:
    """64 bits as a signed number, which is how tensors hold them."""
    return value - (1 << 64) if value >= 1 << 63 else value


def exponentials(keys: torch.Tensor, vocab: int) -> torch.Tensor:
    """``-log(uniform(key, token))`` for every key and token: exponential random numbers.

    Args:
        keys: int64 ``[n]``, 64 bits each.
        vocab: tokens.

    Returns:
        float64 ``[n, vocab]``.
    """
    state = keys[:, None] + signed(GOLDEN) * torch.arange(1, vocab + 1, device=keys.device)  # wraps round, as it must
    state = (state ^ _shifted(state, 30)) * signed(_FIRST)
    state = (state ^ _shifted(state, 27)) * signed(_SECOND)
    state = state ^ _shifted(state, 31)
    return -((_shifted(state, 11).double() + 0.5) * 2.0**-53).log()


def _shifted(state: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical shift to the right: the sign bit is a bit like any other."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)


def _splitmix64(x: int) -> int:
    x = (x + GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)

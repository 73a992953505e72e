"""Counter-based random numbers for sampling: one per seed, absolute position and token, equal on every device.

A token is drawn as argmin_i E_i / p_i, where p_i is the probability of token i and E_i an exponential random number. This is the
Gumbel-max trick (Maddison, Tarlow, Minka 2014, arXiv 1411.0030) in another form; the result is distributed as p. Rounding
errors of the logits change the draw only if the two smallest values nearly tie. With inversion of the cumulative distribution,
the rounding errors of all preceding tokens would affect the draw.

The numbers come from SplitMix64 (Steele, Lea, Flood 2014). Its mixing function is here for integers, tensors and compiled code.
"""

from __future__ import annotations

import numpy as np
import torch

from aded.core.compilation.jit import njit

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_MULTIPLIER_1, _MULTIPLIER_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def key_of(seed: int, position: int) -> int:
    """64-bit key of a position, a SplitMix64 hash of the seed and the position."""
    return _splitmix64((_splitmix64(seed) + position) & _MASK)


def uniform(key: int, token: int) -> float:
    """Uniform random number in (0, 1) with 52 bits, for a token and the key of its position.

    With 53 bits the largest one would round to 1, and a token whose exponential is 0 is drawn whatever its probability.
    """
    return ((_splitmix64((key + token * GOLDEN_GAMMA) & _MASK) >> 12) + 0.5) * 2.0**-52


def signed(value: int) -> int:
    """An unsigned 64-bit integer as the int64 with the same bits."""
    return value - (1 << 64) if value >= 1 << 63 else value


def exponentials(keys: torch.Tensor, vocab: int) -> torch.Tensor:
    """Exponential random numbers ``-log(uniform(key, token))`` for every key and token.

    Args:
        keys: int64 ``[n]``, from ``signed(key_of(...))``.
        vocab: vocabulary size.

    Returns:
        float64 ``[n, vocab]``.
    """
    state = keys[:, None] + signed(GOLDEN_GAMMA) * torch.arange(1, vocab + 1, device=keys.device)  # modulo 2**64
    return -((_shift_right(_mix_tensor(state), 12).double() + 0.5) * 2.0**-52).log()


@njit(cache=True)
def next_uniform(state: np.uint64) -> tuple[float, np.uint64]:
    """A uniform random number in [0, 1) with 53 bits, and the generator's next state; for compiled code."""
    state += np.uint64(GOLDEN_GAMMA)
    return float(_mix_compiled(state) >> np.uint64(11)) * 2.0**-53, state


@njit(cache=True)
def key_of_compiled(seed: np.uint64, position: int) -> np.uint64:
    """As ``key_of``, for compiled code."""
    return _mix_compiled(_mix_compiled(seed + np.uint64(GOLDEN_GAMMA)) + np.uint64(position) + np.uint64(GOLDEN_GAMMA))


@njit(cache=True)
def uniform_compiled(key: np.uint64, token: int) -> float:
    """As ``uniform``, for compiled code."""
    state = key + np.uint64(GOLDEN_GAMMA) * (np.uint64(token) + np.uint64(1))
    return (float(_mix_compiled(state) >> np.uint64(12)) + 0.5) * 2.0**-52


def _splitmix64(x: int) -> int:
    return _mix((x + GOLDEN_GAMMA) & _MASK)


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * _MULTIPLIER_1) & _MASK
    z = ((z ^ (z >> 27)) * _MULTIPLIER_2) & _MASK
    return z ^ (z >> 31)


def _mix_tensor(z: torch.Tensor) -> torch.Tensor:
    """``_mix`` of every element, int64 with the same bits."""
    z = (z ^ _shift_right(z, 30)) * signed(_MULTIPLIER_1)
    z = (z ^ _shift_right(z, 27)) * signed(_MULTIPLIER_2)
    return z ^ _shift_right(z, 31)


@njit(cache=True)
def _mix_compiled(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MULTIPLIER_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MULTIPLIER_2)
    return z ^ (z >> np.uint64(31))


def _shift_right(state: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical (unsigned) right shift."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)

"""The kernels of a fixed-shape step compute what PyTorch's operations compute, in Triton's interpreter and on a GPU."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from interpreter import interpret, needs_triton

from aded.engine import step_kernels
from aded.engine.attention_mask import AttentionMasks
from aded.sampling import sampler
from aded.sampling.rng import key_of, signed
from aded.sampling.settings import SamplingSettings

VOCAB = 2500
"""Logits of three chunks."""


def random_inputs(rng: np.random.Generator, nodes: int, device: str) -> SimpleNamespace:
    """A random tree in a bucket of ``nodes``, as ``aded.engine.step_graph`` sends it."""
    count = int(rng.integers(1, nodes + 1))
    parents = np.array([0, *(int(rng.integers(node)) for node in range(1, count)), *[0] * (nodes - count)])
    ancestors = np.eye(nodes, dtype=bool)
    depths = np.zeros(nodes, dtype=np.int64)
    for node in range(1, count):
        ancestors[node] |= ancestors[parents[node]]
        depths[node] = depths[parents[node]] + 1
    tokens = rng.integers(0, 3, nodes)
    tree = {"tokens": tokens, "parents": parents, "depths": depths, "ancestors": ancestors}
    tensors = {name: torch.from_numpy(values).to(device) for name, values in tree.items()}
    scalars = {"count": count, "length": int(rng.integers(1, 40))}
    return SimpleNamespace(**tensors, **{name: torch.tensor(value, device=device) for name, value in scalars.items()})


def compare(device: str, kernels: object, trees: int, sizes: tuple[int, ...]) -> None:
    """Random trees, logits and caches: every result of the kernels against PyTorch's."""
    rng, use = np.random.default_rng(5), step_kernels._kernels
    generator = torch.Generator(device).manual_seed(3)

    def both(compute):
        found = []
        for made in (kernels, None):
            step_kernels._kernels = lambda tensor, made=made: made
            found.append(compute())
        step_kernels._kernels = use
        return found

    for place in range(trees):
        nodes = int(rng.choice(sizes))
        inputs = random_inputs(rng, nodes, device)
        logits = torch.randn(nodes, VOCAB, generator=generator, device=device)
        logits[:, :3] += 6 * torch.rand(nodes, 3, generator=generator, device=device)
        if place % 5 == 0:
            logits[int(rng.integers(nodes)), int(rng.integers(VOCAB))] = float(rng.choice([np.nan, np.inf]))
        if place % 7 == 0:
            logits[int(rng.integers(nodes))] = -torch.inf
        cache = torch.randn(2, 3, 64 + nodes, 16, generator=generator, device=device)

        def step(inputs=inputs, logits=logits, cache=cache, nodes=nodes):
            k = 4
            tokens = torch.zeros(nodes, k, dtype=torch.int64, device=device)
            probabilities = torch.zeros(nodes, k, dtype=torch.float64, device=device)
            best, finite = step_kernels.top_tokens(logits, tokens, probabilities)
            result, moved = torch.zeros(2 + nodes, dtype=torch.int64, device=device), cache.clone()
            last = step_kernels.accept(inputs, best, finite, result)
            slots = inputs.length + torch.arange(nodes, device=device)
            step_kernels.compact([moved], inputs.length, result, slots)
            return best, finite.bool(), tokens, probabilities, result, last, moved

        (best, finite, tokens, probabilities, result, last, moved), expected = both(step)
        sane = expected[1]
        assert torch.equal(finite, sane)
        assert torch.equal(best[sane], expected[0][sane])
        assert torch.equal(tokens[sane], expected[2][sane])
        assert torch.allclose(probabilities[sane], expected[3][sane], rtol=1e-4, atol=1e-7)
        if sane.all():
            assert torch.equal(result, expected[4])
            assert torch.equal(last, expected[5])
        length, accepted = int(inputs.length), int(expected[4][0])
        if torch.equal(result, expected[4]):
            assert torch.equal(moved[..., : length + accepted, :], expected[6][..., : length + accepted, :])

        for window in (None, 5):
            config = SimpleNamespace(sliding_window=window)
            masks = AttentionMasks(config, torch.float32, torch.device(device))
            masks.kind = "full" if window is None else "sliding"
            arguments = (inputs.ancestors, inputs.depths, inputs.length, torch.arange(300, device=device))
            found, wanted = both(lambda masks=masks, arguments=arguments: masks.fixed(*arguments))
            assert torch.equal(found[:, :, : int(inputs.count)], wanted[:, :, : int(inputs.count)])


def compare_draws(device: str, kernels: object, rounds: int, vocab: int) -> None:
    """Drawn tokens of the kernel against those of ``sampler.choose`` for random logits and settings."""
    rng, use = np.random.default_rng(9), step_kernels._kernels
    generator, differences, draws = torch.Generator(device).manual_seed(3), 0, 0
    for place in range(rounds):
        settings = SamplingSettings(
            temperature=float(rng.choice([0.3, 0.8, 1.0, 1.7])),
            top_k=int(rng.choice([0, 0, 1, 5, 40])),
            top_p=float(rng.choice([1.0, 0.95, 0.5, 0.05])),
            min_p=float(rng.choice([0.0, 0.0, 0.1])),
        )
        n = int(rng.integers(1, 5))
        logits = 3 * torch.randn(n, vocab, generator=generator, device=device)
        if place % 3 == 0:
            logits = logits.bfloat16() if device == "cuda" else logits.half()
        if place % 4 == 0:
            logits[:, 3:9] = -torch.inf
        keys = torch.tensor([signed(key_of(place, i)) for i in range(n)], device=device)
        arguments = logits, sampler.operations(settings), sampler.parameters(settings).to(device), keys
        step_kernels._kernels = lambda tensor: kernels
        found = step_kernels.draw(*arguments)
        step_kernels._kernels = use
        differences, draws = differences + int((found != sampler.choose(*arguments)).sum()), draws + n
    assert differences <= draws / 500, f"{differences} of {draws}: more than rounding at the edge of a nucleus explains"


@needs_triton
def test_the_kernels_compute_the_same_in_the_interpreter():
    interpret(
        "import test_step_kernels as t\n"
        "from aded.engine import step_kernels_triton as kernels\n"
        "t.compare('cpu', kernels, 30, (1, 2, 8, 16))\n"
        "t.compare_draws('cpu', kernels, 40, 1500)"
    )


@pytest.mark.gpu
def test_the_kernels_compute_the_same_on_a_gpu():
    from aded.engine import step_kernels_triton

    compare_draws("cuda", step_kernels_triton, 1000, 49152)
    compare("cuda", step_kernels_triton, 1000, (1, 2, 4, 8, 16, 32, 64, 128, 256))

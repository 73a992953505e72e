"""Code that a GPU captures never synchronizes with the host and keeps its buffers; both can be tested on the CPU."""

import numpy as np
import pytest
import torch
from fakes import VOCAB, tiny_target
from test_medusa import PROMPT, random_heads
from torch.utils._python_dispatch import TorchDispatchMode

from aded.core.compilation.cuda_graph import InputBuffer, Replay, host_buffer
from aded.core.tree import DraftTree
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.medusa_heads import HeadReader
from aded.engine.outputs import DrafterNeeds
from aded.sampling import sampler
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings
from aded.verification.rejection_sampler import NodeInputs, RejectionGraph

SETTINGS = [
    SamplingSettings(),
    SamplingSettings(temperature=0.8, seed=3),
    SamplingSettings(temperature=0.7, top_k=5, top_p=0.9, min_p=0.05),
]


class NothingReadBack(TorchDispatchMode):
    """Raises if a tensor value is copied to the host or decides a shape."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "unique")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name().split("::")[1].split(".")[0]
        indices = args[1] if name in ("index", "index_put_") else ()
        masks = [index for index in indices if index is not None and index.dtype == torch.bool]
        assert name not in self.FORBIDDEN and not masks, f"{name} reads back"
        return function(*args, **(kwargs or {}))


def addresses(thing):
    """Those of the tensors of an object and of its input buffers."""
    found = {name: value.data_ptr() for name, value in vars(thing).items() if isinstance(value, torch.Tensor)}
    buffers = {name: addresses(value) for name, value in vars(thing).items() if isinstance(value, InputBuffer)}
    return found | buffers


def assert_fit_for_a_graph(body, owner):
    before = addresses(owner)
    with torch.inference_mode(), NothingReadBack():
        body()
    assert addresses(owner) == before


def test_the_guard_detects_copies_to_the_host():
    for mistake in (lambda x: int(x[0]), lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: 1 if x[0] > 0 else 0):
        with pytest.raises(AssertionError, match="reads back"), NothingReadBack():
            mistake(torch.ones(3))


def test_heads_are_fit_for_a_graph():
    reader = HeadReader(tiny_target(), random_heads(), np.full((3, 10), 0.1))
    assert_fit_for_a_graph(lambda: reader.forward(torch.ones(1, 32)), reader)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("family", ["llama", "mistral_sliding", "gemma2_sliding"])
def test_steps_with_all_requests_of_drafters_are_fit_for_a_graph(family, settings):
    target = tiny_target(family)
    target.use_fixed_shapes()
    reader = HeadReader(target, random_heads(), np.full((3, 10), 0.1))
    session, tree = target.session(64), DraftTree(np.array([5, 9, 14, 3]), np.array([-1, 0, 0, 1]))
    session.prefill(PROMPT[:-1])
    session.verify(tree, PROMPT, Rule(settings), DrafterNeeds(5, (1, -1), reader))
    steps = [step for step in target.pool.steps if step.kind.reader is reader]
    assert len(steps) == 1
    with torch.inference_mode(), NothingReadBack():
        steps[0]._body()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("family", ["llama", "mistral_sliding", "gemma2_sliding"])
def test_chains_are_fit_for_a_graph(family, settings):
    target = tiny_target(family)
    runner = ChainRunner(target, VOCAB)
    runner.start(PROMPT)
    runner.chain(np.array(PROMPT), 4, settings, [1, 2, 3, 4])
    step = next(iter(runner.session.cache.graphs.values()))
    assert_fit_for_a_graph(step._body, step)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("settings", SETTINGS[1:], ids=str)
def test_acceptance_is_fit_for_a_graph(settings, replacement):
    logits, q = torch.randn(4, VOCAB), torch.full((2, VOCAB), 1 / VOCAB, dtype=torch.float64)
    graph = RejectionGraph(logits, q, 4, 2, 2, sampler.operations(settings), replacement)
    rows = np.array([[0, 0], [1, -1], [-1, -1], [-1, -1]])
    graph.run(logits, q, NodeInputs(np.where(rows < 0, -1, 5), rows, np.full((4, 2), 0.5), np.arange(4)), settings)
    assert_fit_for_a_graph(graph._body, graph)


def test_a_body_runs_again_on_the_contents_of_its_buffers():
    given, found = torch.zeros(3), torch.zeros(3)
    read = host_buffer(found)

    def body():
        found.copy_(given * 2)
        read.copy_(found)

    run = Replay(body, torch.device("cpu"))
    for value in (1.0, 5.0):
        given.fill_(value)
        run()
        assert read.tolist() == [2 * value] * 3

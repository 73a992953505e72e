"""The chunked top-k search finds the same tokens as a plain one."""

import math

import pytest
import torch
from transformers import TopPLogitsWarper

from aded.sampling import sampler
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings


@pytest.mark.parametrize(("vocab", "k"), [(49152, 8), (128256, 8), (32000, 1), (151936, 10), (97, 5), (2048, 1024), (256, 256)])
def test_the_largest_of_pieces_are_the_largest_of_all(vocab, k):
    scores = torch.randperm(3 * vocab, generator=torch.Generator().manual_seed(vocab)).view(3, vocab).float()
    values, indices = sampler._top_k(scores, k, sampler._chunk_length(scores))
    expected = scores.topk(k)
    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)


def test_pieces_divide_the_vocabularies_of_common_models():
    for vocab in (32000, 32064, 49152, 50304, 128256, 129280, 151936, 152064, 256000, 262144):
        chunk = sampler._chunk_length(torch.empty(1, vocab, device="meta"))
        assert vocab % chunk == 0
        assert chunk < vocab


def test_probabilities_are_those_of_the_whole_row():
    logits = torch.randn(4, 300, generator=torch.Generator().manual_seed(0))
    tokens, probabilities = sampler.top(logits, 5)
    assert torch.allclose(probabilities, logits.softmax(-1).gather(1, tokens))


def test_top_p_keeps_scores_equal_to_its_smallest_one():
    """Which of equal logits a sort leaves out depends on the device; the kernel of the captured step cannot tell them apart."""
    settings = SamplingSettings(temperature=1.0, top_p=0.7)
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0], [0.0, 3.0, 0.0, 0.0]])
    found = sampler.distribution(logits, sampler.operations(settings), sampler.parameters(settings))
    for row, rule in zip(found, (Rule(settings).probabilities(row, [0]) for row in logits)):
        assert torch.equal(row, rule)
    kept = [1 / (1 + 2 / math.e), (1 / math.e) / (1 + 2 / math.e)]
    assert found[0].tolist() == pytest.approx([kept[0], kept[1], kept[1], 0.0])
    assert found[1].tolist() == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 0.999])
def test_top_p_is_that_of_transformers_without_ties(top_p):
    scores = torch.randn(6, 500, generator=torch.Generator().manual_seed(1)) * 4
    assert torch.equal(sampler.nucleus(scores, top_p), TopPLogitsWarper(top_p)(None, scores))
    assert torch.equal(sampler.nucleus(scores, torch.tensor(top_p, dtype=torch.float64)), sampler.nucleus(scores, top_p))

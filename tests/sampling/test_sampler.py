"""The chunked top-k search finds the same tokens as a plain one."""

import pytest
import torch

from aded.sampling import sampler


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

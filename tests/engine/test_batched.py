"""Batch generation equals generating each row alone, for every model family, with and without compaction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fakes import WordTokenizer, alone, tiny_model, tiny_target

from aded.engine import batch_generation
from aded.engine.batch_generation import ATTENTION, TOP_K, TOP_P, ConversationBatch, FinishedRow, Script, grouped_query_attention
from aded.sampling.rng import key_of, uniform

SCRIPT = Script(opening=(5, 17, 40), closing=(7, 9, 11), longest_question=30, longest_answer=25)
SEED, BATCH = 3, 48
GREEDY = np.arange(BATCH) % 2 == 0
FAMILIES = ("llama", "gpt2", "qwen3", "phi3", "mistral_sliding", "qwen2_sliding", "gemma2_sliding", "gemma3_sliding")


def batch_of(target, script: Script = SCRIPT) -> ConversationBatch:
    session = target.session(len(script.opening))
    session.prefill(script.opening)
    return ConversationBatch(target, script, BATCH, session.cache, target.eos_ids)


def written(batch: ConversationBatch, every: int = 4, compact: bool = True, beginnings=()) -> list[FinishedRow]:
    batch.begin(SEED, GREEDY, beginnings)
    ended = []
    while not batch.at_end:
        batch.advance(every)
        if compact:
            ended += batch.compact(batch.running())
    return sorted(ended + batch.collect(), key=lambda one: one.row)


def answered(rows: list[FinishedRow], script: Script = SCRIPT) -> list[FinishedRow]:
    return [one for one in rows if one.closed and len(one.ids) > one.closed + len(script.closing)]


def drawn(target, ids: list[int], key: int, temperature: float) -> int:
    """A slow reference of the sampling rule: the k most probable, their nucleus, an exponential race."""
    with torch.inference_mode():
        logits = target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].double()
    order = logits.argsort(descending=True)[:TOP_K].tolist()
    weights = np.exp([(float(logits[i]) - float(logits.max())) / temperature for i in order])
    shares, mass, arrivals = weights / weights.sum(), 0.0, []
    for rank, share in enumerate(shares):
        arrivals.append(-np.log(uniform(key, rank)) / share if mass < TOP_P else np.inf)
        mass += share
    return order[int(np.argmin(arrivals))]


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_answers_equal_plain_greedy_decoding(family: str) -> None:
    target = tiny_target(family)
    batch = batch_of(target)
    rows = written(batch)
    greedy = [one for one in answered(rows) if one.greedy]
    assert len(rows) == batch.batch and [one.row for one in rows] == list(range(batch.batch))
    assert batch.rows < batch.batch, "the batch was compacted"
    assert greedy
    for one in greedy[:8]:
        at = one.closed + len(SCRIPT.closing)
        assert one.ids[at:].tolist() == alone(target, one.ids[:at].tolist(), SCRIPT.longest_answer)


def test_sampled_tokens_follow_the_rule_position_by_position() -> None:
    target = tiny_target("llama", scale=2.0)
    rows = answered(written(batch_of(target)))
    one = next(one for one in rows if not one.greedy)
    position_seed = key_of(SEED, BATCH)
    free = [*range(len(SCRIPT.opening), one.closed + 1), *range(one.closed + len(SCRIPT.closing), len(one.ids))]
    assert len(set(one.ids.tolist())) > 8
    for at in free:
        heat = batch_generation.QUESTION_TEMPERATURE if at <= one.closed else batch_generation.ANSWER_TEMPERATURE
        key = key_of(SEED, one.row) ^ key_of(position_seed, at - 1)
        assert one.ids[at] == drawn(target, one.ids[:at].tolist(), key, heat)


def test_every_row_follows_the_script() -> None:
    target = tiny_target("llama")
    rows = written(batch_of(target))
    assert 0 < len(answered(rows)) < len(rows)
    start = len(SCRIPT.opening)
    for one in rows:
        ids, closed = one.ids.tolist(), one.closed
        assert tuple(ids[:start]) == SCRIPT.opening
        question = ids[start : closed or None]
        assert len(question) <= SCRIPT.longest_question + (closed == 0)
        assert SCRIPT.closing[0] not in question
        if closed:
            answer = ids[closed + len(SCRIPT.closing) :]
            assert tuple(ids[closed : closed + len(SCRIPT.closing)]) == SCRIPT.closing[: len(ids) - closed]
            assert len(answer) <= SCRIPT.longest_answer
            assert not set(answer[:-1]) & target.eos_ids


def test_compaction_does_not_change_the_text() -> None:
    batch = batch_of(tiny_target("llama"))
    plain, compacted = written(batch, compact=False), written(batch, every=3)
    assert batch.rows < batch.batch
    for one, other in zip(plain, compacted):
        assert (one.row, one.closed, one.greedy) == (other.row, other.closed, other.greedy)
        np.testing.assert_array_equal(one.ids, other.ids)


def test_questions_start_with_the_given_texts_in_turn_and_continue_with_model_text() -> None:
    beginnings = [[20, 21, 22, 23], [], [30]]
    batch = batch_of(tiny_target("llama"))
    free, rows = written(batch), written(batch, every=3, beginnings=beginnings)
    assert batch.rows < batch.batch, "the batch was compacted"
    start = len(SCRIPT.opening)
    for one, unbound in zip(rows, free):
        given = beginnings[one.row % 3]
        assert one.ids[start : start + len(given)].tolist() == given
        if not given:
            np.testing.assert_array_equal(one.ids, unbound.ids)
    assert any(one.closed > start + 6 for one in rows), "the model asks on"
    again = written(batch, beginnings=beginnings)
    assert [one.ids.tolist() for one in again] == [one.ids.tolist() for one in rows]
    assert written(batch)[0].ids.tolist() == free[0].ids.tolist(), "a batch forgets the beginnings of the last"


def test_a_beginning_longer_than_a_question_is_cut() -> None:
    batch = batch_of(tiny_target("llama"))
    rows = written(batch, beginnings=[[20] * 100])
    assert all(len(one.ids) <= SCRIPT.capacity for one in rows) and not answered(rows)


def test_equal_seeds_give_equal_text_and_others_do_not() -> None:
    batch = batch_of(tiny_target("llama"))
    first, again = written(batch), written(batch)
    assert all((a.ids.tolist(), a.row) == (b.ids.tolist(), b.row) for a, b in zip(first, again))
    batch.begin(SEED + 1, GREEDY)
    batch.advance(20)
    assert any(a.ids[:20].tolist() != b.ids[:20].tolist() for a, b in zip(first, batch.collect()))


def test_the_batched_attention_is_used_where_it_is_correct_and_stock_attention_elsewhere() -> None:
    for family, own in (("llama", True), ("qwen3", True), ("mistral_sliding", True), ("gemma2_sliding", False)):
        target = tiny_target(family)
        before = target.config._attn_implementation
        batch = batch_of(target)
        assert (batch._attention == ATTENTION) == own, family
        batch.begin(0, GREEDY)
        batch.advance(2)
        assert target.config._attn_implementation == before


def test_grouped_query_attention_equals_stock_attention() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(5, heads, n, 8) for heads, n in ((6, 1), (2, 9), (2, 9)))
    mask = torch.zeros(1, 1, 1, 9)
    mask[..., 7:] = torch.finfo(mask.dtype).min
    found, _ = grouped_query_attention(None, query, key, value, mask, scaling=0.3)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1), attn_mask=mask, scale=0.3
    )
    torch.testing.assert_close(found, expected.transpose(1, 2))


def test_a_short_context_cuts_the_conversation() -> None:
    target = tiny_target("llama")
    target.context_limit = 21
    assert max(len(one.ids) for one in written(batch_of(target))) == 21


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["llama", "mistral_sliding", "gemma2_sliding"])
def test_captured_batches_equal_uncaptured_ones(family: str) -> None:
    from aded.engine.target_model import TargetModel

    target = TargetModel(tiny_model(family).to("cuda"), WordTokenizer(), family, family)
    batch, plain = batch_of(target), batch_of(target)
    plain._captures = False
    for _ in range(2):  # in the second run every shape is a graph from the first step on
        captured, uncaptured = written(batch), written(plain)
        assert [one.ids.tolist() for one in captured] == [one.ids.tolist() for one in uncaptured]
    assert batch.notice is None and any(graph is not None for graph in batch._graphs.values())
    assert not plain._graphs

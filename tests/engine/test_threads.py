"""Several threads that decode on one model: steps run one at a time, and each text equals that of a single decode."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes import VOCAB, OracleDrafter, alone, cost, near, tiny_target

from aded.core.errors import AdedError
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter

PROMPTS = [[5, 17, 40, 8], [63, 21, 34, 11, 9, 70], [6, 50], [12, 13, 14, 15, 16] * 4]


@pytest.mark.parametrize("fixed", [False, True])
def test_threads_take_turns_and_generate_the_same_text_as_alone(fixed):
    target = tiny_target()
    draft = near(target)
    if fixed:
        target.use_fixed_shapes()
        draft.use_fixed_shapes()
    jobs = []
    for number, prompt in enumerate(PROMPTS):
        for make in (
            lambda: "plain",
            lambda: "aded",
            lambda: SpeculativeDrafter(ChainRunner(draft, VOCAB), cost(1.0), lambda greedy: 0.05, draft_length=3),
            lambda: SpecInferDrafter([TreeRunner(draft, VOCAB)], cost(1.0), lambda greedy: 0.05, branching=(2, 1)),
        ):
            settings = GenerationSettings(max_new_tokens=12, budget=8, temperature=0.8 * (number % 2), seed=number)
            jobs.append(
                lambda prompt=prompt, make=make, settings=settings: Decoder(target, make(), settings).run(prompt).token_ids
            )
    expected = [job() for job in jobs]
    inside, most, forward = set(), [0], {model: model.model.forward for model in (target, draft)}

    def watched(model):
        def run(*arguments, **named):
            inside.add(threading.get_ident())
            most[0] = max(most[0], len(inside))
            time.sleep(1e-4)  # gives other threads a chance to enter
            try:
                return forward[model](*arguments, **named)
            finally:
                inside.discard(threading.get_ident())

        return run

    for model in forward:
        model.model.forward = watched(model)
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(lambda job: job(), jobs)) == expected
    assert most[0] == 1


def test_a_decode_can_move_between_threads_and_be_closed_by_another():
    target = tiny_target()
    decoder = Decoder(target, "aded", GenerationSettings(max_new_tokens=12, budget=8))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(decoder.begin, PROMPTS[0]).result()
        for place in range(3):
            (one, other)[place % 2].submit(decoder.step).result()
        other.submit(decoder.close).result()
    written = decoder.trace.token_ids
    assert written == alone(target, PROMPTS[0], 12)[: len(written)]
    assert not decoder.running


def test_a_drafter_serves_one_decode_at_a_time():
    target = tiny_target()
    drafter, settings = OracleDrafter(alone(target, PROMPTS[0], 12)), GenerationSettings(max_new_tokens=12, budget=8)
    first, second = Decoder(target, drafter, settings), Decoder(target, drafter, settings)
    first.begin(PROMPTS[0])
    with pytest.raises(AdedError, match="serves another decode; close that one first"):
        second.begin(PROMPTS[0])
    first.step()
    first.close()
    assert second.run(PROMPTS[0]).token_ids == alone(target, PROMPTS[0], 12)

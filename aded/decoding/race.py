"""A race: several decodes, interleaved by their decode times.

Only one decode runs at a time: the one with the smallest decode time so far takes the next step. The decode time of a run counts
only the steps of that run, as if it ran alone, so the runs appear to run side by side.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing

from aded.core.chat import Prompt
from aded.core.trace import Race, Step
from aded.decoding.decoder import Decoder

HELD_SECONDS, HELD_STEPS = 0.05, 16
"""Steps are recorded together up to this sum of their decode times and this number: on a GPU a record alone takes longer than
its step."""


def race(decoders: Sequence[Decoder], prompt: Prompt) -> Iterator[tuple[int, Step]]:
    """Decode ``prompt`` with every decoder; closing the iterator stops all runs.

    Yields:
        The index of a decoder, and its step.

    Raises:
        AdedError: the prompt is empty or exceeds the context length, or a decoder cannot begin (see ``Decoder.begin``).
    """
    with closing(interleaved(decoders, [prompt] * len(decoders))) as steps:
        for step in steps:
            if step is not None:
                yield step


def interleaved(decoders: Sequence[Decoder], prompts: Sequence[Prompt]) -> Generator[tuple[int, Step] | None, None, None]:
    """Like ``race``, but with one prompt per decoder, and yields None after each forward pass of a prefill: closing the iterator
    there stops all runs before their first step.

    Raises:
        AdedError: see ``race``.
    """
    with ExitStack() as at_end:
        for decoder in decoders:
            at_end.callback(decoder.close)
        for decoder, prompt in zip(decoders, prompts, strict=True):
            yield from decoder.beginning(prompt)
            yield None
        held, until = list[int](), HELD_SECONDS  # the runs whose steps are not yet complete, in their order
        while running := [run for run, decoder in enumerate(decoders) if decoder.finish_reason is None]:
            run = min(running, key=lambda i: (decoders[i].clock, i))
            try:
                held += [run] if decoders[run].advance() else []
            except Exception:
                yield from _completed(decoders, held)
                raise
            total = sum(decoder.clock for decoder in decoders)
            if not decoders[run].record or total >= until or len(held) >= HELD_STEPS:
                yield from _completed(decoders, held)
                held, until = [], total + HELD_SECONDS
        yield from _completed(decoders, held)


def _completed(decoders: Sequence[Decoder], held: Sequence[int]) -> list[tuple[int, Step]]:
    """The latest steps of all runs; ``held``: the run of each."""
    steps = [iter(decoder.complete()) for decoder in decoders]
    return [(run, next(steps[run])) for run in held]


def race_record(decoders: Sequence[Decoder]) -> Race:
    """The traces of all runs so far, as a race that can be saved."""
    return Race([decoder.trace for decoder in decoders])

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
        while running := [run for run, decoder in enumerate(decoders) if decoder.finish_reason is None]:
            run = min(running, key=lambda i: (decoders[i].clock, i))
            if (step := decoders[run].next_step()) is not None:
                yield run, step


def race_record(decoders: Sequence[Decoder]) -> Race:
    """The traces of all runs so far, as a race that can be saved."""
    return Race([decoder.trace for decoder in decoders])

"""Several decodes on one prompt, side by side in virtual time.

The lane whose own clock is furthest behind takes the next step, and a clock counts its own lane's steps alone: the
lanes appear to run at once, and neither takes time from the other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from aded.core.trace import Race, Step
from aded.decoding.decoder import Decoder


def race(decoders: Sequence[Decoder], prompt: str | Sequence[int]) -> Iterator[tuple[int, Step]]:
    """Decode ``prompt`` with every decoder; yields (lane, step) as steps are made. Closing the iterator stops all lanes.

    Raises:
        AdedError: the prompt is empty or does not fit the context.
    """
    with closing(turns(decoders, prompt)) as made:
        for turn in made:
            if turn is not None:
                yield turn


def turns(decoders: Sequence[Decoder], prompt: str | Sequence[int]) -> Generator[tuple[int, Step] | None, None, None]:
    """As ``race``, but hands control over whenever something can be stopped: None after each lane that has read the prompt."""
    try:
        for decoder in decoders:
            decoder.begin(prompt)
            yield None
        while running := [lane for lane, decoder in enumerate(decoders) if decoder.finish_reason is None]:
            lane = min(running, key=lambda i: (decoders[i].clock, i))
            yield lane, decoders[lane].step()
    finally:
        for decoder in decoders:
            decoder.close()


def record_of(decoders: Sequence[Decoder]) -> Race:
    """The record of all lanes so far."""
    return Race([decoder.trace for decoder in decoders])

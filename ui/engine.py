"""The engine's calls that a run makes, and the steps that come of them. Tests put another engine in its place.

Its parts are imported when a run needs them: the page stands before torch does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from aded.drafters.base import Persistent
from aded.drafters.registry import METHODS
from ui.form import Entrant
from ui.serving.runs import Control
from ui.words import Saying, without_folders

Turn = tuple[int, Any] | None
"""(lane, step), or None."""
OVER: Any = object()


class Engine:
    """The engine's calls that a run makes.

    Attributes:
        first_words: what is said until the first step is there.
    """

    first_words: Saying = ("notice.reading", {})

    def settings(self, arguments: Mapping[str, Any]) -> Any:
        from aded.decoding.decoder import GenerationSettings

        return GenerationSettings(**arguments)

    def unavailable(self, model: Any) -> dict[str, str]:
        """The methods that cannot run on the model as it stands, and why, as visitors are told."""
        reasons = {name: method.unavailable(model) for name, method in METHODS.items()}
        return {name: without_folders(reason) for name, reason in reasons.items() if reason}

    def drafter(self, model: Any, entrant: Entrant, seed: int, known: Any = None) -> Any:
        """A new drafter, which begins with what ``known``, one of the same method and state_settings, has learned."""
        drafter = METHODS[entrant.method].make(model, entrant.options, seed)
        if known is not None:
            assert isinstance(drafter, Persistent)
            drafter.load_state_dict(known.state_dict())
        return drafter

    def decoder(self, model: Any, entrant: Entrant, settings: Any, drafter: Any = None) -> Any:
        """A decode of an entrant; ``drafter`` is one that keeps what it learns."""
        from aded.decoding.decoder import Decoder

        decoder = Decoder(model, drafter or entrant.method, settings, options=entrant.options)
        method = METHODS[entrant.method]
        decoder.method = dataclasses.replace(method, label=entrant.label or method.label)
        return decoder

    def measure(self, model: Any) -> None:
        """Measure what a step costs, before the records that say it are made; not where there is no one machine to ask."""
        if not model.tensor_parallel:
            _ = model.cost

    def learns(self, decoder: Any) -> bool:
        """Whether what a decode that was made here has taught its drafter is kept."""
        return True

    def race(self, decoders: Sequence[Any], prompt: str) -> Iterator[Turn]:
        """The race's turns; None where there is nothing to tell, but the race can be stopped."""
        from aded.decoding.lockstep import interleaved

        return interleaved(decoders, prompt)

    def steps(self, decoders: Sequence[Any], prompt: str, control: Control) -> Iterator[Turn]:
        """The race's turns until it ends or ``control`` ends it; tells it the tokens that were written."""
        with closing(self.race(decoders, prompt)) as turns:  # type: ignore[type-var]
            while control.reason is None and (turn := next(turns, OVER)) is not OVER:
                control.tokens += len(turn[1].emitted) if turn else 0
                yield turn

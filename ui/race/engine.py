"""The engine functions that a race uses, and its steps. Tests replace the engine.

Modules of the engine are imported when a race needs them: the page is served before torch is loaded.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from aded.core.chat import Chat
from aded.drafters.base import Persistent
from aded.drafters.registry import METHODS, RunSpec
from ui.serving.jobs import Control
from ui.words import Message, without_folders

RaceStep = tuple[int, Any] | None
"""(index of the run, step), or None if there is nothing to report."""
END: Any = object()


class Engine:
    """The engine functions that a race uses.

    Attributes:
        first_message: shown from the end of the preparation until the first step.
    """

    first_message: Message = ("notice.reading", {})

    def settings(self, arguments: Mapping[str, Any]) -> Any:
        from aded.decoding.decoder import GenerationSettings

        return GenerationSettings(**arguments)

    def unavailable(self, model: Any) -> dict[str, str]:
        """The methods that cannot run on the model, and why, as messages for visitors."""
        reasons = {name: method.unavailable(model) for name, method in METHODS.items()}
        return {name: without_folders(reason) for name, reason in reasons.items() if reason}

    def drafter(self, model: Any, run: RunSpec, seed: int, known: Any = None) -> Any:
        """A new drafter; it starts with what ``known``, of the same method and ``Method.state_settings``, has learned."""
        drafter = METHODS[run.method].make(model, run.options, seed)
        if known is not None:
            assert isinstance(drafter, Persistent)
            drafter.load_state_dict(known.state_dict())
        return drafter

    def prefix_cache(self) -> Any:
        """A place for the KV cache of a session's last decode; None if none can be kept."""
        from aded.engine.prefix_cache import PrefixCache

        return PrefixCache()

    def decoder(
        self, model: Any, run: RunSpec, settings: Any, drafter: Any = None, *, record: bool = True, prefix_cache: Any = None
    ) -> Any:
        """A decoder for a run.

        Args:
            drafter: one that keeps what it learns; None for a new one.
            record: whether steps are recorded in full.
            prefix_cache: see ``aded.decoding.decoder.Decoder``.
        """
        from aded.decoding.decoder import Decoder

        options = None if drafter else run.options
        decoder = Decoder(model, drafter or run.method, settings, options, record=record, prefix_cache=prefix_cache)
        method = METHODS[run.method]
        decoder.method = dataclasses.replace(method, label=run.label or method.label)
        return decoder

    def compiling(self) -> bool:
        """Whether code of the engine is being compiled now, which happens once per machine."""
        jit = sys.modules.get("aded.core.compilation.jit")
        return jit is not None and bool(jit.compiling())

    def unmeasured(self, model: Any) -> bool:
        """Whether ``measure`` will have to measure, which happens once per model and machine."""
        from aded.engine import cost_model

        return not model.tensor_parallel and model.measured_cost is None and not cost_model.is_stored(model)

    def measure(self, model: Any) -> None:
        """Measure the costs of a step before records are made; not for models that several processes share."""
        if not model.tensor_parallel:
            _ = model.cost

    def learns(self, decoder: Any) -> bool:
        """Whether what a decoder's drafter learned is kept."""
        return True

    def learned(self, decoder: Any) -> Any:
        """The drafter of a decoder that has ended, with what it has learned; None if it cannot be continued."""
        return decoder.drafter if isinstance(decoder.drafter, Persistent) else None

    def reading(self, decoders: Sequence[Any]) -> tuple[int, int, int] | None:
        """The run that is reading its prompt, the number of tokens that it has read, and of all; None if none is."""
        return next(((run, *one.prefill_progress) for run, one in enumerate(decoders) if one.prefill_progress), None)

    def race(self, decoders: Sequence[Any], prompts: Sequence[str | Chat]) -> Iterator[RaceStep]:
        """The steps of a race, one prompt per run; None if there is nothing to report, so that the race can be stopped."""
        from aded.decoding.race import interleaved

        return interleaved(decoders, prompts)

    def steps(self, decoders: Sequence[Any], prompts: Sequence[str | Chat], control: Control) -> Iterator[RaceStep]:
        """The steps of a race until it ends or ``control`` stops it; counts new tokens in ``control``."""
        with closing(self.race(decoders, prompts)) as steps:  # type: ignore[type-var]
            while control.reason is None and (item := next(steps, END)) is not END:
                control.tokens += len(item[1].emitted) if item else 0
                yield item

"""``gr.Blocks`` that drops what Gradio stores per call and per session, so that memory does not grow."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import gradio as gr
from gradio.blocks import postprocess_update_dict
from gradio.components.api_component import Api
from gradio.state_holder import SessionState
from gradio.utils import is_prop_update

from ui.words import MAX_QUOTED, cut

NOTHING: Mapping[str, Any] = MappingProxyType({})
MALFORMED = "the call does not match the page; reload the page and try again"
FAILED = "the call failed; reload the page and try again"
NO_CHANGE, SWITCH = {"__type__"}, {"__type__", "interactive"}
"""Keys of an update that changes nothing, and of one that switches a control on or off."""

log = logging.getLogger(__name__)


class CallError(gr.Error):
    """The error of a call for its caller; it was already logged."""

    def __init__(self, words: str) -> None:
        super().__init__(words, print_exception=False)


class Page(gr.Blocks):
    """A page whose sessions store no values.

    Gradio stores the settings and the latest value of each component per session (about 100 kB), for a kind of links that this
    page does not use, and one more for each value after a ``gr.skip()``, which creates a new component with a new number. It
    also stores the name of every past session and of cancelled calls.

    Gradio would also make a new component for every update, and search each value three times for files to move; no output of
    this page contains files.

    An exception of a call becomes a message for the caller and one line in the log; Gradio would log the contents of the call.

    Attributes:
        refused: called with the reason of each failed call.
    """

    refused: Callable[[str], None] = staticmethod(lambda reason: None)

    async def process_api(
        self, block_fn: Any, inputs: list[Any], state: SessionState | None = None, **rest: Any
    ) -> dict[str, Any]:
        try:
            return await super().process_api(block_fn, inputs, state, **{**rest, "root_path": None})  # the address of files
        except gr.Error as error:
            error.print_exception = False  # the message is for the caller
            raise
        except Exception as error:
            raise self._call_error(block_fn, error, "failed", FAILED) from error
        finally:
            if state is not None:
                self._forget_values(state)
            self._forget_names()

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *rest: Any, **more: Any) -> list[Any]:
        try:
            return await super().preprocess_data(block_fn, inputs, *rest, **more)
        except Exception as error:
            words = str(error.message) if isinstance(error, gr.Error) else MALFORMED
            raise self._call_error(block_fn, error, "malformed", words) from error

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: SessionState | None) -> list[Any]:
        outputs: Sequence[Any] = block_fn.outputs
        values = predictions if len(outputs) > 1 else [predictions]
        if not isinstance(values, (list, tuple)) or len(values) != len(outputs):
            return await super().postprocess_data(block_fn, predictions, state)
        sent = [_quickly(output, value) for output, value in zip(outputs, values)]
        if rest := [i for i, value in enumerate(sent) if value is None]:
            of_rest = copy(block_fn)
            of_rest.outputs = [outputs[i] for i in rest]
            made = [values[i] for i in rest] if len(rest) > 1 else values[rest[0]]
            for i, value in zip(rest, await super().postprocess_data(of_rest, made, state)):
                sent[i] = value
        return sent

    def _call_error(self, block_fn: Any, error: Exception, reason: str, words: str) -> CallError:
        """Count and log the exception of a call; returns the error for its caller. Tracebacks are logged at ``logging.DEBUG``."""
        self.refused(reason)
        at = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {cut(str(error), 2 * MAX_QUOTED)!r} at {PurePath(at.filename).name}:{at.lineno}"
        log.warning(
            "a call of %s failed: %s", getattr(block_fn, "name", block_fn), what, exc_info=log.isEnabledFor(logging.DEBUG)
        )
        return CallError(words)

    def _forget_values(self, state: SessionState) -> None:
        for kept in (state.config_values, state.blocks_config.blocks):
            for stray in kept.keys() - self.default_config.blocks.keys():
                del kept[stray]
        state.config_values.update(dict.fromkeys(state.config_values, NOTHING))

    def _forget_names(self) -> None:
        """Forget sessions whose messages Gradio has dropped, and calls that have ended."""
        queue = self._queue
        for session in queue.pending_event_ids_session.keys() - queue.pending_messages_per_session.keys():
            del queue.pending_event_ids_session[session]
        self.app.iterators_to_reset &= queue.event_ids_to_events.keys()


def _quickly(output: Any, value: Any) -> dict[str, Any] | None:
    """What the browser gets for the value of an output, if nothing must be made or searched for it; otherwise None."""
    if not is_prop_update(value):
        return value if isinstance(output, Api) and isinstance(value, dict) else None
    if value.keys() == NO_CHANGE:
        return postprocess_update_dict(output, dict(value))
    return value if value.keys() == SWITCH else None

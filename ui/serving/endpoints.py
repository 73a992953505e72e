"""Named endpoints of the HTTP API, also offered as tools of the Model Context Protocol, with the page's limits and scheduler.

The docstrings of the endpoints are the documentation that clients get. Annotations are not postponed, because Gradio evaluates
them.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
import gradio as gr
from gradio.context import LocalContext

from aded.core.errors import AdedError
from ui.race.models import ModelHolder
from ui.serving import api
from ui.serving.service import Service

LONGEST_TEXT = 10_000
"""Maximum length in characters of the text of ``matrix_row``."""
NAMES = ("generate", "race", "trace", "methods", "matrix_row")
"""Names of the endpoints."""


def add_endpoints(service: Service) -> None:
    """Add the endpoints to the page; must be called inside its ``gr.Blocks``."""

    async def generate(
        request: gr.Request,
        prompt: str,
        method: str = "aded",
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        budget: str = "auto",
        model: str = "",
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Continue a prompt by speculative decoding and stream the text.

        Args:
            prompt: The prompt; the model's chat template is applied.
            method: Decoding method: a name from the endpoint `methods`, for example aded, prompt-lookup or plain.
            max_new_tokens: Maximum number of new tokens, from 1 to 100000; a lower limit of the server is reported in notices.
            temperature: From 0 (greedy: always the most probable token) to 2.
            top_p: Sample from the most probable tokens whose probabilities add up to this, from 0.01 to 1.
            top_k: Sample from this many most probable tokens, at most 1000000; 0 for all.
            seed: Seed of the sampling, from 0 to 9007199254740991; the same seed gives the same text.
            budget: Maximum number of nodes per draft tree, or auto (throughput-optimal).
            model: One of the models from the endpoint `methods`; empty for the page's model.

        Returns:
            An object with state (waiting, running, done, stopped, seconds: the time limit was reached, or shutdown), text,
            tokens (their number), place in the queue, wait_seconds (estimated), notices, and at the end summary: tokens per
            second, tokens per step, finish reason and more.
        """
        numbers = _numbers(max_new_tokens, temperature, top_p, top_k, seed)
        ask = partial(api.ask_one, prompt, method, numbers, budget)
        async with aclosing(_answers(service, request, model, ask, api.text_progress, api.text_result)) as answers:
            async for answer in answers:
                yield answer

    async def race(
        request: gr.Request,
        prompt: str,
        methods: list[str] = ["plain", "aded", "prompt-lookup"],  # noqa: B006
        max_new_tokens: int = 96,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        budget: str = "auto",
        model: str = "",
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Run several decoding methods on one prompt and compare their speed and texts; decode time is measured for each alone.

        Args:
            prompt: The prompt; the model's chat template is applied.
            methods: One to six names from the endpoint `methods`.
            max_new_tokens: Maximum number of new tokens per method, from 1 to 100000; a lower limit of the server applies too.
            temperature: From 0 (greedy: always the most probable token) to 2.
            top_p: Sample from the most probable tokens whose probabilities add up to this, from 0.01 to 1.
            top_k: Sample from this many most probable tokens, at most 1000000; 0 for all.
            seed: Seed of the sampling, from 0 to 9007199254740991; lossless methods without rejection sampling write equal texts.
            budget: Maximum number of nodes per draft tree, or auto (throughput-optimal).
            model: One of the models from the endpoint `methods`; empty for the page's model.

        Returns:
            An object with state, place, wait_seconds, notices (see `generate`), lanes (one entry per method: method, text,
            tokens; at the end its statistics) and identical: whether all methods wrote the same tokens; null until the end, and
            if no step was made.
        """
        ask = partial(api.ask, prompt, methods, _numbers(max_new_tokens, temperature, top_p, top_k, seed), budget)
        async with aclosing(_answers(service, request, model, ask, api.race_progress, api.race_result)) as answers:
            async for answer in answers:
                yield answer

    async def trace(
        request: gr.Request,
        prompt: str,
        methods: list[str] = ["aded"],  # noqa: B006
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        budget: str = "auto",
        model: str = "",
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Run one or several methods on a prompt and return the trace: the record of every step with draft tree, verdicts, times.

        Args:
            prompt: The prompt; the model's chat template is applied.
            methods: One to six names from the endpoint `methods`.
            max_new_tokens: Maximum number of new tokens per method, from 1 to 100000; a lower limit of the server applies too.
            temperature: From 0 (greedy: always the most probable token) to 2.
            top_p: Sample from the most probable tokens whose probabilities add up to this, from 0.01 to 1.
            top_k: Sample from this many most probable tokens, at most 1000000; 0 for all.
            seed: Seed of the sampling, from 0 to 9007199254740991; the same seed gives the same texts.
            budget: Maximum number of nodes per draft tree, or auto (throughput-optimal).
            model: One of the models from the endpoint `methods`; empty for the page's model.

        Returns:
            An object with state, place, wait_seconds, notices, tokens (see `generate`), and at the end trace, which the page
            ("Open a saved race") and `python -m aded replay` can read.
        """
        ask = partial(api.ask, prompt, methods, _numbers(max_new_tokens, temperature, top_p, top_k, seed), budget)
        async with aclosing(_answers(service, request, model, ask, api.trace_progress, api.trace_result, record=True)) as answers:
            async for answer in answers:
                yield answer

    def methods() -> dict[str, Any]:
        """List the decoding methods, the reasons why some cannot run here, and the models.

        Returns:
            An object with models, loaded (whether the page's model is loaded) and methods: name, label, lossless, description,
            options, and unavailable: why the method cannot run, null if it can or while the page's model is not loaded.
        """
        return api.methods_of(service)

    async def matrix_row(text: str, model: str = "") -> dict[str, Any]:
        """Look up a row of ADED's tri-gram matrix: the probable next tokens after the last two tokens of a text.

        Args:
            text: Two words or more; the last two tokens (a bigram) are looked up.
            model: One of the models from the endpoint `methods`; empty for the page's model.

        Returns:
            An object with bigram (two token ids), texts (of these tokens), known (whether the bigram has a row), and successors:
            token, text and probability, most probable first, at most 32.
        """
        with _api_errors(service):
            if not isinstance(text, str) or len(text) > LONGEST_TEXT:
                raise AdedError(f"the text must be a string of at most {LONGEST_TEXT} characters")
            holder = service.models.find(model if isinstance(model, str) else "?")
            await _loaded(holder)
            return await anyio.to_thread.run_sync(api.row_of, holder.model, text)

    for endpoint in (generate, race, trace):
        endpoint.__annotations__["return"] = dict[str, Any]  # the type of each yielded answer, which is what Gradio expects
    functions: tuple[Callable[..., Any], ...] = (generate, race, trace, methods, matrix_row)
    for name, function in zip(NAMES, functions):
        gr.api(function, api_name=name, concurrency_limit=None)


def _numbers(max_new_tokens: int, temperature: float, top_p: float, top_k: int, seed: int) -> dict[str, Any]:
    return {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k, "seed": seed}


async def _answers(
    service: Service,
    request: gr.Request,
    model: str,
    ask: Callable[[], api.Form],
    progress: Callable[[api.Runs], api.Answer],
    result: Callable[[api.Runs], api.Answer],
    record: bool = False,
) -> AsyncGenerator[dict[str, Any], None]:
    with _api_errors(service):
        name, event = str(request.session_hash), LocalContext.event_id.get(None)
        async with aclosing(api.stream(service, name, model, ask(), progress, result, event, record)) as answers:
            async for answer in answers:
                yield answer


class _api_errors:
    """A context manager that converts exceptions to Gradio errors; no traceback is printed for them."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            cause = None if isinstance(error, AdedError) else error
            raise gr.Error(api.error_text(self._service, error), print_exception=False) from cause


async def _loaded(holder: ModelHolder) -> None:
    holder.start()
    while holder.busy:
        await asyncio.sleep(0.1)

"""Named endpoints for programs, over HTTP and as tools of the Model Context Protocol; the same limits and turns apply.

(No postponed annotations here: Gradio reads the types of these functions as they stand, and what is written in them is
what programs are told.)
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
from ui.models import ModelHolder
from ui.serving import programs
from ui.serving.service import Service
from ui.words import without_folders

LONGEST_TEXT = 10_000
"""Characters of the text of ``matrix_row``."""
NAMES = ("generate", "race", "trace", "methods", "matrix_row")


def add_endpoints(service: Service) -> None:
    """Add the endpoints to the page that is being built."""

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
        """Let the language model continue a prompt by speculative decoding, and stream the text as it is written.

        Args:
            prompt: What to answer; it goes through the model's chat template.
            method: Who drafts: a name that the tool `methods` lists, for example aded, prompt-lookup or plain.
            max_new_tokens: Most tokens to write, from 1 to 100000; the server's own limit applies too and is said in notices.
            temperature: From 0, the most probable token each time, to 2, the most varied text.
            top_p: Sample from the most probable tokens that together have this probability, from 0.01 to 1.
            top_k: Sample from this many most probable tokens, at most 1000000; 0 for all.
            seed: Of the sampling, from 0 to 9007199254740991; the same seed writes the same text.
            budget: Most nodes of a draft tree, or auto.
            model: One of the models that `methods` lists; empty for the page's own.

        Returns:
            An object with state (waiting, running, done, stopped, seconds or shutdown), text, tokens, place, wait_seconds,
            notices, and at the end summary: tokens a second, tokens a step, how it ended.
        """
        numbers = _numbers(max_new_tokens, temperature, top_p, top_k, seed)
        ask = partial(programs.ask_one, prompt, method, numbers, budget)
        async with aclosing(_answers(service, request, model, ask, programs.told_text, programs.ended_text)) as answers:
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
        """Race decoding methods on one prompt, each on its own clock, and compare their speed and their texts.

        Args:
            prompt: What to answer; it goes through the model's chat template.
            methods: One to six names that the tool `methods` lists.
            max_new_tokens: Most tokens that each method writes, from 1 to 100000; the server's own limit applies too.
            temperature: From 0, the most probable token each time, to 2, the most varied text.
            top_p: Sample from the most probable tokens that together have this probability, from 0.01 to 1.
            top_k: Sample from this many most probable tokens, at most 1000000; 0 for all.
            seed: Of the sampling, from 0 to 9007199254740991; the same seed writes the same text with every lossless method.
            budget: Most nodes of a draft tree, or auto.
            model: One of the models that `methods` lists; empty for the page's own.

        Returns:
            An object with state, place, wait_seconds, notices, lanes (method, text, tokens; at the end each lane's figures)
            and identical: whether all lanes wrote the same tokens; null where no step was made.
        """
        ask = partial(programs.ask, prompt, methods, _numbers(max_new_tokens, temperature, top_p, top_k, seed), budget)
        async with aclosing(_answers(service, request, model, ask, programs.told_race, programs.ended_race)) as answers:
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
        """Run one or several methods on a prompt and return the record of every step: draft trees, verdicts, times.

        Args:
            prompt: What to answer; it goes through the model's chat template.
            methods: One to six names that the tool `methods` lists; several make a race.
            max_new_tokens: Most tokens that each method writes, from 1 to 100000; the server's own limit applies too.
            temperature: From 0, the most probable token each time, to 2, the most varied text.
            top_p: Sample from the most probable tokens that together have this probability, from 0.01 to 1.
            top_k: Sample from this many most probable tokens, at most 1000000; 0 for all.
            seed: Of the sampling, from 0 to 9007199254740991.
            budget: Most nodes of a draft tree, or auto.
            model: One of the models that `methods` lists; empty for the page's own.

        Returns:
            An object with state, place, wait_seconds, notices, tokens, and at the end trace: what the page's "Open a saved race"
            and `python -m aded replay` read.
        """
        ask = partial(programs.ask, prompt, methods, _numbers(max_new_tokens, temperature, top_p, top_k, seed), budget)
        async with aclosing(_answers(service, request, model, ask, programs.told_trace, programs.ended_trace)) as answers:
            async for answer in answers:
                yield answer

    def methods() -> dict[str, Any]:
        """List the decoding methods with what each does, what it lacks here, and the models that are served.

        Returns:
            An object with models, loaded (whether the page's own model is loaded yet; unavailable is known only then)
            and methods: name, label, lossless, description, options, unavailable.
        """
        return programs.methods_of(service)

    async def matrix_row(text: str, model: str = "") -> dict[str, Any]:
        """Look up which tokens ADED's tri-gram matrix expects after the last two tokens of a text.

        Args:
            text: Two words or more; its last two tokens are looked up.
            model: One of the models that `methods` lists; empty for the page's own.

        Returns:
            An object with pair and texts (the two tokens), known, and successors: token, text, probability, best first.
        """
        with _said(service):
            if not isinstance(text, str) or len(text) > LONGEST_TEXT:
                raise AdedError(f"the text must be a string of at most {LONGEST_TEXT} characters")
            holder = service.models.find(model if isinstance(model, str) else "?")
            await _loaded(holder)
            return await anyio.to_thread.run_sync(programs.row_of, holder.model, text)

    for endpoint in (generate, race, trace):
        endpoint.__annotations__["return"] = dict[str, Any]  # of what it yields: Gradio asks no more of a stream
    functions: tuple[Callable[..., Any], ...] = (generate, race, trace, methods, matrix_row)
    for name, function in zip(NAMES, functions):
        gr.api(function, api_name=name, concurrency_limit=None)


def _numbers(max_new_tokens: int, temperature: float, top_p: float, top_k: int, seed: int) -> dict[str, Any]:
    return {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k, "seed": seed}


async def _answers(
    service: Service,
    request: gr.Request,
    model: str,
    ask: Callable[[], programs.Form],
    tell: Callable[[programs.Lanes], programs.Answer],
    end: Callable[[programs.Lanes], programs.Answer],
) -> AsyncGenerator[dict[str, Any], None]:
    with _said(service):
        name, event = str(request.session_hash), LocalContext.event_id.get(None)
        async with aclosing(programs.stream(service, name, model, ask(), tell, end, event)) as answers:
            async for answer in answers:
                yield answer


class _said:
    """Says what a caller did wrong, without a traceback in the log."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, AdedError):
            self._service.count(error)
            raise gr.Error(without_folders(str(error)), print_exception=False) from None
        if isinstance(error, Exception):
            raise gr.Error(f"the run failed: {type(error).__name__}; the server goes on", print_exception=False) from error


async def _loaded(holder: ModelHolder) -> None:
    holder.start()
    while holder.busy:
        await asyncio.sleep(0.1)

"""The endpoints as tools of the Model Context Protocol, run in the task of the request, so that closing it stops the job.

Gradio lists the tools and implements the protocol. Its own calls would go through a client in a thread that cannot be
interrupted, and would answer with the ``repr`` of a dictionary.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TYPE_CHECKING, Any

import anyio
import gradio as gr
from gradio.context import LocalContext

from aded import __version__
from ui.serving.http.calls import Endpoint, argument_error
from ui.words import cut

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from ui.serving.service import Service


def answer_tools(page: gr.Blocks, service: Service, endpoints: Mapping[str, Endpoint]) -> None:
    """Handle tool calls; does nothing if the page offers no tools.

    Args:
        endpoints: the named endpoints and their arguments.
    """
    tools = page.mcp_server_obj
    if tools is None:
        return

    tools.mcp_server.version = __version__

    @tools.mcp_server.call_tool(validate_input=False)  # the endpoints validate, with better messages
    async def call(name: str, arguments: dict[str, Any]) -> CallToolResult:
        endpoint = tools.tool_to_endpoint.get(name)
        if endpoint is None:
            problem: str | None = f"there is no tool '{cut(name)}'; there are {', '.join(tools.tool_to_endpoint)}"
        else:
            problem = argument_error(endpoints[endpoint.lstrip("/")], arguments)
        if problem:
            service.counters.refused("malformed")
            return _result(problem, failed=True)
        function: Any = tools.get_block_fn_from_endpoint_name(endpoint)
        session = f"tool-{uuid.uuid4().hex}"
        request = gr.Request(tools.mcp_server.request_context.request, session_hash=session)
        LocalContext.request.set(request)  # on ZeroGPU: the visitor whose quota is used
        try:
            last = None
            async with aclosing(_answers(function.fn, request, arguments)) as answers:
                async for last in answers:
                    await _send_progress(tools.mcp_server.request_context, last)
            return _result(json.dumps(last, ensure_ascii=False))
        except gr.Error as error:
            return _result(str(error.message), failed=True)
        finally:
            service.sessions.free(session)


async def _answers(function: Any, request: gr.Request, arguments: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """The answers of an endpoint's function, as they come."""
    if isasyncgenfunction(function):
        async with aclosing(function(request, **arguments)) as answers:
            async for answer in answers:
                yield answer
    elif iscoroutinefunction(function):
        yield await function(**arguments)
    else:
        yield await anyio.to_thread.run_sync(lambda: function(**arguments))


def _tokens(answer: Mapping[str, Any]) -> int:
    """Number of new tokens so far, over all runs."""
    return sum(part["tokens"] for part in answer.get("lanes", [answer]))


async def _send_progress(context: Any, answer: Mapping[str, Any]) -> None:
    """Send the progress of a job to a client that asked for it."""
    token = context.meta.progressToken if context.meta is not None else None
    if token is None or "state" not in answer:
        return
    await context.session.send_progress_notification(
        token, progress=_tokens(answer), message=answer["state"], related_request_id=str(context.request_id)
    )


def _result(text: str, failed: bool = False) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=text)], isError=failed)

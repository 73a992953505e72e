"""The endpoints as tools of the Model Context Protocol: called in the task of the request, so that who hangs up ends the run.

Gradio lists the tools and speaks the protocol. Its own calls would go through one client of the server's own, in a thread that
nothing interrupts, and answer with Python's way of writing a dictionary.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.context import LocalContext

from aded import __version__
from ui.serving.calls import Endpoint, argument_fault
from ui.words import cut

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from ui.serving.service import Service


def answer_tools(page: gr.Blocks, service: Service, endpoints: Mapping[str, Endpoint]) -> None:
    """Answer calls of tools here; nothing to do where the page offers none.

    Args:
        endpoints: the named endpoints and what they take.
    """
    tools = page.mcp_server_obj
    if tools is None:
        return

    tools.mcp_server.version = __version__

    @tools.mcp_server.call_tool(validate_input=False)  # the endpoints do, and say the remedy
    async def call(name: str, arguments: dict[str, Any]) -> CallToolResult:
        endpoint = tools.tool_to_endpoint.get(name)
        if endpoint is None:
            fault: str | None = f"no tool is called '{cut(name)}'; there are {', '.join(tools.tool_to_endpoint)}"
        else:
            fault = argument_fault(endpoints[endpoint.lstrip("/")], arguments)
        if fault:
            service.counters.refused("malformed")
            return _result(fault, failed=True)
        function: Any = tools.get_block_fn_from_endpoint_name(endpoint)
        session = f"tool-{uuid.uuid4().hex}"
        request = gr.Request(tools.mcp_server.request_context.request, session_hash=session)
        LocalContext.request.set(request)  # whose card a run may have, on ZeroGPU
        try:
            last = None
            async with aclosing(_answers(function.fn, request, arguments)) as answers:
                async for last in answers:
                    await _tell_progress(tools.mcp_server.request_context, last)
            return _result(json.dumps(last, ensure_ascii=False))
        except gr.Error as error:
            return _result(str(error.message), failed=True)
        finally:
            service.sessions.free(session)


async def _answers(function: Any, request: gr.Request, arguments: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """Whatever an endpoint's function gives, as it comes."""
    if isasyncgenfunction(function):
        async with aclosing(function(request, **arguments)) as answers:
            async for answer in answers:
                yield answer
    else:
        yield await function(**arguments) if iscoroutinefunction(function) else function(**arguments)


def _tokens(answer: Mapping[str, Any]) -> int:
    """Tokens that were written so far, of all lanes."""
    return sum(part["tokens"] for part in answer.get("lanes", [answer]))


async def _tell_progress(context: Any, answer: Mapping[str, Any]) -> None:
    """Send how far a run is to a client that asked for it."""
    token = context.meta.progressToken if context.meta is not None else None
    if token is None or "state" not in answer:
        return
    await context.session.send_progress_notification(
        token, progress=_tokens(answer), message=answer["state"], related_request_id=str(context.request_id)
    )


def _result(text: str, failed: bool = False) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=text)], isError=failed)

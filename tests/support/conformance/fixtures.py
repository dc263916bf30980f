"""What the conformance suite expects to find on a server: tools, resources and prompts with names of its choosing.

``register`` adds them to any server object, beside what it already has. Tools that ask the client something are in
asking. Serves nothing (see serving) and runs nothing (see running).
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from typing import Annotated, Any

import mcp.types as wire
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from pydantic import BaseModel, Field

from cellwright.mcp.server import NotebookServer
from tests.support.conformance import asking


def register(server: NotebookServer) -> None:
    """Add every fixture of the suite to a server."""
    # Ours lists what it was made with: other tools are called by their names alone.
    server._listed = server._listed.union(_TOOLS, asking.TOOLS)
    for name, tool in {**_TOOLS, **asking.TOOLS}.items():
        server.add_tool(tool, name=name, description=_description(name))
    for name, prompt in {**_PROMPTS, **asking.PROMPTS}.items():
        server.add_prompt(Prompt.from_function(prompt, name=name, description=_description(name)))
    for uri, (resource, mime_type) in _RESOURCES.items():
        server.resource(uri, mime_type=mime_type, description=_description(resource.__name__))(resource)
    _set_raw_schema(server)
    _add_missing_handlers(server)


def _description(name: str) -> str:
    return f"Fixture of the conformance suite: {name.replace('_', ' ')}."


def _set_raw_schema(server: MCPServer[Any]) -> None:
    # No Python signature yields $anchor and if/then/else: the suite checks that they arrive as they were given.
    tool = server._tool_manager.get_tool("json_schema_2020_12_tool")
    assert tool is not None
    tool.parameters = _RAW_SCHEMA


def _add_missing_handlers(server: MCPServer[Any]) -> None:
    low_level = server._lowlevel_server
    missing: list[tuple[str, type[BaseModel], Callable[..., Any]]] = [
        ("completion/complete", wire.CompleteRequestParams, _complete),
        ("logging/setLevel", wire.SetLevelRequestParams, _acknowledge),
        ("resources/subscribe", wire.SubscribeRequestParams, _acknowledge),
        ("resources/unsubscribe", wire.UnsubscribeRequestParams, _acknowledge),
    ]
    for method, params_type, handler in missing:
        if low_level.get_request_handler(method) is None:
            low_level.add_request_handler(method, params_type, handler)


async def _complete(
    context: ServerRequestContext[Any], params: wire.CompleteRequestParams
) -> wire.CompleteResult:
    del context, params
    return wire.CompleteResult(completion=wire.Completion(values=[], total=0, has_more=False))


async def _acknowledge(context: ServerRequestContext[Any], params: BaseModel) -> wire.EmptyResult:
    del context, params
    return wire.EmptyResult()


def _simple_text() -> str:
    return "This is a simple text response for testing."


def _image_content() -> list[wire.ImageContent]:
    return [_image()]


def _audio_content() -> list[wire.AudioContent]:
    return [wire.AudioContent(data=base64.b64encode(_wav()).decode(), mime_type="audio/wav")]


def _embedded_resource() -> list[wire.EmbeddedResource]:
    return [_embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


def _multiple_content_types() -> list[wire.TextContent | wire.ImageContent | wire.EmbeddedResource]:
    data = json.dumps({"test": "data", "value": 123})
    return [
        wire.TextContent(text="Multiple content types test:"),
        _image(),
        _embedded("test://mixed-content-resource", "application/json", data),
    ]


async def _tool_with_logging(context: Context) -> str:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(message)
    return "logged"


async def _tool_with_progress(context: Context) -> str:
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100, f"{progress} of 100")
    return "progressed"


def _error_handling() -> str:
    raise ToolError("This tool intentionally returns an error for testing")


async def _reconnection(context: Context) -> str:
    await context.close_sse_stream()
    return "Reconnection test completed"


def _header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "-") -> str:
    return region


async def _missing_capability(context: Context) -> str:
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            code=wire.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This tool needs a client that samples",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return "sampling is there"


async def _trigger_tool_change(context: Context) -> str:
    name = "test_dynamic_tool"
    context.mcp_server.add_tool(_simple_text, name=name, description=_description(name))
    context.mcp_server.remove_tool(name)
    await context.notify_tools_changed()
    return "changed"


async def _trigger_prompt_change(context: Context) -> str:
    name = "test_dynamic_prompt"
    context.mcp_server.add_prompt(
        Prompt.from_function(_simple_text, name=name, description=_description(name))
    )
    context.mcp_server.remove_prompt(name)
    await context.notify_prompts_changed()
    return "changed"


_TOOLS: dict[str, Callable[..., Any]] = {
    "test_simple_text": _simple_text,
    "test_image_content": _image_content,
    "test_audio_content": _audio_content,
    "test_embedded_resource": _embedded_resource,
    "test_multiple_content_types": _multiple_content_types,
    "test_tool_with_logging": _tool_with_logging,
    "test_tool_with_progress": _tool_with_progress,
    "test_error_handling": _error_handling,
    "test_reconnection": _reconnection,
    "test_x_mcp_header": _header,
    "test_missing_capability": _missing_capability,
    "test_trigger_tool_change": _trigger_tool_change,
    "test_trigger_prompt_change": _trigger_prompt_change,
    "json_schema_2020_12_tool": _simple_text,
}

_RAW_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        },
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _static_text() -> str:
    return "This is the content of the static text resource."


def _static_binary() -> bytes:
    return _png()


def _template(id: str) -> str:  # the suite's own name
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _watched() -> str:
    return "Nothing has happened yet."


_RESOURCES: dict[str, tuple[Callable[..., str | bytes], str]] = {
    "test://static-text": (_static_text, "text/plain"),
    "test://static-binary": (_static_binary, "image/png"),
    "test://template/{id}/data": (_template, "application/json"),
    "test://watched-resource": (_watched, "text/plain"),
}


def _simple_prompt() -> list[UserMessage]:
    return [_text("This is a simple prompt for testing.")]


def _prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    return [_text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]


def _prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803  # the suite's own name
    resource = _embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(content=resource), _text("Please process the embedded resource above.")]


def _prompt_with_image() -> list[UserMessage]:
    return [UserMessage(content=_image()), _text("Please analyze the image above.")]


_PROMPTS: dict[str, Callable[..., Any]] = {
    "test_simple_prompt": _simple_prompt,
    "test_prompt_with_arguments": _prompt_with_arguments,
    "test_prompt_with_embedded_resource": _prompt_with_embedded_resource,
    "test_prompt_with_image": _prompt_with_image,
}


def _text(text: str) -> UserMessage:
    return UserMessage(content=wire.TextContent(text=text))


def _image() -> wire.ImageContent:
    return wire.ImageContent(data=base64.b64encode(_png()).decode(), mime_type="image/png")


def _embedded(uri: str, mime_type: str, text: str) -> wire.EmbeddedResource:
    return wire.EmbeddedResource(resource=wire.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00"))
    return b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")


def _wav() -> bytes:
    """One silent sample."""
    sample = struct.pack("<h", 0)
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    data = b"data" + struct.pack("<I", len(sample)) + sample
    return b"RIFF" + struct.pack("<I", 4 + len(form) + len(data)) + b"WAVE" + form + data

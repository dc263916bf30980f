"""The module ``cellwright_api`` that a script finds beside it: our tools as typed functions of Python and TypeScript.

Made from the tools' definitions, so that a script has the names, arguments and words that a model has read already.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import TextContent
from pydantic import TypeAdapter

from cellwright.mcp._arguments import published_schema
from cellwright.mcp.calls import Call, Definition, as_tool, unknown_tool
from cellwright.mcp.clients import Caller
from cellwright.mcp.toolsets import TOOLSETS
from cellwright.tools.script_calls import CallRefused

__all__ = ["SCRIPT_TOOLS", "ScriptTools", "module_of"]

_LEFT_OUT = frozenset(
    {
        "file_system",
        "host_list",
        "host_start",
        "host_stop",
        "node_execute",
        "notebook_delete",
        "package_install",
        "python_execute",
        "session_files",
        "web_fetch",
    }
)
"""What leads out of the sandbox, or loses more than a session's cells: a model calls these itself."""

SCRIPT_TOOLS: Mapping[str, Definition] = {
    made.name: made
    for group, tools in TOOLSETS.items()
    if group != "agent"
    for made in tools
    if made.name not in _LEFT_OUT and made.needs != "admin"
}

_PYTHON_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict[str, Any]",
}
_TYPESCRIPT_TYPES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "object": "Record<string, unknown>",
}

_PYTHON = '''\
"""Cellwright's tools for this script: each function is a call of the tool of its name, and returns what it answers."""
from __future__ import annotations

import itertools, json, os, threading, time
from typing import Any, Literal, TypedDict

class CellwrightError(Exception):
    """A tool refused or failed; the message says what to do."""


_HERE = os.path.dirname(os.path.abspath(__file__))
_NUMBERS, _ONE_AT_A_TIME = itertools.count(1), threading.Lock()


def _call(tool: str, arguments: dict[str, Any]) -> Any:
    given = {name: value for name, value in arguments.items() if value is not None}
    with _ONE_AT_A_TIME:
        path = os.path.join(_HERE, f".cellwright-call-{next(_NUMBERS)}.")
        with open(path + "part", "w", encoding="utf-8") as file:
            json.dump({"tool": tool, "arguments": given}, file)
        os.rename(path + "part", path + "request")
        pause = 0.002
        while not os.path.exists(path + "reply"):
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        with open(path + "reply", encoding="utf-8") as file:
            answer = json.load(file)
        os.unlink(path + "reply")
    if "error" in answer:
        raise CellwrightError(answer["error"])
    return answer["result"]
'''

_TYPESCRIPT = """\
/** Cellwright's tools for this script: each function is a call of the tool of its name, and gives what it answers. */
import { existsSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

// deno-lint-ignore no-explicit-any
export type Json = any;

/** A tool refused or failed; the message says what to do. */
export class CellwrightError extends Error {}

const HERE = fileURLToPath(new URL(".", import.meta.url));
let count = 0;
let before: Promise<unknown> = Promise.resolve();

function call(tool: string, given: object): Promise<Json> {
  const asked = before.then(() => answered(tool, given));
  before = asked.catch(() => undefined);
  return asked;
}

async function answered(tool: string, given: object): Promise<Json> {
  const path = `${HERE}.cellwright-call-${++count}.`;
  writeFileSync(path + "part", JSON.stringify({ tool, arguments: given }));
  renameSync(path + "part", path + "request");
  for (let pause = 2; !existsSync(path + "reply"); pause = Math.min(pause * 1.5, 50)) {
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  const answer = JSON.parse(readFileSync(path + "reply", "utf8"));
  unlinkSync(path + "reply");
  if ("error" in answer) throw new CellwrightError(answer.error);
  return answer.result;
}
"""


@cache
def module_of(runtime: str) -> tuple[str, str] | None:
    """The file and the source of the module for a runtime."""
    made = [_Function(definition) for definition in SCRIPT_TOOLS.values()]
    if runtime == "deno":
        shapes = [_typescript_shape(*one) for one in _shapes().items()]
        return "cellwright_api.ts", "\n".join([_TYPESCRIPT, *shapes, *(one.in_typescript() for one in made)])
    if runtime == "python":
        shapes = [_python_shape(*one) for one in _shapes().items()]
        return "cellwright_api.py", "\n\n".join([_PYTHON, *shapes, *(one.in_python() for one in made)])
    return None


class ScriptTools:
    """The tools that a script may call: on behalf of the client that runs it, and with what that client may do."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def module(self, runtime: str) -> tuple[str, str] | None:
        """See ``OfferedTools``."""
        return module_of(runtime) if self._call.engine.settings.tools_in_scripts else None

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """See ``OfferedTools``."""
        if tool not in SCRIPT_TOOLS:
            raise CallRefused(unknown_tool(tool, SCRIPT_TOOLS), hint="Others are called outside of a script")
        caller = Caller(self._call.caller.program)
        caller.form = "data"
        try:
            made = as_tool(SCRIPT_TOOLS[tool], self._call.shared)
            result = await made.answer(arguments, self._call.client, caller)
        except ToolError as error:
            raise CallRefused(str(error)) from error
        if result.structured_content is not None:
            return result.structured_content
        return {"text": "\n".join(block.text for block in result.content if isinstance(block, TextContent))}


class _Function:
    """A tool as a function. What it answers is its data; of tools that have a shape for it, of that type."""

    def __init__(self, definition: Definition) -> None:
        schema = published_schema(definition.arguments, but=(*definition.keeps_back, "response_format"))
        self.name, self._about = definition.name, json.dumps(definition.description)[1:-1]
        self._gives = definition.gives
        self._types: dict[str, Any] = schema["properties"]
        needed = schema.get("required", ())
        self._needed = [name for name in self._types if name in needed]
        self._others = [name for name in self._types if name not in needed]

    def in_python(self) -> str:
        parameters = [f"{name}: {_python_type(self._types[name])}" for name in self._needed]
        if self._others:
            parameters.append("*")
        parameters += [f"{name}: {_python_type(self._types[name])} | None = None" for name in self._others]
        gives = self._gives.__name__ if self._gives is not None else "dict[str, Any]"
        return (
            f"def {self.name}({', '.join(parameters)}) -> {gives}:\n"
            f'    """{self._about}"""\n    return _call("{self.name}", locals())\n'
        )

    def in_typescript(self) -> str:
        fields = [f"{name}: {_typescript_type(self._types[name])}" for name in self._needed]
        fields += [f"{name}?: {_typescript_type(self._types[name])}" for name in self._others]
        given = f"given: {{ {'; '.join(fields)} }}" + ("" if self._needed else " = {}")
        gives = self._gives.__name__ if self._gives is not None else "Record<string, Json>"
        return (
            f"/** {self._about.replace('*/', '* /')} */\n"
            f'export const {self.name} = ({given}): Promise<{gives}> => call("{self.name}", given);\n'
        )


def _python_type(about: Mapping[str, Any]) -> str:
    if "enum" in about:
        return f"Literal[{', '.join(map(repr, about['enum']))}]"
    if about.get("type") == "array":
        return f"list[{_python_type(about.get('items', {}))}]"
    return _PYTHON_TYPES.get(str(about.get("type")), "Any")


def _typescript_type(about: Mapping[str, Any]) -> str:
    if "enum" in about:
        return " | ".join(map(json.dumps, about["enum"]))
    if about.get("type") == "array":
        return f"({_typescript_type(about.get('items', {}))})[]"
    return _TYPESCRIPT_TYPES.get(str(about.get("type")), "unknown")


def _shapes() -> dict[str, dict[str, Any]]:
    """The schemas of everything that functions give, by the names of their types."""
    found: dict[str, dict[str, Any]] = {}
    for made in SCRIPT_TOOLS.values():
        if made.gives is not None:
            schema = TypeAdapter(made.gives).json_schema(ref_template="{model}")
            found |= schema.pop("$defs", {}) | {made.gives.__name__: schema}
    return found


def _field_type(
    about: Mapping[str, Any], plain: Callable[[Mapping[str, Any]], str], none: str, many: str
) -> str:
    if "$ref" in about:
        return str(about["$ref"])
    if "anyOf" in about:
        return " | ".join(_field_type(arm, plain, none, many) for arm in about["anyOf"])
    if about.get("type") == "array":
        return many.format(_field_type(about.get("items", {}), plain, none, many))
    return none if about.get("type") == "null" else plain(about)


def _python_shape(name: str, schema: Mapping[str, Any]) -> str:
    lines = [
        f"    {field}: {_field_type(about, _python_type, 'None', 'list[{}]')}"
        for field, about in schema["properties"].items()
    ]
    return "\n".join([f"class {name}(TypedDict, total=False):", *lines])


def _typescript_shape(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    fields = [
        f"{field}{'' if field in needed else '?'}: {_field_type(about, _typescript_type, 'null', '({})[]')}"
        for field, about in schema["properties"].items()
    ]
    return f"export type {name} = {{ {'; '.join(fields)} }};"

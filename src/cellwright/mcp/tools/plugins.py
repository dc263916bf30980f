"""Tools that plugins bring: published as they were examined, and run in the sandbox unless the operator trusts their plugin.

Nothing of an untrusted tool is imported here: a call is a script in a session of its own, as ``python_execute`` runs one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import anyio.to_thread
from pydantic import Field, WithJsonSchema, create_model

from cellwright.errors import CellwrightError
from cellwright.mcp._arguments import Arguments, MaxTokens
from cellwright.mcp._waits import done_with_progress
from cellwright.mcp.calls import READS, RUNS_CODE, Call, Definition, Reply
from cellwright.plugins.ports import ToolFinding, ToolParameter
from cellwright.plugins.registry import Plugin, registry
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_middle
from cellwright.tools.scripts import RunResult, run_script

__all__ = ["plugin_tools"]

_DEFAULT_TOKENS = 2_000
_MOST_RESULT = 1_000_000
_RESULT = "cellwright-tool-result:"

_SCRIPT = """\
import contextlib, functools, importlib, json, sys
with contextlib.redirect_stdout(sys.stderr):
    tool = functools.reduce(getattr, {path!r}, importlib.import_module({module!r}))
    try:
        answer = {{"result": tool.function(**json.loads({arguments!r}))}}
    except ValueError as error:
        answer = {{"refused": str(error)}}
    text = json.dumps(answer, ensure_ascii=False)
    if len(text) > {most}:
        raise SystemExit(f"It returned {{len(text):,}} characters; at most {most:,} can be")
print("\\n{marker}" + text)
"""


class ToolFailed(CellwrightError):
    """A plugin's tool raised, hung or returned what cannot be told."""

    code = "tool_failed"


class ToolRefused(CellwrightError):
    """A plugin's tool does not take these arguments; the message is its own."""

    code = "tool_refused"


def plugin_tools(taken: Collection[str] = ()) -> tuple[Definition, ...]:
    """The tools of all plugins that are in; those whose name is ``taken`` are refused."""
    found = []
    for name in registry().names("tools"):
        plugin = registry().find("tools", name)
        if plugin is None:
            continue
        if name in taken:
            plugin.refused = f"Cellwright has a tool {name} already"
            continue
        found += [_definition(plugin, tool) for tool in plugin.tools]
    return tuple(found)


def _definition(plugin: Plugin, tool: ToolFinding) -> Definition:
    async def run(call: Call, args: Arguments) -> Reply:
        given = args.model_dump(exclude_unset=True)
        tokens = given.pop("max_tokens", None) or _DEFAULT_TOKENS
        if plugin.refused:
            raise ToolFailed(
                f"The tool {tool.name} of {plugin.entry.distribution} is out: {plugin.refused}",
                hint=f"`cellwright plugins enable {plugin.entry.id}`",
            )
        run_tool = _in_process if plugin.trusted else _in_sandbox
        result, beside = await run_tool(call, plugin, tool, given)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=1)
        return Reply("\n".join([cut_middle(text, tokens * CHARACTERS_PER_TOKEN), *beside]))

    run.__name__ = tool.name
    run.__doc__ = tool.description
    fields: dict[str, Any] = {one.name: (_type(one.schema), _default(one)) for one in tool.parameters}
    fields.setdefault("max_tokens", (MaxTokens, None))
    arguments = create_model(tool.name, __base__=Arguments, **fields)
    hints = READS if tool.reads_only else RUNS_CODE
    return Definition(run, arguments, hints, keeps_back=("max_tokens",), all_defaults=True)


_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


def _type(schema: Mapping[str, Any]) -> Any:
    """The type that checks what a schema says, and publishes it as it is."""
    return Annotated[_checked(schema), WithJsonSchema(dict(schema))]


def _checked(schema: Mapping[str, Any]) -> Any:
    if "anyOf" in schema:
        return _checked(schema["anyOf"][0]) | None
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema["type"] == "array":
        return list[_checked(schema["items"])] if "items" in schema else list[Any]  # type: ignore[misc]  # made of data
    return _TYPES.get(schema["type"], dict[str, Any])


def _default(parameter: ToolParameter) -> Any:
    return Field() if parameter.required else Field(default=parameter.schema.get("default"))


# Where it runs ------------------------------------------------------------------------------------------------------


async def _in_sandbox(
    call: Call, plugin: Plugin, tool: ToolFinding, given: dict[str, Any]
) -> tuple[Any, list[str]]:
    """Run a tool as a script of Cellwright's own interpreter, which has the plugin."""
    module, _, attribute = plugin.entry.value.partition(":")
    code = _SCRIPT.format(
        module=module,
        path=attribute.split("."),
        arguments=json.dumps(given),
        most=_MOST_RESULT,
        marker=_RESULT,
    )
    limit_s = min(tool.timeout_s, call.engine.settings.run_timeout_s)
    # Nobody's project lies in the storage directory: no other interpreter is found from there.
    run = partial(run_script, call.engine, code, timeout_s=limit_s, directory=call.engine.settings.storage)
    done = await done_with_progress(call, run, say=lambda: "")
    answer = _answer(done)
    if answer is None:
        hangs = done.state == "timeout"
        raise _failed(plugin, "did not end in time" if hangs else _why(done), hangs=hangs)
    registry().report(plugin, None)
    if "refused" in answer:
        raise ToolRefused(f"{tool.name}: {answer['refused']}")
    if done.files:
        call.data_changed(*(file.path for file in done.files))
    return answer["result"], [f"file: {file.path} ({file.size:,} bytes)" for file in done.files]


def _answer(done: RunResult) -> dict[str, Any] | None:
    _, marker, text = done.stdout.rpartition(f"\n{_RESULT}")
    if not done.success or not marker:
        return None
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and answer.keys() & {"result", "refused"} else None


def _why(done: RunResult) -> str:
    reason = done.reason or done.stderr.strip().rpartition("\n")[2] or f"ended with code {done.return_code}"
    return f"raised {reason}"[:500]


async def _in_process(
    _: Call, plugin: Plugin, tool: ToolFinding, given: dict[str, Any]
) -> tuple[Any, list[str]]:
    """Run a tool that the operator trusts in this process, in a thread that is given up when its time is over."""
    made = registry().get("tools", tool.name)
    if made is None:
        raise _failed(plugin, plugin.refused)

    def run() -> str:
        try:
            return json.dumps({"result": made.function(**given)})
        except ValueError as error:
            raise ToolRefused(f"{tool.name}: {error}") from error

    called = registry().guarded(plugin, run, str, limit_s=tool.timeout_s)
    return json.loads(await anyio.to_thread.run_sync(called))["result"], []


def _failed(plugin: Plugin, reason: str, *, hangs: bool = False) -> ToolFailed:
    registry().report(plugin, reason, hangs=hangs)
    return ToolFailed(
        f"The tool {plugin.entry.name} of {plugin.entry.distribution} {reason}",
        hint=f"Report it to those who make {plugin.entry.distribution}, or leave it out: "
        f"`cellwright plugins disable {plugin.entry.id}`",
    )

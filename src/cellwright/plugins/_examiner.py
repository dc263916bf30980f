"""Imports one plugin in this process, which ends then, and says what came of it: ``python -m`` this, see ``_findings``.

Whatever a plugin does at import is met here first: that it raises, hangs, prints, leaves threads, or replaces functions
that others use. This is no wall against malice: a plugin that passes is imported by the daemon. Tools and digests alone,
whose code only ever runs in the sandbox, are confined here too.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
import threading
import time
import typing
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import msgspec

from cellwright.plugins._findings import Finding
from cellwright.plugins.ports import API_VERSION, KINDS, VERSION_NAME, Tool, ToolFinding, ToolParameter
from cellwright.text_budget import CHARACTERS_PER_TOKEN
from cellwright_kernel.confinement import confine

__all__: list[str] = []

_MOST_TOKENS = 1_000
_MEMORY_BYTES = 2 << 30
_MOST_TIMEOUT_S = 3_600.0
_DOTTED = re.compile(r"\w+(\.\w+)+")
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}
_OURS = ("cellwright", "cellwright_kernel")
_CONFINED = ("digests", "tools")
"""The kinds whose code only ever runs in the sandbox."""


class _Refused(Exception):
    """Why a plugin is left out, in a sentence."""


def main() -> None:
    kind, name, value, port = sys.argv[1:]
    answers = os.dup(1)
    printed = os.memfd_create("printed")
    os.dup2(printed, 1)
    wanted = _port(port)
    os.write(answers, b"\n")  # from here on the plugin's own time runs
    finding = _finding(kind, name, value, wanted, printed)
    with open(answers, "wb") as stream:
        stream.write(msgspec.json.encode(finding))
    # Threads of the plugin's keep nothing here.
    os._exit(0)


def _finding(kind: str, name: str, value: str, wanted: type | None, printed: int) -> Finding:
    if kind in _CONFINED:
        confine(_MEMORY_BYTES)
    before = _functions()
    started = time.perf_counter()
    try:
        module, plugin = _imported(value)
        import_ms = (time.perf_counter() - started) * 1_000
        _check_manners(before, printed)
        _check_version(module)
        _check_type(kind, plugin, wanted)
        _check_name(kind, name)
        tools = (_tool_finding(plugin, name),) if kind == "tools" else ()
        tokens = _tokens(tools)
    except _Refused as refused:
        return Finding(str(refused))
    except BaseException as error:  # noqa: BLE001  # boundary: this process is here to meet it
        return Finding(_described(error))
    return Finding("", round(import_ms, 1), tokens, tools)


def _port(port: str) -> type | None:
    """The type that a plugin must be of; None where any function will do."""
    module, _, name = port.partition(":")
    home = importlib.import_module(module)
    return getattr(home, name) if name != "callable" else None


def _imported(value: str) -> tuple[ModuleType, Any]:
    name, _, attribute = value.partition(":")
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        raise _Refused(f"Its import raised {_described(error)}") from error
    plugin: Any = module
    for part in filter(None, attribute.split(".")):
        if not hasattr(plugin, part):
            raise _Refused(f"There is no {attribute!r} in {name}")
        plugin = getattr(plugin, part)
    return module, plugin


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".removesuffix(": ")


# Manners ------------------------------------------------------------------------------------------------------------


def _check_manners(before: dict[tuple[str, str], Any], printed: int) -> None:
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    if written := os.fstat(printed).st_size:
        raise _Refused(f"Its import wrote {written} bytes to standard output")
    others = [one.name for one in threading.enumerate() if one is not threading.main_thread()]
    if others:
        raise _Refused(f"Its import left {len(others)} thread(s) running: {', '.join(others)[:100]}")
    after = _functions()
    if changed := [place for place, function in before.items() if after.get(place) is not function]:
        raise _Refused(f"Its import replaced {', '.join('.'.join(place) for place in changed[:3])}")


def _functions() -> dict[tuple[str, str], Any]:
    """Functions and classes of Python's own modules and of ours that are loaded, by where they are found."""
    found: dict[tuple[str, str], Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in (*sys.stdlib_module_names, *_OURS) or not isinstance(
            module, ModuleType
        ):
            continue
        for attribute, held in list(vars(module).items()):
            if not callable(held):
                continue
            found[name, attribute] = held
            if isinstance(held, type) and held.__module__ == name:
                found |= {
                    (f"{name}.{attribute}", method): function
                    for method, function in list(vars(held).items())
                    if inspect.isfunction(function)
                }
    return found


def _check_version(module: ModuleType) -> None:
    version = getattr(module, VERSION_NAME, None)
    if version is None:
        raise _Refused(
            f"{module.__name__} does not say which version it is for: {VERSION_NAME} = {API_VERSION}"
        )
    if version != API_VERSION:
        raise _Refused(f"It is for version {version!r} of plugins, and this is version {API_VERSION}")


def _check_type(kind: str, plugin: Any, wanted: type | None) -> None:
    several = KINDS[kind].several and isinstance(plugin, tuple | list)
    for one in plugin if several else (plugin,):
        fits = callable(one) and not isinstance(one, type) if wanted is None else isinstance(one, wanted)
        if not fits:
            raise _Refused(
                f"It gives {_a(type(one).__name__)}, and no {wanted.__name__ if wanted else 'function'}"
            )


def _check_name(kind: str, name: str) -> None:
    if kind == "digests" and not _DOTTED.fullmatch(name):
        raise _Refused(f"Its entry point is called {name!r}, and not as a type is, such as 'acme.Die'")


def _a(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


# Tools --------------------------------------------------------------------------------------------------------------


def _tool_finding(tool: Tool, name: str) -> ToolFinding:
    function = tool.function
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        raise _Refused("Its function must be a plain function")
    if function.__name__ != name:
        raise _Refused(f"Its entry point is called {name!r}, and its function {function.__name__!r}")
    if "." in function.__qualname__:
        raise _Refused(f"Its function {function.__qualname__} must stand at the top of its module")
    if not 0 < tool.timeout_s <= _MOST_TIMEOUT_S:
        raise _Refused(
            f"Its time limit is {tool.timeout_s!r}, and must be above 0 and at most {_MOST_TIMEOUT_S:g} s"
        )
    description = inspect.cleandoc(function.__doc__ or "")
    if not description:
        raise _Refused(f"Its function {function.__name__} has no docstring, which is what callers read")
    parameters = tuple(_parameters(function))
    return ToolFinding(function.__name__, description, parameters, bool(tool.reads_only), tool.timeout_s)


def _parameters(function: Callable[..., Any]) -> Iterator[ToolParameter]:
    types = typing.get_type_hints(function)
    for name, one in inspect.signature(function).parameters.items():
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise _Refused(f"Its argument {name} has no name of its own")
        if name not in types:
            raise _Refused(f"Its argument {name} has no type")
        schema = _schema(name, types[name])
        if one.default is not one.empty:
            schema = {**schema, "default": one.default}
        yield ToolParameter(name, schema, one.default is one.empty)


def _schema(name: str, type_: Any) -> dict[str, object]:
    origin, inner = get_origin(type_) or type_, get_args(type_)
    if origin in _SIMPLE:
        return {"type": _SIMPLE[origin]}
    if origin is dict:
        return {"type": "object"}
    if origin is list:
        return {"type": "array", **({"items": _schema(name, inner[0])} if inner else {})}
    if origin is Literal and all(isinstance(one, str) for one in inner):
        return {"type": "string", "enum": list(inner)}
    if origin in (typing.Union, UnionType) and len(inner) == 2 and NoneType in inner:
        return {"anyOf": [_schema(name, next(one for one in inner if one is not NoneType)), {"type": "null"}]}
    raise _Refused(
        f"Its argument {name} is of type {type_!r}; there are str, int, float, bool, list, dict, Literal, and each or None"
    )


def _tokens(tools: Sequence[ToolFinding]) -> int:
    try:
        tokens = sum(len(json.dumps(msgspec.to_builtins(tool))) for tool in tools) // CHARACTERS_PER_TOKEN
    except (TypeError, ValueError) as error:
        raise _Refused(f"A default of its arguments is no JSON: {error}") from error
    if tokens > _MOST_TOKENS:
        raise _Refused(f"It would take {tokens:,} tokens of every client's context; at most {_MOST_TOKENS:,}")
    return tokens


if __name__ == "__main__":
    main()

"""Writes ``help.json`` anew: ``python -m cellwright.cli._help_recorder``, after a command, an option or a word of its help changed."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo

from cellwright.cli._catalogue import COMMANDS
from cellwright.cli._commands import function_named
from cellwright.cli._help import FILE

__all__ = ["record"]

_TYPES: dict[Any, str] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}


def main() -> None:
    Path(FILE).write_text(_text(record()), encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")


def record() -> dict[str, Any]:
    """What the help of every command says, by its name."""
    return {command: _described(function_named(command)) for command in COMMANDS}


def _text(found: dict[str, Any]) -> str:
    """The record with a command on a line: two people may change two commands."""
    lines = [f" {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _described(function: Callable[..., Any]) -> dict[str, Any]:
    arguments: list[list[str]] = []
    options: list[list[Any]] = []
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, info = _annotated(parameter.annotation)
        default = None if parameter.default is parameter.empty else parameter.default
        text = _help(info, kind, default)
        if isinstance(info, ArgumentInfo):
            shown = (info.metavar or name.upper()).strip("[]")
            required = parameter.default is parameter.empty
            arguments.append([shown if required else f"[{shown}]", text])
        else:
            options.append([*_flags(name, kind, info), text])
    about = inspect.getdoc(function) or ""
    return {"about": " ".join(about.split()).replace("``", "`"), "arguments": arguments, "options": options}


def _annotated(annotation: Any) -> tuple[Any, ArgumentInfo | OptionInfo]:
    """The type of a parameter, without its None and its list, and what it was declared with."""
    assert get_origin(annotation) is Annotated, annotation
    kind, info = get_args(annotation)
    assert isinstance(info, ArgumentInfo | OptionInfo)
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is list else kind, info


def _flags(name: str, kind: Any, info: ArgumentInfo | OptionInfo) -> tuple[list[str], str]:
    """An option's names, and what stands behind them."""
    # In ``Annotated`` the first name stands where a default would.
    first = [info.default] if isinstance(info.default, str) else []
    declared = [*first, *(info.param_decls or ())]
    if kind is bool:
        both = declared or [f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"]
        return [flag for one in both for flag in one.split("/")], ""
    flags = sorted(declared or [f"--{name.replace('_', '-')}"], key=len)
    return flags, info.metavar or _type_name(kind)


def _type_name(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return _TYPES[kind]


def _help(info: ArgumentInfo | OptionInfo, kind: Any, default: Any) -> str:
    parts = [info.help or ""]
    if isinstance(info, ArgumentInfo) and isinstance(kind, type) and issubclass(kind, Enum):
        parts.append(f"One of {', '.join(str(member.value) for member in kind)}.")
    if info.min is not None and info.max is not None:
        parts.append(f"[{info.min:g} to {info.max:g}]")
    elif info.min is not None:
        parts.append(f"[at least {info.min:g}]")
    if default not in (None, False, "") and info.show_default is not False and kind is not bool:
        parts.append(f"[default: {default.value if isinstance(default, Enum) else default}]")
    return " ".join(filter(None, parts))


if __name__ == "__main__":
    main()

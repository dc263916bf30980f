"""Writes ``help.json`` anew: ``python -m cellwright.cli._help_recorder``, after a command, an option or a word of its help changed."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from cellwright.cli._arguments import Argument, Option, Parameter, parameters_of
from cellwright.cli._catalogue import COMMANDS
from cellwright.cli._commands import function_named
from cellwright.cli._help import FILE

__all__ = ["record"]


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
    for parameter in parameters_of(function):
        text = _help(parameter)
        if isinstance(parameter.declared, Argument):
            shown = parameter.shown
            arguments.append([shown if parameter.is_required else f"[{shown}]", text])
        else:
            flags = [flag for names in parameter.flags for flag in names.split("/")]
            options.append([flags, "" if parameter.kind is bool else parameter.type_name, text])
    about = inspect.getdoc(function) or ""
    return {"about": " ".join(about.split()).replace("``", "`"), "arguments": arguments, "options": options}


def _help(parameter: Parameter) -> str:
    declared, default = parameter.declared, parameter.default
    parts = [declared.help]
    if isinstance(declared, Argument) and parameter.choices:
        parts.append(f"One of {', '.join(parameter.choices)}.")
    if isinstance(declared, Option) and declared.min is not None:
        most = (
            f"{declared.min:g} to {declared.max:g}"
            if declared.max is not None
            else f"at least {declared.min:g}"
        )
        parts.append(f"[{most}]")
    is_told = declared.show_default and not parameter.is_required and parameter.kind is not bool
    if is_told and default not in (None, ""):
        parts.append(f"[default: {default.value if isinstance(default, Enum) else default}]")
    return " ".join(filter(None, parts))


if __name__ == "__main__":
    main()

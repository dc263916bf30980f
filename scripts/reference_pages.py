"""The pages of the reference that the code itself writes: commands, tools, settings, calls, events and the like.

They are made with the site and kept nowhere, so that none can be out of date. Pages written by hand stand beside them
and say what no signature does.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from pydantic_core import PydanticUndefined

import cellwright
from cellwright.audit import KINDS
from cellwright.charts.auto import RULES
from cellwright.cli._catalogue import COMMANDS, GROUPS
from cellwright.engine.event_kinds import ABOUT
from cellwright.hosts import protocol
from cellwright.mcp._arguments import published_schema
from cellwright.mcp.calls import Definition
from cellwright.mcp.toolsets import CORE, TOOLSETS
from cellwright.plans.error_classes import ERROR_CLASSES, ErrorClass
from cellwright.plans.fixers import every_fixer
from cellwright.sandbox.approved_packages import DEFAULT_APPROVED
from cellwright.sandbox.npm import DEFAULT_APPROVED_NPM
from cellwright.settings import Settings
from cellwright.settings._files import ONLY_THE_USER_SAYS

SRC = Path(__file__).parents[1] / "src" / "cellwright"
SIZE = re.compile(r"_bytes$|_memory$|_disk$|_journal$")
MADE = "Made from the code, with the site. "
OF_CORE = f"{CORE}:"
"""Before the names of tools that the core lists with fewer arguments than other sets."""


def reference_pages() -> dict[str, str]:
    """Markdown by its place in the site."""
    pages = {
        "commands": commands(),
        "tools": tools(),
        "settings": settings(),
        "library": library(),
        "events": events(),
        "audit-log": audit_log(),
        "error-classes": error_classes(),
        "fixers": fixers(),
        "chart-rules": chart_rules(),
        "host-messages": host_messages(),
    }
    return {f"reference/generated/{name}.md": text for name, text in pages.items()}


def _cell(text: Any) -> str:
    """Text as it may stand in a table."""
    one_line = " ".join(str(text).replace("``", "`").split())
    return re.sub(r"(?<!\\)\|", r"\\|", one_line).replace("<", "&lt;")


def _code(text: Any) -> str:
    return "`" + re.sub(r"(?<!\\)\|", r"\\|", str(text)) + "`"


def commands() -> str:
    """From the record that answers `--help`, which a test holds against the commands."""
    record = json.loads((SRC / "cli" / "help.json").read_text())
    parts = [
        "# All commands and options\n",
        MADE
        + "[Command line](../command-line.md) says what belongs together, and what exit codes mean. Every command "
        "takes `--help`.",
    ]
    for group in GROUPS:
        parts += [f"\n## {group}"]
        for name in (name for name, (there, _) in COMMANDS.items() if there == group):
            about = record[name]
            shown = " ".join(["cellwright", name, *(argument for argument, _ in about["arguments"])])
            parts += [f"\n### `cellwright {name}`\n", f"`{shown}`\n", about["about"].replace("<", "&lt;")]
            parts += _options(about)
    return "\n".join(parts) + "\n"


def _options(about: dict[str, Any]) -> list[str]:
    rows = [(name, text) for name, text in about["arguments"]]
    rows += [
        (", ".join(flags) + (f" {value}" if value else ""), text) for flags, value, text in about["options"]
    ]
    cells = [f"| {_code(name)} | {_cell(text)} |" for name, text in rows]
    return ["", "| argument or option | meaning |", "|---|---|", *cells] if cells else []


def tools() -> str:
    """From the record that answers `tools/list` before the server has started, which a test holds against the server."""
    record = json.loads((SRC / "daemon" / "greetings.json").read_text())
    native = record["tools"][""]
    definitions = _definitions(native)
    made_of = {definition.name: definition for each in TOOLSETS.values() for definition in each}
    parts = [
        "# All MCP tools and arguments\n",
        MADE
        + "[MCP](../mcp.md) says what tools have in common, what replies look like, and how the tools of other "
        "systems are offered under their own names. Arguments that are *not listed* are taken, but not shown to clients.",
    ]
    for group, recorded_names in native["sets"].items():
        parts += [f"\n## Toolset `{group}`"]
        names = [name.removeprefix(OF_CORE) for name in recorded_names]
        if group == CORE:
            below = [name for name in names if name in made_of]
            parts += ["\nOf the sets below, with fewer arguments listed: " + _listed(below) + "."]
            names = [name for name in names if name not in made_of]
        for name in names:
            tool = definitions[name]
            parts += [
                f"\n### `{name}`\n",
                tool["description"].replace("<", "&lt;"),
                *_arguments(tool["inputSchema"], _unpublished(made_of.get(name))),
            ]
    for dialect, offered in record["tools"].items():
        theirs = _definitions(offered)
        if dialect and (own := theirs.keys() - definitions.keys()):
            parts += [f"\n## Dialect `{dialect}`\n", "| tool | arguments | does |", "|---|---|---|"]
            parts += [_dialect_row(theirs[name]) for name in sorted(own)]
    parts += ["\n## Resources\n", "| address | holds |", "|---|---|"]
    for template in record["resources/templates/list"][""]:
        parts.append(f"| `{template['uriTemplate']}` | {_cell(template['description'])} |")
    parts += ["\n## Prompts\n", "| prompt | arguments | asks to |", "|---|---|---|"]
    for prompt in record["prompts/list"][""]:
        given = _listed(argument["name"] for argument in prompt["arguments"])
        parts.append(f"| `{prompt['name']}` | {given} | {_cell(prompt['description'])} |")
    return "\n".join(parts) + "\n"


def _definitions(recorded: dict[str, Any]) -> dict[str, Any]:
    """A server's tools by name: whole, or where only the core has one, as it is listed there."""
    about = {name: definition["tool"] for name, definition in recorded["definitions"].items()}
    slim = {name.removeprefix(OF_CORE): tool for name, tool in about.items() if name.startswith(OF_CORE)}
    return slim | {name: tool for name, tool in about.items() if not name.startswith(OF_CORE)}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _dialect_row(tool: dict[str, Any]) -> str:
    required = tool["inputSchema"].get("required", ())
    given = ", ".join(
        f"`{name}`{'*' if name in required else ''}" for name in tool["inputSchema"].get("properties", {})
    )
    return f"| `{tool['name']}` | {given} | {_cell(tool['description'])} |"


def _unpublished(definition: Definition | None) -> dict[str, Any]:
    """Arguments that a tool takes and does not list, since each would cost every client tokens."""
    if definition is None:
        return {}
    properties = published_schema(definition.arguments, all_defaults=True)["properties"]
    return {name: properties[name] for name in definition.keeps_back}


def _arguments(schema: dict[str, Any], unpublished: dict[str, Any]) -> list[str]:
    rows = _argument_rows(schema)
    rows += [_argument_row(name, about, " (not listed)") for name, about in unpublished.items()]
    for kind, part in schema.get("$defs", {}).items():
        rows += _argument_rows(part, f"{kind}.")
    return ["", "| argument | type | meaning |", "|---|---|---|", *rows] if rows else []


def _argument_rows(schema: dict[str, Any], within: str = "") -> list[str]:
    required = schema.get("required", ())
    return [
        _argument_row(within + name, about, " (required)" if name in required else "")
        for name, about in schema.get("properties", {}).items()
    ]


def _argument_row(name: str, about: dict[str, Any], mark: str) -> str:
    meaning = filter(None, (_cell(about.get("description", "")), _default(about)))
    return f"| `{name}`{mark} | {_code(_type_of(about))} | {'. '.join(meaning)} |"


def _type_of(about: dict[str, Any]) -> str:
    if "const" in about:
        return str(about["const"])
    if "enum" in about:
        return " | ".join(map(str, about["enum"]))
    if "anyOf" in about:
        return " | ".join(dict.fromkeys(_type_of(one) for one in about["anyOf"]))
    if about.get("type") == "array":
        return f"{_type_of(about.get('items', {}))}[]"
    if "$ref" in about:
        return about["$ref"].rpartition("/")[2]
    found = about.get("type", "any")
    return " | ".join(found) if isinstance(found, list) else str(found)


def _default(about: dict[str, Any]) -> str:
    return f"Default: {_code(json.dumps(about['default']))}" if "default" in about else ""


SETTING_GROUPS = {
    "SLURM": r"slurm_",
    "Jupyter servers": r"jupyter_",
    "Models": r"model",
    "Packages": r"approved_|.*install",
    "Network": r"(allow_)?network|max_(download|upload)_bytes",
    "Fetching": r"fetch_",
    "One-shot runs": r"run_timeout|max_runs?_?|max_kept|keep_runs",
    "Checkpoints and plans": r".*(checkpoint|plan)",
    "What a session may use": r"max_session_|max_memory|gpus",
    "Sandbox": r"sandbox|unsafe|(read|write)_paths|pass_env|approvals",
    "Sign-in over HTTP": r"oauth_",
    "TCP listeners": r"token|allowed_",
    "Time limits and what is kept": r".*(idle|timeout|grace|quiet|_days|journal|audit|undelete|event_buffer)",
    "Sessions and cells": r"max_|when_full|default_language|preload|standby|image_|error_hints|persist",
    "Places and hosts": r"",
}
"""Headings of the page of settings, from last to first, each with how its names begin: the first that fits has a name."""


def settings() -> str:
    described = {name: text for _, name, text in _described(SRC / "settings" / "model.py")}
    types = Settings.model_json_schema()["properties"]
    rows: dict[str, list[str]] = {group: [] for group in SETTING_GROUPS}
    for name, field in sorted(Settings.model_fields.items()):
        group = next(group for group, begins in SETTING_GROUPS.items() if re.match(begins, name))
        kept = " Not in a project's file." if name in ONLY_THE_USER_SAYS else ""
        text = f"{_cell(described.get(name, ''))}{kept}"
        rows[group].append(
            f"| `{name}` | {_code(_type_of(types[name]))} | {_default_of(name, field)} | {text} |"
        )
    parts = [
        "# All settings\n",
        MADE
        + "[Settings](../settings.md) says where a value can be given. A setting `name` is also the variable "
        "`CELLWRIGHT_NAME`. Sizes are bytes, or text such as `512MB`.",
    ]
    for group, lines in reversed(rows.items()):
        parts += [f"\n## {group}\n", "| setting | type | default | meaning |", "|---|---|---|---|", *lines]
    return "\n".join(parts) + "\n"


def _described(module: Path) -> Iterator[tuple[str, str, str]]:
    """Each field of a module's classes with the text below it: class, field, text."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ClassDef):
            for line, after in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(line, ast.AnnAssign)
                    and isinstance(line.target, ast.Name)
                    and isinstance(after, ast.Expr)
                    and isinstance(after.value, ast.Constant)
                ):
                    yield node.name, line.target.id, str(after.value.value)


WELL_KNOWN = {"approved_packages": DEFAULT_APPROVED, "approved_npm_packages": DEFAULT_APPROVED_NPM}


def _default_of(name: str, field: Any) -> str:
    if name in WELL_KNOWN:
        return ", ".join(WELL_KNOWN[name])
    if field.default_factory is not None:
        return "found at start"
    if field.default is PydanticUndefined:
        return "required"
    if SIZE.search(name) and isinstance(field.default, int):
        return _code(_size(field.default))
    if isinstance(field.default, bool):
        return _code(str(field.default).lower())
    return "none" if field.default in (None, "", (), {}) else _code(field.default)


def _size(count: int) -> str:
    """A size as settings files write it; one that is no multiple of a unit stays a number."""
    for unit, factor in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if count and count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)


def events() -> str:
    rows = [f"| `{kind}` | {_cell(when)} | {_cell(data)} |" for kind, (when, data) in ABOUT.items()]
    return "\n".join([
        "# All kinds of events\n",
        MADE + "[Events](../events.md) says how they are read.\n",
        "| kind | when | `data` |",
        "|---|---|---|",
        *rows,
    ]) + "\n"  # fmt: skip


def audit_log() -> str:
    return "\n".join([
        "# All kinds of lines in the audit log\n",
        MADE + "[The audit log](../../guides/audit.md) says how it is read and checked.\n",
        "| kind | a line for |",
        "|---|---|",
        *(f"| `{kind}` | {_cell(about)} |" for kind, about in KINDS.items()),
    ]) + "\n"  # fmt: skip


def fixers() -> str:
    parts = [
        "# All fixers\n",
        MADE
        + "[Fixers](../../guides/fixers.md) says what becomes of their proposals. They are asked in this order.\n",
        "| fixer | what it knows |",
        "|---|---|",
    ]
    parts += [f"| `{fixer.__name__}` | {_cell(inspect.getdoc(fixer))} |" for fixer in every_fixer()]
    return "\n".join(parts) + "\n"


def chart_rules() -> str:
    rows = [f"| {number} | {rule.when} | `{rule.type}` |" for number, rule in enumerate(RULES, 1)]
    about = "The first that fits decides which chart `auto` draws of the data ([Charts](../../guides/charts.md)).\n"
    return (
        "\n".join(["# The rules of `auto`\n", MADE + about, "| | when | chart |", "|---|---|---|", *rows])
        + "\n"
    )


def error_classes() -> str:
    rows = [
        f"| `{row.name}` | {row.kind} | {_cell(row.meaning)} | {_looks_for(row)} |" for row in ERROR_CLASSES
    ]
    return "\n".join([
        "# All classes of errors\n",
        MADE + "[Classes of errors](../error-classes.md) says what follows from each. The first that takes an error is "
        "its class.\n",
        "| class | kind | what it is | taken by |",
        "|---|---|---|---|",
        *rows,
    ]) + "\n"  # fmt: skip


def _looks_for(row: ErrorClass) -> str:
    types = ", ".join(f"`{name}`" for name in row.types)
    states = ", ".join(f"`{state}`" for state in row.states)
    return (
        "; ".join(part for part in (types, states and f"the cell ended as {states}") if part) or "its words"
    )


def host_messages() -> str:
    described = {(cls, name): text for cls, name, text in _described(SRC / "hosts" / "protocol.py")}
    parts = [
        "# All messages between engine and host\n",
        MADE
        + "[The host's protocol](../host-protocol.md) says how they lie on the wire, and what follows from them.",
    ]
    for name, thing in vars(protocol).items():  # in the order in which they are written
        if not (isinstance(thing, type) and issubclass(thing, msgspec.Struct) and name != "Tagged"):
            continue
        if thing.__module__ != protocol.__name__:
            continue
        tag = thing.__struct_config__.tag
        parts += [f"\n## `{name}`" + (f": `{tag}`" if tag else "") + "\n", _prose(thing)]
        hints = inspect.get_annotations(thing)
        rows = [
            f"| `{field.encode_name}` | {_code(hints.get(field.name, ''))} | {_cell(described.get((name, field.name), ''))} |"
            for field in msgspec.structs.fields(thing)
        ]
        parts += ["", "| field | type | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join(parts) + "\n"


LIBRARY: dict[str, tuple[str, ...]] = {
    "cellwright": tuple(cellwright.__all__),
    "cellwright.engine": ("Branch", "SessionView", "Adopted", "RolledBack", "Replay", "Redone"),
    "cellwright.engine.records": ("ExecutionRecord",),
    "cellwright.engine.charts": ("Visual",),
    "cellwright.engine.grids": ("SessionGrids", "ShownTable", "GridHead", "GridRows", "GridFigures"),
    "cellwright.engine.host_actions": ("start_host", "stop_host", "wait_for_host"),
    "cellwright.tools": ("run_script", "visualize", "calculate", "fetch", "Fetcher", "Files"),
    "cellwright.tools.scripts": ("RunResult",),
    "cellwright.tools.files.file_system": ("Reading", "FileInfo"),
    "cellwright.tools.visuals": ("Visualization", "Shown"),
    "cellwright.tools.calculator": ("Answer",),
    "cellwright.tools.web.fetch": ("Fetched",),
    "cellwright.agent": ("ask", "Outcome"),
    "cellwright.agent.trace.steps": ("Step", "CellRun", "Seconds", "Watcher"),
    "cellwright.delegation": ("Usage",),
    "cellwright.plans": ("Planner", "PlanRun", "Plan", "Todo", "Attempt", "Report", "Outline", "TodoOutline", "Check",
                         "Failure", "Proposal"),
    "cellwright.plans.plan_files": ("read_plan", "parse_plan", "write_plan"),
    "cellwright.plans.outlines": ("checked_outline",),
    "cellwright.plans.checks": ("parse_check",),
    "cellwright.plans.drafts": ("draft",),
    "cellwright.verification": ("verify", "Verifier", "Verification", "CheckedCell", "Finding", "Certificate",
                                "Volatile", "MaskPattern", "find_problems", "certificate_of", "certificate_state"),
    "cellwright.review": ("review", "Review", "MeasuredCell", "Hint", "Offer", "apply_rewrites", "find_spots",
                          "data_of"),
}  # fmt: skip
"""What programs import, by the module that they import it from."""


MADE_BY_PROGRAMS = frozenset({"Fetcher", "Files", "Planner", "Verifier"})
WITH_PARTS = frozenset({"Engine", "Session"})
"""Whose attributes are parts for the engine's own use."""


def library() -> str:
    parts = [
        "# All calls of the library\n",
        MADE + "[Library](../library.md) says which call is for what, with examples.",
    ]
    for module, names in LIBRARY.items():
        parts.append(f"\n## From `{module}`")
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            about = _class(name, thing) if inspect.isclass(thing) else _call(name, thing)
            parts += [f"\n### `{name}`\n", *about]
    return "\n".join(parts) + "\n"


def _class(name: str, cls: type) -> list[str]:
    if name == "Settings":  # it has a page of its own
        return [_prose(cls)]
    parts = _call(name, cls) if name in MADE_BY_PROGRAMS else [_prose(cls)]
    if rows := [
        f"| `{each}` | {hint and _code(hint)} | {_cell(text)} |" for each, hint, text in _values(cls)
    ]:
        parts += ["", "| has | type | meaning |", "|---|---|---|", *rows]
    for each, member in inspect.getmembers(cls, inspect.isfunction):
        if not each.startswith("_") and each not in vars(BaseException):
            parts += [f"\n#### `{name}.{each}`\n", *_call(each, member)]
    return parts


def _values(cls: type) -> Iterator[tuple[str, str, str]]:
    """What an object can be read for: fields, properties and attributes, each with its type and the text below it."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    start = next((line for line in tree.body if getattr(line, "name", "") == "__init__"), None)
    given = {each.arg: each.annotation for each in _parameters(start)}
    lines = [
        *tree.body,
        *(start.body if isinstance(start, ast.FunctionDef) and cls.__name__ not in WITH_PARTS else ()),
    ]
    for line, after in zip(lines, [*lines[1:], None], strict=True):
        hint: ast.expr | None = None
        if isinstance(line, ast.FunctionDef):
            if not any(ast.unparse(mark) in ("property", "cached_property") for mark in line.decorator_list):
                continue
            name, hint, text = line.name, line.returns, ast.get_docstring(line) or ""
        elif isinstance(line, ast.AnnAssign | ast.Assign):
            name = ast.unparse(line.target if isinstance(line, ast.AnnAssign) else line.targets[0])
            if line in tree.body and not isinstance(line, ast.AnnAssign):
                continue
            if line not in tree.body and not name.startswith("self."):
                continue
            name = name.removeprefix("self.")
            hint = line.annotation if isinstance(line, ast.AnnAssign) else given.get(name)
            text = _text_of(after)
        else:
            continue
        written = _alternatives(cls, ast.unparse(hint)) if hint else ""
        if name.isidentifier() and not name.startswith("_") and not written.startswith("ClassVar"):
            yield name, written, text


def _parameters(start: ast.stmt | None) -> Iterator[ast.arg]:
    if isinstance(start, ast.FunctionDef):
        yield from (*start.args.posonlyargs, *start.args.args, *start.args.kwonlyargs)


def _text_of(line: ast.stmt | None) -> str:
    is_text = isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    return str(line.value.value) if is_text else ""


def _alternatives(cls: type, hint: str) -> str:
    """The values of a type that is a name for a few of them."""
    named = getattr(sys.modules[cls.__module__], hint, None)
    return " | ".join(f'"{one}"' for one in get_args(named)) if get_origin(named) is Literal else hint


class _Written(str):
    """An annotation as it is written, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _call(name: str, function: Any) -> list[str]:
    signature = inspect.signature(function)
    given = [
        each.replace(
            default=_Written("…") if " at 0x" in repr(each.default) else each.default,
            annotation=_Written(each.annotation) if isinstance(each.annotation, str) else each.annotation,
        )
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    returned = signature.return_annotation
    signature = signature.replace(
        parameters=given, return_annotation=_Written(returned) if isinstance(returned, str) else returned
    )
    begun = "await " if inspect.iscoroutinefunction(function) else ""
    return [f"```python no-run\n{begun}{name}{signature}\n```\n", _prose(function)]


def _prose(thing: Any) -> str:
    """A docstring as Markdown."""
    text = inspect.getdoc(thing) or ""
    if isinstance(thing, type) and text.startswith(f"{thing.__name__}("):
        return ""
    text = re.sub(r"^(Raises|Args|Returns|Yields):\n((?: +.*\n?|\n)*)", _block, text, flags=re.MULTILINE)
    return text.replace("``", "`").replace("<", "&lt;").strip()


def _block(match: re.Match[str]) -> str:
    lines = re.sub(r"^ {4}(\w+): ", r"- `\1`: ", match[2], flags=re.MULTILINE)
    return f"{match[1]}:\n\n{inspect.cleandoc(lines)}\n"

"""``cellwright install CLIENT``: tells an MCP client of us, in its own settings file, and keeps a copy of the old one."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cellwright.cli._arguments import Argument, Exit, Option
from cellwright.cli._terminal import AsJson, ExitCode, echo, show_error
from cellwright.cli._uv_tool import is_in_cache, lasting_executable
from cellwright.errors import CellwrightError

__all__ = ["CLIENTS", "CannotMerge", "Launch", "install"]
# How each MCP client is told of a server: which file, which words, and how to add ours without losing
# theirs.


NAME = "cellwright"

_INDENT = re.compile(r"^\{\s*\n([ \t]+)")

_HEADER = re.compile(r"^\s*\[", re.MULTILINE)


class CannotMerge(CellwrightError):
    """A client's file cannot be changed without losing something."""

    code = "cannot_merge"


@dataclass(frozen=True, slots=True)
class Launch:
    """How the client is to start us."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


Merge: TypeAlias = Callable[[str, Launch | None], str]

Place: TypeAlias = Callable[[Path, Mapping[str, str]], Path]


@dataclass(frozen=True, slots=True)
class ClientKind:
    """One client: its user's file, its project's file if it has one, and how to write in them."""

    title: str
    place: Place
    merge: Merge
    in_project: str | None
    afterwards: str


def merge_json(key: str, *, typed: bool) -> Merge:
    """Put our entry into an object of servers, in a JSON file; without a launch take it out."""

    def merge(text: str, launch: Launch | None) -> str:
        if launch is None:
            return _with_entry(text, key, None)
        entry: dict[str, Any] = {"type": "stdio"} if typed else {}
        entry |= {"command": launch.command, "args": list(launch.arguments)}
        if launch.environment:
            entry["env"] = dict(launch.environment)
        return _with_entry(text, key, entry)

    return merge


def merge_toml(text: str, launch: Launch | None) -> str:
    """Put our table into Codex's TOML, or take it out, leaving every other line as it is."""
    before = _parsed_toml(text)
    if NAME in before.get("mcp_servers", {}):
        text = _without_ours(text)
    separator = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    merged = text if launch is None else f"{text}{separator}{_toml_block(launch)}"
    after = _parsed_toml(merged)
    for config in (before, after):
        config.get("mcp_servers", {}).pop(NAME, None)
        if not config.get("mcp_servers", True):
            del config["mcp_servers"]
    if before != after:
        raise CannotMerge("The entry cannot be changed without touching others")
    return merged


def _with_entry(text: str, key: str, entry: dict[str, Any] | None) -> str:
    try:
        config = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise CannotMerge(f"It is not plain JSON ({error}); comments would be lost") from error
    servers = config.setdefault(key, {}) if isinstance(config, dict) else None
    if not isinstance(servers, dict):
        raise CannotMerge(f"Its {key!r} is not an object")
    known = servers.get(NAME)
    if entry is not None:
        servers[NAME] = {**known, **entry} if isinstance(known, dict) else entry
    elif servers.pop(NAME, None) is None:
        return text
    found = _INDENT.match(text)
    indent: str | int = found[1] if found else 2
    return json.dumps(config, indent=indent, ensure_ascii=False) + "\n"


def _parsed_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotMerge(f"It is not TOML that this can add to ({error})") from error


def _toml_block(launch: Launch) -> str:
    # A JSON string or list of strings is also TOML.
    lines = [
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(launch.command, ensure_ascii=False)}",
        f"args = {json.dumps(list(launch.arguments), ensure_ascii=False)}",
        # Else a first turn may begin before Codex has the tools, and go by without them.
        "required = true",
    ]
    if launch.environment:
        pairs = ", ".join(
            f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in launch.environment.items()
        )
        lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines) + "\n"


def _without_ours(text: str) -> str:
    """The text without the lines of our own table, up to the next table."""
    header = re.compile(rf"^\s*\[\s*mcp_servers\s*\.\s*\"?{NAME}\"?\s*[\].].*$", re.MULTILINE)
    while (found := header.search(text)) is not None:
        following = _HEADER.search(text, found.end())
        text = text[: found.start()] + (text[following.start() :] if following else "")
    return text


def _home(*parts: str) -> Place:
    return lambda home, _: home.joinpath(*parts)


def _in(variable: str, name: str, *otherwise: str) -> Place:
    """In the directory that a variable names, or else under the home directory."""

    def place(home: Path, environment: Mapping[str, str]) -> Path:
        given = environment.get(variable)
        return Path(given) / name if given else home.joinpath(*otherwise)

    return place


def _application(folder: str, *parts: str) -> Place:
    """Where a desktop application keeps its settings on this system."""

    def place(home: Path, environment: Mapping[str, str]) -> Path:
        mac = home / "Library" / "Application Support"
        base = mac if mac.is_dir() else Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
        return base.joinpath(folder, *parts)

    return place


_RESTART = "restart it, or reload its MCP servers"

CLIENTS: dict[str, ClientKind] = {
    "claude-code": ClientKind(
        "Claude Code",
        _in("CLAUDE_CONFIG_DIR", ".claude.json", ".claude.json"),
        merge_json("mcpServers", typed=True),
        ".mcp.json",
        "`claude mcp list` shows it",
    ),
    "codex": ClientKind(
        "Codex",
        _in("CODEX_HOME", "config.toml", ".codex", "config.toml"),
        merge_toml,
        ".codex/config.toml",
        "`codex mcp list` shows it",
    ),
    "gemini": ClientKind(
        "Gemini CLI",
        _home(".gemini", "settings.json"),
        merge_json("mcpServers", typed=False),
        ".gemini/settings.json",
        "`gemini mcp list` shows it",
    ),
    "cursor": ClientKind(
        "Cursor",
        _home(".cursor", "mcp.json"),
        merge_json("mcpServers", typed=False),
        ".cursor/mcp.json",
        _RESTART,
    ),
    "vscode": ClientKind(
        "VS Code",
        _application("Code", "User", "mcp.json"),
        merge_json("servers", typed=True),
        ".vscode/mcp.json",
        _RESTART,
    ),
    "claude-desktop": ClientKind(
        "Claude Desktop",
        _application("Claude", "claude_desktop_config.json"),
        merge_json("mcpServers", typed=False),
        None,
        _RESTART,
    ),
}


# Clients start their servers with few of the user's variables: what decides where we look goes into the entry.
_CARRIED = ("XDG_STATE_HOME", "XDG_CONFIG_HOME")

_NEVER_CARRIED = "CELLWRIGHT_TOKEN"

Client = StrEnum("Client", {name.upper().replace("-", "_"): name for name in CLIENTS})  # type: ignore[misc]  # made from the one list


class NotInstalled(CellwrightError):
    code = "not_installed"


def install(
    client: Annotated[Client, Argument(help="Which client.")],
    project: Annotated[bool, Option("--project", help="For this directory only.")] = False,
    dialect: Annotated[str | None, Option(help="Also speak the tools of another system.")] = None,
    toolset: Annotated[
        str | None, Option(help="The sets of tools it begins with: core, unless others are named.")
    ] = None,
    just_print: Annotated[bool, Option("--print", help="Show it and change nothing.")] = False,
    remove: Annotated[bool, Option("--remove", help="Take the entry out again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register Cellwright with an MCP client. Nothing else in its settings is touched."""
    kind = CLIENTS[str(client)]
    try:
        if project and kind.in_project is None:
            raise NotInstalled(f"{kind.title} has no settings for one directory", hint="Leave --project out")
        path = Path.cwd() / (kind.in_project or "") if project else kind.place(Path.home(), os.environ)
        launch = None if remove else _launch(dialect, toolset, install=not just_print)
        if just_print:
            text = kind.merge("", launch)
            echo(json.dumps({"path": str(path), "content": text}) if as_json else text, nl=as_json)
            echo(f"goes into {path}", err=True)
            return
        backup, changed = _change(path, kind.merge, launch)
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.ENGINE_FAILED) from None
    done = {
        "client": str(client),
        "path": str(path),
        "changed": changed,
        "backup": str(backup) if backup else None,
    }
    if as_json:
        echo(json.dumps(done))
        return
    echo(str(path))
    saved = f"; the file as it was: {backup}" if backup else ""
    knows = (
        ("no longer knows" if changed else "did not know")
        if remove
        else "knows"
        if changed
        else "already knew"
    )
    afterwards = "" if remove else f"; {kind.afterwards}"
    echo(f"{kind.title} {knows} Cellwright{saved}{afterwards}", err=True)


def _launch(dialect: str | None, toolset: str | None, *, install: bool) -> Launch:
    return Launch(str(_executable(install=install)), _arguments(dialect, toolset), _environment())


def _change(path: Path, merge: Merge, launch: Launch | None) -> tuple[Path | None, bool]:
    """Change a file as a whole or not at all; the copy of the old one, and whether there was anything to change."""
    path = path.resolve()  # a link to a file kept elsewhere stays a link
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        merged = merge(before, launch) if before or launch is not None else before
        if (before or launch is None) and _same(before, merged):
            return None, False
        path.parent.mkdir(parents=True, exist_ok=True)
        backup = None
        if before:
            backup = path.with_name(f"{path.name}.before-cellwright")
            shutil.copy2(path, backup)
        _replace(path, merged)
    except CannotMerge as error:
        raise CannotMerge(
            f"{path} was left as it is: {error.message}",
            hint="Add what `cellwright install … --print` shows by hand",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise NotInstalled(
            f"{path} cannot be changed: {error}", hint="Use --print and add it by hand"
        ) from error
    return backup, True


def _replace(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(fd, "w", encoding="utf-8") as file:  # a descriptor
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _same(before: str, merged: str) -> bool:
    if before == merged:
        return True
    try:
        return bool(json.loads(before) == json.loads(merged))
    except ValueError:
        return False


def _executable(*, install: bool) -> Path:
    """The command that this installation brings, by its full path: clients may have no PATH worth the name.

    One that runs from a cache is installed where it stays, unless ``install`` is false.
    """
    if is_in_cache(Path(sys.prefix)):
        return lasting_executable(install=install)
    beside = Path(sys.executable).with_name("cellwright")
    if beside.is_file():
        return beside
    found = shutil.which("cellwright")
    if found is None:
        raise NotInstalled("The command `cellwright` is not installed", hint="pip install cellwright")
    return Path(found).absolute()


def _arguments(dialect: str | None, toolset: str | None) -> tuple[str, ...]:
    speaks = ("--dialect", dialect) if dialect else ()
    # A dialect has its own few tools.
    chosen = toolset or (None if dialect else "core")
    return ("mcp", *speaks, *(("--toolset", chosen) if chosen else ()))


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name in _CARRIED or (name.startswith("CELLWRIGHT_") and name != _NEVER_CARRIED)
    }

"""``cellwright install CLIENT``: tells an MCP client of us, in its own settings file, and keeps a copy of the old one."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cellwright.cli.exits import ExitCode, show_error
from cellwright.cli.registrations import CLIENTS, CannotMerge, Launch
from cellwright.cli.verbs import AsJson
from cellwright.errors import CellwrightError

__all__ = ["install"]

# Clients start their servers with few of the user's variables: what decides where we look goes into the entry.
_CARRIED = ("XDG_STATE_HOME", "XDG_CONFIG_HOME")
_NEVER_CARRIED = "CELLWRIGHT_TOKEN"

Client = StrEnum("Client", {name.upper().replace("-", "_"): name for name in CLIENTS})  # type: ignore[misc]  # made from the one list


class NotInstalled(CellwrightError):
    code = "not_installed"


def install(
    client: Annotated[Client, typer.Argument(help="Which client.")],
    project: Annotated[bool, typer.Option("--project", help="For this directory only.")] = False,  # noqa: FBT002  # typer's way to say a flag
    dialect: Annotated[str | None, typer.Option(help="Also speak the tools of another system.")] = None,
    toolset: Annotated[
        str | None, typer.Option(help="Only these sets of tools, separated by commas.")
    ] = None,
    just_print: Annotated[bool, typer.Option("--print", help="Show it and change nothing.")] = False,  # noqa: FBT002  # as above
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Register Cellwright with an MCP client. Nothing else in its settings is touched."""
    kind = CLIENTS[str(client)]
    try:
        if project and kind.in_project is None:
            raise NotInstalled(f"{kind.title} has no settings for one directory", hint="Leave --project out")
        path = Path.cwd() / (kind.in_project or "") if project else kind.place(Path.home(), os.environ)
        launch = Launch(str(_executable()), _arguments(dialect, toolset), _environment())
        if just_print:
            text = kind.merge("", launch)
            typer.echo(json.dumps({"path": str(path), "content": text}) if as_json else text, nl=as_json)
            typer.echo(f"goes into {path}", err=True)
            return
        backup, changed = _change(path, kind.merge, launch)
    except CellwrightError as error:
        show_error(error)
        raise typer.Exit(ExitCode.ENGINE_FAILED) from None
    done = {
        "client": str(client),
        "path": str(path),
        "changed": changed,
        "backup": str(backup) if backup else None,
    }
    if as_json:
        typer.echo(json.dumps(done))
        return
    typer.echo(path)
    saved = f"; the file as it was: {backup}" if backup else ""
    typer.echo(
        f"{kind.title} {'knows' if changed else 'already knew'} Cellwright{saved}; {kind.afterwards}",
        err=True,
    )


def _change(path: Path, merge: object, launch: Launch) -> tuple[Path | None, bool]:
    """Change a file as a whole or not at all; the copy of the old one, and whether there was anything to change."""
    assert callable(merge)  # noqa: S101  # for the type checker
    path = path.resolve()  # a link to a file kept elsewhere stays a link
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        merged: str = merge(before, launch)
        if before and _same(before, merged):
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
        with open(fd, "w", encoding="utf-8") as file:  # noqa: PTH123  # a descriptor
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


def _executable() -> Path:
    """The command that this installation brings, by its full path: clients may have no PATH worth the name."""
    beside = Path(sys.executable).with_name("cellwright")
    if beside.is_file():
        return beside
    found = shutil.which("cellwright")
    if found is None:
        raise NotInstalled("The command `cellwright` is not installed", hint="pip install cellwright")
    return Path(found).absolute()


def _arguments(dialect: str | None, toolset: str | None) -> tuple[str, ...]:
    speaks = ("--dialect", dialect) if dialect else ()
    return ("mcp", *speaks, *(("--toolset", toolset) if toolset else ()))


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name in _CARRIED or (name.startswith("CELLWRIGHT_") and name != _NEVER_CARRIED)
    }

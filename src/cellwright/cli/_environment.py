"""The commands for what surrounds a session's code: packages and files. Each calls one tool of the daemon."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellwright.cli._mcp_client import ClientContext, call_daemon
from cellwright.cli._notebooks import AsJson, SessionArgument, show_data
from cellwright.cli._terminal import ALL_TOKENS
from cellwright.sandbox.files import quoted_path

__all__ = ["files_app", "packages_app"]

packages_app = typer.Typer(name="packages", help="Packages of a session.", no_args_is_help=True)


@packages_app.command("add")
def add_packages(
    session: SessionArgument,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="For instance `polars` or `polars>=1`.")
    ],
    as_json: AsJson = False,
) -> None:
    """Install approved packages for a Python session; they can be imported at once."""
    data = call_daemon(lambda caller: caller.data("package_install", session_id=session, packages=names))
    lines = [
        *data.get("installed", ()),
        *(f"{name}: already there" for name in data.get("already_there", ())),
    ]
    show_data(data, "\n".join(lines), as_json=as_json)


files_app = typer.Typer(
    name="files", help="Files of the data directory and of sessions.", no_args_is_help=True
)
Paths = Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Only these. [default: all]")]


@files_app.command("list")
def list_files(
    session: SessionArgument,
    paths: Paths = None,
    as_json: AsJson = False,
) -> None:
    """List files with what became of them, type, size and the real directory they lie in."""
    data = _files(session, "list", paths)
    lines = [
        f"{one.get('change', ''):<8}{one['size']:>12}  {one['type']:<9}  {quoted_path(one['path'])}"
        + ("  (changed in the project meanwhile)" if one.get("conflict") else "")
        for one in data["files"]
    ]
    if data["more_files"]:
        lines.append(f"… {data['more_files']} more")
    show_data(data, "\n".join(lines), as_json=as_json)
    typer.echo(f"in {data['directory']}", err=True)


@files_app.command("diff")
def diff_files(
    session: SessionArgument,
    paths: Paths = None,
    as_json: AsJson = False,
) -> None:
    """Show what a session in overlay mode would change in the project."""
    data = _files(session, "diff", paths)
    show_data(data, data["diff"].rstrip("\n"), as_json=as_json)


@files_app.command("apply")
def apply_files(
    session: SessionArgument,
    paths: Paths = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what changed there meanwhile.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring what a session in overlay mode wrote over into the project.

    What tools run by themselves (.git, .venv, a Makefile and the like) and new programs stay behind unless you name them.
    """
    data = _files(session, "apply", paths, force=force)
    lines = [f"{one['change']}: {quoted_path(one['path'])}" for one in data["applied"]]
    show_data(data, "\n".join(lines), as_json=as_json)
    for path, why in data.get("skipped", {}).items():
        typer.echo(f"skipped: {quoted_path(path)} is {why}", err=True)


def _files(session: str, action: str, paths: list[str] | None, *, force: bool = False) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "action": action,
        "paths": paths or None,
        "force": force,
        "max_tokens": ALL_TOKENS,
    }
    given = ClientContext(applied=tuple(paths or ())) if action == "apply" else None
    return call_daemon(lambda caller: caller.data("session_files", session_id=session, **asked), given)

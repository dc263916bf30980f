"""The commands for what surrounds a session's code: packages and files. Each calls one tool of the daemon."""

from __future__ import annotations

from typing import Annotated, Any

from cellwright.cli._arguments import Argument, Option
from cellwright.cli._mcp_client import ClientContext, call_daemon
from cellwright.cli._notebooks import SessionArgument
from cellwright.cli._terminal import ALL_TOKENS, AsJson, echo, show_data, table

__all__ = ["add_packages", "apply_files", "diff_files", "list_files"]


def add_packages(
    session: SessionArgument,
    names: Annotated[list[str], Argument(metavar="NAME...", help="For instance `polars` or `polars>=1`.")],
    as_json: AsJson = False,
) -> None:
    """Install approved packages for a Python session; they can be imported at once."""
    data = call_daemon(
        lambda caller: caller.data("package_install", session_id=session, packages=names),
        asks=True,
        doing=f"installing {', '.join(names)}",
    )
    lines = [
        *data.get("installed", ()),
        *(f"{name}: already there" for name in data.get("already_there", ())),
    ]
    show_data(data, "\n".join(lines), as_json=as_json)


Paths = Annotated[list[str] | None, Argument(metavar="PATH", help="Only these. [default: all]")]


def list_files(
    session: SessionArgument,
    paths: Paths = None,
    as_json: AsJson = False,
) -> None:
    """List files with what became of them, type, size and the real directory they lie in."""
    from cellwright.sandbox.files import quoted_path  # of no use to other commands

    data = _files(session, "list", paths)
    rows = [
        (
            one.get("change", ""),
            one["size"],
            one["type"],
            quoted_path(one["path"])
            + ("  (changed in the project meanwhile)" if one.get("conflict") else ""),
        )
        for one in data["files"]
    ]
    more = f"\n… {data['more_files']} more" if data["more_files"] else ""
    show_data(data, table(("CHANGE", "BYTES", "TYPE", "PATH"), rows) + more, as_json=as_json)
    echo(f"in {data['directory']}", err=True)


def diff_files(
    session: SessionArgument,
    paths: Paths = None,
    as_json: AsJson = False,
) -> None:
    """Show what a session in overlay mode would change in the project."""
    data = _files(session, "diff", paths)
    show_data(data, data["diff"].rstrip("\n"), as_json=as_json)


def apply_files(
    session: SessionArgument,
    paths: Paths = None,
    force: Annotated[bool, Option("--force", help="Overwrite what changed there meanwhile.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring what a session in overlay mode wrote over into the project.

    What tools run by themselves (.git, .venv, a Makefile and the like) and new programs stay behind unless you name them.
    """
    from cellwright.sandbox.files import quoted_path  # as above

    data = _files(session, "apply", paths, force=force)
    lines = [f"{one['change']}: {quoted_path(one['path'])}" for one in data["applied"]]
    show_data(data, "\n".join(lines), as_json=as_json)
    for path, why in data.get("skipped", {}).items():
        echo(f"skipped: {quoted_path(path)} is {why}", err=True)


def _files(session: str, action: str, paths: list[str] | None, *, force: bool = False) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "action": action,
        "paths": paths or None,
        "force": force,
        "max_tokens": ALL_TOKENS,
    }
    given = ClientContext(applied=tuple(paths or ())) if action == "apply" else None
    doing = "bringing files over" if action == "apply" else "looking at files"
    return call_daemon(
        lambda caller: caller.data("session_files", session_id=session, **asked),
        given,
        asks=True,
        doing=doing,
    )

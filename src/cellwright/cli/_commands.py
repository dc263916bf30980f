"""Every command of the command line, but for ``mcp``, which is quicker without this."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Annotated

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

import cellwright
from cellwright.cli import _allocations, _checkpoints, _executions, _notebooks, _oneshot, _plans
from cellwright.cli._ask import ask
from cellwright.cli._audit import audit_app
from cellwright.cli._chat import chat
from cellwright.cli._daemons import daemon_app
from cellwright.cli._doctor import doctor
from cellwright.cli._environment import files_app, packages_app
from cellwright.cli._exchange import export_notebook, import_notebook
from cellwright.cli._folders import folders_app
from cellwright.cli._install import install
from cellwright.cli._lab import lab
from cellwright.cli._mcp import mcp
from cellwright.cli._new import new
from cellwright.cli._oneshot import calc, fetch, visualize
from cellwright.cli._people import people_app
from cellwright.cli._replays import replay
from cellwright.cli._review import review
from cellwright.cli._run import run
from cellwright.cli._serve import serve, ui
from cellwright.cli._traces import conversations_app, trace
from cellwright.cli._verify import verify

__all__ = ["app", "narrowed"]

app = typer.Typer(
    name="cellwright",
    help="The notebook computer for AI agents.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    # Rich's own markup would take "[default: all]" for a style, and show nothing of it.
    rich_markup_mode="markdown",
)
app.command()(ask)
app.command()(chat)
app.command()(run)
app.command()(new)
_notebooks.add_commands(app)
app.command("export")(export_notebook)
app.command("import")(import_notebook)
_executions.add_commands(app)
_plans.add_commands(app)
app.command()(fetch)
app.command()(replay)
app.command()(verify)
app.command()(review)
app.command()(visualize)
_checkpoints.add_commands(app)
_allocations.add_commands(app)
_oneshot.add_commands(files_app)
# What begins with a dash may be a negative number.
app.command(context_settings={"ignore_unknown_options": True})(calc)
app.add_typer(conversations_app)
app.command()(trace)
app.add_typer(files_app)
app.add_typer(packages_app)
app.add_typer(daemon_app)
app.command()(serve)
app.command()(ui)
app.add_typer(people_app)
app.add_typer(folders_app)
app.add_typer(audit_app)
app.command()(lab)
app.command()(install)
app.command()(doctor)


@app.command(
    "mcp", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def _mcp(context: typer.Context) -> None:
    """Serve MCP on stdin and stdout, for a client that starts its servers."""
    raise typer.Exit(mcp(context.args))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(cellwright.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def narrowed(program: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """Return the program with only the command that these arguments name first, or all of it if they name none.

    Typer builds every command before it runs one: a tenth of a second of processor time.
    """
    name = arguments[0] if arguments else ""
    commands = [command for command in program.registered_commands if _name(command) == name]
    groups = [
        group
        for group in program.registered_groups
        if group.typer_instance is not None and group.typer_instance.info.name == name
    ]
    if not commands and not groups:
        return program
    narrow = copy(program)
    narrow.registered_commands, narrow.registered_groups = commands, groups
    return narrow


def _name(command: CommandInfo) -> str:
    """Return what a command is called on the command line."""
    if command.name is not None or command.callback is None:
        return command.name or ""
    return get_command_name(command.callback.__name__)

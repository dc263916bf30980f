"""Every verb of the command line, but for ``mcp``, which is quicker without this."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Annotated

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

import cellwright
from cellwright.cli import allocations, checkpoints, executions, notebooks, oneshot, plans
from cellwright.cli.ask import ask
from cellwright.cli.audit import audit_app
from cellwright.cli.chat import chat
from cellwright.cli.daemons import daemon_app
from cellwright.cli.doctor import doctor
from cellwright.cli.environment import files_app, packages_app
from cellwright.cli.exchange import export_notebook, import_notebook
from cellwright.cli.install import install
from cellwright.cli.lab import lab
from cellwright.cli.mcp import mcp
from cellwright.cli.new import new
from cellwright.cli.oneshot import calc, fetch, visualize
from cellwright.cli.people import people_app
from cellwright.cli.replays import replay
from cellwright.cli.review import review
from cellwright.cli.run import run
from cellwright.cli.serve import serve, ui
from cellwright.cli.traces import conversations_app, trace
from cellwright.cli.verify import verify

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
notebooks.add_commands(app)
app.command("export")(export_notebook)
app.command("import")(import_notebook)
executions.add_commands(app)
plans.add_commands(app)
app.command()(fetch)
app.command()(replay)
app.command()(verify)
app.command()(review)
app.command()(visualize)
checkpoints.add_commands(app)
allocations.add_commands(app)
oneshot.add_commands(files_app)
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

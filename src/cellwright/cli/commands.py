"""The command line: data on stdout, all else on stderr, ``--json`` on every verb. Translates; decides nothing."""

from __future__ import annotations

from typing import Annotated

import typer

import cellwright
from cellwright.cli.doctor import doctor
from cellwright.cli.run import run

__all__ = ["app", "main"]

app = typer.Typer(
    name="cellwright",
    help="The notebook computer for AI agents.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(doctor)


def main() -> None:
    app()


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer's callback
    if wanted:
        typer.echo(cellwright.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: FBT002  # typer's way to say a flag
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass

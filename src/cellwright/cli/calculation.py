"""The verb that calculates, in this process: it needs no daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from cellwright.cli.exits import ExitCode, show_error
from cellwright.cli.verbs import AsJson, note, show_data
from cellwright.errors import CellwrightError

__all__ = ["calc"]


def calc(
    expression: Annotated[
        list[str], typer.Argument(metavar="EXPRESSION...", help="Such as `3 ft + 20 cm to m`.")
    ],
    as_json: AsJson = False,  # noqa: FBT002  # typer's way to say a flag
) -> None:
    """Calculate: exact numbers, units, statistics, matrices, dates."""
    from cellwright.tools.calculator import calculate, described  # noqa: PLC0415  # of no use to other verbs

    try:
        answer = calculate(" ".join(expression))
    except CellwrightError as error:
        show_error(error)
        raise typer.Exit(ExitCode.RUN_FAILED) from None
    if not as_json:
        for told in answer.notes:
            note(told)
    show_data(described(answer), answer.result, as_json=as_json)

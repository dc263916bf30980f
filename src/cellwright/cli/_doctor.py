"""``cellwright doctor``: shows what was examined (see ``examination``)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cellwright.cli._terminal import ExitCode

if TYPE_CHECKING:
    from cellwright.cli._examination import Finding, Verdict

__all__ = ["doctor"]

_MARKS: dict[Verdict, str] = {"ok": "[green]✓[/]", "missing": "[yellow]○[/]", "failed": "[red]✗[/]"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Report interpreter, fork server, limits, and what is missing with the command that adds it."""
    from cellwright.cli._examination import examine  # other commands do without the engine

    findings = list(examine())
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _show(findings)
    failed = any(finding.verdict == "failed" for finding in findings)
    raise typer.Exit(ExitCode.RUN_FAILED if failed else ExitCode.OK)


def _show(findings: list[Finding]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(_MARKS[finding.verdict], escape(finding.what), escape(finding.detail))
        if finding.fix is not None:
            table.add_row("", "", f"→ {escape(finding.fix)}")
    Console().print(table)

"""``cellwright doctor``: shows what was examined (see ``_examination``)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cellwright.cli._arguments import Exit, Option
from cellwright.cli._terminal import ExitCode, ProgressLine, echo, note

if TYPE_CHECKING:
    from cellwright.cli._examination import Finding, Verdict

__all__ = ["doctor"]

_MARKS: dict[Verdict, str] = {"failed": "[red]✗[/]", "missing": "[yellow]○[/]", "ok": "[green]✓[/]"}
_ORDER = tuple(_MARKS)
_LIMIT = "limit "


def doctor(
    everything: Annotated[bool, Option("--all", help="Also show the limits that are set.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Try what sessions need: what is wrong or missing comes first, with the command that fixes it."""
    findings: list[Finding] = []
    with ProgressLine("trying what sessions need") as line:
        from cellwright.cli._examination import examine  # other commands do without the engine

        for finding in examine():
            findings.append(finding)
            line.doing(f"after {finding.what}")
    if as_json:
        echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _show(findings, everything=everything)
    failed = any(finding.verdict == "failed" for finding in findings)
    raise Exit(ExitCode.RUN_FAILED if failed else ExitCode.OK)


def _show(findings: list[Finding], *, everything: bool) -> None:
    from rich.console import Console  # as above
    from rich.markup import escape
    from rich.table import Table

    shown = [one for one in findings if everything or not one.what.startswith(_LIMIT)]
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in sorted(shown, key=lambda one: _ORDER.index(one.verdict)):
        table.add_row(_MARKS[finding.verdict], escape(finding.what), escape(finding.detail))
        if finding.fix is not None:
            table.add_row("", "", f"→ {escape(finding.fix)}")
    Console().print(table)
    counts = [sum(one.verdict == verdict for one in shown) for verdict in _ORDER]
    note("{} failed, {} missing, {} in order".format(*counts))
    if len(shown) < len(findings):
        note(f"`cellwright doctor --all` also shows {len(findings) - len(shown)} limits")

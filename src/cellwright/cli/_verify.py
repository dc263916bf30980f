"""The command ``verify``: runs a notebook from the top in a clean kernel and shows what does not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import anyio

from cellwright.cli._arguments import Exit, Option
from cellwright.cli._mcp_client import Caller, call_daemon
from cellwright.cli._session_names import NotebookArgument
from cellwright.cli._terminal import TURN_S, AsJson, ExitCode, ProgressLine, echo

__all__ = ["verify"]


def verify(
    session: NotebookArgument,
    tolerance: Annotated[
        float | None,
        Option(min=0, max=0.99, help="How far apart numbers may be, relative to the larger. [default: 1e-9]"),
    ] = None,
    mask: Annotated[
        list[str] | None,
        Option(metavar="NAME|REGEX", help="What may differ: times, dates, uuids, paths, or a pattern."),
    ] = None,
    timeout: Annotated[float | None, Option(min=0.001, help="Seconds a cell may run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a notebook from the top in a clean kernel and compare. Exits 0 if it is verified, else 1."""
    asked: dict[str, Any] = {
        "tolerance": tolerance,
        "mask": mask or None,
        "timeout_s": timeout,
    }

    async def run(caller: Caller) -> dict[str, Any]:
        named = await _session(caller, session)
        # Whoever interrupts means the verification, so it is known to have begun even then.
        with anyio.CancelScope(shield=True):
            begun = await _ask(caller, named, wait_s=0, **asked)
        return begun if begun["status"] != "running" else await _finished(caller, begun["session_id"])

    found = call_daemon(run)
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
    else:
        _show(found)
    raise Exit(ExitCode.OK if found["verified"] else ExitCode.RUN_FAILED)


async def _session(caller: Caller, named: str) -> str:
    """The session of a notebook's file, which is opened if need be; anything else names a session already."""
    if not named.endswith(".ipynb"):
        return named
    path = await anyio.to_thread.run_sync(Path(named).resolve)
    opened = await caller.data("notebook_open", path=str(path), mode="direct")
    return str(opened["session_id"])


async def _ask(caller: Caller, session: str, *, progress: Any = None, **arguments: Any) -> dict[str, Any]:
    return await caller.data(
        "plan_verify", progress=progress, session_id=session, response_format="json", **arguments
    )


async def _finished(caller: Caller, session: str) -> dict[str, Any]:
    """The same verification, once it is over. An interrupt stops it first, and nothing is left of it."""
    try:
        with ProgressLine() as line:
            while True:
                found = await _ask(
                    caller, session, progress=line.tell if line.wanted else None, wait_s=TURN_S
                )
                if found["status"] != "running":
                    return found
    except anyio.get_cancelled_exc_class():
        with caller.stopping():
            await _ask(caller, session, cancel=True)
            echo("stopped; nothing is left of it, and the notebook keeps the certificate it had", err=True)
        raise


def _show(found: dict[str, Any]) -> None:
    for finding in found["findings"]:
        echo(f"{finding['kind']:<13}  {finding['cell_id']}  {finding['message']}")
    for cell in found["cells"]:
        what = "same" if cell["same"] else "different"
        echo(f"{what:<13}  {cell['cell_id']}  {cell['status']}")
        for each in cell.get("differences", ()):
            shown = "".join(f"\n  {line}" for line in each["shown"].splitlines())
            echo(f"  {each['output']}: {each['why']}{shown}")
    for cell in found["not_run"]:
        echo(f"{'not run':<13}  {cell}")
    if found.get("reason"):
        echo(f"error: {found['reason']}", err=True)
    verdict = "verified" if found["verified"] else "not verified"
    certificate = found.get("certificate")
    about = ""
    if certificate is not None:
        inputs, packages = len(certificate["inputs"]), len(certificate["packages"])
        about = f", {packages} packages, {inputs} input files, {certificate['seconds']:g} s"
    echo(f"{verdict}: {found['done']} of {found['total']} cells{about}", err=True)

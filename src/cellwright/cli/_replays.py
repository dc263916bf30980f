"""The command ``replay``: brings a session's state back in a new kernel and shows what came out differently."""

from __future__ import annotations

import json
from typing import Annotated, Any

import anyio

from cellwright.cli._allocations import host_named
from cellwright.cli._arguments import Exit, Option
from cellwright.cli._flags import HostOption
from cellwright.cli._mcp_client import Caller, Progress, call_daemon
from cellwright.cli._session_names import NotebookArgument, session_of
from cellwright.cli._terminal import ALL_TOKENS, TURN_S, AsJson, ExitCode, ProgressLine, echo

__all__ = ["replay", "replay_all"]


def replay(
    session: NotebookArgument,
    upto: Annotated[str | None, Option(help="End with this cell, or this execution.")] = None,
    timeout: Annotated[
        float | None, Option(min=0.001, help="Seconds each step may run. [default: as it had]")
    ] = None,
    host: HostOption = None,
    as_json: AsJson = False,
) -> None:
    """Run again, in a new kernel, what made a session's state. Exits 0 if all came out the same, else 1."""
    asked: dict[str, Any] = {
        "upto": upto,
        "timeout_s": timeout,
        "host": host_named(host),
    }

    async def run(caller: Caller) -> dict[str, Any]:
        return await replay_all(caller, await session_of(caller, session), **asked)

    found = call_daemon(run)
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
    else:
        _show(found)
    raise Exit(ExitCode.OK if found["same"] else ExitCode.RUN_FAILED)


async def replay_all(caller: Caller, session: str, **asked: Any) -> dict[str, Any]:
    """Replay a session and return what came of it. An interrupt stops the replay."""
    # Whoever interrupts means the replay, so its id is awaited even then.
    with anyio.CancelScope(shield=True):
        begun = await caller.data(
            "notebook_replay", session_id=session, **asked, wait_s=0, response_format="json"
        )
    return await _finished(caller, begun)


async def _finished(caller: Caller, begun: dict[str, Any]) -> dict[str, Any]:
    """The same replay, once it is over. An interrupt stops it first."""
    try:
        with ProgressLine() as line:
            return await _waited(caller, begun, progress=line.tell if line.wanted else None)
    except anyio.get_cancelled_exc_class():
        with caller.stopping():
            await caller.data("kernel_interrupt", session_id=begun["session_id"])
            # Not before can the session be replayed again.
            await _waited(caller, begun)
        raise


async def _waited(
    caller: Caller, begun: dict[str, Any], *, progress: Progress | None = None
) -> dict[str, Any]:
    while True:
        found = await caller.data(
            "notebook_replay",
            progress=progress,
            session_id=begun["session_id"],
            replay_id=begun["replay_id"],
            wait_s=TURN_S,
            response_format="json",
            max_tokens=ALL_TOKENS,
        )
        if found["status"] != "running":
            return found


def _show(found: dict[str, Any]) -> None:
    for step in found["steps"]:
        what = "same" if step["same"] else "different"
        echo(f"{what:<9}  {step['status']:<11}  {step['execution_id']}  {step['cell_id'] or 'scratch'}")
        for each in step.get("differences", ()):
            shown = "".join(f"\n  {line}" for line in each["shown"].splitlines())
            echo(f"  {each['output']}: {each['why']}{shown}")
    if more := found.get("more_steps"):
        echo(f"… {more} more steps")
    if more := found.get("more_differences"):
        echo(f"… {more} more differences")
    for cell in found["not_run"]:
        echo(f"not run    {'-':<11}  {'-':<12}  {cell or 'scratch'}")
    for cell in found["edited"]:
        echo(f"note: cell {cell} was edited or deleted since; what had run ran", err=True)
    if not found["total"]:
        echo("note: nothing had run in this session; `cellwright exec` runs its cells", err=True)
    if found.get("reason"):
        echo(f"error: {found['reason']}", err=True)
    echo(
        f"{found['done']} of {found['total']} steps in generation {found['generation']} of {found['session_id']}",
        err=True,
    )

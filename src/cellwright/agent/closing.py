"""The end of a run: numbers traced to outputs, the notebook run from the top, and all of it put into an outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cellwright.agent.branches import Branch
from cellwright.agent.evidence.numbers import trace_numbers
from cellwright.agent.patterns.choosing import Chosen
from cellwright.agent.questions import Outcome
from cellwright.agent.running import Run
from cellwright.agent.trace.steps import StepKind
from cellwright.engine import Session
from cellwright.errors import CellwrightError
from cellwright.mcp.uris import cell_output_uri

__all__ = ["closed"]

_VERIFY_WAIT_MS = 280_000
_VERIFY_LEAST_MS = 5_000
_PICTURE = "image/png"


async def closed(run: Run, branch: Branch, chosen: Chosen, conversation_id: str) -> Outcome:
    """What came of a run."""
    session = branch.session
    traced = trace_numbers(branch.answer, await run.evidence(branch))
    verified = await _verified(run, branch) if branch.ok and run.question.verify else None
    kind: StepKind = "answer" if branch.ok else "stop"
    async with run.trace.step(kind, role="agent", branch=branch.label) as step:
        step.session_id = branch.session_id
        step.result, step.failed = (traced.marked, False) if branch.ok else (branch.report, True)
    spending = run.spending
    return Outcome(
        answer=traced.marked if branch.ok else "",
        ok=branch.ok,
        run_id=run.trace.run_id,
        conversation_id=conversation_id,
        pattern=chosen.pattern,
        why=chosen.why,
        session_id=branch.session_id,
        notebook=Path(session.path) if session is not None else None,
        charts=_charts(session, branch) if session is not None else (),
        files=_files(session, branch) if session is not None else (),
        untraced=traced.untraced,
        verified=verified,
        report=branch.report,
        models=tuple(run.models),
        usage=spending.usage,
        steps=spending.steps,
        seconds=spending.seconds,
    )


async def _verified(run: Run, branch: Branch) -> bool | None:
    """Whether the notebook puts out the same in a clean kernel; None where it has no code, or that was not found out."""
    session = branch.session
    if session is None or session.held_by is not None or not any(cell.runs for cell in session.cells):
        return None
    async with run.trace.step("verify", role="engine", branch=branch.label) as step:
        step.session_id = session.id
        wait_ms = _wait_ms(run.spending.seconds_left)
        try:
            reply = await branch.face.data("plan_verify", {"wait": wait_ms, "response_format": "json"})
        except CellwrightError as error:  # the answer is there, and stays
            verified, step.note = None, f"Not verified: {error}"
        else:
            verified, step.note = _verdict(reply)
        step.failed = verified is not True
    return verified


def _wait_ms(seconds_left: float | None) -> int:
    """As long as the budget lasts; a notebook that is quick is verified whatever is left."""
    left_ms = _VERIFY_WAIT_MS if seconds_left is None else int(seconds_left * 1_000)
    return max(_VERIFY_LEAST_MS, min(left_ms, _VERIFY_WAIT_MS))


def _verdict(reply: dict[str, Any]) -> tuple[bool | None, str]:
    if reply["status"] == "running":
        return None, f"Not verified yet: {reply['done']} of {reply['total']} cells ran again, and it goes on"
    return bool(reply["verified"]), str(reply.get("reason") or _differences(reply))


def _differences(reply: dict[str, Any]) -> str:
    different = [one["cell_id"] for one in reply["cells"] if not one["same"]]
    return f"{reply['done']} of {reply['total']} cells ran again" + (
        f"; different: {', '.join(different)}" if different else ", all the same"
    )


def _charts(session: Session, branch: Branch) -> tuple[str, ...]:
    """The addresses of the pictures that this run's cells show now."""
    ran = dict.fromkeys(one.cell_id for one in branch.runs)
    return tuple(
        cell_output_uri(session.id, cell.id, place)
        for cell in session.cells
        if cell.id in ran
        for place, output in enumerate(cell.outputs)
        if _PICTURE in output.get("data", {})
    )


def _files(session: Session, branch: Branch) -> tuple[str, ...]:
    """What this run's cells left in the working directory."""
    left: dict[str, None] = {}
    for execution_id in branch.executions:
        execution = session.runs.find(execution_id)
        left |= {file.path: None for file in execution.files} if execution is not None else {}
    return tuple(left)

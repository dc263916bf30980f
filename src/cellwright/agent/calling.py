"""One call of a tool on a branch: traced, its failed cell mended by rule where that is certain, its failures counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ToolCallPart

from cellwright.agent.branches import Branch
from cellwright.agent.naming import by_id, check_call
from cellwright.agent.repairing import Mended, mend, stop_report
from cellwright.agent.toolbox import ToolReply
from cellwright.engine import Execution, Session
from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from cellwright.agent.running import Run
    from cellwright.agent.trace.steps import Step

__all__ = ["MAX_FAILURES", "call_tool"]

MAX_FAILURES = 3
"""Cells in a row that may fail."""
_MAKES = frozenset({"notebook_create"})
_USUAL = {"mode": ("overlay", "private"), "host": ("local",)}
_MENDS_ITSELF = frozenset({"plan_create", "plan_run", "plan_fix", "execution_wait"})
"""Whose cells are a plan's, or were seen to when they began."""
_READS = frozenset({"notebook_read", "plan_status", "execution_wait"})


@dataclass(frozen=True, slots=True)
class Before:
    """What there was before a call."""

    session: Session | None
    runs: int = 0
    cells: frozenset[str] = frozenset()

    @classmethod
    def of(cls, branch: Branch) -> Before:
        session = branch.session
        if session is None:
            return cls(None)
        return cls(session, session.runs.count, frozenset(cell.id for cell in session.cells))


async def call_tool(run: Run, branch: Branch, call: ToolCallPart) -> ToolReply:
    """Run one call."""
    async with run.trace.step("call", role="act", branch=branch.label, tool=call.tool_name) as step:
        before = Before.of(branch)
        try:
            step.arguments = call.args_as_dict(raise_if_invalid=True)
        except ValueError as error:
            reply = ToolReply(f"The arguments of {call.tool_name} are no JSON object: {error}", failed=True)
        else:
            reply = await _called(run, branch, call.tool_name, step.arguments)
            _give_way(branch, reply)
        if branch.session is not before.session:
            before = Before(branch.session)
        reply = await _settled(run, branch, call.tool_name, reply, before)
        await _note(run, branch, step, reply, before)
    return reply


def _give_way(branch: Branch, reply: ToolReply) -> None:
    """End the run where a call failed in a session that a person has: each further one would be refused as well.

    Raises:
        SessionTaken: a person has taken it over.
    """
    if reply.failed and branch.session is not None:
        branch.session.refuse_if_taken()


async def _called(run: Run, branch: Branch, name: str, arguments: dict[str, Any]) -> ToolReply:
    current = run.notebook(branch)
    wrong = check_call(
        arguments,
        current=current,
        known=run.notebooks(),
        reads=name in _READS,
        asked=run.question.text,
    )
    if wrong is not None:
        return ToolReply(wrong.message, failed=True)
    if (unasked := _unasked(name, arguments, run.question.text)) is not None:
        return ToolReply(unasked, failed=True)
    arguments = by_id(arguments, current)
    # A cell that fails leaves no trace, unless the model says otherwise.
    careful = (
        {"on_error": "rollback", **arguments} if name in {"cell_add_and_run", "cell_execute"} else arguments
    )
    return await branch.tools.call(name, careful)


def _unasked(name: str, arguments: dict[str, Any], question: str) -> str | None:
    """Where code may write and run is for the person to say: data that a model read may have talked it into it."""
    if name not in _MAKES:
        return None
    for key, usual in _USUAL.items():
        value = str(arguments.get(key) or "").lower()
        if value and value not in usual and not _asks_for(question, key, value.partition(":")[0]):
            return f"{name}: {key}={value!r} is only for a user who asks for it. Leave it out."
    return None


def _asks_for(question: str, key: str, word: str) -> bool:
    """Whether a question says this of a mode or a host, as in "direct mode", "mode=direct" or "on slurm:big".

    The word alone may be about anything: directions, directories, a Jupyter notebook.
    """
    said = re.escape(word)
    place = r"|\bon\s+(?:the\s+|our\s+|my\s+)?" + said + r"\b" if key == "host" else ""
    return re.search(rf"\b{said}\s+{key}\b|\b{key}\W+{said}\b{place}", question, re.IGNORECASE) is not None


async def _settled(run: Run, branch: Branch, tool: str, reply: ToolReply, before: Before) -> ToolReply:
    """The reply once a failed cell was mended, or taken out again."""
    session = branch.session
    if session is None or tool in _MENDS_ITSELF or session.runs.count == before.runs:
        return reply
    # Others may run cells in the same notebook: theirs are not mended, and not taken out.
    own = [one for one in await run.engine.history(session.id, after=before.runs) if one.id in branch.begun]
    if not own:
        return reply
    newest = own[-1]
    if not newest.done or newest.ok or newest.cell_id is None:
        branch.failures = 0 if newest.ok else branch.failures
        return reply
    mended = await mend(run.engine, session, newest, tries=MAX_FAILURES, begun=branch.begun)
    if mended.fixes:
        async with run.trace.step("repair", role="fixer", branch=branch.label) as step:
            step.session_id, step.note, step.failed = session.id, mended.text, not mended.ok
    if mended.ok:
        branch.failures = 0
        return await _mended_reply(branch, tool, reply, mended)
    branch.failures += 1
    if branch.failures >= MAX_FAILURES or not mended.may_go_on:
        # Each try after the first was a model's fix. Told before the cell is taken out: it has a number yet.
        fixes = len(mended.fixes) + branch.failures - 1
        branch.report = stop_report(session, mended, task=run.question.text, fixes=fixes).text
    taken_out = await _taken_out(session, before, mended.execution)
    return ToolReply("\n".join(filter(None, [reply.text, mended.text, taken_out])), failed=True)


async def _mended_reply(branch: Branch, tool: str, reply: ToolReply, mended: Mended) -> ToolReply:
    again = await branch.face.call("execution_wait", {"execution_id": mended.execution.id})
    text = f"{mended.text}\n{again.text}"
    if tool == "notebook_fill":
        text = f"{reply.text}\n{text}\nThe cells after it were not added yet."
    return ToolReply(text, again.pictures)


async def _taken_out(session: Session, before: Before, execution: Execution) -> str:
    cell_id = execution.cell_id
    if cell_id is None or cell_id in before.cells or cell_id not in session.document:
        return ""
    try:
        await session.delete_cell(cell_id)
    except CellwrightError:
        return ""  # somebody was quicker
    return f"Cell {cell_id} was taken out again. Add it anew, changed."


async def _note(run: Run, branch: Branch, step: Step, reply: ToolReply, before: Before) -> None:
    step.session_id = branch.session_id
    step.result, step.pictures, step.failed = reply.text, len(reply.pictures), reply.failed
    await run.workshop.note_runs(branch, step, before.runs, own=step.tool not in _MENDS_ITSELF)
    if not step.runs and not reply.failed:
        branch.replies.append((step.tool or "", reply.text))

"""How a call that ran something is answered: text with pictures or one JSON object, and what changed besides."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import msgspec
from mcp.types import ImageContent

from cellwright.engine import Execution, Session
from cellwright.engine.typecheck import diagnostics_of
from cellwright.mcp.arguments import ResponseFormat
from cellwright.mcp.calls import Call, Reply
from cellwright.mcp.execution_texts import executions_json, executions_text, gather
from cellwright.mcp.knowledge import Known
from cellwright.mcp.outputs import size
from cellwright.sandbox.listings import quoted_path

__all__ = ["execution_reply", "rendered"]

_MAX_NEWS = 300
_MOST_TYPES = 5
# Where cells of different languages leave what they pass to each other (see ``cellwright_kernel.values``).
_put = re.compile(r"(?:^|/)\.cellwright/values/(?P<name>\w+)\.(?:json|arrow)$")
_FILES_IN_TEXT = 5
_BROUGHT_BACK = "; notebook_replay brings them back, until something new has run well"


async def execution_reply(
    call: Call,
    session: Session,
    executions: Sequence[Execution],
    *,
    response_format: ResponseFormat,
    max_tokens: int | None,
    cell_id: str | None = None,
) -> Reply:
    """Answer a call with the executions it started or waited for."""
    known = await call.shared.knowledge.of(session)
    for execution in executions:
        known = await call.shared.knowledge.learn(session, execution)
        if execution.done:
            await execution.wait_for_files(call.shared.pace.files_s)
    if response_format == "json":
        found = executions_json(executions, cell_id=cell_id or executions[-1].cell_id, max_tokens=max_tokens)
        found |= _files_json(executions)
        if news := _news(call, session, known, executions):
            found["context"] = news
        if call.notes:
            found["notes"] = list(call.notes)
            call.notes.clear()
        return Reply(json.dumps(found, ensure_ascii=False, separators=(",", ":")), data=found)
    text, images = await rendered(call, executions, max_tokens=max_tokens)
    lines = [
        text,
        *_files_text(executions),
        *_next_calls(executions),
        *_news(call, session, known, executions),
    ]
    return Reply("\n".join(lines), images)


async def rendered(
    call: Call, executions: Sequence[Execution], *, max_tokens: int | None = None
) -> tuple[str, tuple[ImageContent, ...]]:
    """Executions as text and pictures; scaling a picture takes longer than others should wait for."""
    gathered = gather(executions)
    render = partial(
        executions_text, gathered, max_tokens=max_tokens, max_pixels=call.engine.settings.image_pixels
    )
    if any(part.picture is not None for _, parts in gathered for part in parts):
        return await anyio.to_thread.run_sync(render)
    return render()


def _files_text(executions: Sequence[Execution]) -> list[str]:
    """A line with what was left in the working directory, and one with the values that were put, if any were."""
    found = _files_json(executions)
    if not found:
        return []
    put = {one["path"]: match["name"] for one in found["files"] if (match := _put.search(one["path"]))}
    lines = [f"values put: {', '.join(sorted(set(put.values())))}"] if put else []
    named = [
        f"{quoted_path(one['path'])} {one['type'] if one['type'] != 'file' else size(one['size'])}"
        for one in found["files"]
        if one["path"] not in put
    ]
    more = len(named) - _FILES_IN_TEXT + found.get("more_files", 0)
    tail = f", … {more} more" if more > 0 else ""
    files = f"files: {', '.join(named[:_FILES_IN_TEXT])}{tail} (in {found['files_in']})"
    return [*lines, files] if named or more > 0 else lines


def _files_json(executions: Sequence[Execution]) -> dict[str, Any]:
    """What executions left, each file once and as the last of them left it."""
    files = {file.path: file for execution in executions for file in execution.files}
    if not files:
        return {}
    last = next(execution.record for execution in reversed(executions) if execution.files)
    about: dict[str, Any] = {
        "files": [msgspec.to_builtins(file) for file in files.values()],
        "files_in": last.files_directory,
    }
    more = max(execution.record.more_files for execution in executions)
    return about | ({"more_files": more} if more else {})


def _next_calls(executions: Sequence[Execution]) -> list[str]:
    unfinished = [execution for execution in executions if not execution.done]
    if not unfinished:
        return []
    first = unfinished[0].id
    return [
        f"Still {unfinished[0].state}: execution_wait('{first}') to go on waiting, execution_cancel('{first}') to stop"
    ]


def _news(call: Call, session: Session, known: Known, executions: Sequence[Execution]) -> list[str]:
    """What this client has not been told of the session yet: a new kernel, new names."""
    client = call.client
    news = [*_kernel_news(call, session, known, executions), *_type_news(call, session)]
    before = client.names.get(session.id, frozenset())
    names = known.names
    groups = (("imports", names.imports), ("functions", names.functions), ("variables", names.variables))
    fresh = [
        f"{kind} {', '.join(new)}"
        for kind, held in groups
        if (new := [name for name in held if name not in before])
    ]
    client.names[session.id] = frozenset(names.all())
    if fresh:
        line = f"context: new {'; '.join(fresh)}"
        news.append(line if len(line) <= _MAX_NEWS else line[:_MAX_NEWS] + "… (session_context has all)")
    return news


def _kernel_news(call: Call, session: Session, known: Known, executions: Sequence[Execution]) -> list[str]:
    """That names are gone which this client, or whoever worked here before it, made."""
    told = call.client.generations.get(session.id)
    call.client.generations[session.id] = session.generation
    # What an execution's note says of the kernel is told already.
    if any(each.record.note for each in executions):
        return []
    if told is None:
        # Whoever comes anew, as each command of the command line does, knows no generation but misses the names.
        missing = executions[0].record.number > 1 and _is_empty(session, known)
        return [f"The kernel is new, earlier names are gone{_BROUGHT_BACK}"] if missing else []
    if told >= session.generation:
        return []
    now = f"generation {told} is now {session.generation}"
    if len(session.record.lineage) > 1:
        return [f"The kernel goes on from an earlier state: {now}, names are those of then"]
    call.client.names.pop(session.id, None)
    hint = _BROUGHT_BACK if session.record.former else ""
    return [f"The kernel was replaced: {now}, earlier names are gone{hint}"]


def _is_empty(session: Session, known: Known) -> bool:
    """Whether a kernel took the place of a lost one and has made nothing yet, by a replay neither."""
    if not session.record.former or len(session.record.lineage) > 1:
        return False
    return known.generation < session.generation or not known.names.all()


def _type_news(call: Call, session: Session) -> list[str]:
    """What the check of types found that this client has not been told."""
    found = tuple(
        f"cell {cell.id} line {one.get('line')}: {one.get('code')} {one.get('message')}"
        for cell in session.cells
        for one in diagnostics_of(cell)
    )
    told = call.client.types.get(session.id, ())
    call.client.types[session.id] = found
    if found == told:
        return []
    if not found:
        return ["types: nothing is wrong any more"]
    new = [line for line in found if line not in told]
    more = [f"… {len(new) - _MOST_TYPES} more"] if len(new) > _MOST_TYPES else []
    return [f"types: {line}" for line in (*(one[:_MAX_NEWS] for one in new[:_MOST_TYPES]), *more)]

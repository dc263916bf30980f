"""What happens to a session's executions, as the messages that a kernel would have sent. Pure.

A client that shows an execution by itself is told under the name that it gave it; of all others it hears as of those of
somebody else at the same kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.engine import Event
from cellwright.engine.records import ExecutionRecord
from cellwright.lab.messages import Header, Said

__all__ = ["cleared", "messages_for", "parent_of", "state_lost", "status"]

_SOMEBODY = "cellwright"
_LATE = "[cellwright: what follows came after this cell's end and is no part of its outputs]\n"
_CUT_SHORT = {"timeout": "TimeLimit", "interrupted": "Interrupted", "died": "KernelDied"}
# What the protocol asks of a kind, where a kernel may leave it out.
_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "stream": {"name": "stdout", "text": ""},
    "display_data": {"data": {}, "metadata": {}, "transient": {}},
    "update_display_data": {"data": {}, "metadata": {}, "transient": {}},
    "execute_result": {"data": {}, "metadata": {}, "transient": {}, "execution_count": 0},
    "error": {"ename": "", "evalue": "", "traceback": []},
    "clear_output": {"wait": False},
}


def parent_of(record: ExecutionRecord) -> Header:
    """What messages about an execution answer to."""
    if record.asker is None:
        return Header(record.id, "execute_request", _SOMEBODY)
    return Header(record.asker.request, "execute_request", record.asker.client)


def messages_for(event: Event, record: ExecutionRecord, client: str) -> list[Said]:
    """What one client hears of one event of an execution, but for the idle status at its very end."""
    parent = parent_of(record)
    match event.kind:
        case "notebook.cell.executing" if event.data["state"] == "running":
            began = {"code": record.source, "execution_count": record.number}
            return [status("busy", parent), Said("iopub", "execute_input", began, parent)]
        case "notebook.cell.output":
            return [_output(event.data["type"], event.data["content"], parent)]
        case "notebook.cell.late_output":
            return _late(event.data, parent)
        case "notebook.cell.completed":
            is_own = record.asker is not None and record.asker.client == client
            return [*_cut_short(record, parent), *([_reply(record, parent)] if is_own else [])]
        case _:
            return []


def _output(kind: str, content: Mapping[str, Any], parent: Header) -> Said:
    needed = _NEEDED.get(kind, {})
    given = {key: value for key, value in content.items() if value is not None or key not in needed}
    return Said("iopub", kind, {**needed, **given}, parent)


def _late(data: Mapping[str, Any], parent: Header) -> list[Said]:
    """What came after an execution's end, below its outputs; what would change those is left out."""
    kind, content = data["type"], data["content"]
    if kind == "clear_output" or data.get("by") is not None:  # who says it tells it as its own output too
        return []
    if kind in ("display_data", "update_display_data"):
        kind, content = "display_data", {**content, "transient": {}}
    mark = [Said("iopub", "stream", {"name": "stderr", "text": _LATE}, parent)] if data["first"] else []
    return [*mark, _output(kind, content, parent)]


def cleared(record: ExecutionRecord) -> Said:
    """What comes before outputs that are told again to who may have had some of them."""
    return Said("iopub", "clear_output", {"wait": False}, parent_of(record))


def status(state: str, parent: Header | None = None) -> Said:
    return Said("iopub", "status", {"execution_state": state}, parent)


def state_lost(event: Event) -> bool:
    """Whether an event tells that the kernel's memory is gone."""
    if event.kind == "notebook.state.changed":
        return event.data.get("session") == "suspended"
    return event.kind == "notebook.error" and event.data.get("code") == "kernel_died"


def _cut_short(record: ExecutionRecord, parent: Header) -> list[Said]:
    """Why it did not end by itself, where a person sees it: no kernel says that."""
    if record.started_at is None or record.state not in _CUT_SHORT or record.reason is None:
        return []
    if record.state == "interrupted" and record.error is not None:  # its traceback says it
        return []
    content = {"ename": _CUT_SHORT[record.state], "evalue": record.reason, "traceback": [record.reason]}
    return [Said("iopub", "error", content, parent)]


def _reply(record: ExecutionRecord, parent: Header) -> Said:
    content: dict[str, Any] = {"execution_count": record.execution_count}
    if record.state == "ok":
        content |= {"status": "ok", "user_expressions": {}, "payload": []}
    elif record.started_at is None:
        content |= {"status": "aborted"}
    else:
        error = record.error or {}
        content |= {
            "status": "error",
            "ename": error.get("ename") or _CUT_SHORT.get(record.state, "Error"),
            "evalue": error.get("evalue") or record.reason or "",
            "traceback": error.get("traceback") or [],
        }
    return Said("shell", "execute_reply", content, parent)

"""What a session ran since somebody last looked, as a step keeps it. Only reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cellwright.agent.trace.steps import CellRun
from cellwright.engine import Engine, Execution, Session
from cellwright.notebook.outputs import clean

__all__ = ["runs_since"]


async def runs_since(engine: Engine, session: Session, count: int) -> list[CellRun]:
    """The executions of a session since its ``runs.count`` was this, oldest first; the last may still be running."""
    if session.runs.count <= count:
        return []
    return [_run(execution) for execution in await engine.history(session.id, after=count)]


def _run(execution: Execution) -> CellRun:
    outputs = execution.outputs
    reason = f"{execution.reason}\n" if execution.reason else ""
    return CellRun(
        execution_id=execution.id,
        cell_id=execution.cell_id,
        code=execution.record.source,
        state=execution.state,
        stdout=clean("".join(_shown(outputs))),
        stderr=clean("".join(_complained(outputs)) + reason),
        seconds=execution.seconds or 0.0,
    )


def _shown(outputs: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """What was printed, and the plain form of what was shown."""
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] != "stderr":
            yield _joined(output["text"])
        elif "text/plain" in output.get("data", {}):
            yield _joined(output["data"]["text/plain"]) + "\n"


def _complained(outputs: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] == "stderr":
            yield _joined(output["text"])
        elif output["output_type"] == "error":
            lines = output.get("traceback") or [f"{output['ename']}: {output['evalue']}"]
            yield "\n".join(lines) + "\n"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)

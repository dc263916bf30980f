"""What there is to rest an answer on: outputs of a session's cells, replies of tools, and the question itself.

Reads; decides nothing. What failed, or was undone, bears nothing out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cellwright.agent.evidence.charts import spec_of, spec_rows
from cellwright.agent.evidence.numbers import Evidence
from cellwright.engine import Engine, Execution, Session
from cellwright.formats.markup import text_of_html

__all__ = ["evidence_of", "gather", "given", "replied"]

_TEXTS = ("text/plain", "text/markdown", "text/latex")
_MAX_CHARACTERS = 500_000
_MAX_VALUES = 200_000


async def gather(
    engine: Engine,
    session: Session | None,
    *,
    question: str = "",
    replies: Sequence[tuple[str, str]] = (),
    since: float = 0.0,
) -> list[Evidence]:
    """Everything that numbers of an answer can come from, what was put out last first.

    ``replies`` are those of tools that need no notebook, each with its tool's name. ``since`` is when this turn began, in
    seconds since 1970: what came before bears numbers out as well, but is not fresh.
    """
    found = [given(question)] if question else []
    found += [replied(name, text) for name, text in reversed(replies)]
    if session is not None:
        ran = await _ran(engine, session)
        found += [
            evidence_of(_named(execution), execution.outputs, fresh=execution.record.queued_at >= since)
            for execution in reversed(ran)
            if execution.ok and not execution.record.undone
        ]
        known = {execution.cell_id for execution in ran}
        # What a notebook showed before it was opened here.
        found += [
            evidence_of(f"cell {cell.id}", cell.outputs, fresh=False)
            for cell in session.cells
            if cell.kind == "code" and cell.outputs and cell.id not in known
        ]
    return found


def given(question: str) -> Evidence:
    """What the asker said."""
    return Evidence("the question", question, kind="given")


def replied(tool: str, text: str) -> Evidence:
    """What a tool replied: a script's output, a file, a page, a calculation."""
    return Evidence(tool, text[:_MAX_CHARACTERS], kind="reply")


def evidence_of(source: str, outputs: Iterable[Mapping[str, Any]], *, fresh: bool = True) -> Evidence:
    """What outputs say: their text, and in bulk the data of charts."""
    texts: list[str] = []
    values: list[float] = []
    for output in outputs:
        texts += _texts(output)
        values += islice(_values(output), _MAX_VALUES - len(values))
    return Evidence(source, "\n".join(texts)[:_MAX_CHARACTERS], tuple(values), fresh=fresh)


async def _ran(engine: Engine, session: Session) -> list[Execution]:
    """What ran, oldest first, also in the sessions that this one was grown from."""
    own = await engine.history(session.id)
    known = {execution.id for execution in own}
    inherited = [record.id for record in await session.state_history() if record.id not in known]
    return [*(engine.execution(execution_id) for execution_id in inherited), *own]


def _named(execution: Execution) -> str:
    return f"cell {execution.cell_id}" if execution.cell_id is not None else f"execution {execution.id}"


def _texts(output: Mapping[str, Any]) -> Iterator[str]:
    match output.get("output_type"):
        case "stream":
            yield _joined(output.get("text", ""))
        case "execute_result" | "display_data" | "update_display_data":
            data = output.get("data") or {}
            yield from (_joined(data[mime]) for mime in _TEXTS if mime in data)
            if "text/html" in data:
                yield text_of_html(_joined(data["text/html"]))
            if "application/json" in data:
                yield json.dumps(data["application/json"])
            match output.get("metadata"):
                case {"cellwright": {"digest": str(digest)}}:
                    yield digest
        case _:  # an error bears nothing out
            return


def _values(output: Mapping[str, Any]) -> Iterator[float]:
    """The numbers that a chart was drawn from."""
    spec = spec_of(output)
    for row in spec_rows(spec) if spec is not None else ():
        for value in row.values():
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                yield float(value)


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)

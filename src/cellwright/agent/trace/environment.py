"""What a run of the data agent ran on: versions, the session's place, the packages that its notebook imports, and the
models with their prices. A kernel is asked and none is started; keeping it is the trace's (see ``store``)."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import anyio

import cellwright
from cellwright.agent.models.table import ModelRow
from cellwright.engine import Session
from cellwright.errors import CellwrightError
from cellwright.notebook.python_names import names_of

__all__ = ["environment_of"]

_TIMEOUT_S = 5.0


async def environment_of(session: Session | None, rows: Sequence[ModelRow]) -> dict[str, Any]:
    """What ``TraceLog.note("environment", …)`` keeps of a run. A kernel that is gone or busy is not asked."""
    return {
        "cellwright": cellwright.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "models": [{"full_name": row.full_name, **asdict(row)} for row in rows],
        "session": None if session is None else _place(session) | await _kernel(session),
    }


def _place(session: Session) -> dict[str, Any]:
    record = session.record
    return {
        "session_id": session.id,
        "notebook": str(session.path),
        "language": session.language,
        "tier": session.tier,
        "mode": session.mode,
        "network": session.network,
        "host": record.on or record.host,
        "generation": session.generation,
        "interpreter": record.python,
        "interpreter_version": record.python_version or None,
        "installed": list(record.packages),
    }


async def _kernel(session: Session) -> dict[str, Any]:
    """What the kernel says: the packages that cells import, each with its version; why they are not known otherwise."""
    modules = sorted({module for cell in session.cells if cell.runs for module in names_of(cell).modules})
    if session.state != "active":
        return {"packages": {}, "packages_unknown": "The session has no kernel"}
    try:
        with anyio.fail_after(_TIMEOUT_S):
            inputs = await session.inputs("\n".join(f"import {name}" for name in modules), packages=True)
    except (CellwrightError, TimeoutError) as error:
        return {"packages": {}, "packages_unknown": str(error) or "The kernel did not answer in time"}
    found = {"interpreter": inputs.interpreter, "interpreter_version": inputs.python}
    known = {name: value for name, value in found.items() if value}
    return {"packages": dict(inputs.packages), "packages_unknown": None, **known}

"""A session's context: what an agent that forgot everything needs to go on.

The notebook's name with its time, what is imported and defined, how each cell and the plan stand, and the last error. Names come
from the kernel where it is alive and idle, else from what ran in it last (see ``knowledge``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cellwright.engine import Inspection, Session
from cellwright.engine.cell_states import cell_states
from cellwright.errors import CellwrightError
from cellwright.mcp.handovers import hold_data
from cellwright.mcp.knowledge import Knowledge, Known
from cellwright.mcp.outputs import clean
from cellwright.notebook import Cell
from cellwright.notebook.edits import comments_of
from cellwright.plans.reports import plan_in
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_tail

__all__ = ["DEFAULT_CONTEXT_TOKENS", "context_of", "fit_lists", "inspected"]

DEFAULT_CONTEXT_TOKENS = 1_500
_REMARK = 300


async def context_of(
    knowledge: Knowledge, session: Session, *, max_tokens: int | None = None
) -> dict[str, Any]:
    """The context as data, within a budget."""
    known = await knowledge.of(session)
    cells = session.cells
    states = cell_states(session, cells)
    about: dict[str, Any] = {
        "session_id": session.id,
        "notebook": session.name,
        "language": session.language,
        "state": session.state,
        "generation": session.generation,
        **await _names(session, known),
        "cells": [f"{cell.id}: {states[cell.id]}" for cell in cells],
    }
    if remarks := _remarks(cells):
        about["comments"] = remarks
    if known.failure is not None:
        failure = known.failure
        about["last_error"] = {
            "cell_id": failure.cell_id,
            "execution_id": failure.execution_id,
            "status": failure.state,
            "error": f"{failure.ename}: {failure.evalue}"[:300],
        }
    if (plan := plan_in(session.document.metadata)) is not None:
        about["plan"] = plan
    if (hold := session.record.hold) is not None:
        about["held"] = hold_data(hold)
    if session.checkpoints:
        about["checkpoints"] = [kept.name or kept.id for kept in reversed(session.checkpoints)]
    if session.reason:
        about["reason"] = session.reason
    return fit_lists(about, max_tokens or DEFAULT_CONTEXT_TOKENS)


def _remarks(cells: Sequence[Cell]) -> list[str]:
    """What people said of cells, the newest first."""
    found = [(one.at, f"{cell.id}, {one.by}: {one.text}") for cell in cells for one in comments_of(cell)]
    return [cut_tail(clean(text), _REMARK) for _, text in sorted(found, reverse=True)]


async def _names(session: Session, known: Known) -> dict[str, Any]:
    if session.state == "active" and not session.runs.live:
        try:
            return {**inspected(await session.inspect()), "names_from": "kernel"}
        except CellwrightError:
            pass  # it became busy or died meanwhile, or is not of our own: what ran last is still known
    names = known.names
    return {
        "imports": [
            name if name == module else f"{module} as {name}" for name, module in names.imports.items()
        ],
        "functions": [f"{name}{parameters}" for name, parameters in names.functions.items()],
        "variables": list(names.variables),
        "names_from": f"source of generation {known.generation}"
        if session.runs_python
        else f"nowhere: {session.language} is not read for names",
    }


def inspected(inspection: Inspection) -> dict[str, Any]:
    """A kernel's names in few words, newest first."""
    imports = [
        module.name if module.module in {None, module.name} else f"{module.module} as {module.name}"
        for module in inspection.modules
    ]
    functions = [f"{function.name}{function.signature}" for function in inspection.functions]
    classes = [f"class {found.name}" for found in inspection.classes]
    variables = []
    for variable in inspection.variables:
        shape = "\u00d7".join(str(side) for side in variable.shape) if variable.shape else None
        length = f"[{variable.length}]" if variable.length is not None else None
        value = f"= {variable.digest}" if variable.digest else None
        variables.append(
            " ".join(filter(None, [f"{variable.name}: {variable.type}", shape or length, value]))
        )
    found: dict[str, Any] = {"imports": imports, "functions": [*functions, *classes], "variables": variables}
    return {**found, "unlisted": inspection.omitted} if inspection.omitted else found


def fit_lists(about: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """The same with its longest lists shortened until all of it keeps to the budget; what is gone is counted."""
    budget = max_tokens * CHARACTERS_PER_TOKEN
    lists = {key: list(value) for key, value in about.items() if isinstance(value, list)}
    while len(json.dumps({**about, **lists}, ensure_ascii=False)) > budget and any(lists.values()):
        longest = max(lists, key=lambda key: sum(len(str(item)) for item in lists[key]))
        lists[longest] = lists[longest][: len(lists[longest]) * 2 // 3]
    omitted = {key: len(about[key]) - len(kept) for key, kept in lists.items() if len(kept) < len(about[key])}
    return {**about, **lists, **({"omitted": omitted} if omitted else {})}

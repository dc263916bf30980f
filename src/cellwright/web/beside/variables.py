"""What the kernel holds: variables, functions, classes and imports, as far as it can be asked without running anything."""

from __future__ import annotations

from typing import Any

from cellwright.engine import Variable
from cellwright.errors import KernelBusy
from cellwright.web.beside.looking import inspected, last_inspected
from cellwright.web.visits import Visit

__all__ = ["extent", "variables"]


_BUSY = "A cell is running: this is what there was before it."
_BUSY_FIRST = "A cell is running: what the kernel holds is shown when it is done."
_GONE = "There is no kernel, so nothing is held in memory. Running a cell starts one."


async def variables(visit: Visit) -> dict[str, Any]:
    """The names that there are, or why they are not known."""
    session = visit.session()
    if session.state != "active":  # asking would start a kernel, and looking must not
        return {"held": None, "why": _GONE, "extent": extent}
    try:
        held = await inspected(session)
    except KernelBusy:
        before = last_inspected(session)
        return {"held": before, "why": _BUSY if before is not None else _BUSY_FIRST, "extent": extent}
    return {"held": held, "why": None, "extent": extent}


def extent(variable: Variable) -> str:
    """How large something is, in its own measure."""
    if variable.shape:
        return " \N{MULTIPLICATION SIGN} ".join(f"{side:,}" for side in variable.shape)
    return f"{variable.length:,}" if variable.length is not None else ""

"""What the kernel holds: variables, functions, classes and imports, as far as it can be asked without running anything."""

from __future__ import annotations

from typing import Any

from cellwright.engine import Session, Variable
from cellwright.errors import KernelBusy
from cellwright.web.visits import Visit

__all__ = ["extent", "variables"]


async def variables(visit: Visit) -> dict[str, Any]:
    """The names that there are, or why they are not known."""
    session = visit.session()
    why = _why_not(session)
    if why is None:
        try:
            return {"held": await session.inspect(), "why": None, "extent": extent}
        except KernelBusy:  # it began meanwhile
            why = _BUSY
    return {"held": None, "why": why, "extent": extent}


_BUSY = "A cell is running: what the kernel holds is shown when it is done."


def _why_not(session: Session) -> str | None:
    # Asking would start a kernel, and looking must not.
    if session.state != "active":
        return "There is no kernel, so nothing is held in memory. Running a cell starts one."
    return _BUSY if session.runs.live else None


def extent(variable: Variable) -> str:
    """How large something is, in its own measure."""
    if variable.shape:
        return " \N{MULTIPLICATION SIGN} ".join(f"{side:,}" for side in variable.shape)
    return f"{variable.length:,}" if variable.length is not None else ""

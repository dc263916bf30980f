"""The panels beside a notebook. Each is loaded when somebody opens it, and again when an event touches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from cellwright.web.notebook.plans import plan_values
from cellwright.web.visits import Visit, page

__all__ = ["PANELS", "Panel", "panel_routes"]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: the values that ``panel_NAME.html`` shows."""

    name: str
    title: str
    values: Callable[[Visit], Awaitable[dict[str, Any]]]


async def _history(visit: Visit) -> dict[str, Any]:
    history = await visit.engine.history(visit.session().id, outputs=False)
    return {"runs": list(reversed(history))[:200]}


PANELS: tuple[Panel, ...] = (
    Panel("plan", "Plan", plan_values),
    Panel("history", "History", _history),
)


def panel_routes() -> list[Route]:
    """An address for each."""
    return [page(f"/sessions/{{session_id}}/panels/{panel.name}", _view(panel)) for panel in PANELS]


def _view(panel: Panel) -> Callable[[Visit], Awaitable[Response]]:
    async def view(visit: Visit) -> Response:
        values = await panel.values(visit)
        return visit.fragment(f"panel_{panel.name}.html", session=visit.session(), **values)

    return view

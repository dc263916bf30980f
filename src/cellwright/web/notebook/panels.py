"""The panels beside a notebook. Each is loaded when somebody opens it, and again when an event touches it.

What each shows is in a module of its own (``web.beside``), and how in its template.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from cellwright.engine import Session
from cellwright.errors import CellwrightError
from cellwright.plans.reports import plan_in
from cellwright.web.notebook.plans import plan_values
from cellwright.web.panels import branches, checkpoints, comparison, environment, files, history
from cellwright.web.panels import environment as network
from cellwright.web.panels.environment import variables
from cellwright.web.requests import PageRequest, page

__all__ = ["PANELS", "Panel", "panel_routes"]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: the values that ``panel_NAME.html`` shows."""

    name: str
    title: str
    values: Callable[[PageRequest], Awaitable[dict[str, Any]]]
    routes: Sequence[Route] = ()
    """What else there is to look at or to do in it."""
    is_open: Callable[[Session], bool] = lambda _session: False
    """Whether somebody who comes to the page wants to see it at once."""


def _has_plan(session: Session) -> bool:
    return plan_in(session.document.metadata) is not None


PANELS: tuple[Panel, ...] = (
    Panel("plan", "Plan", plan_values, is_open=_has_plan),
    Panel("variables", "Variables", variables),
    Panel("files", "Files", files.files, files.ROUTES),
    Panel("checkpoints", "Checkpoints", checkpoints.checkpoints, checkpoints.ROUTES),
    Panel("branches", "Branches", branches.branches, (*branches.ROUTES, *comparison.ROUTES)),
    Panel("history", "History", history.history, history.ROUTES),
    Panel("network", "Network", network.network),
    Panel("environment", "Environment", environment.environment, environment.ROUTES),
)


def panel_routes() -> list[Route]:
    """An address for each, and what belongs to it."""
    own = [page(f"/sessions/{{session_id}}/panels/{panel.name}", _view(panel)) for panel in PANELS]
    return [*own, *(route for panel in PANELS for route in panel.routes)]


def _view(panel: Panel) -> Callable[[PageRequest], Awaitable[Response]]:
    async def view(request: PageRequest) -> Response:
        session = request.session()
        try:
            values = await panel.values(request)
        except CellwrightError as error:  # it stands in the panel, not on a page of its own
            return request.fragment("panel_problem.html", error=error)
        return request.fragment(f"panel_{panel.name}.html", session=session, **values)

    return view

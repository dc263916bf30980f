"""The whole page as one application: what its views work with, and every address it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from cellwright.engine import Engine
from cellwright.web import assets, chat, debug, notebook, sessions, verified
from cellwright.web.auth.sign_in import Door

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from cellwright.delegation import Delegate
    from cellwright.plans import Planner
    from cellwright.verification import Verifier

__all__ = ["Site", "application"]

_VIEWS = (sessions, notebook, chat, debug, verified)


@dataclass(frozen=True, slots=True)
class Site:
    """What views work with."""

    engine: Engine
    planner: Planner
    verifier: Verifier
    delegate: Delegate
    door: Door


def application(site: Site) -> ASGIApp:
    """Everything below ``/``, behind the door."""
    routes: list[BaseRoute] = [*assets.ROUTES, *site.door.routes]
    for view in _VIEWS:
        routes.extend(view.ROUTES)
    app = Starlette(routes=routes)
    app.state.site = site
    return site.door.guard(app)

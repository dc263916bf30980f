"""The whole page as one application: every address it has, behind the sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from cellwright.web import (
    _chat,
    _debug,
    _grid,
    _new_notebook,
    _notebook,
    _sessions,
    _templates,
    _toolbar,
    _uploads,
    _verified_notebook,
)
from cellwright.web.requests import Site

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["application"]

_VIEWS = (_sessions, _new_notebook, _uploads, _toolbar, _grid, _notebook, _chat, _debug, _verified_notebook)


def application(site: Site) -> ASGIApp:
    """Everything below ``/``, behind the sign-in."""
    routes: list[BaseRoute] = [*_templates.ROUTES, *site.sign_in.routes]
    for view in _VIEWS:
        routes.extend(view.ROUTES)
    app = Starlette(routes=routes)
    app.state.site = site
    return site.sign_in.guard(app)

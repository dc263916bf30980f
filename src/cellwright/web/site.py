"""The whole page as one application: every address it has, behind the sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute

from cellwright.web import (
    _assistance,
    _cell_actions,
    _cell_edits,
    _chat,
    _connect,
    _debug,
    _grid,
    _new_notebook,
    _notebook,
    _sessions,
    _templates,
    _toolbar,
    _uploads,
    _verified_notebook,
    _widgets,
)
from cellwright.web.requests import Site

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["application"]

# A download tells its length, and what is not text has little to gain.
_AS_IT_IS = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/octet-stream")

_VIEWS = (
    _sessions,
    _new_notebook,
    _uploads,
    _toolbar,
    _grid,
    _notebook,
    _cell_actions,
    _cell_edits,
    _assistance,
    _chat,
    _connect,
    _debug,
    _verified_notebook,
    _widgets,
)


def application(site: Site) -> ASGIApp:
    """Everything below ``/``, behind the sign-in."""
    routes: list[BaseRoute] = [*_templates.ROUTES, *site.sign_in.routes]
    for view in _VIEWS:
        routes.extend(view.ROUTES)
    app = Starlette(routes=routes)
    app.state.site = site
    packed = GZipMiddleware(app, minimum_size=1024, compresslevel=6, exclude_content_types=_AS_IT_IS)
    return site.sign_in.guard(packed)

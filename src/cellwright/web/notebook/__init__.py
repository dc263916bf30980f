"""One session's notebook, live: its cells, what a person may do with them, and the panels beside them."""

from __future__ import annotations

from cellwright.web import outputs
from cellwright.web.notebook import actions, comments, handovers, plans, views

__all__ = ["ROUTES"]

ROUTES = [
    *views.ROUTES,
    *actions.ROUTES,
    *handovers.ROUTES,
    *comments.ROUTES,
    *plans.ROUTES,
    *outputs.ROUTES,
]

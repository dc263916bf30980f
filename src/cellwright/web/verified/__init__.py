"""A notebook to hand on: read-only, with what was verified about it, also for people who are not signed in."""

from __future__ import annotations

from cellwright.web.verified.views import ROUTES

__all__ = ["ROUTES"]

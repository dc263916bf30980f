"""All sessions, and the hosts that they are on."""

from __future__ import annotations

from cellwright.web.sessions.views import ROUTES

__all__ = ["ROUTES"]

"""All sessions, and the hosts that they are on."""

from __future__ import annotations

from cellwright.web.sessions import hosts, views

__all__ = ["ROUTES"]

ROUTES = [*views.ROUTES, *hosts.ROUTES]

"""Questions in words and how they are answered: conversations, their turns as they happen, and what came of them."""

from __future__ import annotations

from cellwright.web.chat import actions, views

__all__ = ["ROUTES"]

ROUTES = [*views.ROUTES, *actions.ROUTES]

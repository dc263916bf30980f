"""What a run did, for whoever wants to know exactly: prompts, code, calls, times and money, step by step."""

from __future__ import annotations

from cellwright.web.debug import executions, runs

__all__ = ["ROUTES"]

ROUTES = [*runs.ROUTES, *executions.ROUTES]

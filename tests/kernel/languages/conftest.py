"""Engines for tests of languages."""

from __future__ import annotations

from tests.kernel.engine.conftest import engine, open_here, shared_engine

__all__ = ["engine", "open_here", "shared_engine"]

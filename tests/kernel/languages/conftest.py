"""Engines for tests of languages."""

from __future__ import annotations

from tests.kernel.engine.conftest import engine, forked_hosts, open_here, shared_engine

__all__ = ["engine", "forked_hosts", "open_here", "shared_engine"]

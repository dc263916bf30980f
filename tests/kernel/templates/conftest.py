"""Templates on real engines and kernels."""

from __future__ import annotations

from tests.kernel.engine.conftest import engine, forked_hosts, open_here, own_engine, shared_engine

__all__ = ["engine", "forked_hosts", "open_here", "own_engine", "shared_engine"]

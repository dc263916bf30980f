"""Engines for reviewing on."""

from tests.kernel.engine.conftest import engine, forked_hosts, open_here, open_root, own_engine, shared_engine

__all__ = ["engine", "forked_hosts", "open_here", "open_root", "own_engine", "shared_engine"]

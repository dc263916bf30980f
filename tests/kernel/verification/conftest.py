"""Engines for verifying on."""

from tests.kernel.engine.conftest import engine, open_here, open_root, own_engine, shared_engine

__all__ = ["engine", "open_here", "open_root", "own_engine", "shared_engine"]

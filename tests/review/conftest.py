"""Engines for reviewing on."""

from tests.engine.conftest import engine, open_here, open_root, own_engine

__all__ = ["engine", "open_here", "open_root", "own_engine"]

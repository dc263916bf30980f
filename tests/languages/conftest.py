"""Engines for tests of languages, as ``tests/engine`` has them."""

from tests.engine.conftest import engine, open_here, own_engine

__all__ = ["engine", "open_here", "own_engine"]

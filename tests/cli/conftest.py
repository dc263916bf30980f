"""The daemon's places, for the command line."""

from tests.daemon.conftest import place, shared

__all__ = ["place", "shared"]

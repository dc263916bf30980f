"""The daemon's places, for the command line."""

from tests.system.daemon.conftest import place, shared

__all__ = ["place", "shared"]

"""Where the daemon of whoever works here is, and a connection to it. Commands that ask it one thing need no more."""

from __future__ import annotations

import os
import socket

from cellwright.cli._terminal import ProgressLine, note
from cellwright.daemon.connect import connect_or_start
from cellwright.daemon.paths import DaemonPaths
from cellwright.settings.paths import find_storage

__all__ = ["daemon_paths", "open_daemon"]


def daemon_paths() -> DaemonPaths:
    """Where the daemon of whoever works here has its files."""
    return DaemonPaths(find_storage(os.getcwd()))


def open_daemon() -> socket.socket:
    """A connection to the daemon, started if need be."""
    with ProgressLine("starting the daemon"):
        return connect_or_start(daemon_paths(), os.getcwd(), say=note)

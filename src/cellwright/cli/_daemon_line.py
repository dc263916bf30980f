"""Where the daemon of whoever works here is, and a connection to it. Commands that ask it one thing need no more."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from cellwright.cli._terminal import ProgressLine, note
from cellwright.daemon.connect import connect_or_start
from cellwright.daemon.paths import DaemonPaths
from cellwright.settings.paths import find_storage, user_settings_file

__all__ = ["daemon_paths", "open_daemon"]


def daemon_paths() -> DaemonPaths:
    """Where the daemon of whoever works here has its files."""
    return DaemonPaths(find_storage(os.getcwd()))


def open_daemon() -> socket.socket:
    """A connection to the daemon, started if need be."""
    paths = daemon_paths()
    with ProgressLine("starting the daemon"):
        connection = connect_or_start(paths, os.getcwd(), say=note)
    _tell_of_newer_settings(paths)
    return connection


def _tell_of_newer_settings(paths: DaemonPaths) -> None:
    """A daemon reads the settings when it starts: say so to a person who changed them since."""
    file = user_settings_file()
    with suppress(OSError):
        if os.path.getmtime(file) > os.path.getmtime(paths.about):
            note(
                f"note: {file} changed after the daemon started, which does not read it again: "
                "after `cellwright daemon stop` the next command starts one that does"
            )

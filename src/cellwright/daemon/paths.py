"""Every place that the daemon of one storage directory uses. Plain strings: the byte pump reads this too."""

from __future__ import annotations

from cellwright.settings.paths import runtime_base, socket_name

__all__ = ["DaemonPaths"]


class DaemonPaths:
    """Where a daemon's files and its socket lie."""

    def __init__(self, storage: str) -> None:
        self.storage = storage
        self.home = f"{storage}/daemon"
        self.lock = f"{self.home}/lock"
        """Held by the daemon while it lives."""
        self.start_lock = f"{self.home}/start.lock"
        """Held by whoever is starting or replacing the daemon."""
        self.about = f"{self.home}/about.json"
        """Names the living daemon's process and version."""
        self.log = f"{self.home}/daemon.log"
        self.older_log = f"{self.home}/daemon.log.1"
        self.token = f"{self.home}/token"
        self.listeners = f"{self.home}/listeners.json"
        """The detached listeners of a daemon that did not end by itself."""
        self.runtime = runtime_base()
        # Not in the host's own directory beside it: a host clears that when it starts.
        self.socket = f"{self.runtime}/{socket_name(storage)}.daemon"

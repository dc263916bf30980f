"""The daemon's log: its stderr, kept to a size. Holds events and errors, never what clients say or tokens."""

from __future__ import annotations

import logging
import os

from cellwright.daemon.paths import DaemonPaths

__all__ = ["keep_log", "read_log"]

_MOST_BYTES = 1_000_000


def keep_log(paths: DaemonPaths) -> None:
    """Send everything that is logged to the log file, which stderr is."""
    handler = _BoundedLog(paths)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for chatty in ("mcp", "uvicorn", "httpx", "httpx2", "google_genai"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def read_log(paths: DaemonPaths, lines: int) -> list[str]:
    """The newest lines, oldest first."""
    text = ""
    for name in (paths.older_log, paths.log):
        try:
            with open(name, encoding="utf-8", errors="replace") as file:
                text += file.read()
        except FileNotFoundError:
            continue
    return text.splitlines()[-lines:] if lines > 0 else []


class _BoundedLog(logging.StreamHandler):  # type: ignore[type-arg]  # the stream is always stderr
    """Moves a log that grew too long aside; whatever else writes to stderr follows it."""

    def __init__(self, paths: DaemonPaths) -> None:
        super().__init__()
        self._paths = paths

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if os.fstat(2).st_size > _MOST_BYTES:
                os.replace(self._paths.log, self._paths.older_log)
                fd = os.open(self._paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.dup2(fd, 2)
                os.close(fd)
        except OSError:  # a full disk must not stop the work, nor the line that says so
            self.handleError(record)
        super().emit(record)

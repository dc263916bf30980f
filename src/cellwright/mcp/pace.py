"""How long a call waits and how often it says so: numbers that belong to clients' habits, not to the user."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """What a MCP server keeps to. The tightest client known ends a call after 60 s; others after 300 s."""

    wait_s: float = 55.0
    """How long a call waits for an execution before it hands back the id."""

    progress_s: float = 5.0
    """How often a waiting call tells its progress; clients want to hear something every 15 s."""

    files_s: float = 0.25
    """How long a reply waits for what code left, which is looked up after its end."""

    stopping_s: float = 10.0
    """How long a call that stops something waits for its end."""

    notify_s: float = 0.25
    """How long changes of a resource are gathered before its subscribers are told once."""

    stream_s: float = 0.05
    """How long words of a model are gathered before a client that wants each of them is told."""

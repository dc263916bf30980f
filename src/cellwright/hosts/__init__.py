"""Where kernels live: the host process, its protocol, and how an engine finds and talks to it."""

from cellwright.hosts.connection import EventSink, HostConnection
from cellwright.hosts.event_log import read_events
from cellwright.hosts.local import (
    HostPaths,
    LocalWay,
    connect_or_start,
    dead_incarnations,
    forget_incarnation,
)
from cellwright.hosts.transport import HostWay, NoWay

__all__ = [
    "EventSink",
    "HostConnection",
    "HostPaths",
    "HostWay",
    "LocalWay",
    "NoWay",
    "connect_or_start",
    "dead_incarnations",
    "forget_incarnation",
    "read_events",
]

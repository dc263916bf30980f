"""The host process that owns kernels, its protocol, and how an engine finds it and talks to it."""

from cellwright.hosts._event_log import read_events
from cellwright.hosts.connection import EventSink, HostConnection
from cellwright.hosts.local import (
    HostPaths,
    HostTransport,
    LocalTransport,
    NoTransport,
    connect_or_start,
    dead_incarnations,
    forget_incarnation,
)

__all__ = [
    "EventSink",
    "HostConnection",
    "HostPaths",
    "HostTransport",
    "LocalTransport",
    "NoTransport",
    "connect_or_start",
    "dead_incarnations",
    "forget_incarnation",
    "read_events",
]

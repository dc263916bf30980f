"""Sessions, executions, events and the journal: what every face and every agent works with."""

from cellwright.engine.engine import Engine, SessionFilter
from cellwright.engine.events import Event, EventKind, Missed, Subscription
from cellwright.engine.executions import Execution
from cellwright.engine.inspection import Completion, Inspection, Variable
from cellwright.engine.leavings import Leavings, LeftFile
from cellwright.engine.network import NetworkUse
from cellwright.engine.opening import open_engine
from cellwright.engine.replaying import Redone, Replay
from cellwright.engine.sessions import Session

__all__ = [
    "Completion",
    "Engine",
    "Event",
    "EventKind",
    "Execution",
    "Inspection",
    "Leavings",
    "LeftFile",
    "Missed",
    "NetworkUse",
    "Redone",
    "Replay",
    "Session",
    "SessionFilter",
    "Subscription",
    "Variable",
    "open_engine",
]

"""Sessions, executions, events and the journal: what every face and every agent works with."""

from cellwright.engine.branching import Adopted, Branch
from cellwright.engine.comparing import SessionView
from cellwright.engine.diagnosis import Diagnosis
from cellwright.engine.engine import Engine, SessionFilter
from cellwright.engine.events import Event, EventKind, Missed, Subscription
from cellwright.engine.executions import Execution
from cellwright.engine.inputs import InputFile, Inputs
from cellwright.engine.inspection import Completion, Inspection, Variable
from cellwright.engine.leavings import Leavings, LeftFile
from cellwright.engine.network import NetworkUse
from cellwright.engine.opening import open_engine
from cellwright.engine.records import Asker, CheckpointRecord, OnError
from cellwright.engine.replaying import Redone, Replay
from cellwright.engine.returning import RolledBack
from cellwright.engine.sessions import Session

__all__ = [
    "Adopted",
    "Asker",
    "Branch",
    "CheckpointRecord",
    "Completion",
    "Diagnosis",
    "Engine",
    "Event",
    "EventKind",
    "Execution",
    "InputFile",
    "Inputs",
    "Inspection",
    "Leavings",
    "LeftFile",
    "Missed",
    "NetworkUse",
    "OnError",
    "Redone",
    "Replay",
    "RolledBack",
    "Session",
    "SessionFilter",
    "SessionView",
    "Subscription",
    "Variable",
    "open_engine",
]

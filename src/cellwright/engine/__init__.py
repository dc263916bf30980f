"""Sessions, executions, events and the journal: what every frontend and every agent works with."""

from cellwright.engine._authors import Author, CellAuthors
from cellwright.engine._branches import Adopted, Branch, SessionView
from cellwright.engine._checkpoints import RolledBack
from cellwright.engine._executions import Execution
from cellwright.engine._replay import Redone, Replay
from cellwright.engine.engine import Engine, SessionFilter
from cellwright.engine.event_kinds import EventKind
from cellwright.engine.introspection import Completion, Diagnosis, InputFile, Inputs, Inspection, Variable
from cellwright.engine.journal import Event, Missed, Subscription
from cellwright.engine.records import Artifacts, CheckpointRecord, LeftFile, OnError, Requester
from cellwright.engine.session import Session
from cellwright.engine.workspace import NetworkUse

__all__ = [
    "Adopted",
    "Artifacts",
    "Author",
    "Branch",
    "CellAuthors",
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
    "LeftFile",
    "Missed",
    "NetworkUse",
    "OnError",
    "Redone",
    "Replay",
    "Requester",
    "RolledBack",
    "Session",
    "SessionFilter",
    "SessionView",
    "Subscription",
    "Variable",
]

"""What tools answer with as data: the source of their output schemas, and of the types in a script's module.

A field that is not always there is not required; what is rare is told of in the reference alone.
"""

from __future__ import annotations

from typing import (
    Any,
    Required,  # pydantic wants these before Python 3.12
)

from typing_extensions import TypedDict

__all__ = [
    "Calculated",
    "CellDeleted",
    "CellWritten",
    "Checkpointed",
    "Checkpoints",
    "Executions",
    "Notebook",
    "Notebooks",
    "Ran",
    "SessionState",
]


class Notebook(TypedDict, total=False):
    session_id: Required[str]
    notebook: str
    path: Required[str]
    language: Required[str]
    state: str
    generation: int
    cells: int
    cwd: Required[str]
    mode: str
    interpreter: str
    tier: str


class Notebooks(TypedDict):
    sessions: list[Notebook]


class CellWritten(TypedDict, total=False):
    session_id: Required[str]
    cell_id: Required[str]
    version: Required[int]
    position: int


class CellDeleted(TypedDict):
    session_id: str
    deleted: str
    cells: int


class Raised(TypedDict):
    ename: str | None
    evalue: str
    traceback: list[str]


class Output(TypedDict, total=False):
    type: Required[str]
    mime: Required[str]
    bytes: Required[int]
    text: str
    uri: str


class Ran(TypedDict, total=False):
    status: Required[str]
    session_id: Required[str]
    execution_id: str
    cell_id: str | None
    generation: int
    stdout: str
    stderr: str
    result: str | None
    error: Raised | None
    outputs: list[Output]
    duration_ms: int | None
    truncated: bool
    checkpoint: str
    rolled_back: bool
    cells: list[dict[str, Any]]


class Executions(TypedDict, total=False):
    session_id: Required[str]
    total: Required[int]
    executions: Required[list[dict[str, Any]]]
    state: str
    replayable: int


class SessionState(TypedDict, total=False):
    session_id: Required[str]
    state: Required[str]
    generation: Required[int]
    stopped: dict[str, str]


class Checkpointed(TypedDict, total=False):
    session_id: Required[str]
    checkpoint: Required[str]


class Checkpoints(TypedDict, total=False):
    session_id: Required[str]
    checkpoints: Required[list[dict[str, Any]]]


class Calculated(TypedDict, total=False):
    result: Required[Any]

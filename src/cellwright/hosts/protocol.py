"""What an engine and a host say to each other: typed messages. How they lie on the wire is ``frames``.

This module neither opens sockets (see ``server`` and ``connection``) nor keeps files (see ``eventlog``). ``docs/reference/host-protocol.md`` is this page in prose.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.hosts.answers import Attached, CheckpointStatus, KernelReady, KernelStatus, Resources
from cellwright.hosts.kinds import (
    DenoKernel,
    JupyterKernel,
    JupyterServer,
    KernelKind,
    KernelspecKernel,
    PythonKernel,
    Tagged,
)
from cellwright.hosts.options import HostOptions
from cellwright.kernels.typecheck import CellSource, Diagnostic
from cellwright.sandbox.network_log import NetworkEntry
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.workspace import Place

__all__ = [
    "PROTOCOL_VERSION",
    "Acknowledge",
    "AddLayers",
    "Ask",
    "Attach",
    "Attached",
    "BranchKernel",
    "Call",
    "Cancel",
    "CellSource",
    "CheckTypes",
    "CheckpointStatus",
    "Checkpointed",
    "CheckpointsDropped",
    "DenoKernel",
    "Diagnostic",
    "DropCheckpoint",
    "Event",
    "EventBody",
    "Execute",
    "ExecutionState",
    "Expiring",
    "Finished",
    "Freeze",
    "FromEngine",
    "FromHost",
    "HostOptions",
    "Interrupt",
    "JupyterKernel",
    "JupyterServer",
    "KernelDied",
    "KernelKind",
    "KernelReady",
    "KernelStatus",
    "KernelspecKernel",
    "NetworkUsed",
    "Output",
    "Ping",
    "PythonKernel",
    "Refusal",
    "Reply",
    "Request",
    "Resources",
    "RollBack",
    "Run",
    "Side",
    "StartKernel",
    "Started",
    "Status",
    "Stop",
    "StopKernel",
    "Transfer",
    "decode_event",
    "decode_from_engine",
    "decode_from_host",
]

PROTOCOL_VERSION = 1

ExecutionState: TypeAlias = Literal["queued", "running", "ok", "error", "timeout", "interrupted", "died"]


# What an engine asks for -----------------------------------------------------------------------------------------


class Attach(Tagged, frozen=True, tag="attach"):
    """Become the host's engine, and receive every event after ``since`` of this incarnation.

    ``environment`` is what its kernels will mostly be started with, so that a fork server can warm up for it.
    """

    options: HostOptions
    environment: dict[str, str]
    incarnation: str | None = None
    since: int = 0
    protocol: int = PROTOCOL_VERSION


class StartKernel(Tagged, frozen=True, tag="start_kernel"):
    kernel_id: str
    kind: KernelKind
    cwd: str
    environment: dict[str, str]
    place: Place | None = None
    """Where it works and what it sees there; needed where kernels are confined."""
    layers: tuple[str, ...] = ()
    """Names of the layers of packages that it finds: Python's at the end of its path, npm's as Deno's cache."""
    policy: Policy | None = None
    """What its code may do, where that is less than the host's options say."""


class Side(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kernel beside the main one, in the same place: had when it is first needed, and ended with it."""

    name: str
    """What it is known by, one of each name to a main kernel."""
    kind: KernelKind
    environment: dict[str, str]
    layers: tuple[str, ...] = ()


class StopKernel(Tagged, frozen=True, tag="stop_kernel"):
    kernel_id: str


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """Code to run. Its failure drops what waits behind it in the same group, unless errors are allowed."""

    execution_id: str
    code: str
    timeout_s: float
    group: str | None = None
    allow_error: bool = False
    store_history: bool = True
    language: str | None = None
    """What it is written in, where its kernel runs more than one language."""
    side: Side | None = None
    """The kernel it runs on, where that is not the main one."""
    files: dict[str, str] = {}
    """Texts that are to lie in the working directory when it runs, by name; for kernels of ours."""
    checkpoint: str | None = None
    """Take a checkpoint of this id before it, if that can be done; what became of it is told as ``Checkpointed``."""
    rolls_back: bool = False
    """Whether its failure is the end of this kernel, so that nothing that waits may run on it."""


class Execute(Tagged, frozen=True, tag="execute"):
    """Queue code on a kernel, all of it or, where the request is refused, none."""

    kernel_id: str
    runs: tuple[Run, ...]


class Cancel(Tagged, frozen=True, tag="cancel"):
    kernel_id: str
    execution_id: str


class Interrupt(Tagged, frozen=True, tag="interrupt"):
    """Stop what runs on a kernel and drop what waits."""

    kernel_id: str


class Ask(Tagged, frozen=True, tag="ask"):
    """One shell request outside the queue, such as a completion; refused while a cell runs."""

    kernel_id: str
    kind: str
    content: dict[str, Any]
    timeout_s: float
    side: Side | None = None


class AddLayers(Tagged, frozen=True, tag="add_layers"):
    """Let a living kernel and those beside it find layers of packages, also while a cell runs."""

    kernel_id: str
    layers: tuple[str, ...]


class Freeze(Tagged, frozen=True, tag="freeze"):
    """Take a checkpoint of an idle kernel; its ``CheckpointStatus`` is the answer."""

    kernel_id: str
    checkpoint_id: str
    name: str | None = None


class DropCheckpoint(Tagged, frozen=True, tag="drop_checkpoint"):
    kernel_id: str
    checkpoint_id: str


class RollBack(Tagged, frozen=True, tag="roll_back"):
    """End a kernel, if it lives, and let the checkpoint go on as another; files are put back first.

    ``kernel_id`` may be that of a kernel that died and left checkpoints. The answer is a ``KernelReady``.
    """

    kernel_id: str
    checkpoint_id: str
    new_kernel_id: str


class BranchKernel(Tagged, frozen=True, tag="branch_kernel"):
    """Let a checkpoint go on as a second kernel in a place of its own. The answer is a ``KernelReady``."""

    kernel_id: str
    checkpoint_id: str
    new_kernel_id: str
    place: Place


class Transfer(Tagged, frozen=True, tag="transfer"):
    """Let an idle kernel be known by another id from now on, and work in another place: where its files were moved."""

    kernel_id: str
    new_kernel_id: str
    place: Place


class CheckTypes(Tagged, frozen=True, tag="check_types"):
    """Check the types of a notebook's cells, in the order of the document, where their session works.

    Runs beside whatever its kernels do. The answer is a list of ``Diagnostic``.
    """

    cells: tuple[CellSource, ...]
    cwd: str
    place: Place | None = None
    policy: Policy | None = None
    tsconfig: dict[str, Any] | None = None
    """Compiler options."""


class Acknowledge(Tagged, frozen=True, tag="acknowledge"):
    """Everything up to ``seq`` is safe with the engine; the host may forget it."""

    seq: int


class Status(Tagged, frozen=True, tag="status"):
    pass


class Ping(Tagged, frozen=True, tag="ping"):
    """A sign of life is asked for, and nothing else."""


class Stop(Tagged, frozen=True, tag="stop"):
    """End all kernels and the host."""


Request: TypeAlias = (
    Attach
    | StartKernel
    | StopKernel
    | Execute
    | Cancel
    | Interrupt
    | Ask
    | AddLayers
    | Freeze
    | DropCheckpoint
    | RollBack
    | BranchKernel
    | Transfer
    | CheckTypes
    | Acknowledge
    | Status
    | Ping
    | Stop
)


class Call(msgspec.Struct, frozen=True):
    """A request with the number its answer will carry."""

    id: int
    request: Request


FromEngine: TypeAlias = Call

# What a host answers ---------------------------------------------------------------------------------------------


class Reply(Tagged, frozen=True, tag="reply"):
    id: int
    result: msgspec.Raw


class Refusal(Tagged, frozen=True, tag="refusal"):
    """A request that failed, as the error's code, message, hint and, for a limit, the setting behind it."""

    id: int
    code: str
    message: str
    hint: str | None = None
    setting: str | None = None


class Started(Tagged, frozen=True, tag="started"):
    execution_id: str


class Output(Tagged, frozen=True, tag="output"):
    """One output message of the Jupyter protocol; ``content`` is its JSON as the kernel sent it."""

    execution_id: str
    kind: str
    content: bytes


class Finished(Tagged, frozen=True, tag="finished"):
    """An execution's end. ``reason`` says why it did not end by itself, ``error`` what its code raised."""

    execution_id: str
    state: ExecutionState
    seconds: float
    execution_count: int | None = None
    error: dict[str, Any] | None = None
    reason: str | None = None
    dropped_bytes: int = 0
    dropped_messages: int = 0
    exit_code: int | None = None
    """Of a script, or of the process that ended with it; negative where a signal ended it."""


class Checkpointed(Tagged, frozen=True, tag="checkpointed"):
    """What became of the checkpoint that was to be taken before an execution."""

    execution_id: str
    status: CheckpointStatus | None = None
    refused: str | None = None


class CheckpointsDropped(Tagged, frozen=True, tag="checkpoints_dropped"):
    """Checkpoints that made way for others."""

    checkpoints: tuple[str, ...]


class KernelDied(Tagged, frozen=True, tag="kernel_died"):
    """A kernel's end, expected or not, with its cause in words."""

    cause: str
    message: str
    next_step: str
    code: int | None = None
    signal: int | None = None
    expected: bool = False
    checkpoints: tuple[str, ...] = ()
    """Those that it leaves, oldest first, from which the session can go on."""


class NetworkUsed(Tagged, frozen=True, tag="network_used"):
    """A request that a kernel's code sent to the network, told when it is over."""

    entry: NetworkEntry


class Expiring(Tagged, frozen=True, tag="expiring"):
    """The host, and this kernel with it, will be ended then by whoever gave it its time."""

    ends_at: float


EventBody: TypeAlias = (
    Started | Output | Finished | Checkpointed | CheckpointsDropped | KernelDied | NetworkUsed | Expiring
)


class Event(Tagged, frozen=True, tag="event"):
    seq: int
    time: float
    kernel_id: str
    body: EventBody


FromHost: TypeAlias = Reply | Refusal | Event

decode_from_engine = msgspec.msgpack.Decoder(Call).decode
decode_from_host = msgspec.msgpack.Decoder(Reply | Refusal | Event).decode
decode_event = msgspec.msgpack.Decoder(Event).decode

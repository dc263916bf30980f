"""The typed messages between an engine and a host. How they lie on the wire is ``connection``'s.

This module neither opens sockets (see ``server`` and ``connection``) nor keeps files (see ``_event_log``).
``docs/reference/host-protocol.md`` says what follows from them; the site lists them from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from cellwright.kernels.typecheck import CellSource, Diagnostic
from cellwright.sandbox.network_log import NetworkEntry
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.proxy import Opening
from cellwright.sandbox.tiers import Tier
from cellwright.sandbox.workspace import Workspace

__all__ = [
    "PROTOCOL_VERSION",
    "WIDGETS_REQUEST",
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
    "Comm",
    "DenoKernel",
    "Diagnostic",
    "DigestFailure",
    "DropCheckpoint",
    "Event",
    "EventBody",
    "Execute",
    "ExecutionState",
    "Expiring",
    "Finished",
    "Freeze",
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
    "earlier_failed",
    "failed_earlier",
]

# The kinds of kernel that an engine can ask its host for. Part of the ``protocol``.


class Tagged(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True):
    """A message that says its own kind."""


class PythonKernel(Tagged, frozen=True, tag="python"):
    """An ipykernel from a fork server; ``python`` is the project's interpreter, or none for the host's own."""

    python: str | None = None
    digests: dict[str, str] = {}
    """Where it finds plugins' digests, by the type's dotted name; an empty place takes one of ours out."""


class DenoKernel(Tagged, frozen=True, tag="deno"):
    """TypeScript and JavaScript, by our own driver."""


class KernelspecKernel(Tagged, frozen=True, tag="kernelspec"):
    """Whatever a Jupyter kernelspec starts: one that is installed, or in ``folder``."""

    name: str
    folder: str = ""


class JupyterServer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Jupyter server, gateway or hub. Only ever sent over a private socket, and never written down."""

    name: str
    url: str
    token: str
    username: str = ""
    """Whom kernels are for, where a gateway asks, and whose server it is, where a hub does."""
    start_s: float = 300.0
    """How long a hub may take to start the user's server."""
    unreachable_s: float = 60.0
    """How long it may be out of reach before its kernels are given up for the time being."""

    def __repr__(self) -> str:
        return f"JupyterServer({self.name!r}, {self.url!r})"


class JupyterKernel(Tagged, frozen=True, tag="jupyter"):
    """A kernel on a Jupyter server: a new one of the kernelspec ``name``, or one that is there already."""

    server: JupyterServer
    name: str = ""
    """Without one, a kernelspec that fits the language."""
    language: str = "python"
    path: str | None = None
    """The notebook there that it is started for, so that people who open it find the same kernel."""
    existing: str | None = None
    """The id of a kernel on the server to attach to."""
    session_id: str | None = None
    """That of an earlier connection, whose missed output the server may still have."""
    ours: bool = False
    """Whether the existing one was started for this session, and ends with it."""
    fresh: bool = False
    """Whether it has to be empty: one that is there already is restarted by its server first."""


KernelKind: TypeAlias = PythonKernel | DenoKernel | KernelspecKernel | JupyterKernel

# What a host tells of itself, of kernels and of checkpoints when it is asked. Part of the ``protocol``.


class Question(msgspec.Struct, frozen=True):
    """A question of running code: what ``input()`` and its like wait for."""

    execution_id: str
    number: int
    """One for each question of a kernel, so that an answer to an earlier one is not taken for this one's."""
    prompt: str
    is_password: bool
    expires_at: float
    """When the code is told that nobody answered."""


class KernelStatus(msgspec.Struct, frozen=True):
    kernel_id: str
    pid: int
    running: str | None
    waiting: tuple[str, ...]
    memory_bytes: int
    question: Question | None = None
    """What its code waits to be answered."""


class GpuUse(msgspec.Struct, frozen=True):
    """A GPU that sessions may use, and its memory as far as the driver tells."""

    device: str
    name: str = ""
    memory_used: int | None = None
    memory_bytes: int | None = None


class Resources(msgspec.Struct, frozen=True):
    """What a host has, and how much of it is in use."""

    node: str
    cpus: float
    load: float
    """Processes that want a processor, over the last minute."""
    memory_bytes: int
    memory_used: int
    tier: Tier | None = None
    """How strongly kernels are confined there; None while no kernel was started."""
    gpus: tuple[GpuUse, ...] = ()
    """Those that sessions may use; none where there are none, or nobody has looked yet."""


class Attached(msgspec.Struct, frozen=True):
    """Who the host is; ``last_seq`` is its newest event, so that an engine knows when it has caught up."""

    incarnation: str
    last_seq: int
    pid: int
    version: str
    protocol: int
    kernels: tuple[KernelStatus, ...]
    resources: Resources | None = None


class CheckpointStatus(msgspec.Struct, frozen=True):
    """A checkpoint that is kept."""

    id: str
    name: str | None
    time: float
    private_bytes: int
    """The memory that would be free without it, when it was last looked at."""
    cannot_return: tuple[str, ...] = ()
    """What will not come back with it, in words."""
    files: int = 0
    files_left_out: tuple[str, ...] = ()
    """Files that were not kept, each with the reason."""


class KernelReady(msgspec.Struct, frozen=True):
    pid: int
    started_by: str
    interpreter: str | None
    language: dict[str, Any]
    tier: Tier = "none"
    """How strongly it is confined; see the security page for what each promises."""
    losses: tuple[str, ...] = ()
    mode: Mode = "direct"
    cwd: str = ""
    python_version: str = ""
    """Such as ``3.12``; of a Python kernel."""
    search_path: tuple[str, ...] = ()
    """Where its interpreter imports from, as found before any code of the session ran."""
    lost: tuple[str, ...] = ()
    """What did not come back, where it goes on from a checkpoint."""
    remote: tuple[str, str] | None = None
    """The kernel's id on its Jupyter server and the session id of our connection, by which it can be found again."""
    remote_ours: bool = False
    """Whether it was started there for us, and ends with us."""
    remote_languages: tuple[str, ...] = ()
    """What kernels its server has besides, by language; none where it does not tell."""


# What an engine asks of its host as a whole: limits, and how code is confined. Part of the ``protocol``.


class HostOptions(msgspec.Struct, frozen=True):
    """The limits that a host keeps for the engine that attached last."""

    standby_kernels: int
    preload: tuple[str, ...]
    max_concurrent_starts: int
    start_timeout_s: float
    interrupt_grace_s: float
    max_output_bytes: int
    max_output_messages: int
    max_memory_fraction: float
    idle_s: float
    policy: Policy | None = None
    """What code may do; None, which only an explicit setting gives, is everything."""
    secret: tuple[str, ...] = ()
    """Directories that code never sees as a whole."""
    passed_environment: tuple[str, ...] = ()
    namespaces: bool = True
    packages: str = ""
    """The directory of all layers of packages, which every kernel may read."""
    approved_imports: tuple[tuple[str, str], ...] = ()
    """Packages that may be installed, each after a name that it is imported by."""
    opening: Opening | None = None
    """How far the network is open; None where it is closed."""
    connections: str = ""
    """The engine's socket for named connections; never what opens them. Empty where there are none."""
    max_checkpoints: int = 8
    """How many of one kernel are kept."""
    max_checkpoint_memory: int = 1 << 30
    """How much memory those of one kernel take together, beyond what they share with it."""
    remote_launcher: str = ""
    """What starts kernels on Jupyter servers, as ``module:class``; a host has nothing of the kind itself."""
    input_timeout_s: float = 0.0
    """How long code that asks for input waits; an engine that does not say so hears of no question, and code is told at once that nobody answers."""
    allocation_idle_s: float | None = None
    """How long a host in an allocation stays, and the job with it, when nobody needs it; None is until its time is over."""


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
    place: Workspace | None = None
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


class AnswerInput(Tagged, frozen=True, tag="answer_input"):
    """Answer a question of running code; the answer is written down nowhere. One that is over is passed by."""

    kernel_id: str
    execution_id: str
    number: int
    value: str | None
    """None where nobody answers, which the code is told as an error with the ``reason``."""
    reason: str = ""

    def __repr__(self) -> str:
        return f"AnswerInput({self.kernel_id!r}, {self.execution_id!r}, {self.number})"


WIDGETS_REQUEST = "cellwright_widgets_request"
"""Asks a kernel for its widgets, or hands one what a page says to it; such a request is interrupted where it takes too long."""


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
    """Let a checkpoint go on as a second kernel in a workspace of its own. The answer is a ``KernelReady``."""

    kernel_id: str
    checkpoint_id: str
    new_kernel_id: str
    place: Workspace


class Transfer(Tagged, frozen=True, tag="transfer"):
    """Let an idle kernel be known by another id from now on, and work in another place: where its files were moved."""

    kernel_id: str
    new_kernel_id: str
    place: Workspace


class CheckTypes(Tagged, frozen=True, tag="check_types"):
    """Check the types of a notebook's cells, in the order of the document, where their session works.

    Runs beside whatever its kernels do. The answer is a list of ``Diagnostic``.
    """

    cells: tuple[CellSource, ...]
    cwd: str
    place: Workspace | None = None
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


_EARLIER_FAILED = "An earlier cell failed ("


def earlier_failed(name: str) -> str:
    """Why something did not run, by the execution that failed before it, or by that one's cell."""
    return f"{_EARLIER_FAILED}{name})"


def failed_earlier(reason: str) -> str | None:
    """The execution that such a reason names; None for any other."""
    if not reason.startswith(_EARLIER_FAILED):
        return None
    return reason.removeprefix(_EARLIER_FAILED).removesuffix(")")


class Stop(Tagged, frozen=True, tag="stop"):
    """End all kernels and the host."""


Request: TypeAlias = (
    Attach
    | StartKernel
    | StopKernel
    | Execute
    | Cancel
    | Interrupt
    | AnswerInput
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


class Comm(Tagged, frozen=True, tag="comm"):
    """What a comm of the main kernel said, thus one of its widgets; it belongs to the kernel and to no execution."""

    kind: str
    content: bytes
    """JSON, with bytes as text (see ``cellwright_kernel._widgets``)."""


class InputRequested(Tagged, frozen=True, tag="input_requested"):
    """Running code waits for an answer."""

    question: Question


class InputSettled(Tagged, frozen=True, tag="input_settled"):
    """A question is over: answered, refused with a reason, or its execution no longer waits for it."""

    execution_id: str
    number: int
    answered: bool
    reason: str = ""


class DigestFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plugin's digest that a kernel dropped."""

    name: Annotated[str, msgspec.Meta(max_length=500)]
    reason: Annotated[str, msgspec.Meta(max_length=500)]
    hangs: bool = False


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
    digest_failures: tuple[DigestFailure, ...] = ()


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
    Started
    | Output
    | Comm
    | InputRequested
    | InputSettled
    | Finished
    | Checkpointed
    | CheckpointsDropped
    | KernelDied
    | NetworkUsed
    | Expiring
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
